// `gradc grad`: the gradient of a graph, as a graph. Tested by tests/tools/cli_test.cc and testdata/cli.
#include "tools/gradc/common/gradient_flags.h"
#include "tools/gradc/verbs/block_grad.h"
#include "tools/gradc/verbs/verbs.h"

#include "ir/base/error.h"
#include "ir/graph/bodies.h"
#include "ir/graph/body_flow.h"
#include "ir/rules/verify.h"
#include "ops/control/rebody.h"
#include "passes/gradient/higher_order/higher_order.h"
#include "passes/gradient/higher_order/retain_inside.h"
#include "passes/gradient/higher_order/mark_inside.h"
#include "passes/inference/carry.h"
#include "passes/lowering/lower_to.h"
#include "passes/targets/target.h"

using namespace llvm;

namespace gradc {
namespace {

/// With the hints of the flags, for variables of `forward`.
Expected<Inference> inferFromHints(Tool &tool, const Graph &graph, const Graph &forward) {
  Expected<InferRequest> hints = resolveHints(tool, graph, forward);
  if (!hints) return hints.takeError();
  return inferPartly(tool, graph, *hints);
}

/// MXNet's loops end at their bound, also those for which that is an error here.
void noteLoopsThatMustEnd(Tool &tool, const Graph &graph) {
  for (const NestedGraph &nested : nestedGraphs(graph))
    for (const KindRef &kind : nested.graph.kinds())
      if (kind->flow && kind->flow->mustEnd)
        return tool.diagnostics.note("in MXNet a loop of the program ends after " + Twine(kind->flow->maxSteps) +
                                     " steps, with a wrong value if its condition still holds");
}

/// The graph in the operators of --dialect, with shapes and types when the user gave hints (CLI-04).
Expected<Graph> finish(Tool &tool, const Graph &graph, const Graph &forward) {
  const Target *target = targetOf(tool.options.grad.dialect);
  const bool hasHints = !tool.options.types.shapes.empty() || !tool.options.types.dtypes.empty();
  if (!target && !hasHints) return graph;
  Expected<Inference> inference = inferFromHints(tool, graph, forward);
  if (!inference) return inference.takeError();
  if (!target) return annotate(graph, *inference);
  Expected<Graph> lowered = lowerTo(tool.context, graph, *target, &*inference);
  if (!lowered) return lowered;
  tool.diagnostics.setCurrent(*lowered);
  if (target == &kMxnetTarget) noteLoopsThatMustEnd(tool, graph);
  if (!hasHints) return lowered;
  Expected<Inference> again = inferPartly(tool, *lowered, knownVariables(graph, *inference, *lowered));
  if (!again) return again.takeError();
  return annotate(*lowered, *again);
}

/// `retained` are the paths of nodes inside bodies.
Expected<Graph> differentiate(Tool &tool, const Graph &forward, ArrayRef<std::string> retained) {
  Expected<Inference> inference = inferFromHints(tool, forward, forward);
  if (!inference) return inference.takeError();
  Expected<GradientRequest> request = resolveGradient(tool, forward, *inference);
  if (!request) return request.takeError();
  GradientOptions options = tool.options.grad.options;
  options.inference = &*inference;
  const uint32_t order = static_cast<uint32_t>(tool.options.grad.order);
  Expected<GradientResult> result =
      buildGradientRetaining(tool.context, forward, *request, options, order, retained, withBodies);
  if (!result) return result.takeError();
  tool.diagnostics.setCurrent(result->graph);
  if (Error error = verifyGraph(result->graph, tool.options.errorLimit)) return error;
  return result->graph;
}

/// The node inside a body that a text names. One of its outputs cannot be named by itself.
Expected<std::optional<NodeInside>> insideNamed(PathIndex &index, StringRef text) {
  Expected<std::optional<NodeInside>> found = index.find(text);
  if (!found || *found) return found;
  const auto [path, output] = text.rsplit(':');
  if (output.empty()) return found;
  found = index.find(path);
  if (found && *found)
    return Failure(ErrorKind::UnsupportedOption, "'" + text + "' is one output of a node in a body, expected the node")
        .at((*found)->bodies.front().first)
        .note("'" + path + "' is the node; --no-grad and --stop apply to all of its outputs, --retain to the first");
  return found;
}

/// Takes the names of nodes inside bodies off the lists, and returns the nodes.
Expected<std::vector<NodeInside>> takeInside(const Graph &graph, ArrayRef<std::vector<std::string> *> options) {
  const NameIndex names(graph);
  PathIndex paths(graph);
  std::vector<NodeInside> inside;
  for (std::vector<std::string> *lists : options) {
    std::vector<std::string> kept;
    for (const std::string &list : *lists) {
      SmallVector<StringRef, 4> texts;
      StringRef(list).split(texts, names.hasName(list) ? '\0' : ',');
      for (StringRef text : texts) {
        Expected<std::optional<NodeInside>> found = std::nullopt;
        if (text.contains('/') && !names.hasName(text)) found = insideNamed(paths, text);
        if (!found) return found.takeError();
        if (*found) inside.push_back(**found);
        else kept.push_back(text.str());
      }
    }
    *lists = std::move(kept);
  }
  return inside;
}

/// Marks the nodes inside bodies that --no-grad, --stop and --retain name; `retained` gets the paths of the last.
Expected<Graph> markInside(Tool &tool, const Graph &graph, std::vector<std::string> &retained) {
  Expected<std::vector<NodeInside>> stopped = takeInside(graph, {&tool.options.grad.noGrad, &tool.options.grad.stop});
  if (!stopped) return stopped.takeError();
  Expected<std::vector<NodeInside>> kept = takeInside(graph, {&tool.options.grad.retain});
  if (!kept) return kept.takeError();
  for (const NodeInside &node : *kept) retained.push_back(node.path);
  Expected<Graph> marked = stopInside(tool.context, graph, *stopped);
  return marked ? markRetained(tool.context, *marked, *kept) : std::move(marked);
}

Error checkOptions(const Options &options) {
  if (!options.grad.recompute.empty())
    return Failure(ErrorKind::UnsupportedOption, "'--recompute=" + options.grad.recompute + "' is not available yet")
        .note("without it every forward value that a gradient reads is kept");
  if (options.grad.forbidsUnused && options.grad.options.unused == UnusedPolicy::Zeros)
    return Failure(ErrorKind::ZerosForbidden, "'--unused zeros' contradicts '--unused error'")
        .note("give only one of them");
  if (!options.grad.onlyInputs)
    return Failure(ErrorKind::UnsupportedOption,
                   "'--only-inputs false' is not available: only the x of '--wrt' get gradients")
        .note("'--wrt all' requests every leaf, '--req NAME=add' adds to the values given");
  if (options.show != ShowForm::Text && options.show != ShowForm::Graph && options.show != ShowForm::Blocks)
    return Failure(ErrorKind::Usage, "'gradc grad' takes '--as graph' or '--as blocks'");
  if (options.types.floatAs)
    return Failure(ErrorKind::Usage, "'gradc grad' takes '--dtype NAME=DTYPE', got '--dtype " +
                                         dtypeName(*options.types.floatAs) + "' without a name");
  return Error::success();
}

Expected<int> write(Tool &tool, const Graph &graph, const Graph &forward) {
  Expected<Graph> finished = finish(tool, graph, forward);
  if (!finished) return finished.takeError();
  return exitCode(writeGraph(tool, *finished));
}

/// A flag that says nothing of a program is refused. Of a graph that is made of one, nodes have no names yet.
Error checkFlagsOfBlocks(const Options &options) {
  constexpr StringRef kOfPrograms[] = {"of",     "wrt",         "seed", "parameters", "no-grad",       "as",
                                       "output", "error-limit", "diag", "help",       "max-iterations"};
  constexpr StringRef kOfNodes[] = {"stop", "retain", "req"};
  for (StringRef flag : options.given) {
    const bool isOfNodes = is_contained(kOfNodes, flag);
    if (options.show == ShowForm::Graph ? !isOfNodes : is_contained(kOfPrograms, flag)) continue;
    return Failure(ErrorKind::UnsupportedOption, "'--" + flag + "' does not apply to a program of blocks")
        .note(isOfNodes ? "'gradc convert' writes the program as a graph, to whose nodes it applies"
                        : "with '--as graph' the gradient is a graph, and the flag applies");
  }
  return Error::success();
}

Expected<int> runOnBlocks(Tool &tool, StringRef text) {
  if (Error error = checkFlagsOfBlocks(tool.options)) return error;
  Expected<BlockFile> file = loadBlocks(tool, text);
  if (!file) return file.takeError();
  Expected<BlockCall> call = callOf(tool, *file);
  if (!call) return call.takeError();
  if (tool.options.show != ShowForm::Graph) return exitCode(writeBackward(tool, std::move(*file), *call));
  Graph forward;
  Expected<Graph> graph = gradientAsGraph(tool, std::move(*file), *call, forward);
  if (!graph) return graph.takeError();
  return write(tool, *graph, forward);
}

Expected<int> runGrad(Tool &tool) {
  if (Error error = checkOptions(tool.options)) return error;
  Expected<StringRef> text = readInput(tool, inputPath(tool));
  if (!text) return text.takeError();
  if (looksLikeBlocks(*text)) return runOnBlocks(tool, *text);
  Expected<Graph> loaded = loadText(tool, *text);
  if (!loaded) return loaded.takeError();
  Expected<Graph> ordered = inOrder(tool, *loaded);
  if (!ordered) return ordered.takeError();
  std::vector<std::string> retained;
  Expected<Graph> input = markInside(tool, *ordered, retained);
  if (!input) return input.takeError();
  Expected<Graph> graph = differentiate(tool, *input, retained);
  if (!graph) return graph.takeError();
  tool.diagnostics.setCurrent(*graph);
  return write(tool, *graph, *input);
}

constexpr StringRef kFlags[] = {"of",           "wrt",
                                "seed",         "loss-scale",
                                "heads",        "unused",
                                "control-only", "reach",
                                "integers",     "zero-terms",
                                "only-inputs",  "overwritten",
                                "no-grad",      "stop",
                                "retain",       "req",
                                "mode",         "sum-cap",
                                "chain",        "as",
                                "parameters",   "max-iterations",
                                "order",        "naming",
                                "dialect",      "emit",
                                "strict",       "shape",
                                "dtype",        "recompute",
                                "output",       "unknown-dim",
                                "error-limit",  "diag",
                                "help"};

}  // namespace

constinit const Verb kGrad = {
    .name = "grad",
    .arguments = "[FILE]",
    .summary = "emit the graph that computes gradients",
    .description =
        "Differentiates the heads of the graph (or the entries of --of) with respect to the variables of --wrt. The "
        "result holds the forward graph and the gradient graph; its heads are the forward heads, then one gradient per "
        "variable, then those of --retain. The graph attributes head_kind, grad_of, slot_status, ... say which head is "
        "what.\n"
        "An ENTRY is a node's name (its first output), name:index, a listed output name such as softmax_output, or @k, "
        "the k-th head. Of several nodes with one name, name#2 is the second; #12 is node 12.\n"
        "With --shape the result also carries the shapes and types of every value, and requests that depend on shapes "
        "are checked.\n"
        "Of a program of blocks (docs/blocks.md) the result is the program with its gradient, as append_backward "
        "makes it, or "
        "with --as graph a graph; names are those of variables, and without --of the call in the file is used.",
    .examples = "gradc grad model.json -o train.json\n"
                "gradc grad model.json --wrt fc1_weight,fc1_bias --shape data=32,784\n"
                "gradc grad model.json --of loss --seed loss=loss_head_grad\n"
                "gradc grad model.json --wrt w --order 2 --unused zeros\n"
                "gradc grad model.json --dialect mxnet | python3 host.py\n"
                "gradc grad model.json --dialect primitives --shape data=32,784\n"
                "gradc grad program.json --of loss --parameters w,b -o with-backward.json",
    .flags = kFlags,
    .minFiles = 0,
    .maxFiles = 1,
    .writesGraph = true,
    .run = runGrad,
};

}  // namespace gradc
