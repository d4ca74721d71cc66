// `gradc plan`: a static memory plan of the graph as it would run. Tested by tests/tools/cli_test.cc
#include "drawing/plan_svg.h"
#include "drawing/table.h"
#include "tools/gradc/verbs/verbs.h"

#include "formats/json/writer.h"
#include "ir/base/dense_map.h"
#include "ir/base/error.h"
#include "ir/graph/bodies.h"
#include "ir/graph/body_flow.h"
#include "passes/memory/plan_memory.h"

#include "llvm/Support/Format.h"

using namespace llvm;

namespace gradc {
namespace {

std::string bytes(int64_t count) {
  constexpr double kMega = 1024.0 * 1024.0;
  std::string text = std::to_string(count) + " bytes";
  if (count >= kMega) raw_string_ostream(text) << format(" (%.1f MiB)", static_cast<double>(count) / kMega);
  return text;
}

/// The bytes that a loop stacks per step, of outputs and of values for its gradient, and the number of steps with room.
void printStacks(raw_ostream &os, const Graph &graph, const Inference &inference, const MemoryPlan &plan, NodeId n,
                 StringRef path) {
  int64_t perStep = 0, rows = 0;
  for (uint32_t o = 0; o < graph.numOutputs(n); ++o) {
    const EntryId e(graph.firstEntry(n).value + o);
    if (!graph.kind(n).flow->isStacked[o] || plan.offset[e] == kUnused || inference.elements(e) <= 0) continue;
    rows = inference.shapeOf(e)[0];
    perStep += inference.elements(e) / rows * dtypeBytes(inference.dtype[e]);
  }
  if (perStep > 0)
    os << "stacks     " << bytes(perStep) << " per step of " << printable((path + graph.describe(n)).str())
       << ", at most " << countOf(static_cast<size_t>(rows), "step") << '\n';
}

/// One line for each body that is planned, however often it is used, under the node it belongs to.
void printBodies(raw_ostream &os, const Graph &graph, const Inference &inference, const MemoryPlan &plan) {
  struct Level {
    const Graph &graph;
    const Inference &inference;
    const MemoryPlan &plan;
    std::string path;  // to the graph
    size_t next = 0;   // of the plan's flows
  };
  std::vector<Level> open = {{graph, inference, plan, ""}};
  DenseSet<const BodyPlan *> seen;
  while (!open.empty()) {
    Level &level = open.back();
    if (level.next == level.plan.flows.size()) {
      open.pop_back();
      continue;
    }
    const FlowPlan &flow = level.plan.flows[level.next++];
    const Graph &around = level.graph;
    const std::string path = level.path;
    printStacks(os, around, level.inference, level.plan, flow.node, path);
    for (uint32_t b = static_cast<uint32_t>(flow.bodies.size()); b-- > 0;) {
      const BodyPlan &body = *flow.bodies[b];
      if (!seen.insert(&body).second) continue;
      const std::string inside = path + bodyStep(around, flow.node, b);
      os << "body       " << bytes(body.plan->plannedBytes) << " in " << printable(inside) << '\n';
      open.push_back({body.graph, *body.inference, *body.plan, inside + " > "});
    }
  }
}

std::string report(const Graph &graph, const Inference &inference, const MemoryPlan &plan) {
  std::string text;
  raw_string_ostream os(text);
  os << "nodes      " << graph.numNodes() << "\nplanned    " << bytes(plan.plannedBytes) << "\nbound      "
     << bytes(plan.boundBytes);
  if (plan.boundBytes > 0)
    os << format(", planned is %.4f of it",
                 static_cast<double>(plan.plannedBytes) / static_cast<double>(plan.boundBytes));
  if (plan.workspaceBytes > 0)
    os << "\nvalues     " << bytes(plan.valueBytes) << " of it, bound " << plan.valueBoundBytes
       << "; largest workspace " << plan.workspaceBytes;
  os << "\nexternal   " << bytes(plan.externalBytes) << " of variables and heads\n";
  if (plan.numUnplanned > 0) os << "unplanned  " << countOf(plan.numUnplanned, "value") << " of unknown shape\n";
  if (plan.peakNode.isValid())
    os << "peak       at " << printable(graph.describe(plan.peakNode)) << ", node " << plan.peakNode.value << '\n';
  printBodies(os, graph, inference, plan);
  return text;
}

/// One request per head, as the side table of an emitted graph records them; empty for other graphs.
Expected<std::vector<Request>> headRequests(const Graph &graph) {
  Expected<std::optional<GradientTable>> table = readGradientTable(graph);
  if (!table) return table.takeError();
  std::vector<Request> requests;
  if (*table)
    for (const GradientTable::Head &head : (*table)->heads) requests.push_back(head.request);
  return requests;
}

Error checkBudget(const PlanFlags &flags, const MemoryPlan &plan) {
  if (!flags.budget || static_cast<uint64_t>(plan.plannedBytes) <= *flags.budget) return Error::success();
  return Failure(ErrorKind::OverBudget,
                 "the plan needs " + Twine(plan.plannedBytes) + " bytes, the budget is " + Twine(*flags.budget))
      .at(plan.peakNode)
      .note("no plan of this schedule needs less than " + Twine(plan.boundBytes) + " bytes");
}

Expected<OutputFile> drawToFile(const PictureFlags &flags, const Graph &graph, const Lifetimes &lifetimes,
                                const MemoryPlan &plan) {
  constexpr uint64_t kMaxNodes = 20000;
  const uint64_t limit = flags.maxNodes.value_or(kMaxNodes);
  if (graph.numNodes() > limit)
    return Failure(ErrorKind::UnsupportedOption,
                   "the graph has " + Twine(graph.numNodes()) + " nodes, a plan is drawn of at most " + Twine(limit))
        .note("`--max-nodes " + Twine(graph.numNodes()) + "` draws it all the same");
  Expected<OutputFile> file = OutputFile::open(flags.svgFile);
  if (file) drawPlan(file->stream(), graph, lifetimes, plan);
  return file;
}

/// Writes the graph, unless the user wants only the report or a picture, and the picture. They appear together.
Error writeResults(Tool &tool, const Graph &planned, std::optional<OutputFile> picture) {
  const Options &options = tool.options;
  const bool wantsGraph = !options.output.empty() || (!options.wantsReport && !picture);
  std::optional<OutputFile> graphFile;
  if (wantsGraph) {
    Expected<OutputFile> file = OutputFile::open(options.output);
    if (!file) return file.takeError();
    writeJson(file->stream(), planned);
    graphFile.emplace(std::move(*file));
  }
  SmallVector<OutputFile *, 2> files;
  for (std::optional<OutputFile> *file : {&graphFile, &picture})
    if (*file) files.push_back(&**file);
  return commitAll(files);
}

/// The first node that a gradient pass emitted.
Expected<uint32_t> backwardBegin(const Graph &graph) {
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (graph.origin(NodeId(n)).isValid()) return n;
  return Failure(ErrorKind::UnsupportedOption, "the graph has no gradient whose operands could be kept");
}

Expected<int> runPlan(Tool &tool) {
  Expected<Graph> input = loadInOrder(tool);
  if (!input) return input.takeError();
  const Graph &graph = *input;
  Expected<Inference> inference = inferWithFlags(tool, graph);
  if (!inference) return inference.takeError();
  Expected<std::vector<Request>> heads = headRequests(graph);
  if (!heads) return heads.takeError();
  RequestTable requests = countRequests(graph, *heads);
  PlanOptions planOptions;
  if (tool.options.plan.keepsForward) {
    Expected<uint32_t> begin = backwardBegin(graph);
    if (!begin) return begin.takeError();
    planOptions.backwardBegin = *begin;
  }
  Expected<MemoryPlan> plan = planMemory(tool.context, graph, *inference, requests, planOptions);
  if (!plan) return plan.takeError();
  if (Error error = checkPlan(graph, *inference, requests, *plan, planOptions)) return error;
  if (Error error = checkBudget(tool.options.plan, *plan)) return error;
  std::optional<OutputFile> picture;
  if (!tool.options.picture.svgFile.empty()) {
    Expected<Lifetimes> lifetimes = computeLifetimes(graph, *inference, requests, planOptions);
    if (!lifetimes) return lifetimes.takeError();
    Expected<OutputFile> file = drawToFile(tool.options.picture, graph, *lifetimes, *plan);
    if (!file) return file.takeError();
    picture.emplace(std::move(*file));
  }
  Graph planned = annotatePlan(annotate(graph, *inference), *inference, *plan);
  if (Error error = writeResults(tool, planned, std::move(picture))) return error;
  if (!tool.options.wantsReport) return 0;
  return exitCode(printReport(report(graph, *inference, *plan)));
}

constexpr StringRef kFlags[] = {"max-iterations", "shape",       "dtype", "partial",   "report",
                                "keep-forward",   "budget",      "svg",   "max-nodes", "output",
                                "unknown-dim",    "error-limit", "diag",  "help"};

}  // namespace

constinit const Verb kPlan = {
    .name = "plan",
    .arguments = "[FILE]",
    .summary = "place every value in one block of memory",
    .description =
        "Gives every value an offset in one arena, such that values alive at the same time never overlap, and "
        "checks the "
        "result by replaying the schedule. The result is the graph with the attributes plan (offset and size per "
        "entry), "
        "planned_bytes and bound_bytes; --report prints the figures, --svg draws addresses over steps.\n"
        "The bound is the largest sum of live bytes at any step: no plan of this schedule can be smaller. "
        "Variables and "
        "heads belong to the caller and are counted apart.",
    .examples = "gradc plan train.json --shape data=32,3,224,224 --report\n"
                "gradc grad model.json --shape data=32,784 | gradc plan --report\n"
                "gradc plan train.json --shape data=32,784 --keep-forward --report\n"
                "gradc plan train.json --shape data=32,784 --svg plan.svg\n"
                "gradc plan train.json --shape data=32,784 --budget 64M -o planned.json",
    .flags = kFlags,
    .minFiles = 0,
    .maxFiles = 1,
    .writesGraph = true,
    .run = runPlan,
};

}  // namespace gradc
