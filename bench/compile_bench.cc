// Benchmarks of the compiler: build, load, save, gradient, inference, plan over the graph families, and the ratios to
// the yardstick, nlohmann's SAX parser with a null handler over the JSON of the same graph.
//
// Time is per node of the graph a benchmark works on: the emitted training graph for gradient, infer and plan.
// `--benchmark_filter=/1000000` selects one size. The ratio table follows the results (docs/performance.md).
#include "bench/families.h"
#include "bench/ratio_table.h"
#include "bench/run_bench.h"

#include "formats/json/reader.h"
#include "formats/json/writer.h"
#include "ir/base/process_memory.h"
#include "ops/registry.h"
#include "passes/gradient/gradient.h"
#include "passes/memory/plan_memory.h"

#include "llvm/Support/raw_ostream.h"

#include "benchmark/benchmark.h"
#include "nlohmann/json.hpp"

#include <memory>

using namespace llvm;

namespace gradc::bench {
namespace {

// One graph with everything derived from it, kept while its benchmarks run one after another.
struct Subject {
  Family family;
  size_t nodes;
  Context context;
  Graph forward, training;
  std::string json;  // of the training graph; of the forward graph for zigzag

  Subject(Family family, size_t nodes) : family(family), nodes(nodes) {
    registerBuiltinOps(context.ops);
    forward = makeFamily(context, family, nodes);
    training = family == Family::Zigzag ? forward : gradientOf(forward);
    raw_string_ostream os(json);
    writeJson(os, training);
  }

  Graph gradientOf(const Graph &graph) {
    GradientRequest request;
    request.wrt = allTargets(graph, nullptr).targets;
    return cantFail(buildGradient(context, graph, request, GradientOptions())).graph;
  }
};

Subject &subject(Family family, size_t nodes) {
  static std::unique_ptr<Subject> current;
  if (!current || current->family != family || current->nodes != nodes) {
    current.reset();
    current = std::make_unique<Subject>(family, nodes);
  }
  return *current;
}

struct NullHandler : nlohmann::json_sax<nlohmann::json> {
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t &) override { return true; }
  bool string(string_t &) override { return true; }
  bool binary(binary_t &) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(string_t &) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t, const std::string &, const nlohmann::detail::exception &) override { return false; }
};

void runSax(Subject &s) {
  NullHandler handler;
  benchmark::DoNotOptimize(nlohmann::json::sax_parse(s.json.begin(), s.json.end(), &handler));
}

void runBuild(Subject &s) { benchmark::DoNotOptimize(makeFamily(s.context, s.family, s.nodes)); }

void runLoad(Subject &s) { benchmark::DoNotOptimize(cantFail(readJson(s.context, s.json, ReadOptions()))); }

// Into a sink that costs nothing, so that only the writer is timed.
void runSave(Subject &s) {
  std::error_code error;
  raw_fd_ostream os("/dev/null", error);
  os.SetBufferSize(1 << 20);
  writeJson(os, s.training);
}

void runGradient(Subject &s) { benchmark::DoNotOptimize(s.gradientOf(s.forward)); }

void runInfer(Subject &s) {
  benchmark::DoNotOptimize(cantFail(infer(s.context, s.training, InferRequest(), InferOptions())));
}

void runStage(benchmark::State &state, Family family, size_t nodes, void (*stage)(Subject &)) {
  Subject &s = subject(family, nodes);
  for (auto iteration : state) {
    (void)iteration;
    stage(s);
  }
  size_t counted = stage == runBuild ? s.forward.numNodes() : s.training.numNodes();
  state.counters["time/node"] = benchmark::Counter(
      static_cast<double>(counted), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["B/node"] = static_cast<double>(s.training.heapBytes()) / s.training.numNodes();
}

// Planning needs an inference, which is not timed.
void runPlan(benchmark::State &state, Family family, size_t nodes) {
  Subject &s = subject(family, nodes);
  Inference inference = cantFail(infer(s.context, s.training, InferRequest(), InferOptions()));
  for (auto iteration : state) {
    (void)iteration;
    RequestTable requests = countRequests(s.training, {});
    benchmark::DoNotOptimize(cantFail(planMemory(s.context, s.training, inference, requests, PlanOptions())));
  }
  state.counters["time/node"] =
      benchmark::Counter(static_cast<double>(s.training.numNodes()),
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

struct Stage {
  const char *name;
  void (*run)(Subject &);
};
constexpr Stage kStages[] = {{"sax", runSax},   {"build", runBuild},       {"load", runLoad},
                             {"save", runSave}, {"gradient", runGradient}, {"infer", runInfer}};

void registerFamily(Family family, size_t nodes) {
  std::string suffix = "/" + familyName(family).str() + "/" + std::to_string(nodes);
  for (const Stage &stage : kStages) {
    if (family == Family::Zigzag && stage.run != runSax && stage.run != runInfer) continue;
    benchmark::RegisterBenchmark((stage.name + suffix).c_str(), [=](benchmark::State &state) {
      runStage(state, family, nodes, stage.run);
    })->Unit(benchmark::kMillisecond);
  }
  if (family == Family::Zigzag) return;
  benchmark::RegisterBenchmark(("plan" + suffix).c_str(), [=](benchmark::State &state) {
    runPlan(state, family, nodes);
  })->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace gradc::bench

int main(int argc, char **argv) {
  using namespace gradc::bench;
  gradc::keepFreedMemory();
  for (size_t nodes : {1000, 10000, 100000, 1000000}) {
    for (Family family : kTrainFamilies) registerFamily(family, nodes);
    registerFamily(Family::Zigzag, nodes);
  }
  registerSteps();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  RatioTable table;
  benchmark::RunSpecifiedBenchmarks(&table);
  return table.printRatios() ? 0 : 1;
}
