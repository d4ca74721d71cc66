// `gradc opt`: passes that a user requests by name. Tested by tests/tools/cli_test.cc
#include "tools/gradc/verbs/verbs.h"

#include "ops/registry.h"
#include "passes/inference/carry.h"
#include "passes/unroll/unroll.h"

#include "ir/base/error.h"

using namespace llvm;

namespace gradc {
namespace {

struct NamedPass {
  StringRef name;
  Expected<Unrolled> (*run)(Context &, const Graph &, const UnrollOptions &);
};
constexpr NamedPass kPasses[] = {{"unroll", unrollLoops}, {"inline", inlineCalls}};

Expected<const NamedPass *> findPass(StringRef name) {
  for (const NamedPass &pass : kPasses)
    if (pass.name == name) return &pass;
  return Failure(ErrorKind::Usage, "there is no pass '" + name + "'").note("the passes are unroll and inline");
}

Expected<Graph> apply(Tool &tool, const NamedPass &pass, const Graph &graph, const InferRequest &hints) {
  Expected<Inference> known = inferPartly(tool, graph, hints);
  if (!known) return known.takeError();
  UnrollOptions options;
  options.known = &*known;
  options.rowOps = builtinRowOps();
  Expected<Unrolled> made = pass.run(tool.context, graph, options);
  if (!made) return made.takeError();
  for (const std::string &text : made->kept) tool.diagnostics.warning(text);
  const bool hasNotes = !graph.table().entries.shapes.empty() || !hints.shapes.empty() || !hints.dtypes.empty();
  if (!hasNotes) return made->graph;
  // The nodes have changed, and the slices of a replaced loop no longer determine the shapes of its operands.
  Expected<Inference> again = inferPartly(tool, made->graph, knownVariables(graph, *known, made->graph));
  if (!again) return again.takeError();
  return annotate(made->graph, *again);
}

Expected<int> runOpt(Tool &tool) {
  SmallVector<const NamedPass *, 2> passes;
  for (StringRef list : tool.options.passes) {
    SmallVector<StringRef, 2> names;
    list.split(names, ',');
    for (StringRef name : names) {
      Expected<const NamedPass *> pass = findPass(name);
      if (!pass) return pass.takeError();
      passes.push_back(*pass);
    }
  }
  if (passes.empty()) return Failure(ErrorKind::Usage, "no pass is given").note("--passes unroll,inline names them");
  Expected<Graph> graph = load(tool);
  if (!graph) return graph.takeError();
  const Graph given = *graph;  // an earlier pass may have dropped a variable that a flag names
  for (const NamedPass *pass : passes) {
    Expected<InferRequest> hints = resolveHints(tool, *graph, given);
    if (!hints) return hints.takeError();
    Expected<Graph> made = apply(tool, *pass, *graph, *hints);
    if (!made) return made.takeError();
    graph = std::move(*made);
  }
  return exitCode(writeGraph(tool, *graph));
}

constexpr StringRef kFlags[] = {"passes", "shape", "dtype", "output", "unknown-dim", "error-limit", "diag", "help"};

}  // namespace

constinit const Verb kOpt = {
    .name = "opt",
    .arguments = "[FILE]",
    .summary = "rewrite a graph: unroll loops, inline calls",
    .description =
        "Runs passes in the order given. `unroll` replaces a loop by its steps if their number follows from shapes or "
        "from values that depend on no variable. `inline` replaces calls by what they call, and branches "
        "whose choice is such a value. Nodes of a step are named after their loop: loop[3]/h2h.\n"
        "Standard error lists what was kept, with the reason.",
    .examples = "gradc opt --passes unroll rnn.json --shape x=20,8,64 -o unrolled.json\n"
                "gradc opt --passes inline,unroll model.json | gradc show",
    .flags = kFlags,
    .minFiles = 0,
    .maxFiles = 1,
    .writesGraph = true,
    .run = runOpt,
};

}  // namespace gradc
