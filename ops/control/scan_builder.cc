// Tested by tests/ops/ctc_loss_test.cc
#include "ops/control/scan_builder.h"

#include "ir/base/error.h"
#include "ir/graph/body_flow.h"
#include "ops/kit/primitives.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {

Value ScanBuilder::give(SmallVectorImpl<Given> &list, Value v, StringRef name) {
  const Value variable = body.addVariable((name + "_" + Twine(body.numNodes())).str(), Attrs());
  list.push_back({variable.node, v});
  return variable;
}

Value ScanBuilder::row(Value v) { return give(rows, v, "row"); }
Value ScanBuilder::state(Value start) { return give(states, start, "state"); }

Value ScanBuilder::whole(Value v) {
  const auto *known = llvm::find_if(wholes, [&](const Given &given) { return given.value == v; });
  return known != wholes.end() ? Value{known->variable} : give(wholes, v, "given");
}

Value ScanBuilder::emit(const OpDef &op, ArrayRef<Value> operands, ArrayRef<AttrText> attrs) {
  Expected<KindId> kind = body.kindId(op, d.context().attrs(attrs));
  if (!kind) {
    d.refuse(ErrorKind::BadAttribute, "emits '" + op.name + "': " + toString(kind.takeError()));
    return operands[0];
  }
  const NodeId n = body.addKind(*kind, operands, NodeId());
  body.setName(n, (op.name + "_" + Twine(n.value)).str(), "");
  return Value{n};
}

size_t ScanBuilder::numberOf(Value state) const {
  const auto *at = llvm::find_if(states, [&](const Given &given) { return given.variable == state.node; });
  assert(at != states.end() && "a state of this loop");
  return static_cast<size_t>(at - states.begin());
}

void ScanBuilder::setNext(Value state, Value next) { states[numberOf(state)].next = next; }

size_t ScanBuilder::stack(Value v) {
  heads.push_back(v);
  return heads.size() - 1;
}

void ScanBuilder::finish() {
  if (d.hasFailed()) return;
  SmallVector<Value, 8> yielded(heads.begin(), heads.end());
  for (const Given &state : states) yielded.push_back(state.next);
  const Frozen made = cantFail(std::move(body).freeze(yielded, {}));  // no cycles, no missing outputs
  SmallVector<Value, 16> operands;
  std::vector<size_t> operandOf(made.newId.size());  // by node of the builder
  for (const auto *list : {&rows, &states, &wholes})
    for (const Given &given : *list) {
      operandOf[given.variable.value] = operands.size();
      operands.push_back(given.value);
    }
  std::vector<int64_t> operandAt(made.graph.numNodes());
  for (size_t n = 0; n < made.newId.size(); ++n)
    if (made.newId[n].isValid()) operandAt[made.newId[n].value] = static_cast<int64_t>(operandOf[n]);
  DimsBuffer locations;
  for (NodeId input : bodyInputs(made.graph)) locations.push_back(operandAt[input.value]);
  auto count = [&](size_t number) { return d.number(static_cast<int64_t>(number)); };
  SmallVector<AttrText, 6> attrs = {{"num_args", count(operands.size())},
                                    {"num_data", count(rows.size())},
                                    {"num_states", count(states.size())},
                                    {"num_out_data", count(heads.size())},
                                    {"input_locs", d.tuple(locations)}};
  if (direction == Direction::Down) attrs.push_back({"reverse", "True"});
  loop = d.emit(kScan, operands, d.context().attrs(attrs), made.graph);
}

Value ScanBuilder::final(Value state) { return d.at(loop, heads.size() + numberOf(state)); }

}  // namespace gradc
