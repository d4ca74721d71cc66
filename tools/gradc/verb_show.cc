// `gradc show`: a graph for people. Tested by tests/cli_test.cc
#include "table.h"
#include "verbs.h"

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

Expected<int> runShow(Tool &tool) {
  Expected<LoadedInput> input = load(tool);
  if (!input) return input.takeError();
  std::string text;
  raw_string_ostream os(text);
  switch (tool.options.show) {
    case ShowForm::Text: printText(os, input->graph()); break;
    case ShowForm::Dot: printDot(os, input->graph()); break;
    case ShowForm::Stats: printStats(os, input->graph()); break;
  }
  if (Error error = writeText(tool, text)) return error;
  return 0;
}

constexpr StringRef kFlags[] = {"as", "output", "unknown-dim", "error-limit", "diag", "help"};

}  // namespace

constinit const Verb kShow = {
    .name = "show",
    .arguments = "[FILE]",
    .summary = "print a graph for people",
    .description = "One line per node, a Graphviz drawing, or counts of nodes and operators.",
    .examples = "gradc show model.json\n"
                "gradc show --as stats train.json\n"
                "gradc grad model.json | gradc show --as dot | dot -Tsvg -o train.svg",
    .flags = kFlags,
    .minFiles = 0,
    .maxFiles = 1,
    .run = runShow,
};

}  // namespace gradc
