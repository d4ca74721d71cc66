// Tested by tests/formats/blocks/backward/block_backward_test.cc
#include "formats/blocks/graph/gradient_function.h"

#include "ir/graph/context.h"
#include "passes/rewrite/rewriter.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

class GradientFunction {
 public:
  GradientFunction(Context &context, const GradientParts &of)
      : of(of), forward(of.forward), builder(context), skeletons(builder, forward.graph) {}

  Expected<OpFunction> run() {
    SplicePorts ports;
    ports.operand = [&](NodeId n) { return operand(n); };
    ports.value = [&](Value v) { return value(v); };
    ports.node = [&](NodeId n) { return skeleton(n); };
    ports.seed = [&](size_t k) { return given({slotOf(of.seeded[k].slot, true), of.seeded[k].i}); };
    const std::vector<Value> values = splice(builder, forward, of.gradient, ports);
    SmallVector<Value, 4> heads;
    for (Value v : values)
      if (!builder.kind(v.node).isVariable() && !is_contained(heads, v)) heads.push_back(v);
    std::vector<bool> isOwn(builder.numNodes());
    for (uint32_t n = 0; n < builder.numNodes(); ++n)
      isOwn[n] = !builder.kind(NodeId(n)).isVariable() && !shown.contains(n);
    Expected<Frozen> frozen = std::move(builder).freeze(heads, {});
    if (!frozen) return frozen.takeError();
    OpFunction made{frozen->graph, {}, {}, {}, {}};
    const uint32_t numKept = made.graph.numNodes();
    made.places.resize(numKept);
    made.constants.resize(numKept);
    made.nodes.resize(numKept);
    for (const auto &[place, v] : places)
      if (const NodeId n = frozen->newId[v.node.value]; n.isValid()) made.places[n.value] = place;
    for (const auto &[constant, v] : constants)
      if (const NodeId n = frozen->newId[v.node.value]; n.isValid()) made.constants[n.value] = constant;
    size_t next = 0;
    for (uint32_t n = 0; n < isOwn.size(); ++n) {
      const NodeId known = isOwn[n] ? of.nodes[next++] : shown.contains(n) ? forward.nodes[shown.lookup(n)] : NodeId();
      if (const NodeId kept = frozen->newId[n]; kept.isValid()) made.nodes[kept.value] = known;
    }
    for (auto [place, v] : zip(of.wanted, values))
      if (is_contained(heads, v)) made.outputs.push_back({{outputSlotOf(place.slot), place.i}, (*frozen)(v)});
    return made;
  }

 private:
  /// The operator's slot for slot `source` of the forward operator; empty: it has none.
  StringRef slotOf(StringRef source, bool isGradient) const {
    for (const FormSlots::Slot &slot : of.slots.inputs)
      if (slot.source == source && slot.isGradient == isGradient) return slot.name;
    return "";
  }
  bool isDifferentiated(StringRef slot) const {
    return any_of(of.next.outputs, [&](const FormSlots::Slot &next) { return next.source == slot; });
  }
  StringRef outputSlotOf(StringRef source) const {
    for (const FormSlots::Slot &slot : of.slots.outputs)
      if (slot.source == source) return slot.name;
    return "";
  }
  Value given(const OperandPlace &place) {
    for (const auto &[known, v] : places)
      if (known == place) return v;
    places.push_back({place, builder.addVariable(place.slot, Attrs())});
    return places.back().second;
  }
  Value constant(Value inBlock) {
    for (const auto &[known, v] : constants)
      if (known == inBlock) return v;
    constants.push_back({inBlock, builder.addVariable("constant", Attrs())});
    return constants.back().second;
  }
  Value operand(NodeId n) {
    if (forward.isConstant(n)) return constant(forward.constants[n.value]);
    const OperandPlace &place = forward.places[n.value];
    if (const StringRef slot = slotOf(place.slot, false); !slot.empty()) return given({slot, place.i});
    return constant(of.operand(place));
  }
  Value value(Value v) {
    for (const OpFunction::Output &output : forward.outputs)
      if (output.value == v)
        if (const StringRef slot = slotOf(output.place.slot, false); isDifferentiated(slot))
          return given({slot, output.place.i});
    return {skeleton(v.node), v.index, 0};  // not a constant: it may depend on operands
  }
  NodeId skeleton(NodeId wanted) {
    for (uint32_t n = 0; n <= wanted.value; ++n) {
      if (skeletonOf(NodeId(n)).isValid()) continue;
      if (forward.graph.isVariable(NodeId(n))) skeletons.detach(NodeId(n), Value{operand(NodeId(n)).node});
      else shown[skeletons.copyForShape(NodeId(n)).value] = n;
    }
    return skeletonOf(wanted);
  }
  NodeId skeletonOf(NodeId n) const { return skeletons(Value{n}).node; }

  const GradientParts &of;
  const OpFunction &forward;
  GraphBuilder builder;
  std::vector<std::pair<OperandPlace, Value>> places;
  std::vector<std::pair<Value, Value>> constants;
  GraphInsertion skeletons;            // of forward nodes
  DenseMap<uint32_t, uint32_t> shown;  // forward nodes, by their copies
};

}  // namespace

Expected<OpFunction> functionOfGradient(Context &context, const GradientParts &of) {
  return GradientFunction(context, of).run();
}

}  // namespace gradc
