#include "ops/control/rebody.h"

#include "ir/op/attr_spec.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

/// An attribute that counts outputs, increased by `numAdded`; empty if nothing is added or the operator lacks it.
std::string counted(const NodeKind &kind, StringRef key, size_t numAdded) {
  int64_t count = 0;
  ParamsArena arena;
  const std::optional<StringRef> text = numAdded ? kind.attrs.get(key) : std::nullopt;
  return text && parseAttr(*text, arena, count) ? std::to_string(count + static_cast<int64_t>(numAdded)) : "";
}

}  // namespace

Expected<KindRef> withBodies(Context &context, const NodeKind &kind, ArrayRef<Graph> bodies,
                             ArrayRef<std::vector<uint32_t>> was, size_t numAdded) {
  return kind.op->rebody ? kind.op->rebody(context, kind, {bodies, was, numAdded}) : KindRef();
}

std::vector<uint32_t> operandsOf(const NodeKind &kind, const NewBodies &given, size_t body) {
  const BodyFlow::Body &ports = kind.flow->bodies[body];
  std::vector<uint32_t> operands;
  for (uint32_t input : given.was[body]) operands.push_back(ports.operandOf[input]);
  return operands;
}

std::vector<BodyReads> readsOf(const BodyFlow &flow, ArrayRef<uint32_t> operandOf) {
  std::vector<BodyReads> reads(flow.operands.size());
  for (auto [input, operand] : enumerate(operandOf))
    if (!reads[operand].count++) reads[operand].first = input;
  return reads;
}

Expected<KindRef> rebodied(Context &context, const NodeKind &kind, const NewBodies &given,
                           ArrayRef<AttrText> locations) {
  SmallVector<AttrText, 6> updates(locations.begin(), locations.end());
  const std::string stacked = counted(kind, "num_out_data", given.numAdded),
                    all = counted(kind, "num_outputs", given.numAdded);
  if (!stacked.empty()) updates.push_back({"num_out_data", stacked});
  if (!all.empty()) updates.push_back({"num_outputs", all});
  return context.kindLike(kind, context.withAttrs(kind.attrs, updates), given.bodies);
}

}  // namespace gradc
