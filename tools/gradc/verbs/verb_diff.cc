// `gradc diff`: structural comparison. Tested by tests/tools/cli_test.cc
#include "drawing/table.h"
#include "tools/gradc/verbs/verbs.h"

#include "ir/base/error.h"
#include "tools/diff/diff.h"

using namespace llvm;

namespace gradc {
namespace {

Expected<int> runDiff(Tool &tool) {
  const std::vector<std::string> &files = tool.options.files;
  Expected<Graph> left = load(tool, files[0]);
  if (!left) return left.takeError();
  Expected<Graph> right = load(tool, files[1]);
  if (!right) return right.takeError();
  DiffOptions options;
  options.ignoreNames = tool.options.ignoresNames;
  DiffResult result = diffGraphs(*left, *right, options);
  std::string text;
  raw_string_ostream os(text);
  for (const Difference &difference : result.differences) os << printable(difference.text) << '\n';
  if (result.numDifferences > result.differences.size())
    os << "and " << countOf(result.numDifferences - result.differences.size(), "more difference") << '\n';
  if (Error error = writeText(tool, text)) return error;
  return result.numDifferences == 0 ? 0 : 1;
}

constexpr StringRef kFlags[] = {"max-iterations", "ignore", "output", "unknown-dim", "error-limit", "diag", "help"};

}  // namespace

constinit const Verb kDiff = {
    .name = "diff",
    .arguments = "LEFT RIGHT",
    .summary = "compare two graphs by structure",
    .description =
        "Compares operators (aliases resolved), edges, names, and attributes after defaults are filled in, "
        "walking both "
        "graphs together from their heads. Prints the first ten differences and exits with 1, or prints nothing and "
        "exits with 0. Formatting, node order and graph-level attributes do not count.",
    .examples = "gradc diff old-model.json model.json\n"
                "gradc grad model.json | gradc diff - expected.json\n"
                "gradc diff --ignore names a.json b.json",
    .flags = kFlags,
    .minFiles = 2,
    .maxFiles = 2,
    .run = runDiff,
};

}  // namespace gradc
