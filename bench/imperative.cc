// The tape: the cost of a recorded call and of a backward pass, on 200 operators over 8 elements and on a small
// network.
#include "imperative/imperative.h"
#include "ops/registry.h"

#include <benchmark/benchmark.h>

#include <malloc.h>

using namespace llvm;

namespace gradc {
namespace {

constexpr int kCalls = 200;

/// Three operators in turn; for the gradient, one keeps its output and another both factors.
class Chain {
 public:
  Chain() : im((registerBuiltinOps(context.ops), context), ImperativeOptions()) {
    x = im.tensor({8}, std::vector<float>(8, 0.5f));
    cantFail(im.requireGrad(x));
    mul = cantFail(im.kind("elemwise_mul", {}));
    add = cantFail(im.kind("elemwise_add", {}));
    tanh = cantFail(im.kind("tanh", {}));
  }

  Tensor run(int numCalls) {
    Tensor y = x;
    for (int i = 0; i < numCalls; ++i)
      y = cantFail(i % 3 == 2 ? im.call(tanh, {y}) : im.call(i % 3 == 0 ? mul : add, {y, x}));
    return y;
  }

  Context context;
  Imperative im;
  Tensor x;
  Kind mul, add, tanh;
};

void perCall(benchmark::State &state) {
  state.counters["per call"] =
      benchmark::Counter(kCalls, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void plainCall(benchmark::State &state) {
  Chain chain;
  NoGradScope quiet(chain.im);
  for (auto _ : state) benchmark::DoNotOptimize(chain.run(kCalls));
  perCall(state);
}
BENCHMARK(plainCall)->Name("imperative/call");

void recordedCall(benchmark::State &state) {
  Chain chain;
  for (auto _ : state) benchmark::DoNotOptimize(chain.run(kCalls));
  perCall(state);
}
BENCHMARK(recordedCall)->Name("imperative/recorded call");

void backward(benchmark::State &state) {
  Chain chain;
  for (auto _ : state) {
    state.PauseTiming();
    Tensor y = chain.run(kCalls);
    state.ResumeTiming();
    cantFail(chain.im.backward({y}, BackwardOptions()));
  }
  perCall(state);
}
BENCHMARK(backward)->Name("imperative/backward, structure seen before");

void backwardOfNewStructure(benchmark::State &state) {
  Chain chain;
  int numCalls = kCalls;
  for (auto _ : state) {
    state.PauseTiming();
    Tensor y = chain.run(++numCalls);
    state.ResumeTiming();
    cantFail(chain.im.backward({y}, BackwardOptions()));
  }
  state.counters["per call"] = benchmark::Counter(
      (kCalls + numCalls) / 2.0, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(backwardOfNewStructure)->Name("imperative/backward, new structure")->Iterations(50);

void backwardWithGraph(benchmark::State &state) {
  Chain chain;
  for (auto _ : state) {
    state.PauseTiming();
    Tensor y = chain.run(kCalls);
    cantFail(chain.im.setGrad(chain.x, Tensor()));
    state.ResumeTiming();
    cantFail(chain.im.backward({y}, {.createGraph = true}));
  }
  perCall(state);
}
BENCHMARK(backwardWithGraph)->Name("imperative/backward with createGraph");

class Network {
 public:
  Network() : im((registerBuiltinOps(context.ops), context), ImperativeOptions()) {
    for (int layer = 0; layer < 8; ++layer) {
      weights.push_back(im.full({64, 64}, 0.01f));
      biases.push_back(im.full({64}, 0.1f));
      cantFail(im.requireGrad(weights.back()));
      cantFail(im.requireGrad(biases.back()));
    }
  }

  Tensor loss() {
    RecordScope record(im);
    Tensor y = x;
    for (int layer = 0; layer < 8; ++layer)
      y = cantFail(im.call(relu, {cantFail(im.call(dense, {y, weights[layer], biases[layer]}))}));
    return cantFail(im.call(sum, {y}));
  }
  void update() {
    NoGradScope quiet(im);
    for (const std::vector<Tensor> *list : {&weights, &biases})
      for (const Tensor &parameter : *list) {
        cantFail(im.callInto(sgd, {parameter, parameter.grad(), rate}, {parameter}));
        cantFail(im.setGrad(parameter, Tensor()));  // as bench/torch/tape.cc does
      }
  }

  Context context;
  Imperative im;

 private:
  const Kind dense = cantFail(im.kind("FullyConnected", {{"num_hidden", "64"}})), relu = cantFail(im.kind("relu", {})),
             sum = cantFail(im.kind("sum", {})), sgd = cantFail(im.kind("_scheduled_sgd_update", {}));
  const Tensor x = im.full({1, 64}, 0.5f), rate = im.full({1}, 1e-6f);
  std::vector<Tensor> weights, biases;
};

void networkStep(benchmark::State &state) {
  Network network;
  for (auto _ : state) {
    cantFail(network.im.backward({network.loss()}, BackwardOptions()));
    network.update();
  }
}
BENCHMARK(networkStep)->Name("imperative/step of 8 dense layers of 64");

/// Peak growth of the heap, sampled after the forward and after the backward pass of ten steps. The Context is not
/// counted.
template <class Subject, class Step> void peakMemory(benchmark::State &state, Step step) {
  auto heapBytes = [] {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  for (auto _ : state) {
    auto subject = std::make_unique<Subject>();
    const size_t before = heapBytes() - subject->im.memoryStats().totalBytes();
    size_t peak = before;
    for (int i = 0; i < 10; ++i) step(*subject, [&] { peak = std::max(peak, heapBytes()); });
    state.counters["bytes"] = static_cast<double>(peak - before);
  }
}

void peakOfChain(benchmark::State &state) {
  peakMemory<Chain>(state, [](Chain &chain, auto look) {
    Tensor y = chain.run(kCalls);
    look();
    cantFail(chain.im.backward({y}, BackwardOptions()));
    look();
  });
}
BENCHMARK(peakOfChain)->Name("imperative/peak memory, chain")->Iterations(1);

void peakOfNetwork(benchmark::State &state) {
  peakMemory<Network>(state, [](Network &network, auto look) {
    Tensor loss = network.loss();
    look();
    cantFail(network.im.backward({loss}, BackwardOptions()));
    look();
    network.update();
  });
}
BENCHMARK(peakOfNetwork)->Name("imperative/peak memory, network")->Iterations(1);

}  // namespace
}  // namespace gradc
