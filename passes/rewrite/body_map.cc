#include "passes/rewrite/body_map.h"

#include "ir/graph/context.h"

using namespace llvm;

namespace gradc {

Expected<KindRef> withRewrittenBodies(Context &context, const KindRef &kind,
                                      function_ref<Expected<Graph>(uint32_t)> rewrite) {
  SmallVector<Graph, 3> bodies;
  bool isChanged = false;
  for (uint32_t b = 0; b < kind->bodies.size(); ++b) {
    Expected<Graph> body = rewrite(b);
    if (!body) return body.takeError();
    isChanged |= keyOf(*body) != keyOf(kind->bodies[b]);
    bodies.push_back(std::move(*body));
  }
  return isChanged ? context.kindLike(*kind, kind->attrs, bodies) : kind;
}

}  // namespace gradc
