// Attributes that follow a node to those made for it (NAME-11): `__profiler_scope__`, `__ctx_group__`.
#pragma once

#include "ir/graph_builder.h"

#include "llvm/ADT/BitVector.h"

namespace gradc {

/// Whether a node has an attribute that follows.
bool hasFollowingAttrs(const Graph &graph);

/// `kind` with those attributes of `from` that follow; `kind` itself where there are none, or it cannot have any.
llvm::Expected<KindRef> withFollowingAttrsOf(Context &context, const KindRef &kind, const Attrs &from);

/// Gives the nodes of `frozen` that are not among the first `numBase` of the builder those attributes of their origin that
/// follow. Ids stay.
llvm::Expected<Frozen> withFollowingAttrs(Context &context, Frozen frozen, uint32_t numBase);

/// The nodes that are not among the first `numBase` of the builder.
llvm::BitVector generatedNodes(const Frozen &frozen, uint32_t numBase);

}  // namespace gradc
