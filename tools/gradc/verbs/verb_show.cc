// `gradc show`: a graph for people. Tested by tests/tools/cli_test.cc
#include "drawing/graph_dot.h"
#include "drawing/graph_svg.h"
#include "drawing/table.h"
#include "tools/gradc/verbs/verbs.h"

#include "ir/base/dense_map.h"
#include "ir/base/error.h"
#include "ir/graph/body_roles.h"
#include "ir/graph/text.h"

#include "llvm/ADT/MapVector.h"

using namespace llvm;

namespace gradc {
namespace {

struct Counts {
  size_t nodes = 0, arguments = 0, aux = 0, generated = 0, values = 0, edges = 0, deps = 0, heads = 0;
  MapVector<const OpDef *, size_t, DenseMap<const OpDef *, unsigned>> operators;
};

Counts countsOf(const Graph &graph) {
  Counts counts;
  const InputLists lists = listInputs(graph);
  counts.nodes = graph.numNodes();
  counts.arguments = lists.args.size();
  counts.aux = lists.aux.size();
  counts.values = graph.numEntries();
  counts.heads = graph.heads().size();
  for (uint32_t i = 0; i < graph.numNodes(); ++i) {
    const NodeId n(i);
    counts.edges += graph.inputs(n).size();
    counts.deps += graph.controlDeps(n).size();
    counts.generated += graph.origin(n).isValid();
    if (!graph.isVariable(n)) ++counts.operators[graph.op(n)];
  }
  return counts;
}

void add(Counts &total, const Counts &counts) {
  for (auto member : {&Counts::nodes, &Counts::arguments, &Counts::aux, &Counts::generated, &Counts::values,
                      &Counts::edges, &Counts::deps, &Counts::heads})
    total.*member += counts.*member;
  for (const auto &[op, count] : counts.operators) total.operators[op] += count;
}

void printOperatorCounts(raw_ostream &os, const Counts &counts) {
  std::vector<std::pair<const OpDef *, size_t>> sorted(counts.operators.begin(), counts.operators.end());
  llvm::sort(sorted, [](const auto &a, const auto &b) {
    return a.second != b.second ? a.second > b.second : a.first->name < b.first->name;
  });
  for (const auto &[op, count] : sorted)
    os << right_justify(std::to_string(count), 8) << "  " << printable(op->name)
       << (op->flags.isOpaque ? "  (unknown operator)" : "") << '\n';
}

void printCounts(raw_ostream &os, const Counts &counts) {
  os << "nodes                " << counts.nodes << "\n  arguments          " << counts.arguments
     << "\n  auxiliary states   " << counts.aux << "\n  generated          " << counts.generated
     << "\nvalues               " << counts.values << "\nedges                " << counts.edges
     << "\ncontrol dependencies " << counts.deps << "\nheads                " << counts.heads << "\noperators\n";
  printOperatorCounts(os, counts);
}

/// How many inputs and heads of a body have each role, in the order of the first of each.
void printRoles(raw_ostream &os, ArrayRef<NestedGraph> graphs, size_t position) {
  const Graph &body = graphs[position].graph;
  MapVector<StringRef, size_t> counts;
  auto count = [&](const BodyRole &role) {
    if (role.isKnown()) ++counts[role.name];
  };
  for (uint32_t id = 0; id < body.numNodes(); ++id)
    if (body.isVariable(NodeId(id))) count(inputRole(graphs, position, NodeId(id)));
  for (size_t h = 0; h < body.heads().size(); ++h) count(headRole(graphs, position, h));
  for (const auto &[role, number] : counts) os << left_justify(role, 21) << number << '\n';
}

void printStats(raw_ostream &os, const Graph &graph) {
  const std::vector<NestedGraph> graphs = nestedGraphs(graph);
  if (graphs.size() == 1) return printCounts(os, countsOf(graph));
  Counts total;
  for (size_t i = 0; i < graphs.size(); ++i) {
    os << (i == 0 ? "graph" : printable(bodyTitle(graphs, i))) << '\n';
    printRoles(os, graphs, i);
    const Counts counts = countsOf(graphs[i].graph);
    printCounts(os, counts);
    add(total, counts);
    os << '\n';
  }
  os << "total\n";
  printCounts(os, total);
}

/// Shapes as far as the file and the flags determine them. A file whose shapes contradict each other is drawn without.
/// Flags name only variables of the root.
Expected<std::optional<Inference>> knownShapes(Tool &tool, ArrayRef<NestedGraph> graphs, size_t position) {
  const Graph &graph = graphs[position].graph;
  Expected<InferRequest> hints = position == 0 ? resolveHints(tool, graph, graph) : InferRequest();
  if (!hints) return hints.takeError();
  InferOptions options = tool.options.types.inferOptions();
  options.allowUnknown = true;
  Expected<Inference> inference = infer(tool.context, graph, *hints, options);
  if (inference) return std::move(*inference);
  const bool isOfFlags = !hints->shapes.empty() || !hints->dtypes.empty();
  if (isOfFlags) return inference.takeError();
  tool.diagnostics.note("the picture has no shapes" + std::string(position ? " of a body: " : ": ") +
                        llvm::toString(withinBody(inference.takeError(), graphs, position)));
  return std::nullopt;
}

Error draw(Tool &tool, raw_ostream &os, const Graph &graph) {
  constexpr uint64_t kMaxNodes = 2000;
  const uint64_t limit = tool.options.picture.maxNodes.value_or(kMaxNodes);
  Drawing drawing{nestedGraphs(graph), {}};
  uint64_t numNodes = 0;
  for (const NestedGraph &nested : drawing.graphs) numNodes += nested.graph.numNodes();
  if (numNodes > limit)
    return Failure(ErrorKind::UnsupportedOption,
                   (drawing.graphs.size() == 1 ? "the graph has " : "the graph and its bodies have ") +
                       Twine(numNodes) + " nodes, a picture is drawn of at most " + Twine(limit))
        .note("`--max-nodes " + Twine(numNodes) + "` draws it all the same, `--as stats` counts what is in it");
  for (size_t i = 0; i < drawing.graphs.size(); ++i) {
    Expected<std::optional<Inference>> shapes = knownShapes(tool, drawing.graphs, i);
    if (!shapes) return shapes.takeError();
    drawing.inferences.push_back(std::move(*shapes));
  }
  tool.options.show == ShowForm::Svg ? drawSvg(os, drawing) : drawDot(os, drawing);
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
    case ShowForm::Graph:
    case ShowForm::Blocks: return Failure(ErrorKind::Usage, "'gradc show' takes '--as text', 'dot', 'svg' or 'stats'");
    case ShowForm::Dot:
    case ShowForm::Svg:
      if (Error error = draw(tool, os, *input)) return error;
  }
  return exitCode(writeText(tool, text));
}

constexpr StringRef kFlags[] = {"max-iterations", "as",          "shape",       "dtype", "max-nodes",
                                "output",         "unknown-dim", "error-limit", "diag",  "help"};

}  // namespace

constinit const Verb kShow = {
    .name = "show",
    .arguments = "[FILE]",
    .summary = "print a graph for people",
    .description =
        "One line per node, a picture, or counts of nodes and operators. In a picture the forward graph flows "
        "down; each "
        "gradient node is drawn beside its forward node, and gradients flow up. Shapes are shown as far as "
        "the file, --shape and --dtype determine them. Bodies of nodes follow the graph, each once, as @1, @2, ...\n"
        "--as svg is a file on its own for a browser, light or dark; the pointer over a node shows its "
        "attributes, over "
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
