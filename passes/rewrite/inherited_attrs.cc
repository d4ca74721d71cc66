// Tested by tests/passes/gradient/gradient_listener_test.cc
#include "passes/rewrite/inherited_attrs.h"

#include "ir/op/hidden_keys.h"
#include "passes/rewrite/rewriter.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
BitVector generatedNodes(const Frozen &frozen, uint32_t numBase) {
  BitVector generated(frozen.graph.numNodes(), true);
  for (uint32_t n = 0; n < numBase; ++n)
    if (NodeId id = frozen.newId[n]; id.isValid()) generated.reset(id.value);
  return generated;
}

bool hasInheritedAttrs(const Graph &graph) {
  return any_of(graph.kinds(), [](const KindRef &kind) {
    return any_of(kInheritedKeys, [&](StringRef key) { return kind->attrs.get(key).has_value(); });
  });
}

Expected<KindRef> withInheritedAttrsOf(Context &context, const KindRef &handle, const Attrs &from) {
  const NodeKind &kind = *handle;
  if (kind.isVariable() || kind.op->flags.isOpaque) return handle;
  SmallVector<AttrText, 2> updates;
  for (StringRef key : kInheritedKeys)
    if (std::optional<StringRef> value = from.get(key)) updates.push_back({key, *value});
  if (updates.empty()) return handle;
  return context.kindLike(kind, context.withAttrs(kind.attrs, updates), kind.bodies);
}

Expected<Frozen> withInheritedAttrs(Context &context, Frozen frozen, uint32_t numBase) {
  const Graph &graph = frozen.graph;
  BitVector generated = generatedNodes(frozen, numBase);
  Expected<Graph> again = withKinds(context, graph, [&](NodeId n) -> Expected<KindRef> {
    const NodeId origin = generated[n.value] ? graph.origin(n) : NodeId();
    if (!origin.isValid()) return graph.kindHandle(n);
    return withInheritedAttrsOf(context, graph.kindHandle(n), graph.attrs(origin));
  });
  if (!again) return again.takeError();
  assert(again->numNodes() == graph.numNodes() && "a canonical graph keeps its ids");
  frozen.graph = *again;
  return frozen;
}

}  // namespace gradc
