// Processes that live long: training steps, calls with other numbers and shapes each time. The heap stays what it was.
// GRADC_TAPE_STEPS and GRADC_TAPE_CALLS say how many.
#include "imperative/imperative.h"
#include "tests/support/runs/imperative.h"

#include <cstdlib>
#include <malloc.h>

using namespace llvm;

namespace gradc {
namespace {

using testing::Tape;

size_t numberFrom(const char *variable, size_t otherwise) {
  const char *text = std::getenv(variable);
  return text && *text ? static_cast<size_t>(std::strtoull(text, nullptr, 10)) : otherwise;
}

size_t heapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

/// Runs `step` so often; what the heap has at the end is what it had after a tenth, but for a few lists of malloc's.
template <class Step> void expectFlat(size_t count, Step step) {
  size_t early = 0;
  for (size_t i = 0; i < count; ++i) {
    step(i);
    if (i == count / 10) early = heapBytes();
  }
  EXPECT_LE(heapBytes(), early + (16 << 10)) << "after " << count << ", first " << early;
}

TEST(ImperativeLong, TrainingSteps) {
  for (Backend backend : {Backend::Reference, Backend::Auto}) {
    ImperativeOptions options;
    options.backend = backend;
    Tape t(options);
    const Kind dense = cantFail(t.im.kind("FullyConnected", {{"num_hidden", "4"}})),
               relu = cantFail(t.im.kind("relu", {})), drop = cantFail(t.im.kind("Dropout", {{"p", "0.1"}})),
               square = cantFail(t.im.kind("square", {})), sum = cantFail(t.im.kind("sum", {})),
               sgd = cantFail(t.im.kind("_scheduled_sgd_update", {}));
    Tensor x = t.im.full({2, 4}, 0.5f), rate = t.im.full({1}, 1e-4f);
    std::vector<Tensor> parameters;
    for (int layer = 0; layer < 2; ++layer) {
      parameters.push_back(t.im.full({4, 4}, 0.25f));
      parameters.push_back(t.im.full({4}, 0.1f));
    }
    for (const Tensor &parameter : parameters) t.im.attachGrad(parameter, Request::Write);
    expectFlat(numberFrom("GRADC_TAPE_STEPS", 100000), [&](size_t i) {
      Tensor loss;
      {
        RecordScope record(t.im);
        Tensor y = x;
        for (size_t layer = 0; layer < parameters.size(); layer += 2) {
          y = cantFail(t.im.call(dense, {y, parameters[layer], parameters[layer + 1]}));
          y = cantFail(t.im.call(drop, {cantFail(t.im.call(relu, {y}))}));
        }
        loss = cantFail(t.im.call(sum, {cantFail(t.im.call(square, {y}))}));
        // Every tenth step has a penalty on its gradients.
        if (i % 10 == 0) {
          const std::vector<Tensor> gradients = cantFail(t.im.grad({loss}, {parameters[0]}, {.createGraph = true}));
          loss = cantFail(t.im.call(sum, {cantFail(t.im.call(square, {gradients[0]}))}));
        }
      }
      cantFail(t.im.backward({loss}, {}));
      NoGradScope quiet(t.im);
      for (const Tensor &parameter : parameters)
        if (parameter.grad()) cantFail(t.im.callInto(sgd, {parameter, parameter.grad(), rate}, {parameter}));
    });
    EXPECT_EQ(t.im.cacheStats().misses, 3u);
  }
}

TEST(ImperativeLong, CallsWithOtherNumbersAndShapes) {
  constexpr size_t kShapes = 1000;
  Tape t;
  const Kind mul = cantFail(t.im.kind("broadcast_mul", {})), add = cantFail(t.im.kind("broadcast_add", {}));
  std::vector<Tensor> leaves;
  for (size_t i = 0; i < kShapes; ++i) {
    leaves.push_back(t.im.full({static_cast<int64_t>(i) + 1}, 0.5f));
    cantFail(t.im.requireGrad(leaves.back()));
  }
  const size_t numCalls = std::max(numberFrom("GRADC_TAPE_CALLS", 1000000), 20 * kShapes);
  expectFlat(numCalls / 2, [&](size_t i) {
    const Tensor &x = leaves[i % kShapes];
    Tensor number = t.im.full({1}, static_cast<float>(i));
    Tensor y = cantFail(t.im.call(add, {cantFail(t.im.call(mul, {x, number})), number}));
    if (i % 3 == 0) cantFail(t.im.backward({y}, {}));
  });
  EXPECT_EQ(t.im.cacheStats().misses, kShapes);
  EXPECT_EQ(t.im.memoryStats().numSignatures, 2 * kShapes);
}

}  // namespace
}  // namespace gradc
