// Building, running and reading off. Tested by tests/networks/differential_test.cc
#include "tests/support/runs/measure.h"

#include "formats/json/reader.h"
#include "ir/base/error.h"
#include "ir/graph/bodies.h"
#include "ir/rules/verify.h"
#include "ops/registry.h"
#include "passes/gradient/higher_order/higher_order.h"
#include "passes/lowering/lower_to.h"
#include "passes/order/order_mutation.h"
#include "passes/unroll/unroll.h"
#include "runtime/session/session.h"
#include "tests/support/ops/naive.h"
#include "tests/support/runs/draw_schedule.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <set>

using namespace llvm;

namespace gradc::testing {

std::string gradientKey(uint32_t order, size_t slot) {
  return "gradient " + std::to_string(order) + "." + std::to_string(slot);
}
std::string retainedKey(size_t i) { return "retained " + std::to_string(i); }
std::string stateKey(uint32_t node) { return "state " + std::to_string(node); }
double startValue(const std::string &key, size_t i) { return seedValue("start of " + key, i); }

namespace {

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
    asBuilt = built->graph;
    if (variation.unrollsFirst)
      if (Error error = unrollSketch(*built)) return error;
    if (measured.isMissing) return Error::success();
    if (Error error = orderSketch(context, *built)) return error;
    noteLostBody(built->graph, variation.unrollsFirst);
    Expected<Inference> forward = inferWith(built->graph);
    if (!forward) return forward.takeError();
    GradientOptions options = gradientOptions();
    if (variation.hasTypes || sketch.hasTypes) options.inference = &*forward;
    if (variation.asksMore) askMore(*built, *forward);
    Expected<GradientResult> result =
        buildGradientOfOrder(context, built->graph, built->request, options, sketch.order);
    if (!result) return result.takeError();
    for (const GradientSlot &slot : result->wrt) measured.status.push_back(slot.status);
    measured.numSaved = countSaved(result->graph) - countSaved(built->graph);
    if (!variation.gradientOnly && !variation.unrollsFirst) findLostDependency(result->graph);
    noteLostBody(result->graph, variation.gradientOnly || variation.unrollsFirst);
    if (variation.unrolls) {
      Expected<Graph> flat = unrolled(result->graph);
      return flat ? execute(*flat) : flat.takeError();
    }
    if (!variation.inMxnetsWords) return execute(result->graph);
    Expected<Inference> known = inferWith(result->graph);
    if (!known) return known.takeError();
    Expected<Graph> lowered = lowerTo(context, result->graph, kMxnetTarget, &*known);
    if (!lowered) return lowered.takeError();
    return execute(*lowered);
  }

  Expected<Graph> unrolled(const Graph &graph) {
    UnrollOptions options;
    options.rowOps = builtinRowOps();
    Graph flat = graph;
    for (auto pass : {unrollLoops, inlineCalls}) {
      Expected<Inference> known = inferWith(flat);
      if (!known) return known.takeError();
      options.known = &*known;
      Expected<Unrolled> made = pass(context, flat, options);
      if (!made) return made.takeError();
      if (Error error = verifyGraph(made->graph, 5)) return error;
      flat = made->graph;
    }
    return flat;
  }

  // What is requested is found by name.
  Error unrollSketch(SketchGraph &built) {
    const Graph before = built.graph;
    Expected<Graph> flat = unrolled(before);
    if (!flat) return flat.takeError();
    StringMap<NodeId> byName;
    for (uint32_t n = 0; n < flat->numNodes(); ++n) byName.try_emplace(flat->name(NodeId(n)), NodeId(n));
    forEachValue(built.request, [&](Value &v) {
      auto at = byName.find(before.name(v.node));
      if (at == byName.end() || flat->op(at->second) != before.op(v.node)) measured.isMissing = true;
      else v.node = at->second;
    });
    built.ids.clear();
    built.graph = *flat;
    return Error::success();
  }

  GradientOptions gradientOptions() const {
    GradientOptions options = optionsOf(sketch);
    options.sumCap = variation.sumCap;
    options.chain = variation.chain;
    options.naming = variation.naming;
    options.zeroTerms = variation.zeroTerms;
    options.overwritten = variation.overwritten;
    if (variation.reach == ReachPolicy::WholeGraph) options.reach = variation.reach;
    options.gradientOnly = variation.gradientOnly;
    return options;
  }

  static uint32_t countSaved(const Graph &graph) {
    uint32_t count = 0;
    for (const NestedGraph &nested : nestedGraphs(graph))
      for (uint32_t n = 0; n < nested.graph.numNodes(); ++n) count += nested.graph.name(NodeId(n)).contains("_version");
    return count;
  }

  void findLostDependency(const Graph &graph) {
    StringMap<NodeId> byName;
    for (uint32_t n = 0; n < graph.numNodes(); ++n) byName.try_emplace(graph.name(NodeId(n)), NodeId(n));
    for (uint32_t n = 0; n < sketch.nodes.size(); ++n)
      for (uint32_t dep : sketch.nodes[n].deps)
        if (!is_contained(graph.controlDeps(byName.lookup(sketch.nameOf(n))), byName.lookup(sketch.nameOf(dep))))
          measured.lostDependency = sketch.nameOf(n) + " after " + sketch.nameOf(dep);
  }

  void noteLostBody(const Graph &graph, bool mayLack) {
    if (measured.lostBody.empty()) measured.lostBody = findLostBody(asBuilt, graph, mayLack);
  }

  // With the shapes of what the problem binds.
  Expected<Inference> inferWith(const Graph &graph) {
    InferOptions options;
    // A run makes float64 of float32 in bodies as well; a gradient is built with the types the graph says.
    if (!hasFlows(sketch)) options.floatAs = DType::Float64;
    return infer(context, graph, hintsOf(graph, asLists(bindings(graph))), options);
  }

  void askMore(SketchGraph &built, const Inference &types) const {
    for (uint32_t n = 0; n < sketch.nodes.size(); ++n)
      for (uint32_t o = 0; o < sketch.nodes[n].numOutputs; ++o) {
        const Value x = built.at({n, o});
        if (!sketch.nodes[n].isState && isFloating(types.dtype[built.graph.entry(x)]))
          built.request.wrt.push_back({x, Request::Write});
      }
  }

  // Of the variables of the graph, and of the head gradients it may have dropped (H-11).
  std::vector<NamedArray> bindings(const Graph &graph) const {
    std::set<StringRef> variables;
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      if (graph.isVariable(NodeId(n))) variables.insert(graph.name(NodeId(n)));
    std::vector<NamedArray> list;
    for (uint32_t n = 0; n < sketch.nodes.size(); ++n) {
      const SketchNode &node = sketch.nodes[n];
      const std::string name = sketch.nameOf(n);
      if (!node.isVariable() || !variables.count(name)) continue;
      list.push_back({name, node.isInteger ? wholeNumbers(node) : doubles(node.shape, node.values)});
    }
    if (!graph.table().gradient) return list;
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

  static gradc::Array wholeNumbers(const SketchNode &node) {
    if (node.isCount)
      return arrayOf(DType::Int64, node.shape, std::vector<int64_t>(node.values.begin(), node.values.end()));
    return arrayOf(DType::Int32, node.shape, std::vector<int32_t>(node.values.begin(), node.values.end()));
  }

  Error execute(Graph graph) {
    LoadedGraph loaded;
    if (variation.throughFile || variation.inMxnetsWords) {
      Expected<LoadedGraph> read = readJson(context, written(graph), {});
      if (!read) return read.takeError();
      loaded = std::move(*read);
      graph = loaded.graph;
      noteLostBody(graph, variation.inMxnetsWords);
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
    options.exec.backend = variation.backend;
    options.exec.fusion = variation.fusion;
    options.exec.threads = variation.threads;
    options.exec.isTraining = sketch.isTraining;
    if (variation.inOtherOrder) options.exec.schedule = drawSchedule(graph, graph.numEntries());
    Expected<Session> session = Session::create(context, graph, bindings(graph), options);
    if (!session) return session.takeError();
    std::vector<std::string> keys = headKeys();
    for (size_t i = 0; i < keys.size(); ++i) {
      TensorRef head = session->head(i);
      for (int64_t k = 0; table.heads[i].request == Request::Add && k < head.size(); ++k)
        head.as<double>()[k] = startValue(keys[i], k);
    }
    if (Error error = session->run(0)) return error;
    for (size_t i = 0; i < keys.size(); ++i) measured.values[keys[i]] = listOf(session->head(i));
    for (auto [n, id] : states(graph)) measured.values[stateKey(n)] = valuesOf<double>(session->variable(id));
    return Error::success();
  }

  // Fresh buffers for every entry, no requests and no plan.
  Error runNaively(const Graph &graph) {
    NaiveOptions options;
    options.isTraining = sketch.isTraining;
    Expected<NaiveRun> run = NaiveRun::run(graph, asLists(bindings(graph)), options);
    if (!run) return run.takeError();
    std::vector<std::string> keys = headKeys();
    std::vector<testing::Array> heads = run->heads();
    for (size_t i = 0; i < keys.size(); ++i) {
      for (size_t k = 0; table.heads[i].request == Request::Add && k < heads[i].values.size(); ++k)
        heads[i].values[k] = startValue(keys[i], k) + heads[i].values[k];
      measured.values[keys[i]] = heads[i].values;
    }
    for (auto [n, id] : states(graph)) measured.values[stateKey(n)] = run->value(Value{id}).values;
    return Error::success();
  }

  // The states the graph has, by node of the sketch.
  std::vector<std::pair<uint32_t, NodeId>> states(const Graph &graph) const {
    std::vector<std::pair<uint32_t, NodeId>> list;
    for (uint32_t id = 0; id < graph.numNodes(); ++id)
      for (uint32_t n = 0; graph.isVariable(NodeId(id)) && n < sketch.nodes.size(); ++n)
        if (sketch.nodes[n].isState && graph.name(NodeId(id)) == sketch.nameOf(n)) list.push_back({n, NodeId(id)});
    return list;
  }

  static std::vector<double> listOf(const TensorRef &tensor) { return loadArray(tensor).values; }
  static Bindings asLists(ArrayRef<NamedArray> arrays) {
    Bindings lists;
    for (const NamedArray &a : arrays) {
      std::vector<double> values;
      if (a.array.dtype == DType::Float64) values = valuesOf<double>(a.array);
      else if (a.array.dtype == DType::Int32)
        for (int32_t number : valuesOf<int32_t>(a.array)) values.push_back(number);
      else
        for (int64_t number : valuesOf<int64_t>(a.array)) values.push_back(static_cast<double>(number));
      lists[a.name] = testing::Array(Dims(a.array.shape), std::move(values));
    }
    return lists;
  }

  std::vector<std::string> headKeys() const {
    std::vector<std::string> keys;
    size_t numForward = 0, numRetained = 0;
    for (const GradientTable::Head &head : table.heads) switch (head.kind) {
        case GradientTable::HeadKind::Forward: keys.push_back("forward " + std::to_string(numForward++)); break;
        case GradientTable::HeadKind::Grad: keys.push_back(gradientKey(head.order, head.slot)); break;
        case GradientTable::HeadKind::Retained: keys.push_back(retainedKey(numRetained++)); break;
      }
    return keys;
  }

  const Sketch &sketch;
  const Variation &variation;
  TestContext context;
  Graph asBuilt;  // of the sketch
  Measured measured;
  GradientTable table;
};

}  // namespace

Measured measure(const Sketch &sketch, const Variation &variation) { return Measurement(sketch, variation).run(); }

}  // namespace gradc::testing
