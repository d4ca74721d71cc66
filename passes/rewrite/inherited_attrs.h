// Attributes that nodes inherit from the node they are made for (NAME-11): `__profiler_scope__`, `__ctx_group__`.
#pragma once

#include "ir/graph/graph_builder.h"

#include "llvm/ADT/BitVector.h"

namespace gradc {

/// Whether some node has such an attribute.
bool hasInheritedAttrs(const Graph &graph);

/// `kind` with those attributes of `from`; `kind` itself if there are none, or it cannot have any.
llvm::Expected<KindRef> withInheritedAttrsOf(Context &context, const KindRef &kind, const Attrs &from);

/// Gives those attributes of their origin to the nodes of `frozen` that are not among the first `numBase` of the
/// builder. Ids stay.
llvm::Expected<Frozen> withInheritedAttrs(Context &context, Frozen frozen, uint32_t numBase);

/// The nodes that are not among the first `numBase` of the builder.
llvm::BitVector generatedNodes(const Frozen &frozen, uint32_t numBase);

}  // namespace gradc
