// Bodies that a pass rewrites, each once. Bodies are nested at most kMaxBodyNesting deep, so passes follow them by
// recursion: an error at a node is reported before one in a body of a later node. Tested by
// tests/passes/order_mutation_test.cc and tests/passes/lowering/lower_loops_test.cc
#pragma once

#include "ir/graph/bodies.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <map>
#include <tuple>

namespace gradc {

/// What bodies were rewritten to, by body and `Occasion`. Addresses of rows are stable.
template <class Result, class... Occasion> class BodyMap {
 public:
  using Key = std::tuple<BodyKey, Occasion...>;

  /// The row of a body, which `make` computes on first use.
  llvm::Expected<const Result *> find(const Graph &body, const Occasion &...occasion,
                                      llvm::function_ref<llvm::Expected<Result>()> make) {
    const Key key(keyOf(body), occasion...);
    if (auto known = rows.find(key); known != rows.end()) return &known->second.result;
    llvm::Expected<Result> made = make();
    if (!made) return made.takeError();
    return &rows.try_emplace(key, Row{body, std::move(*made)}).first->second.result;
  }

 private:
  struct Row {
    Graph body;  // kept, so that no other body gets its key
    Result result;
  };
  std::map<Key, Row> rows;
};

/// The kind with `rewrite(b)` in place of each body b; the kind itself if these are the same.
llvm::Expected<KindRef> withRewrittenBodies(Context &context, const KindRef &kind,
                                            llvm::function_ref<llvm::Expected<Graph>(uint32_t)> rewrite);

}  // namespace gradc
