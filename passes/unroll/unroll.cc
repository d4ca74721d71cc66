// Tested by tests/passes/unroll_test.cc
#include "passes/unroll/unroll.h"

#include "passes/unroll/expansion.h"

#include "ir/base/out_of_memory.h"

using namespace llvm;

namespace gradc {
namespace {

Expected<Unrolled> expandAll(Context &context, const Graph &graph, const UnrollOptions &options, Expansion::What what) {
  return catchingBadAlloc("to unroll the graph", [&]() -> Expected<Unrolled> {
    Expansion::Pass pass{context, options, what};
    Expected<Graph> made = Expansion(pass, graph, "").run(options.known);
    if (!made) return made.takeError();
    return Unrolled{*made, std::move(pass.kept)};
  });
}

}  // namespace

Expected<Unrolled> unrollLoops(Context &context, const Graph &graph, const UnrollOptions &options) {
  return expandAll(context, graph, options, Expansion::What::Loops);
}

Expected<Unrolled> inlineCalls(Context &context, const Graph &graph, const UnrollOptions &options) {
  return expandAll(context, graph, options, Expansion::What::Calls);
}

}  // namespace gradc
