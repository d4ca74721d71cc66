// `gradc infer`: shapes, dtypes and storage of every entry. Tested by tests/tools/cli_test.cc
#include "drawing/table.h"
#include "tools/gradc/verbs/verbs.h"

using namespace llvm;

namespace gradc {
namespace {

std::string report(const Graph &graph, const Inference &inference) {
  TextTable table({"node", "name", "operator", "output", "shape", "dtype"});
  for (uint32_t i = 0; i < graph.numNodes(); ++i) {
    NodeId n(i);
    for (uint32_t k = 0; k < graph.numOutputs(n); ++k) {
      EntryId entry(graph.firstEntry(n).value + k);
      table.add({k == 0 ? std::to_string(i) : "", k == 0 ? graph.name(n).str() : "",
                 k == 0 ? graph.opName(n).str() : "", std::to_string(k), toString(inference.shapeOf(entry)),
                 dtypeName(inference.dtype[entry]).str()});
    }
  }
  std::string text;
  raw_string_ostream os(text);
  table.print(os);
  os << countOf(inference.numUnknownShapes, "unknown shape") << ", "
     << countOf(inference.numUnknownDTypes, "unknown dtype") << '\n';
  return text;
}

Expected<int> runInfer(Tool &tool) {
  Expected<Graph> input = load(tool);
  if (!input) return input.takeError();
  const Graph &graph = *input;
  Expected<Inference> inference = inferWithFlags(tool, graph);
  if (!inference) return inference.takeError();
  if (!tool.options.wantsReport || !tool.options.output.empty())
    if (Error error = writeGraph(tool, annotate(graph, *inference))) return error;
  if (!tool.options.wantsReport) return 0;
  return exitCode(printReport(report(graph, *inference)));
}

constexpr StringRef kFlags[] = {"max-iterations", "shape",       "dtype",       "partial", "report",
                                "output",         "unknown-dim", "error-limit", "diag",    "help"};

}  // namespace

constinit const Verb kInfer = {
    .name = "infer",
    .arguments = "[FILE]",
    .summary = "work out shapes and element types",
    .description =
        "Starts from --shape, --dtype and what the file says, and follows every operator in both directions. The "
        "result "
        "is the graph with the attributes shape, shape_known, dtype and storage_type, one element per entry; --report "
        "prints a table.\n"
        "A shape or type that stays unknown is an error, unless --partial allows it. `?` in --shape leaves a dimension "
        "to be inferred.",
    .examples = "gradc infer model.json --shape data=32,3,224,224 --report\n"
                "gradc infer train.json --shape data=32,784 --dtype data=float16 -o typed.json\n"
                "gradc infer model.json --shape data=?,3,224,224 --partial --report",
    .flags = kFlags,
    .minFiles = 0,
    .maxFiles = 1,
    .writesGraph = true,
    .run = runInfer,
};

}  // namespace gradc
