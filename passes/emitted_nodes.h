// What is told and said about the nodes a gradient adds, once their graph is frozen: listeners (HOOK-01) and the
// attributes that follow a node from its origin (NAME-11).
#pragma once

#include "passes/gradient/gradient.h"

#include "ir/graph_builder.h"

namespace gradc {

/// A gradient of the builder's graph and the entry of the base it belongs to.
struct GradientOf {
  Value gradient, entry;
};

/// Calls the listener for every node of `frozen` that is not among the first `numBase` of the builder, in id order.
/// Operands of sums are gradients of the same entry.
void tellListener(GradientListener &listener, const Frozen &frozen, uint32_t numBase, llvm::ArrayRef<GradientOf> gradients,
                  const WellKnownOps &ops);

/// Whether a node has an attribute that follows (`__profiler_scope__`, `__ctx_group__`).
bool hasFollowingAttrs(const Graph &graph);

/// `kind` with those attributes of `from` that follow; `kind` itself where there are none, or it cannot have any.
llvm::Expected<KindRef> withFollowingAttrsOf(Context &context, const KindRef &kind, const Attrs &from);

/// Gives generated nodes those attributes of their origin that follow. Ids stay.
llvm::Expected<Frozen> withFollowingAttrs(Context &context, Frozen frozen, uint32_t numBase);

}  // namespace gradc
