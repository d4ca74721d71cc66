// Random problems on the tape: what it computes is, bit for bit, what the graph it recorded computes when it is
// compiled; found in the cache or not, retained, or replayed call by call. docs/differential.md.
// GRADC_DIFFERENTIAL_GRAPHS says how many, GRADC_DIFFERENTIAL_SEED which is the first.
#include "formats/json/reader.h"
#include "imperative/imperative.h"
#include "passes/gradient/higher_order/higher_order.h"
#include "runtime/session/session.h"
#include "tests/support/drawn/random_graph.h"
#include "tests/support/runs/differential.h"
#include "tests/support/runs/imperative.h"
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

/// The tape records no variables that operators overwrite.
bool isTapeable(const Sketch &sketch) {
  return none_of(sketch.nodes, [](const SketchNode &node) { return node.isState; });
}

Array arrayOf(const Tensor &tensor) {
  const TensorRef ref = tensor.ref();
  Array array{ref.dtype, std::vector<int64_t>(ref.shape.begin(), ref.shape.end()), std::vector<char>(ref.bytes())};
  if (ref.bytes()) std::memcpy(array.bytes.data(), ref.data, ref.bytes());
  return array;
}

using Lists = std::vector<std::vector<double>>;

/// Gradients, or why there are none.
struct Answer {
  Lists values;
  std::optional<ErrorKind> error;
  std::string text;
};

/// A graph, what is asked of it, and what its variables hold.
struct Compilable {
  Graph graph;
  GradientRequest request;
  std::vector<NamedArray> values;
};

class TapedSketch {
 public:
  TapedSketch(Imperative &im, const Sketch &sketch) : im(im), sketch(sketch), entries(sketch.nodes.size()) {}

  /// False where the graph cannot be run so, which is counted.
  bool record(const SketchGraph &built) {
    for (uint32_t n = 0; n < sketch.nodes.size(); ++n) {
      const SketchNode &node = sketch.nodes[n];
      if (node.isVariable()) {
        if (node.isCount) {
          entries[n].push_back(im.tensor(node.shape, std::vector<int64_t>(node.values.begin(), node.values.end())));
        } else if (node.isInteger) {
          entries[n].push_back(im.tensor(node.shape, std::vector<int32_t>(node.values.begin(), node.values.end())));
        } else {
          entries[n].push_back(im.tensor(node.shape, node.values));
          cantFail(im.requireGrad(entries[n][0]));
        }
        cantFail(im.setName(entries[n][0], sketch.nameOf(n)));
        continue;
      }
      if (!built.ids[n].isValid()) return false;
      SmallVector<Tensor, 4> inputs;
      for (SketchEntry e : node.inputs) {
        if (e.output >= entries[e.node].size()) return false;  // hidden
        inputs.push_back(entries[e.node][e.output]);
      }
      Expected<TensorList> outputs = im.callAll(cantFail(im.kind(built.graph.kindHandle(built.ids[n]))), inputs);
      if (!outputs) return consumeError(outputs.takeError()), false;
      entries[n].assign(outputs->begin(), outputs->end());
      // Behind a Cast; head gradients and what is compared are float64.
      for (const Tensor &output : entries[n])
        if (output.dtype() == DType::Float32) return false;
      // What nothing is recorded of is a variable of the graph.
      for (auto [o, output] : enumerate(entries[n]))
        if (!output.isTracked()) cantFail(im.setName(output, sketch.nameOf(n) + "_" + std::to_string(o)));
    }
    return takeRequest();
  }

  Answer gradients(bool retain, bool createGraph, unsigned order = 1) {
    GradOptions options;
    options.heads = heads;
    options.retain = retain;
    options.createGraph = createGraph || order > 1;
    options.unused = order > 1 ? UnusedPolicy::None : sketch.unused;
    options.headPolicy = headPolicy();
    options.duplicates = sketch.duplicates;
    options.noGrad = cut;
    Expected<std::vector<Tensor>> found = im.grad(ys, xs, options);
    if (found && order == 2) {
      std::vector<Tensor> first;
      for (const Tensor &gradient : *found)
        if (gradient && gradient.isTracked()) first.push_back(gradient);
      if (first.empty()) return {Lists(xs.size()), {}, ""};
      options.heads = {};
      options.headPolicy = HeadPolicy::Ones;
      options.createGraph = false;
      options.retain = retain;
      found = im.grad(first, xs, options);
    }
    Answer answer;
    if (found) {
      for (const Tensor &gradient : *found) answer.values.push_back(doublesOf(gradient));
      return answer;
    }
    const GradcError error = errorOf(found.takeError());
    return {{}, error.kind, error.message};
  }

  /// The graph as it was drawn.
  Compilable drawn(const SketchGraph &built) {
    Compilable result{built.graph, {}, variables()};
    for (size_t i = 0; i < ys.size(); ++i) addHead(result, i, built.at(yEntries[i]));
    for (SketchEntry e : xEntries) result.request.wrt.push_back({built.at(e)});
    for (SketchEntry e : cutEntries) result.request.noGrad.push_back(built.at(e));
    return result;
  }

  /// The graph that was recorded, saved and read again.
  Compilable saved(Context &context) {
    SmallVector<Tensor, 8> outputs(ys.begin(), ys.end());
    outputs.append(xs.begin(), xs.end());
    outputs.append(cut.begin(), cut.end());
    const std::string text = written(cantFail(im.graphOf(outputs)));
    Compilable result{cantFail(readJson(context, text, ReadOptions())).graph, {}, variables()};
    const ArrayRef<Value> at = result.graph.heads();
    for (size_t i = 0; i < ys.size(); ++i) addHead(result, i, at[i]);
    for (size_t i = 0; i < xs.size(); ++i) result.request.wrt.push_back({at[ys.size() + i]});
    for (size_t i = 0; i < cut.size(); ++i) result.request.noGrad.push_back(at[ys.size() + xs.size() + i]);
    return result;
  }

  Answer compiled(Context &context, Compilable given, unsigned order = 1) {
    Answer answer{Lists(xs.size()), {}, ""};
    InferOptions types;
    types.floatAs = DType::Float64;
    InferRequest hints;
    for (const NamedArray &value : given.values)
      for (NodeId n : listInputs(given.graph).args)
        if (given.graph.name(n) == value.name) {
          hints.shapes.push_back({n, DimsBuffer(value.array.shape.begin(), value.array.shape.end())});
          hints.dtypes.push_back({n, value.array.dtype});
        }
    const Inference inference = cantFail(infer(context, given.graph, hints, types));
    GradientOptions options;
    options.unused = order > 1 ? UnusedPolicy::None : sketch.unused;
    options.headPolicy = headPolicy();
    options.duplicates = sketch.duplicates;
    options.inference = &inference;
    Expected<GradientResult> made = buildGradientOfOrder(context, given.graph, given.request, options, order);
    if (!made) {
      const GradcError error = errorOf(made.takeError());
      return {{}, error.kind, error.message};
    }
    std::vector<NamedArray> bindings;
    for (NodeId n : listInputs(made->graph).args)
      for (const NamedArray &value : given.values)
        if (made->graph.name(n) == value.name) bindings.push_back(value);
    SessionOptions exec;
    exec.exec.backend = Backend::Reference;
    exec.infer.floatAs = DType::Float64;
    Expected<Session> session = Session::create(context, made->graph, std::move(bindings), exec);
    if (!session) report_fatal_error(session.takeError());
    cantFail(session->run(0));
    // Behind the forward heads, and at the second order the gradients of the first.
    size_t next = made->graph.heads().size();
    for (size_t i = xs.size(); i-- > 0;)
      if (made->wrt[i].status != SlotStatus::None) answer.values[i] = valuesOf<double>(session->head(--next));
    return answer;
  }

 private:
  /// Head gradients that are variables are tensors here.
  HeadPolicy headPolicy() const {
    return sketch.headPolicy == HeadPolicy::Input ? HeadPolicy::Required : sketch.headPolicy;
  }

  bool takeRequest() {
    auto at = [&](SketchEntry e) { return e.output < entries[e.node].size() ? entries[e.node][e.output] : Tensor(); };
    for (auto [i, head] : enumerate(sketch.heads)) {
      const Tensor y = at(head.y);
      if (!y) return false;
      if (!y.isTracked()) continue;
      if (y.dtype() != DType::Float64) return false;
      ys.push_back(y);
      yEntries.push_back(head.y);
      heads.emplace_back();
      if (head.seedName.empty() && !head.hasSeed && sketch.headPolicy != HeadPolicy::Input) continue;
      std::vector<double> values(static_cast<size_t>(y.size()));
      for (size_t k = 0; k < values.size(); ++k) values[k] = seedValue("s" + std::to_string(i), k);
      heads.back() = im.tensor(y.shape(), values);
    }
    for (const SketchTarget &target : sketch.wrt) {
      const Tensor x = at(target.x);
      if (!x) return false;
      if (!x.isTracked()) continue;
      if (x.dtype() != DType::Float64) return false;
      xs.push_back(x);
      xEntries.push_back(target.x);
    }
    for (SketchEntry e : sketch.noGrad)
      if (const Tensor x = at(e); x && x.isTracked()) {
        cut.push_back(x);
        cutEntries.push_back(e);
      }
    return !ys.empty() && !xs.empty();
  }

  std::vector<NamedArray> variables() const {
    std::vector<NamedArray> values;
    for (const std::vector<Tensor> &list : entries)
      for (const Tensor &entry : list)
        if (!entry.name().empty()) values.push_back({entry.name(), arrayOf(entry)});
    return values;
  }

  void addHead(Compilable &to, size_t i, Value y) {
    const std::string seed = heads[i] ? "seed" + std::to_string(i) : "";
    to.request.heads.push_back({y, {}, seed});
    if (heads[i]) to.values.push_back({seed, arrayOf(heads[i])});
  }

  Imperative &im;
  const Sketch &sketch;
  std::vector<std::vector<Tensor>> entries;
  std::vector<Tensor> ys, heads, xs, cut;
  std::vector<SketchEntry> yEntries, xEntries, cutEntries;
};

bool equalBits(const std::vector<double> &a, const std::vector<double> &b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) {
           return x == y || (std::isnan(x) && std::isnan(y));
         });
}

std::string difference(const Lists &expected, const Lists &found) {
  if (expected.size() != found.size()) return "another number of gradients";
  for (size_t i = 0; i < expected.size(); ++i)
    if (!equalBits(expected[i], found[i])) return "gradient " + std::to_string(i);
  return "";
}

bool isVanishing(const std::vector<double> &values) {
  return all_of(values, [](double value) { return value == 0; });
}

/// The same way with other sums: by the order in which their terms come.
std::string farDifference(const Lists &expected, const Lists &found) {
  if (expected.size() != found.size()) return "another number of gradients";
  for (size_t i = 0; i < expected.size(); ++i) {
    // What vanishes identically is none or zeros, as the two find out (HO-08).
    if (isVanishing(expected[i]) && isVanishing(found[i])) continue;
    if (expected[i].size() != found[i].size()) return "gradient " + std::to_string(i) + " has another size";
    double scale = 1;
    for (double value : expected[i]) scale = std::max(scale, std::abs(value));
    for (size_t k = 0; k < expected[i].size(); ++k)
      if (!(std::abs(expected[i][k] - found[i][k]) <= 1e-10 * scale))
        return "gradient " + std::to_string(i) + "[" + std::to_string(k) + "]: " + numberText(expected[i][k]) + " is " +
               numberText(found[i][k]);
  }
  return "";
}

struct Counts {
  uint64_t numRun = 0, numFlows = 0, numRefused = 0, numSecond = 0, numSameBits = 0, numFailed = 0;
};

class Comparison {
 public:
  Comparison(uint64_t seed, Counts &counts) : seed(seed), sketch(drawSketch(seed)), counts(counts) {}

  void run(TestContext &context, Imperative &im) {
    if (!isTapeable(sketch)) return;
    Expected<SketchGraph> built = buildSketch(context, sketch);
    if (!built) return consumeError(built.takeError());
    TapedSketch taped(im, sketch);
    if (!taped.record(*built)) return;
    const Answer expected = taped.compiled(context, taped.saved(context)), fresh = taped.gradients(true, false);
    // A tape does not look at what is cut where nothing leads to it.
    if (expected.error == ErrorKind::OptionConflict) return;
    if (expected.error.has_value() != fresh.error.has_value())  // several may be wrong with a request
      return fail("the tape", fresh.text + " instead of " + expected.text);
    if (expected.error) {
      ++counts.numRefused;
      return;
    }
    ++counts.numRun;
    counts.numFlows += hasFlows(sketch);
    same("compiled now", expected, fresh);
    const Answer drawn = taped.compiled(context, taped.drawn(*built));
    if (drawn.error) fail("the graph as drawn", drawn.text);
    else if (const std::string differs = farDifference(expected.values, drawn.values); !differs.empty())
      fail("the graph as drawn", differs);
    counts.numSameBits += difference(expected.values, drawn.values).empty();
    const uint64_t hits = im.cacheStats().hits;
    same("cached", expected, taped.gradients(true, false));
    same("replayed", expected, taped.gradients(true, true));
    EXPECT_EQ(im.cacheStats().hits, hits + 2);
    if (sketch.order == 2) secondOrder(context, taped);
    same("not retained", expected, taped.gradients(false, false));
    const Answer gone = taped.gradients(false, false);
    if (gone.error && *gone.error != ErrorKind::HistoryCleared) fail("a second time", gone.text);
  }

 private:
  void secondOrder(TestContext &context, TapedSketch &taped) {
    const Answer expected = taped.compiled(context, taped.saved(context), 2), found = taped.gradients(true, true, 2);
    if (expected.error || found.error) {
      if (expected.error != found.error) fail("second order", found.text + " instead of " + expected.text);
      return;
    }
    ++counts.numSecond;
    if (const std::string differs = farDifference(expected.values, found.values); !differs.empty())
      fail("second order", differs);
  }

  void same(StringRef name, const Answer &expected, const Answer &found) {
    const std::string differs = difference(expected.values, found.values);
    if (!differs.empty()) fail(name, differs + " " + found.text);
  }

  void fail(StringRef name, const std::string &what) {
    ++counts.numFailed;
    ADD_FAILURE() << "seed " << seed << ", " << name.str() << ": " << what << "\n"
                  << describe(sketch) << dumpSketch(sketch);
  }

  const uint64_t seed;
  const Sketch sketch;
  Counts &counts;
};

TEST(ImperativeDifferential, RUN_02_TA_89_TheTapeIsItsCompiledGraph) {
  const uint64_t first = numberFrom("GRADC_DIFFERENTIAL_SEED", 1),
                 count = numberFrom("GRADC_DIFFERENTIAL_GRAPHS", 3000);
  TestContext context;
  Imperative im(context, Tape::referenceOptions());
  Counts counts;
  for (uint64_t seed = first; seed < first + count && counts.numFailed < 3; ++seed)
    Comparison(seed, counts).run(context, im);
  RecordProperty("run", static_cast<int>(counts.numRun));
  RecordProperty("flows", static_cast<int>(counts.numFlows));
  RecordProperty("refused", static_cast<int>(counts.numRefused));
  RecordProperty("second", static_cast<int>(counts.numSecond));
  RecordProperty("same", static_cast<int>(counts.numSameBits));
  if (count < 1000) return;
  EXPECT_GE(counts.numRun, count / 4);
  EXPECT_GE(counts.numFlows, count / 20);
  EXPECT_GE(counts.numRefused, count / 100);
  EXPECT_GE(counts.numSecond, count / 20);
}

}  // namespace
}  // namespace gradc::testing
