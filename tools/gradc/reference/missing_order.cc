// Trial differentiation of single operators. Tested by tests/tools/cli_test.cc
#include "tools/gradc/reference/missing_order.h"

#include "ir/base/error.h"
#include "ir/graph/graph_builder.h"
#include "passes/gradient/gradient.h"

using namespace llvm;

namespace gradc {
namespace {

/// Attribute values to try in turn: the first choice and pairs, the last choice, four pairs (pad_width).
struct Attempt {
  bool takesLastChoice;
  StringRef tuple;
};
constexpr Attempt kAttempts[] = {{false, "(1,1)"}, {true, "(1,1)"}, {false, "(0,0,0,0,1,1,1,1)"}};

/// A value for a required attribute, by its type; counts of variadic inputs are 2.
StringRef sampleValue(const AttrSpec &spec, const Attempt &attempt) {
  if (!spec.choices.empty()) return attempt.takesLastChoice ? spec.choices.back() : spec.choices[0];
  if (spec.typeName == "dtype") return "float32";
  if (spec.typeName.starts_with("tuple")) return attempt.tuple;
  return spec.key == "num_args" ? "2" : "1";
}

/// Sets only required attributes; if the operator's own check requires more (a kernel for pooling), all tuples as well.
Expected<KindRef> attemptKind(Context &context, const OpDef &op, const Attempt &attempt) {
  SmallVector<AttrText, 8> attrs, tuples;
  for (const AttrSpec &spec : op.attrs) {
    if (spec.isRequired) attrs.push_back({spec.key, sampleValue(spec, attempt)});
    else if (spec.typeName == "tuple of int") tuples.push_back({spec.key, sampleValue(spec, attempt)});
  }
  Expected<KindRef> id = context.kind(op, context.attrs(ArrayRef<AttrText>(attrs)));
  if (id) return id;
  consumeError(id.takeError());
  attrs.append(tuples);
  return context.kind(op, context.attrs(ArrayRef<AttrText>(attrs)));
}

}  // namespace

Expected<KindRef> sampleKind(Context &context, const OpDef &op) {
  if (op.flow) return Failure(ErrorKind::BadAttribute, "it runs graphs, and has the gradients that they have");
  Expected<KindRef> id = attemptKind(context, op, kAttempts[0]);
  for (const Attempt &attempt : ArrayRef(kAttempts).drop_front()) {
    if (id) break;
    consumeError(id.takeError());
    id = attemptKind(context, op, attempt);
  }
  return id;
}

Expected<Graph> sampleGraph(Context &context, const KindRef &handle) {
  const NodeKind &kind = *handle;
  GraphBuilder builder(context);
  SmallVector<Value, 8> inputs, heads;
  for (uint32_t i = 0; i < kind.numInputs; ++i) inputs.push_back(builder.addVariable(inputName(kind, i), Attrs()));
  NodeId node = builder.addKind(handle, inputs, NodeId());
  builder.setName(node, "y", "");
  for (uint32_t k = 0; k < kind.numVisible; ++k) heads.push_back(Value{node, static_cast<uint16_t>(k), 0});
  Expected<Frozen> frozen = std::move(builder).freeze(heads, {});
  if (!frozen) return frozen.takeError();
  return frozen->graph;
}

namespace {

/// Differentiates `order` times, each time the gradients of the previous order with respect to the same variables.
Error differentiate(Context &context, const KindRef &kind, uint64_t order, ReachedOrder &reached) {
  Expected<Graph> graph = sampleGraph(context, kind);
  if (!graph) return graph.takeError();
  GradientRequest request;
  request.wrt = allTargets(*graph, nullptr).targets;
  GradientOptions options;
  options.unused = UnusedPolicy::None;
  for (reached.order = 0; reached.order < order && !request.wrt.empty(); ++reached.order) {
    Expected<GradientResult> result = buildGradient(context, *graph, request, options);
    if (!result) return result.takeError();
    graph = result->graph;
    if (reached.order == 0) reached.gradient = *graph;
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
    if (op->inputs.names.count == 0 && !op->inputs.number) continue;  // no input, no gradient that could be missing
    ReachedOrder reached;
    Expected<KindRef> kind = sampleKind(context, *op);
    handleAllErrors(kind ? differentiate(context, *kind, order, reached) : kind.takeError(),
                    [&](const GradcError &info) { missing.push_back({op, reached.order + 1, info.message}); });
  }
  return missing;
}

ReachedOrder reachedOrder(Context &context, const KindRef &kind, uint64_t limit) {
  ReachedOrder reached;
  const OpDef *op = kind->op;
  if (op->flags.isOpaque) return reached;
  if (op->flags.hasNoGradient) return {limit, std::nullopt};
  Error error = differentiate(context, kind, limit, reached);
  if (!error) reached.order = limit;  // nothing is left to differentiate
  consumeError(std::move(error));
  return reached;
}

}  // namespace gradc
