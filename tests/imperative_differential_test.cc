// Random problems on the tape: what it computes is, bit for bit, what the graph it recorded computes when it is compiled;
// found in the cache or not, retained, or replayed call by call. docs/differential.md.
// GRADC_DIFFERENTIAL_GRAPHS says how many, GRADC_DIFFERENTIAL_SEED which is the first.
#include "imperative/imperative.h"
#include "runtime/session.h"
#include "tests/support/imperative.h"
#include "tests/support/differential.h"
#include "tests/support/random_graph.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <cstdlib>

using namespace llvm;

namespace gradc::testing {
namespace {

uint64_t numberFrom(const char *variable, uint64_t otherwise) {
  const char *text = std::getenv(variable);
  return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

/// What the tape does not record as these graphs have it: control dependencies and versions of variables; nor bodies that run.
bool isTapeable(const Sketch &sketch) {
  return !hasFlows(sketch) &&
         none_of(sketch.nodes, [](const SketchNode &node) { return node.isState || !node.deps.empty(); });
}

Array arrayOf(const Tensor &tensor) {
  const TensorRef ref = tensor.ref();
  Array array{ref.dtype, std::vector<int64_t>(ref.shape.begin(), ref.shape.end()), std::vector<char>(ref.bytes())};
  if (ref.bytes()) std::memcpy(array.bytes.data(), ref.data, ref.bytes());
  return array;
}

class TapedSketch {
 public:
  TapedSketch(Imperative &im, const Sketch &sketch) : im(im), sketch(sketch), entries(sketch.nodes.size()) {}

  /// False where the graph cannot be run so, which is counted.
  bool record(const Graph &graph, ArrayRef<NodeId> ids) {
    for (uint32_t n = 0; n < sketch.nodes.size(); ++n) {
      const SketchNode &node = sketch.nodes[n];
      if (node.isVariable()) {
        if (node.isInteger) {
          entries[n].push_back(im.tensor(node.shape, std::vector<int64_t>(node.values.begin(), node.values.end())));
        } else {
          entries[n].push_back(im.tensor(node.shape, node.values));
          cantFail(im.requireGrad(entries[n][0]));
        }
        cantFail(im.setName(entries[n][0], sketch.nameOf(n)));
        continue;
      }
      if (!ids[n].isValid()) return false;
      SmallVector<Tensor, 4> inputs;
      for (SketchEntry e : node.inputs) {
        if (e.output >= entries[e.node].size()) return false;  // hidden
        inputs.push_back(entries[e.node][e.output]);
      }
      Expected<SmallVector<Tensor, 2>> outputs = im.callAll(im.kind(graph.kindHandle(ids[n])), inputs);
      if (!outputs) return consumeError(outputs.takeError()), false;
      entries[n].assign(outputs->begin(), outputs->end());
      // Behind a Cast; head gradients and what is compared are float64.
      for (const Tensor &output : entries[n])
        if (output.dtype() == DType::Float32) return false;
      // What nothing is recorded of is a variable of the graph.
      for (auto [o, output] : enumerate(entries[n]))
        if (!output.isTracked()) cantFail(im.setName(output, sketch.nameOf(n) + "_" + std::to_string(o)));
    }
    for (auto [i, head] : enumerate(sketch.heads)) {
      if (head.y.output >= entries[head.y.node].size()) return false;
      const Tensor &y = entries[head.y.node][head.y.output];
      if (!y.isTracked()) continue;
      ys.push_back(y);
      heads.emplace_back();
      if (head.seedName.empty() && !head.hasSeed) continue;
      std::vector<double> values(static_cast<size_t>(y.size()));
      for (size_t k = 0; k < values.size(); ++k) values[k] = seedValue("s" + std::to_string(i), k);
      heads.back() = im.tensor(y.shape(), values);
    }
    for (const SketchTarget &target : sketch.wrt) {
      if (target.x.output >= entries[target.x.node].size()) return false;
      const Tensor &x = entries[target.x.node][target.x.output];
      if (x.isTracked()) xs.push_back(x);
    }
    return !ys.empty() && !xs.empty();
  }

  std::vector<Tensor> gradients(bool createGraph) {
    GradOptions options;
    options.heads = heads;
    options.retain = true;
    options.createGraph = createGraph;
    options.unused = UnusedPolicy::None;
    Expected<std::vector<Tensor>> found = im.grad(ys, xs, options);
    if (found) return *found;
    const GradcError error = errorOf(found.takeError());
    refusal = error.kind;
    refusalText = error.message;
    return {};
  }

  /// Of the recorded graph, compiled. An empty list and `refusal` for an error.
  std::vector<std::vector<double>> compiled(Context &context, std::optional<ErrorKind> &refusal, std::string &text) {
    SmallVector<Tensor, 8> outputs(ys.begin(), ys.end());
    for (const Tensor &x : xs)
      if (!x.isLeaf()) outputs.push_back(x);
    // The graph has no variable for a leaf that no y depends on.
    const Graph graph = cantFail(im.graphOf(outputs));
    GradientRequest request;
    std::vector<NamedArray> bindings;
    for (NodeId n : listInputs(graph).args)
      for (uint32_t k = 0; k < sketch.nodes.size(); ++k)
        for (const Tensor &entry : entries[k])
          if (graph.name(n) == entry.name()) bindings.push_back({graph.name(n).str(), arrayOf(entry)});
    for (size_t i = 0; i < ys.size(); ++i) {
      const std::string seed = heads[i] ? "seed" + std::to_string(i) : "";
      request.heads.push_back({graph.heads()[i], {}, seed});
      if (heads[i]) bindings.push_back({seed, arrayOf(heads[i])});
    }
    std::vector<int> slotOf;
    size_t nextComputed = ys.size();
    for (const Tensor &x : xs) {
      Value value;
      if (!x.isLeaf()) value = graph.heads()[nextComputed++];
      else
        for (NodeId n : listInputs(graph).args)
          if (graph.name(n) == x.name()) value = Value{n};
      slotOf.push_back(value.isValid() ? static_cast<int>(request.wrt.size()) : -1);
      if (value.isValid()) request.wrt.push_back({value});
    }
    std::vector<std::vector<double>> values(xs.size());
    if (request.wrt.empty()) return values;
    const Inference inference = cantFail(infer(context, graph, {}, {}));
    GradientOptions options;
    options.unused = UnusedPolicy::None;
    options.inference = &inference;
    Expected<GradientResult> made = buildGradient(context, graph, request, options);
    if (!made) {
      const GradcError error = errorOf(made.takeError());
      refusal = error.kind;
      text = error.message;
      return {};
    }
    for (size_t i = 0; i < made->seedNames.size(); ++i)
      for (NamedArray &binding : bindings)
        if (heads[i] && binding.name == "seed" + std::to_string(i)) binding.name = made->seedNames[i];
    SessionOptions exec;
    exec.exec.backend = Backend::Reference;
    Expected<Session> session = Session::create(context, made->graph, std::move(bindings), exec);
    if (!session) report_fatal_error(session.takeError());
    cantFail(session->run(0));
    std::vector<size_t> headOf;
    size_t next = graph.heads().size();
    for (const GradientSlot &slot : made->wrt) headOf.push_back(slot.status == SlotStatus::None ? 0 : next++);
    for (auto [i, slot] : enumerate(slotOf))
      if (slot >= 0 && headOf[slot]) values[i] = valuesOf<double>(session->head(headOf[slot]));
    return values;
  }

  Imperative &im;
  const Sketch &sketch;
  std::vector<std::vector<Tensor>> entries;
  std::vector<Tensor> ys, heads, xs;
  std::optional<ErrorKind> refusal;
  std::string refusalText;
};

bool equalBits(const std::vector<double> &a, const std::vector<double> &b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) {
           return x == y || (std::isnan(x) && std::isnan(y));
         });
}

std::string difference(ArrayRef<std::vector<double>> expected, ArrayRef<Tensor> found) {
  if (expected.size() != found.size()) return "another number of gradients";
  for (size_t i = 0; i < expected.size(); ++i)
    if (!equalBits(expected[i], doublesOf(found[i]))) return "gradient " + std::to_string(i);
  return "";
}

TEST(ImperativeDifferential, RUN_02_TA_89_TheTapeIsItsCompiledGraph) {
  const uint64_t first = numberFrom("GRADC_DIFFERENTIAL_SEED", 1),
                 count = numberFrom("GRADC_DIFFERENTIAL_GRAPHS", 3000);
  TestContext context;
  Imperative im(context, Tape::referenceOptions());
  uint64_t numRun = 0, numRefused = 0, numFailed = 0;
  for (uint64_t seed = first; seed < first + count && numFailed < 3; ++seed) {
    const Sketch sketch = drawSketch(seed);
    if (!isTapeable(sketch)) continue;
    Expected<SketchGraph> built = buildSketch(context, sketch);
    if (!built) {
      consumeError(built.takeError());
      continue;
    }
    TapedSketch taped(im, sketch);
    if (!taped.record(built->graph, built->ids)) continue;
    std::optional<ErrorKind> refusal;
    std::string text;
    const std::vector<std::vector<double>> expected = taped.compiled(context, refusal, text);
    const std::vector<Tensor> fresh = taped.gradients(false);
    const bool agree = refusal.has_value() == taped.refusal.has_value();
    EXPECT_TRUE(agree) << "seed " << seed << " compiled: " << text << " tape: " << taped.refusalText;
    if (!agree) ++numFailed;
    if (refusal || taped.refusal) {
      ++numRefused;
      continue;
    }
    ++numRun;
    const uint64_t hits = im.cacheStats().hits;
    const std::vector<Tensor> cached = taped.gradients(false), replayed = taped.gradients(true);
    EXPECT_EQ(im.cacheStats().hits, hits + 2);
    for (auto [name, found] : {std::pair("compiled now", &fresh), {"cached", &cached}, {"replayed", &replayed}}) {
      const std::string differs = difference(expected, *found);
      if (differs.empty()) continue;
      ++numFailed;
      ADD_FAILURE() << "seed " << seed << ", " << name << ": " << differs << " " << taped.refusalText << "\n"
                    << describe(sketch) << dumpSketch(sketch);
    }
  }
  if (count < 1000) return;
  EXPECT_GE(numRun, count / 4);
  EXPECT_GE(numRefused, 1u);
}

}  // namespace
}  // namespace gradc::testing
