// Unknown operators beside a graph change nothing else in it, in any pass. Tested by
// tests/networks/differential_test.cc
#include "tests/support/runs/differential.h"

#include "formats/json/reader.h"
#include "ir/rules/verify.h"
#include "passes/inference/infer.h"
#include "passes/lowering/write_order.h"
#include "passes/lowering/lower_to.h"
#include "tests/support/small_ops.h"
#include "tests/support/test_graph.h"
#include "tools/diff/diff.h"
#include "passes/gradient/higher_order/higher_order.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace gradc::testing {
namespace {

/// The sketch without and with the nodes beside it, through the same passes.
class BesideCheck {
 public:
  explicit BesideCheck(const Sketch &sketch) : sketch(sketch) {}

  Problem run() {
    Expected<SketchGraph> built = buildSketch(context, sketch);
    if (!built) return {"beside", describeError(built.takeError())};
    plain = std::move(*built);
    full = plain;
    if (Error error = addBeside(context, sketch, full)) return {"beside", describeError(std::move(error))};
    before = full.graph;
    if (Problem problem = compare("the graph", plain.graph, full.graph)) return problem;
    for (SketchGraph *graph : {&plain, &full})
      if (Error error = orderSketch(context, *graph)) return {"beside", describeError(std::move(error))};
    if (Problem problem = compare("the order of mutations", plain.graph, full.graph)) return problem;
    if (Problem problem = compareInference()) return problem;
    for (uint32_t order : {1u, 3u})
      if (Problem problem = compareGradients(order)) return problem;
    return {};
  }

 private:
  static bool isBeside(const Graph &graph, NodeId n) { return graph.name(n).starts_with("beside"); }

  /// Whether what is beside reads a value of a write that only a loop, a branch or a call reaches otherwise: then other
  /// nodes wait for that write when those are lowered.
  static bool holdsMoreWrites(const Graph &without, const Graph &with) {
    const EndangeredWrites before(without), after(with);
    if (before.mayLoseReaders.empty()) return false;
    StringMap<NodeId> named;
    for (uint32_t n = 0; n < with.numNodes(); ++n) named[with.name(NodeId(n))] = NodeId(n);
    for (uint32_t n = 0; n < without.numNodes(); ++n) {
      const NodeId same = named.lookup(without.name(NodeId(n)));
      if (before.mayLoseReaders[n] && !after.mayLoseReaders[same.value]) return true;
      const bool overwrites = !without.kind(NodeId(n)).mutated.isEmpty();
      const uint32_t first = without.firstEntry(NodeId(n)).value, other = with.firstEntry(same).value;
      for (uint32_t o = 0; overwrites && o < without.numOutputs(NodeId(n)); ++o)
        if (!before.isAlwaysRead[first + o] && after.isAlwaysRead[other + o]) return true;
    }
    return false;
  }

  /// Without the heads that are beside and what the graph says of its heads.
  std::string stripped(const Graph &graph) {
    std::vector<Value> heads;
    for (Value head : graph.heads())
      if (!isBeside(graph, head.node)) heads.push_back(head);
    return written(cantFail(GraphBuilder(context, graph).freeze(heads, {})).graph);
  }

  Problem compare(const std::string &what, const Graph &without, const Graph &with) {
    if (stripped(with) != stripped(without))
      return {"beside", what + " is another one:\n" + written(without) + written(with)};
    if (std::string lost = findLostBody(before, with, false); !lost.empty())
      return {"beside", what + " lost the bodies of " + lost};
    if (Error error = verifyGraph(with, 3)) return {"beside", what + ": " + describeError(std::move(error))};
    return compareWritten(what, with);
  }

  Problem compareWritten(const std::string &what, const Graph &graph) {
    const std::string text = written(graph);
    Expected<LoadedGraph> read = readJson(context, text, ReadOptions());
    if (!read) return {"beside", what + ": " + describeError(read.takeError())};
    if (written(read->graph) != text || !(read->graph == graph)) return {"beside", what + " is not what is read back"};
    if (std::string lost = findLostBody(graph, read->graph, false); !lost.empty())
      return {"beside", what + " read back has other bodies in " + lost};
    for (const Difference &difference : diffGraphs(graph, read->graph, DiffOptions()).differences)
      return {"beside", what + " read back differs: " + difference.text};
    return {};
  }

  Expected<Inference> inferPartly(const SketchGraph &graph) {
    InferRequest hints;
    for (uint32_t n = 0; n < sketch.nodes.size(); ++n)
      if (sketch.nodes[n].isVariable())
        hints.shapes.push_back({graph.ids[n], DimsBuffer(ArrayRef(sketch.nodes[n].shape))});
    InferOptions options;
    options.allowUnknown = true;
    if (!hasFlows(sketch)) options.floatAs = DType::Float64;
    return infer(context, graph.graph, hints, options);
  }

  Problem compareInference() {
    Expected<Inference> without = inferPartly(plain), with = inferPartly(full);
    if (!without || !with) return compareErrors("inference", without.takeError(), with.takeError());
    for (uint32_t n = 0; n < sketch.nodes.size(); ++n)
      for (uint32_t o = 0; o < sketch.nodes[n].numOutputs; ++o) {
        const EntryId a = plain.graph.entry(plain.at({n, o})), b = full.graph.entry(full.at({n, o}));
        if (without->shape[a] != with->shape[b] || without->dtype[a] != with->dtype[b])
          return {"beside", "another shape or type of " + sketch.nameOf(n)};
      }
    return {};
  }

  Problem compareGradients(uint32_t order) {
    const std::string what = formatv("the gradient of order {0}", order);
    Expected<GradientResult> without = gradientOf(plain, order), with = gradientOf(full, order);
    if (!without || !with) return compareErrors(what, without.takeError(), with.takeError());
    auto isOne = [](const GradientSlot &a, const GradientSlot &b) { return a.status == b.status; };
    if (!llvm::equal(without->wrt, with->wrt, isOne)) return {"beside", what + " has another status"};
    if (Problem problem = compare(what, without->graph, with->graph)) return problem;
    Expected<Graph> loweredWithout = lowerTo(context, without->graph, kMxnetTarget, nullptr);
    Expected<Graph> loweredWith = lowerTo(context, with->graph, kMxnetTarget, nullptr);
    if (!loweredWithout || !loweredWith)
      return compareErrors(what + " in MXNet's words", loweredWithout.takeError(), loweredWith.takeError());
    if (!holdsMoreWrites(without->graph, with->graph) && stripped(*loweredWith) != stripped(*loweredWithout))
      return {"beside", what + " is lowered to another one"};
    if (std::string lost = findLostBody(before, *loweredWith, true); !lost.empty())
      return {"beside", what + " is lowered without the bodies of " + lost};
    return {};
  }

  Expected<GradientResult> gradientOf(const SketchGraph &graph, uint32_t order) {
    GradientOptions options = optionsOf(sketch);
    Expected<Inference> types = inferPartly(graph);
    if (!types) return types.takeError();
    if (sketch.hasTypes) options.inference = &*types;
    return buildGradientOfOrder(context, graph.graph, graph.request, options, order);
  }

  // The same one on both sides, or none.
  static Problem compareErrors(const std::string &what, Error without, Error with) {
    const std::string left = without ? describeError(std::move(without)) : "success";
    const std::string right = with ? describeError(std::move(with)) : "success";
    return left == right ? Problem() : Problem{"beside", what + ": " + left + " without, " + right + " with"};
  }

  const Sketch &sketch;
  TestContext context;
  SketchGraph plain, full;
  Graph before;  // with all, as built
};

}  // namespace

Problem checkBeside(const Sketch &sketch) { return sketch.beside.empty() ? Problem() : BesideCheck(sketch).run(); }

}  // namespace gradc::testing
