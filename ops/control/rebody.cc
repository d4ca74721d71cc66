#include "ops/control/rebody.h"

#include "ir/op/attr_spec.h"
#include "ops/kit/primitives.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

template <class List> std::string listText(const List &list) {
  std::string text = "(";
  for (auto element : list) text += std::to_string(element) + ",";
  return text + ")";
}

std::vector<uint32_t> operandsOf(const BodyFlow::Body &ports, ArrayRef<uint32_t> was) {
  std::vector<uint32_t> operands;
  for (uint32_t input : was) operands.push_back(ports.operandOf[input]);
  return operands;
}

/// By operand: how many inputs of the body it feeds, and the first of them.
struct Fed {
  size_t count = 0, first = 0;
};
std::vector<Fed> fedBy(const BodyFlow &flow, ArrayRef<uint32_t> operandOf) {
  std::vector<Fed> fed(flow.operands.size());
  for (auto [input, operand] : enumerate(operandOf))
    if (!fed[operand].count++) fed[operand].first = input;
  return fed;
}

// For each operand of a role, the input of the body that it feeds; none if some operand does not feed exactly one.
std::optional<std::string> foreachPlaces(const BodyFlow &flow, BodyFlow::Operand role, ArrayRef<Fed> fed) {
  std::vector<size_t> places;
  for (uint32_t operand = 0; operand < flow.operands.size(); ++operand) {
    if (flow.operands[operand] != role) continue;
    if (fed[operand].count != 1) return std::nullopt;
    places.push_back(fed[operand].first);
  }
  return listText(places);
}

// The position of each loop variable among the inputs of the body; none if one is missing.
std::optional<std::vector<size_t>> variablePlaces(const BodyFlow &flow, ArrayRef<uint32_t> operandOf) {
  const std::vector<Fed> fed = fedBy(flow, operandOf);
  std::vector<size_t> places;
  for (const BodyFlow::State &state : flow.states) {
    if (!fed[state.operand].count) return std::nullopt;
    places.push_back(fed[state.operand].first);
  }
  return places;
}

/// An attribute that counts outputs, increased by `numAdded`; empty if nothing is added or the operator lacks it.
std::string counted(const NodeKind &kind, StringRef key, size_t numAdded) {
  int64_t count = 0;
  ParamsArena arena;
  const std::optional<StringRef> text = numAdded ? kind.attrs.get(key) : std::nullopt;
  return text && parseAttr(*text, arena, count) ? std::to_string(count + static_cast<int64_t>(numAdded)) : "";
}

}  // namespace

Attrs scanAttrs(Context &context, const NodeKind &loop, ArrayRef<uint32_t> operandOf, size_t numAdded) {
  const BodyFlow &flow = *loop.flow;
  const size_t first = flow.countOperand.has_value();
  auto number = [&](BodyFlow::Operand role) { return std::to_string(llvm::count(flow.operands, role)); };
  std::vector<int64_t> locations;
  for (uint32_t operand : operandOf) locations.push_back(static_cast<int64_t>(operand) - static_cast<int64_t>(first));
  size_t numOutData = numAdded;  // stacked outputs that are visible
  for (uint32_t o = 0; o < loop.numVisible; ++o) numOutData += flow.isStacked[o];
  const std::string args = std::to_string(flow.operands.size()), outs = std::to_string(numOutData),
                    data = number(BodyFlow::Operand::Rows), states = number(BodyFlow::Operand::State),
                    text = listText(locations), length = std::to_string(flow.maxSteps);
  SmallVector<AttrText, 16> attrs = {
      {"num_args", args}, {"num_data", data}, {"num_states", states}, {"num_out_data", outs}, {"input_locs", text}};
  if (flow.countOperand) attrs.push_back({"has_steps", "True"});
  if (flow.isReverse) attrs.push_back({"reverse", "True"});
  if (flow.maxSteps != kUnknownDim) attrs.push_back({"length", length});
  std::vector<size_t> zeros;
  for (auto [s, state] : enumerate(flow.states))
    if (state.startsAtZero) zeros.push_back(s);
  const std::string zeroText = listText(zeros);
  if (!zeros.empty()) attrs.push_back({"zero_states", zeroText});
  for (StringRef key : {"stacks", "short_data", "short_out_data"})
    if (const std::optional<StringRef> list = loop.attrs.get(key); list && loop.op == &kScan)
      attrs.push_back({key, *list});
  for (const AttrText &attr : loop.attrs.pairs())
    if (StringRef(attr.key).substr(0, 2) == "__") attrs.push_back(attr);
  return context.attrs(attrs);
}

Expected<KindRef> withBodies(Context &context, const NodeKind &kind, ArrayRef<Graph> bodies,
                             ArrayRef<std::vector<uint32_t>> was, size_t numAdded) {
  std::vector<std::vector<uint32_t>> operandOf;
  for (size_t b = 0; b < bodies.size(); ++b) operandOf.push_back(operandsOf(kind.flow->bodies[b], was[b]));
  auto with = [&](std::initializer_list<AttrText> locations) {
    SmallVector<AttrText, 6> updates(locations);
    const std::string stacked = counted(kind, "num_out_data", numAdded), all = counted(kind, "num_outputs", numAdded);
    if (!stacked.empty()) updates.push_back({"num_out_data", stacked});
    if (!all.empty()) updates.push_back({"num_outputs", all});
    return context.kindLike(kind, context.withAttrs(kind.attrs, updates), bodies);
  };
  const StringRef name = kind.op->name;
  if (name == "_foreach") {
    using Operand = BodyFlow::Operand;
    const std::vector<Fed> fed = fedBy(*kind.flow, operandOf[0]);
    const auto data = foreachPlaces(*kind.flow, Operand::Rows, fed),
               states = foreachPlaces(*kind.flow, Operand::State, fed),
               others = foreachPlaces(*kind.flow, Operand::Whole, fed);
    if (data && states && others)
      return with({{"in_data_locs", *data}, {"in_state_locs", *states}, {"remain_locs", *others}});
  }
  if (name == "_foreach" || kind.op == &kScan)
    return context.kind(kScan, scanAttrs(context, kind, operandOf[0], numAdded), bodies);
  if (kind.op == &kCall) return with({{"input_locs", listText(operandOf[0])}});
  if (kind.op == &kCond) {
    const std::string lists[] = {listText(operandOf[0]), listText(operandOf[1]), listText(operandOf[2])};
    return with({{"cond_input_locs", lists[0]}, {"then_input_locs", lists[1]}, {"else_input_locs", lists[2]}});
  }
  if (name != "_while_loop") return KindRef();
  const std::optional<std::vector<size_t>> places = variablePlaces(*kind.flow, operandOf[1]);
  if (!places) return KindRef();
  const std::string lists[] = {listText(operandOf[0]), listText(operandOf[1]), listText(*places)};
  return with({{"cond_input_locs", lists[0]}, {"func_input_locs", lists[1]}, {"func_var_locs", lists[2]}});
}

}  // namespace gradc
