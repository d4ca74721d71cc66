// Benchmarks of whole networks: `prepare/NAME` is gradient, shapes and memory plan from the forward graph in memory,
// `step/NAME/BACKEND` one training step in float32.
//
// Two networks are built in; GRADC_BENCH_MODEL, a symbol file, adds a third under the name `model`, and
// GRADC_BENCH_SHAPE (such as 16,3,32,32) is the shape of its `data`. GRADC_BENCH_THREADS is the number of threads, 1 by
// default. These benchmarks have no limits: they are compared with other programs (bench/peers.py).
#include "bench/run_bench.h"

#include "formats/json/reader.h"
#include "passes/gradient/gradient.h"
#include "runtime/session/session.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include "benchmark/benchmark.h"

#include <algorithm>
#include <cstdlib>

using namespace llvm;

namespace gradc::bench {
namespace {

// Eight fully connected layers of 512 with relu between, and a softmax.
Graph makeMlp(Context &context) {
  std::string text, last = "data";
  for (int i = 0; i < 8; ++i) {
    const std::string n = std::to_string(i);
    text += "f" + n + " = FullyConnected(" + last + ", w" + n + ", b" + n + ") {num_hidden=512}; ";
    text += "r" + n + " = Activation(f" + n + ") {act_type=relu}; ";
    last = "r" + n;
  }
  return cantFail(testing::parseGraph(context, text + "y = SoftmaxOutput(" + last + ", label); heads y"));
}

// Two convolutions with pooling and three fully connected layers.
Graph makeLenet(Context &context) {
  return cantFail(testing::parseGraph(
      context, "c1 = Convolution(data, w1, b1) {kernel=(5,5), num_filter=6}; a1 = Activation(c1) {act_type=relu};"
               "p1 = Pooling(a1) {kernel=(2,2), stride=(2,2), pool_type=max};"
               "c2 = Convolution(p1, w2, b2) {kernel=(5,5), num_filter=16}; a2 = Activation(c2) {act_type=relu};"
               "p2 = Pooling(a2) {kernel=(2,2), stride=(2,2), pool_type=max};"
               "f1 = FullyConnected(p2, w3, b3) {num_hidden=120}; a3 = Activation(f1) {act_type=relu};"
               "f2 = FullyConnected(a3, w4, b4) {num_hidden=84}; a4 = Activation(f2) {act_type=relu};"
               "f3 = FullyConnected(a4, w5, b5) {num_hidden=10}; y = SoftmaxOutput(f3, label); heads y"));
}

Graph readModel(Context &context) {
  std::unique_ptr<MemoryBuffer> text =
      cantFail(errorOrToExpected(MemoryBuffer::getFile(std::getenv("GRADC_BENCH_MODEL"))));
  return cantFail(readJson(context, text->getBuffer(), ReadOptions())).graph;
}

DimsBuffer modelShape() {
  const char *text = std::getenv("GRADC_BENCH_SHAPE");
  DimsBuffer dims;
  for (StringRef part : split(text ? text : "", ',')) {
    int64_t dim = 0;
    if (!part.getAsInteger(10, dim)) dims.push_back(dim);
  }
  return dims;
}

void runStep(benchmark::State &state, Graph (*make)(Context &), DimsBuffer data, Backend backend) {
  testing::TestContext context;
  const Graph forward = make(context);
  GradientRequest request;
  request.wrt = allTargets(forward, nullptr).targets;
  const Graph training = cantFail(buildGradient(context, forward, request, GradientOptions())).graph;
  SessionOptions options;
  options.hints.shapes.push_back({testing::nodeNamed(training, "data"), data});
  options.initSeed = 1;
  options.exec.isTraining = true;
  options.exec.backend = backend;
  if (const char *threads = std::getenv("GRADC_BENCH_THREADS"))
    options.exec.threads = static_cast<unsigned>(std::max(1, std::atoi(threads)));
  Session session = cantFail(Session::create(context, training, {}, options));
  uint64_t step = 0;
  for (auto iteration : state) {
    (void)iteration;
    cantFail(session.run(step++));
  }
}

void prepare(benchmark::State &state, Graph (*make)(Context &), DimsBuffer data) {
  testing::TestContext context;
  const Graph forward = make(context);
  for (auto iteration : state) {
    (void)iteration;
    GradientRequest request;
    request.wrt = allTargets(forward, nullptr).targets;
    const Graph training = cantFail(buildGradient(context, forward, request, GradientOptions())).graph;
    InferRequest shapes;
    shapes.shapes.push_back({testing::nodeNamed(training, "data"), data});
    const Inference inference = cantFail(infer(context, training, shapes, InferOptions()));
    const RequestTable requests = countRequests(training, {});
    benchmark::DoNotOptimize(cantFail(planMemory(context, training, inference, requests, PlanOptions())).plannedBytes);
  }
}

void registerNetwork(const std::string &name, Graph (*make)(Context &), const DimsBuffer &data) {
  benchmark::RegisterBenchmark(("prepare/" + name).c_str(),
                               [=](benchmark::State &state) { prepare(state, make, data); })
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
  for (Backend backend : {Backend::Auto, Backend::Reference}) {
    const std::string full = "step/" + name + (backend == Backend::Auto ? "/auto" : "/reference");
    benchmark::RegisterBenchmark(full.c_str(), [=](benchmark::State &state) { runStep(state, make, data, backend); })
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  }
}

}  // namespace

void registerSteps() {
  registerNetwork("mlp-8x512", makeMlp, {64, 512});
  registerNetwork("lenet", makeLenet, {64, 1, 28, 28});
  if (std::getenv("GRADC_BENCH_MODEL")) registerNetwork("model", readModel, modelShape());
}

}  // namespace gradc::bench
