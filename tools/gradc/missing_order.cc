// Trial differentiation of single operators. Tested by tests/cli_test.cc
#include "missing_order.h"

#include "ir/error.h"
#include "ir/graph_builder.h"
#include "passes/gradient.h"

using namespace llvm;

namespace gradc {
namespace {

/// A value for a required attribute, by its type; counts of variadic inputs are 2.
StringRef sampleValue(const AttrSpec &spec) {
  if (!spec.choices.empty()) return spec.choices[0];
  if (spec.typeName == "dtype") return "float32";
  if (spec.typeName.starts_with("tuple")) return "(1,1)";
  return spec.key == "num_args" ? "2" : "1";
}

/// Required attributes alone; where the operator's own check wants more (a kernel for pooling), all tuples as well.
Expected<KindId> sampleKind(Context &context, const OpDef &op) {
  SmallVector<AttrText, 8> attrs, tuples;
  for (const AttrSpec &spec : op.attrs) {
    if (spec.isRequired) attrs.push_back({spec.key, sampleValue(spec)});
    else if (spec.typeName == "tuple of int") tuples.push_back({spec.key, sampleValue(spec)});
  }
  Expected<KindId> id = context.kind(op, context.attrs(ArrayRef<AttrText>(attrs)));
  if (id) return id;
  consumeError(id.takeError());
  attrs.append(tuples);
  return context.kind(op, context.attrs(ArrayRef<AttrText>(attrs)));
}

Expected<Graph> sampleGraph(Context &context, const OpDef &op) {
  Expected<KindId> id = sampleKind(context, op);
  if (!id) return id.takeError();
  const NodeKind &kind = context.kind(*id);
  GraphBuilder builder(context);
  SmallVector<Value, 8> inputs, heads;
  for (uint32_t i = 0; i < kind.numInputs; ++i)
    inputs.push_back(builder.addVariable(context.inputName(kind, i), AttrsId(0)));
  NodeId node = builder.addKind(*id, inputs, NodeId());
  builder.setName(node, "y", "");
  for (uint32_t k = 0; k < kind.numVisible; ++k) heads.push_back(Value{node, static_cast<uint16_t>(k), 0});
  Expected<Frozen> frozen = std::move(builder).freeze(heads, GraphAttrs());
  if (!frozen) return frozen.takeError();
  return frozen->graph;
}

/// Differentiates the gradients of the order before with respect to the same variables, `order` times.
Error differentiate(Context &context, const OpDef &op, uint64_t order, uint64_t &reached) {
  Expected<Graph> graph = sampleGraph(context, op);
  if (!graph) return graph.takeError();
  GradientRequest request;
  request.wrt = allTargets(*graph, nullptr).targets;
  GradientOptions options;
  options.unused = UnusedPolicy::None;
  for (reached = 0; reached < order && !request.wrt.empty(); ++reached) {
    Expected<GradientResult> result = buildGradient(context, *graph, request, options);
    if (!result) return result.takeError();
    graph = result->graph;
    request.heads.clear();
    for (const GradientSlot &slot : result->wrt)
      if (slot.status == SlotStatus::Grad) request.heads.push_back({slot.value, std::nullopt, ""});
    if (request.heads.empty()) break;
  }
  return Error::success();
}

}  // namespace

std::vector<MissingOrder> missingOrder(Context &context, uint64_t order) {
  std::vector<MissingOrder> missing;
  for (const OpDef *op : context.ops.all()) {
    if (op->flags.isBackward || op->flags.hasNoGradient) continue;
    uint64_t reached = 0;
    handleAllErrors(differentiate(context, *op, order, reached),
                    [&](const GradcError &info) { missing.push_back({op, reached + 1, info.message}); });
  }
  return missing;
}

}  // namespace gradc
