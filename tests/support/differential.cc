// Running and comparing. Tested by tests/differential_test.cc
#include "tests/support/differential.h"

#include "ir/error.h"
#include "ir/json_reader.h"
#include "ir/json_writer.h"
#include "runtime/session.h"
#include "tests/support/jets.h"
#include "tests/support/naive.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <map>
#include <set>

using namespace llvm;

namespace gradc::testing {
namespace {

/// One way to the same values.
struct Variation {
  StringRef name = "plain";
  uint32_t sumCap = 8;
  NamingStyle naming = NamingStyle::Unique;
  bool allowInplace = true, hasPlan = true, hasInference = false, gradientOnly = false, throughFile = false;
  bool asksMore = false;  // for every entry as an x as well
  ReachPolicy reach = ReachPolicy::Ignore;
  unsigned threads = 1;
};

constexpr Variation kVariations[] = {
    {.name = "cap 2", .sumCap = 2},
    {.name = "cap 3, threads", .sumCap = 3, .threads = 4},
    {.name = "no cap, mxnet names", .sumCap = 1000, .naming = NamingStyle::Mxnet},
    {.name = "not in place, nnvm names", .naming = NamingStyle::Nnvm, .allowInplace = false},
    {.name = "no plan, fluid names", .naming = NamingStyle::Fluid, .hasPlan = false},
    {.name = "types known, gradients alone", .hasInference = true, .gradientOnly = true},
    {.name = "through a file", .throughFile = true},
    {.name = "more asked", .asksMore = true},
    {.name = "whole graph", .reach = ReachPolicy::WholeGraph},
};

/// Values under "forward 0", "gradient 1.0", "gradient 2.0" (order and position of the x), "retained 0".
struct Measured {
  std::optional<ErrorKind> error;
  std::string errorText;
  std::map<std::string, std::vector<double>> values;
  std::vector<SlotStatus> status;  // of the highest order
};

std::string gradientKey(uint32_t order, size_t slot) { return formatv("gradient {0}.{1}", order, slot).str(); }
std::string retainedKey(size_t i) { return "retained " + std::to_string(i); }

// What an `add` head holds before the run.
double startValue(const std::string &key, size_t i) { return seedValue("start of " + key, i); }

class Measurement {
 public:
  Measurement(const Sketch &sketch, const Variation &variation) : sketch(sketch), variation(variation) {}

  Measured run() {
    if (Error error = measure()) {
      handleAllErrors(std::move(error), [&](const GradcError &info) {
        measured.error = info.kind;
        measured.errorText = info.message;
      });
    }
    return std::move(measured);
  }

 private:
  Error measure() {
    Expected<SketchGraph> built = buildSketch(context, sketch);
    if (!built) return built.takeError();
    Expected<Inference> forward = inferForward(built->graph);
    if (!forward) return forward.takeError();
    GradientOptions options;
    options.headPolicy = sketch.headPolicy;
    options.unused = sketch.unused;
    options.sumCap = variation.sumCap;
    options.naming = variation.naming;
    options.reach = variation.reach;
    options.gradientOnly = variation.gradientOnly;
    if (variation.hasInference) options.inference = &*forward;
    if (variation.asksMore) askMore(built->graph, built->request);
    Expected<GradientResult> result =
        buildGradientOfOrder(context, built->graph, built->request, options, sketch.order);
    if (!result) return result.takeError();
    for (const GradientSlot &slot : result->wrt) measured.status.push_back(slot.status);
    return execute(result->graph);
  }

  Expected<Inference> inferForward(const Graph &graph) {
    Bindings bound;
    for (const NamedArray &array : bindings(graph))
      bound[array.name] = testing::Array(Dims(array.array.shape), valuesOf<double>(array.array));
    InferOptions options;
    options.floatAs = DType::Float64;
    return infer(context, graph, hintsOf(graph, bound), options);
  }

  void askMore(const Graph &graph, GradientRequest &request) {
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      for (uint32_t o = 0; o < graph.numOutputs(NodeId(n)); ++o)
        request.wrt.push_back({Value{NodeId(n), static_cast<uint16_t>(o), 0}, Request::Write});
  }

  // Of the variables of the graph, and of the head gradients it may have dropped (H-11).
  std::vector<NamedArray> bindings(const Graph &graph) const {
    std::set<StringRef> variables;
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      if (graph.isVariable(NodeId(n))) variables.insert(graph.name(NodeId(n)));
    std::vector<NamedArray> list;
    for (uint32_t n = 0; n < sketch.nodes.size(); ++n) {
      const SketchNode &node = sketch.nodes[n];
      const std::string name = "v" + std::to_string(n);
      if (node.op.empty() && variables.count(name)) list.push_back({name, doubles(node.shape, node.values)});
    }
    if (!graph.graphAttrs().contains("head_kind")) return list;
    for (size_t h = 0; h < sketch.heads.size(); ++h) {
      const std::string name = seedVariable(sketch, h);
      if (name.empty() || any_of(list, [&](const NamedArray &a) { return a.name == name; })) continue;
      std::vector<double> values;
      int64_t size = 1;
      for (int64_t d : sketch.heads[h].shape) size *= d;
      for (int64_t i = 0; i < size; ++i) values.push_back(seedValue(name, i));
      list.push_back({name, doubles(sketch.heads[h].shape, values)});
    }
    return list;
  }

  Error execute(Graph graph) {
    LoadedProgram loaded;
    if (variation.throughFile) {
      std::string text;
      raw_string_ostream os(text);
      writeJson(os, graph);
      Expected<LoadedProgram> read = readJson(context, text, {});
      if (!read) return read.takeError();
      loaded = std::move(*read);
      graph = loaded.program.rootGraph();
    }
    Expected<std::optional<GradientTable>> read = readGradientTable(graph);
    if (!read) return read.takeError();
    table = std::move(**read);
    return variation.hasPlan ? runPlanned(graph) : runNaively(graph);
  }

  Error runPlanned(const Graph &graph) {
    SessionOptions options;
    options.infer.floatAs = DType::Float64;
    options.allowInplace = variation.allowInplace;
    options.exec.backend = Backend::Reference;
    options.exec.threads = variation.threads;
    options.exec.isTraining = true;
    Expected<Session> session = Session::create(context, graph, bindings(graph), options);
    if (!session) return session.takeError();
    std::vector<std::string> keys = headKeys();
    for (size_t i = 0; i < keys.size(); ++i) {
      TensorRef head = session->head(i);
      for (int64_t k = 0; table.heads[i].request == Request::Add && k < head.size(); ++k)
        head.as<double>()[k] = startValue(keys[i], k);
    }
    if (Error error = session->run(0)) return error;
    for (size_t i = 0; i < keys.size(); ++i) measured.values[keys[i]] = valuesOf<double>(session->head(i));
    return Error::success();
  }

  // Fresh buffers for every entry, no requests and no plan.
  Error runNaively(const Graph &graph) {
    Bindings bound;
    for (const NamedArray &array : bindings(graph))
      bound[array.name] = testing::Array(Dims(array.array.shape), valuesOf<double>(array.array));
    Expected<NaiveRun> run = NaiveRun::run(graph, bound, {});
    if (!run) return run.takeError();
    std::vector<std::string> keys = headKeys();
    std::vector<testing::Array> heads = run->heads();
    for (size_t i = 0; i < keys.size(); ++i) {
      for (size_t k = 0; table.heads[i].request == Request::Add && k < heads[i].values.size(); ++k)
        heads[i].values[k] = startValue(keys[i], k) + heads[i].values[k];
      measured.values[keys[i]] = heads[i].values;
    }
    return Error::success();
  }

  std::vector<std::string> headKeys() const {
    std::vector<std::string> keys;
    size_t numForward = 0, numRetained = 0;
    for (const GradientTable::Head &head : table.heads)
      switch (head.kind) {
        case GradientTable::HeadKind::Forward: keys.push_back("forward " + std::to_string(numForward++)); break;
        case GradientTable::HeadKind::Grad: keys.push_back(gradientKey(head.order, head.slot)); break;
        case GradientTable::HeadKind::Retained: keys.push_back(retainedKey(numRetained++)); break;
      }
    return keys;
  }

  const Sketch &sketch;
  const Variation &variation;
  TestContext context;
  Measured measured;
  GradientTable table;
};

// ---- against the jets

std::vector<Request> requestsOf(ArrayRef<SketchTarget> targets) {
  std::vector<Request> requests;
  for (const SketchTarget &t : targets)
    if (t.request != Request::Null) requests.push_back(t.request);
  return requests;
}

Problem compareOne(const Measured &measured, const std::string &key, const Judged &judged, Request request) {
  auto at = measured.values.find(key);
  if (at == measured.values.end()) return {"status", key + " is missing"};
  if (at->second.size() != judged.values.size())
    return {"values", formatv("{0} has {1} elements, expected {2}", key, at->second.size(), judged.values.size()).str()};
  for (size_t i = 0; i < judged.values.size(); ++i) {
    const double start = request == Request::Add ? startValue(key, i) : 0, expected = start + judged.values[i];
    const double allowed = 1e-11 * (judged.bounds[i] + std::abs(start)) + 1e-14;
    if (std::abs(at->second[i] - expected) <= allowed) continue;
    return {"values", formatv("{0}[{1}] is {2:F12}, expected {3:F12} (start {4:F12}, tolerance {5})", key, i,
                              at->second[i], expected, start, allowed).str()};
  }
  return {};
}

bool vanishes(const Judged &judged) { return all_of(judged.values, [](double v) { return v == 0; }); }

Problem compareStatus(const Sketch &sketch, const Expectation &expected, const Measured &measured) {
  if (measured.status.size() != expected.first.size()) return {"status", "wrong number of slots"};
  for (size_t i = 0; i < measured.status.size(); ++i) {
    const SlotStatus status = measured.status[i];
    if (sketch.order == 1 && status != expected.status[i])
      return {"status", formatv("x {0} has status {1}, expected {2}", i, static_cast<int>(status),
                                static_cast<int>(expected.status[i])).str()};
    // HO-08: what vanishes by structure is `none` where that was asked for, and nothing else is.
    if (status == SlotStatus::None && (sketch.unused != UnusedPolicy::None || (sketch.order > 1 && !vanishes(expected.second[i]))))
      return {"status", formatv("x {0} has no gradient of order {1}", i, sketch.order).str()};
  }
  return {};
}

Problem compareWithJets(const Sketch &sketch, const Measured &measured) {
  Expectation expected = expectedGradients(sketch);
  if (expected.error != measured.error)
    return {"error", formatv("expected {0}, found {1} {2}", expected.error ? errorKindName(*expected.error) : "success",
                             measured.error ? errorKindName(*measured.error) : "success", measured.errorText).str()};
  if (expected.error) return {};
  if (Problem problem = compareStatus(sketch, expected, measured)) return problem;
  std::vector<Request> requests = requestsOf(sketch.wrt), retained = requestsOf(sketch.retained);
  for (size_t i = 0; i < requests.size(); ++i) {
    if (expected.status[i] != SlotStatus::None)
      if (Problem problem = compareOne(measured, gradientKey(1, i), expected.first[i], requests[i])) return problem;
    if (sketch.order > 1 && measured.status[i] != SlotStatus::None)
      if (Problem problem = compareOne(measured, gradientKey(2, i), expected.second[i], requests[i])) return problem;
  }
  for (size_t i = 0; i < retained.size(); ++i)
    if (Problem problem = compareOne(measured, retainedKey(i), expected.retained[i], retained[i])) return problem;
  return {};
}

// ---- against each other (RUN-02, NG-10)

bool applies(const Variation &variation, const Sketch &sketch) {
  auto isUndifferentiable = [](const SketchNode &node) { return node.op == "test_part"; };
  const bool mayFail = any_of(sketch.nodes, isUndifferentiable);
  // A second order with other x is another sum.
  if (variation.asksMore) return sketch.order == 1 && !mayFail && sketch.unused != UnusedPolicy::Error;
  return variation.reach == ReachPolicy::Ignore || !mayFail;
}

Problem compareVariation(const Variation &variation, const Measured &plain, const Measured &varied) {
  const std::string name = variation.name.str();
  if (varied.error != plain.error) return {name, "another outcome: " + varied.errorText};
  for (const auto &[key, values] : plain.values) {
    auto at = varied.values.find(key);
    // Gradients alone: the heads of that graph are those of the highest order.
    if (at == varied.values.end() && variation.gradientOnly) continue;
    if (at == varied.values.end() || at->second.size() != values.size()) return {name, key + " is missing"};
    for (size_t i = 0; i < values.size(); ++i)
      if (!(at->second[i] == values[i]))
        return {name, formatv("{0}[{1}] is {2:F17}, plainly {3:F17}", key, i, at->second[i], values[i]).str()};
  }
  return {};
}

}  // namespace

Problem checkSketch(const Sketch &sketch) {
  const Variation asItIs;
  const Measured plain = Measurement(sketch, asItIs).run();
  if (Problem problem = compareWithJets(sketch, plain)) return problem;
  for (const Variation &variation : kVariations)
    if (applies(variation, sketch))
      if (Problem problem = compareVariation(variation, plain, Measurement(sketch, variation).run())) return problem;
  return {};
}

std::string dumpSketch(const Sketch &sketch) {
  TestContext context;
  Expected<SketchGraph> built = buildSketch(context, sketch);
  if (!built) return describeError(built.takeError());
  std::string text = describe(sketch);
  raw_string_ostream os(text);
  writeJson(os, built->graph);
  return text;
}

}  // namespace gradc::testing
