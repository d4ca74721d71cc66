// `gradc show`: a graph for people. Tested by tests/cli_test.cc
#include "graph_drawing.h"
#include "table.h"
#include "verbs.h"

#include "ir/error.h"
#include "ir/text.h"

#include "llvm/ADT/MapVector.h"

using namespace llvm;

namespace gradc {
namespace {

void printOperatorCounts(raw_ostream &os, const Graph &graph) {
  MapVector<const OpDef *, uint32_t> counts;
  for (uint32_t i = 0; i < graph.numNodes(); ++i)
    if (!graph.isVariable(NodeId(i))) ++counts[graph.op(NodeId(i))];
  std::vector<std::pair<const OpDef *, uint32_t>> sorted(counts.begin(), counts.end());
  llvm::sort(sorted, [](const auto &a, const auto &b) {
    return a.second != b.second ? a.second > b.second : a.first->name < b.first->name;
  });
  for (const auto &[op, count] : sorted)
    os << right_justify(std::to_string(count), 8) << "  " << op->name
       << (op->flags.isOpaque ? "  (unknown operator)" : "") << '\n';
}

void printStats(raw_ostream &os, const Graph &graph) {
  InputLists lists = listInputs(graph);
  size_t numEdges = 0, numDeps = 0, numGenerated = 0;
  for (uint32_t i = 0; i < graph.numNodes(); ++i) {
    NodeId n(i);
    numEdges += graph.inputs(n).size();
    numDeps += graph.controlDeps(n).size();
    if (graph.origin(n).isValid()) ++numGenerated;
  }
  os << "nodes                " << graph.numNodes() << "\n  arguments          " << lists.args.size()
     << "\n  auxiliary states   " << lists.aux.size() << "\n  generated          " << numGenerated
     << "\nvalues               " << graph.numEntries() << "\nedges                " << numEdges
     << "\ncontrol dependencies " << numDeps << "\nheads                " << graph.heads().size()
     << "\noperators\n";
  printOperatorCounts(os, graph);
}

/// Shapes as far as the file and the flags determine them. A file whose shapes contradict each other is drawn without.
Expected<std::optional<Inference>> knownShapes(Tool &tool, const Graph &graph) {
  Expected<InferRequest> hints = resolveHints(tool, graph, graph);
  if (!hints) return hints.takeError();
  InferOptions options;
  options.allowUnknown = true;
  options.unknownDim = tool.options.unknownDim;
  options.floatAs = tool.options.floatAs;
  Expected<Inference> inference = infer(tool.context, graph, *hints, options);
  if (inference) return std::move(*inference);
  if (!tool.options.shapes.empty() || !tool.options.dtypes.empty()) return inference.takeError();
  tool.diagnostics.note("the picture has no shapes: " + llvm::toString(inference.takeError()));
  return std::nullopt;
}

Error draw(Tool &tool, raw_ostream &os, const Graph &graph) {
  constexpr uint64_t kMaxNodes = 2000;
  const uint64_t limit = tool.options.maxNodes.value_or(kMaxNodes);
  if (graph.numNodes() > limit)
    return Failure(ErrorKind::UnsupportedOption, "the graph has " + Twine(graph.numNodes()) +
                                                     " nodes, a picture is drawn of at most " + Twine(limit))
        .note("`--max-nodes " + Twine(graph.numNodes()) + "` draws it all the same, `--as stats` counts what is in it");
  Expected<std::optional<Inference>> shapes = knownShapes(tool, graph);
  if (!shapes) return shapes.takeError();
  const Inference *inference = *shapes ? &**shapes : nullptr;
  tool.options.show == ShowForm::Svg ? drawSvg(os, graph, inference) : drawDot(os, graph, inference);
  return Error::success();
}

Expected<int> runShow(Tool &tool) {
  Expected<Graph> input = load(tool);
  if (!input) return input.takeError();
  std::string text;
  raw_string_ostream os(text);
  switch (tool.options.show) {
    case ShowForm::Text: printText(os, *input); break;
    case ShowForm::Stats: printStats(os, *input); break;
    case ShowForm::Dot:
    case ShowForm::Svg:
      if (Error error = draw(tool, os, *input)) return error;
  }
  if (Error error = writeText(tool, text)) return error;
  return 0;
}

constexpr StringRef kFlags[] = {"as",          "shape",       "dtype", "max-nodes", "output",
                                "unknown-dim", "error-limit", "diag",  "help"};

}  // namespace

constinit const Verb kShow = {
    .name = "show",
    .arguments = "[FILE]",
    .summary = "print a graph for people",
    .description =
        "One line per node, a picture, or counts of nodes and operators. In a picture the forward graph flows down; each "
        "gradient node stands beside the forward node it belongs to, and gradients flow up. Shapes are shown as far as "
        "the file, --shape and --dtype determine them.\n"
        "--as svg is a file on its own for a browser, light or dark; the pointer over a node shows its attributes, over "
        "an edge what flows there. --as dot is for Graphviz, in the same arrangement.",
    .examples = "gradc show model.json\n"
                "gradc show --as stats train.json\n"
                "gradc show --as svg train.json --shape data=8,1,28,28 -o train.svg\n"
                "gradc grad model.json | gradc show --as dot | dot -Tpng -o train.png",
    .flags = kFlags,
    .minFiles = 0,
    .maxFiles = 1,
    .run = runShow,
};

}  // namespace gradc
