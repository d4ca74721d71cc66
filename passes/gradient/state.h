// What the phases of the gradient pass share, and the phases: head gradients (gradient.cc), the walk (walk.cc), the
// requested gradients and the emitted graph (results.cc). Tested by tests/passes/gradient/gradient_test.cc
#pragma once

#include "passes/gradient/accumulate.h"
#include "passes/gradient/save_values.h"
#include "passes/gradient/select.h"
#include "passes/inference/head_checks.h"

#include "ir/graph/context.h"

namespace gradc {

/// The order of the gradients of these y: one more than the highest order among them. `table` gives the orders of an
/// emitted graph's heads; other entries have its highest order if their node is generated, else order 0.
uint32_t orderOfGradient(const Graph &graph, const std::optional<GradientTable> &table,
                         llvm::ArrayRef<GradientHead> heads);

struct GradientState {
  GradientState(Context &ctx, const Graph &graph, std::optional<GradientTable> earlier, const GradientRequest &request,
                const GradientOptions &options)
      : ctx(ctx), graph(graph), earlier(std::move(earlier)), request(request), options(options),
        order(orderOfGradient(graph, this->earlier, request.heads)), builder(ctx, graph),
        selection(graph, request, options), namer(builder, graph, options.naming),
        sums(builder, graph, namer, options, stats), numBase(graph.numNodes()) {
    for (Value v : request.taps) sums.tap(v);
    if (options.naming != NamingStyle::Fluid) return;
    fluid.emplace(builder, graph, order);
    sums.setFluidNames(*fluid);
  }
  GradientState(const GradientState &) = delete;
  GradientState &operator=(const GradientState &) = delete;

  /// v times `lossScale`.
  llvm::Expected<Value> scaled(Value v, NodeId origin);

  Context &ctx;
  const Graph &graph;                          // the base: its nodes are the first of the builder
  const std::optional<GradientTable> earlier;  // of the base, when it is an emitted graph
  const GradientRequest &request;
  const GradientOptions &options;
  const uint32_t order;  // of the gradients to be made
  GradientStats stats;
  GraphBuilder builder;
  Selection selection;
  Namer namer;
  Accumulators sums;
  const uint32_t numBase;
  std::optional<FluidNames> fluid;  // NamingStyle::Fluid
  uint32_t top = 0;                 // largest id of a y that receives a head gradient
  std::vector<HeadPair> openPairs;
  std::vector<std::string> seedNames;
  llvm::ArrayRef<FlowGradient> flows;  // of nodes of the base that have one, ascending
  BodyGradients *bodies = nullptr;     // of this gradient; never null in the walk
};

}  // namespace gradc
