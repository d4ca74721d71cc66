// `gradc verify`: only a check. Tested by tests/tools/cli_test.cc
#include "ir/base/error.h"
#include "tools/gradc/verbs/verbs.h"

#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace gradc {
namespace {

Expected<int> runVerify(Tool &tool) {
  Expected<Graph> input = load(tool);
  if (!input) return input.takeError();
  const Graph &graph = *input;
  std::string text;
  raw_string_ostream(text) << "ok: " << countOf(graph.numNodes(), "node") << ", "
                           << countOf(graph.numEntries(), "value") << ", " << countOf(graph.heads().size(), "head")
                           << '\n';
  return exitCode(writeText(tool, text));
}

constexpr StringRef kVerifyFlags[] = {"output", "max-iterations", "unknown-dim", "error-limit", "diag", "help"};

}  // namespace

constinit const Verb kVerify = {
    .name = "verify",
    .arguments = "[FILE]",
    .summary = "check the structure of a graph",
    .description =
        "Reads the file and checks what every graph must keep: references in range, numbers of inputs, attributes that "
        "parse, no cycles, mutated inputs that are variables. Prints one line, or every error found up to "
        "--error-limit.",
    .examples = "gradc verify model.json\n"
                "gradc verify --diag=json model.json",
    .flags = kVerifyFlags,
    .minFiles = 0,
    .maxFiles = 1,
    .run = runVerify,
};

}  // namespace gradc
