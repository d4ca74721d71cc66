#include "passes/lowering/kept_names.h"

#include "passes/rewrite/rewriter.h"

#include "llvm/ADT/MapVector.h"

using namespace llvm;

namespace gradc {

Expected<Graph> keepHeadNames(Context &context, const Graph &before, const Graph &lowered) {
  const std::optional<GradientTable> &gradient = before.table().gradient;
  const size_t numHeads = before.heads().size(),
               count = gradient ? std::min<size_t>(gradient->numForwardHeads, numHeads) : numHeads;
  MapVector<uint32_t, KindRef> kinds;  // of the nodes that list a name
  for (size_t i = 0; i < count; ++i) {
    const Value head = lowered.heads()[i];
    const std::string name = before.listedName(before.heads()[i]);
    if (lowered.isVariable(head.node) || lowered.listedName(head) == name) continue;
    KindRef &kind = kinds[head.node.value];
    if (!kind) kind = lowered.kindHandle(head.node);
    const std::string key = ("__output" + Twine(head.index) + "_name__").str();
    Expected<KindRef> named =
        context.kindLike(*kind, context.withAttrs(kind->attrs, AttrText{key, name}), kind->bodies);
    if (!named) return named.takeError();
    kind = *named;
  }
  if (kinds.empty()) return lowered;
  return withKinds(context, lowered, [&](NodeId n) -> Expected<KindRef> {
    const auto named = kinds.find(n.value);
    return named == kinds.end() ? lowered.kindHandle(n) : named->second;
  });
}

}  // namespace gradc
