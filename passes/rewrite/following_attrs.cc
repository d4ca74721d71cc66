// Tested by tests/passes/gradient/gradient_listener_test.cc
#include "passes/rewrite/following_attrs.h"

#include "passes/rewrite/rewriter.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr StringRef kFollowing[] = {"__ctx_group__", "__profiler_scope__"};

}  // namespace

BitVector generatedNodes(const Frozen &frozen, uint32_t numBase) {
  BitVector generated(frozen.graph.numNodes(), true);
  for (uint32_t n = 0; n < numBase; ++n)
    if (NodeId id = frozen.newId[n]; id.isValid()) generated.reset(id.value);
  return generated;
}

bool hasFollowingAttrs(const Graph &graph) {
  return any_of(graph.kinds(), [](const KindRef &kind) {
    return any_of(kFollowing, [&](StringRef key) { return kind->attrs.get(key).has_value(); });
  });
}

Expected<KindRef> withFollowingAttrsOf(Context &context, const KindRef &handle, const Attrs &from) {
  const NodeKind &kind = *handle;
  if (kind.isVariable() || kind.op->flags.isOpaque) return handle;
  SmallVector<AttrText, 2> updates;
  for (StringRef key : kFollowing)
    if (std::optional<StringRef> value = from.get(key)) updates.push_back({key, *value});
  if (updates.empty()) return handle;
  return context.kindLike(kind, context.withAttrs(kind.attrs, updates), kind.bodies);
}

Expected<Frozen> withFollowingAttrs(Context &context, Frozen frozen, uint32_t numBase) {
  const Graph &graph = frozen.graph;
  BitVector generated = generatedNodes(frozen, numBase);
  GraphRewriter rewriter(context, graph);
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    NodeId id(n);
    NodeId origin = generated[n] ? graph.origin(id) : NodeId();
    Expected<KindRef> kind = origin.isValid() ? withFollowingAttrsOf(context, graph.kindHandle(id), graph.attrs(origin))
                                              : graph.kindHandle(id);
    if (!kind) return kind.takeError();
    rewriter.copy(id, *kind);
  }
  Expected<Rewritten> again = std::move(rewriter).finish();
  if (!again) return again.takeError();
  assert(again->graph.numNodes() == graph.numNodes() && "a canonical graph keeps its ids");
  frozen.graph = again->graph;
  return frozen;
}

}  // namespace gradc
