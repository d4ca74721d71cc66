// The benchmarks of bench/imperative.cc in libtorch. bench/tape.py builds this program against a wheel of PyTorch and
// runs the two in turns. Prints one line per measure: its name, a tab, seconds per call or bytes.
#include <torch/torch.h>

#include <cstdio>
#include <ctime>
#include <malloc.h>
#include <vector>

namespace {

constexpr int kCalls = 200, kRounds = 200;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
size_t heapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

struct Chain {
  torch::Tensor x = torch::full({8}, 0.5f, torch::requires_grad());

  torch::Tensor run(int numCalls) const {
    torch::Tensor y = x;
    for (int i = 0; i < numCalls; ++i) y = i % 3 == 2 ? y.tanh() : i % 3 == 0 ? y * x : y + x;
    return y;
  }
};

/// Seconds per call of `measure`, which is given what `prepare` returns; only `measure` is timed.
template <class Prepare, class Measure> double timeOf(Prepare prepare, Measure measure) {
  double seconds = 0, calls = 0;
  for (int i = -20; i < kRounds; ++i) {
    auto given = prepare();
    const double start = now();
    const int numCalls = measure(given);
    if (i < 0) continue;
    seconds += now() - start;
    calls += numCalls;
  }
  return seconds / calls;
}

void print(const char *name, double value) { std::printf("%s\t%.9g\n", name, value); }

struct Network {
  torch::Tensor x = torch::full({1, 64}, 0.5f);
  std::vector<torch::Tensor> weights, biases;

  Network() {
    for (int layer = 0; layer < 8; ++layer) {
      weights.push_back(torch::full({64, 64}, 0.01f, torch::requires_grad()));
      biases.push_back(torch::full({64}, 0.1f, torch::requires_grad()));
    }
  }
  torch::Tensor loss() const {
    torch::Tensor y = x;
    for (int layer = 0; layer < 8; ++layer) y = torch::relu(torch::linear(y, weights[layer], biases[layer]));
    return y.sum();
  }
  void update() {
    torch::NoGradGuard quiet;
    for (std::vector<torch::Tensor> *list : {&weights, &biases})
      for (torch::Tensor &parameter : *list) {
        parameter.add_(parameter.grad(), -1e-6);
        parameter.mutable_grad() = torch::Tensor();
      }
  }
};

/// Peak growth of the heap, sampled whenever `step` calls its argument.
template <class Step> double peakOf(Step step) {
  const size_t before = heapBytes();
  size_t peak = before;
  step([&] { peak = std::max(peak, heapBytes()); });
  return static_cast<double>(peak - before);
}

}  // namespace

int main() {
  torch::set_num_threads(1);
  {
    Chain warm;
    warm.run(kCalls).sum().backward();
  }
  print("peak memory, chain", peakOf([](auto look) {
          Chain chain;
          for (int i = 0; i < 10; ++i) {
            torch::Tensor y = chain.run(kCalls);
            look();
            y.backward(torch::ones({8}));
            look();
          }
        }));
  print("peak memory, network", peakOf([](auto look) {
          Network network;
          for (int i = 0; i < 10; ++i) {
            torch::Tensor loss = network.loss();
            look();
            loss.backward();
            look();
            network.update();
          }
        }));
  Chain chain;
  const torch::Tensor head = torch::ones({8});
  auto nothing = [] { return 0; };
  auto recorded = [&] { return chain.run(kCalls); };
  auto backward = [&](torch::Tensor &y) { return y.backward(head), kCalls; };
  print("recorded call", timeOf(nothing, [&](int) { return chain.run(kCalls), kCalls; }));
  print("backward, structure seen before", timeOf(recorded, backward));
  print("backward, new structure", timeOf(recorded, backward));
  print("backward with createGraph", timeOf(
                                         [&] {
                                           chain.x.mutable_grad() = torch::Tensor();
                                           return chain.run(kCalls);
                                         },
                                         [&](torch::Tensor &y) { return y.backward(head, true, true), kCalls; }));
  Network network;
  print("step of 8 dense layers of 64", timeOf(nothing, [&](int) {
          network.loss().backward();
          network.update();
          return 1;
        }));
}
