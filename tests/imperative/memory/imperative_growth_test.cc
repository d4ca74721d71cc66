// Numbers and shapes that come once and never again: what an Imperative knows of them goes with them.
// GRADC_TAPE_NUMBERS says how many.
#include "tests/support/runs/imperative.h"

#include <cstdio>
#include <cstdlib>

using namespace llvm;

namespace gradc::testing {
namespace {

int numberOfSteps() {
  const char *const text = std::getenv("GRADC_TAPE_NUMBERS");
  return text && *text ? std::atoi(text) : 200000;
}

/// Bytes of the process in memory.
size_t residentBytes() {
  long all = 0, resident = 0;
  if (FILE *const file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld", &all, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return static_cast<size_t>(resident) * 4096;
}

/// Runs `step` for as many numbers; what is used at the end is to be little more than after the first ones.
template <class Step> void expectBounded(Imperative &im, Step step) {
  size_t bytes = 0, resident = 0, signatures = 0;
  const int number = numberOfSteps();
  for (int i = 0; i < number; ++i) {
    step(i);
    if (i != number / 4) continue;
    bytes = im.memoryStats().signatureBytes;
    signatures = im.memoryStats().numSignatures;
    resident = residentBytes();
  }
  const MemoryStats stats = im.memoryStats();
  EXPECT_LE(stats.signatureBytes, bytes + bytes / 2);
  EXPECT_LE(stats.numSignatures, signatures + signatures / 2);
  EXPECT_LE(residentBytes(), resident + (size_t{24} << 20));
}

ImperativeOptions smallCaches() {
  ImperativeOptions options = Tape::referenceOptions();
  options.planBytes = size_t{1} << 20;
  return options;
}

TEST(ImperativeGrowth, A_18_NumbersInAttributes) {
  Tape t(smallCaches());
  const Tensor x = t.leaf({8}, Doubles(8, 1));
  const Kind first = cantFail(t.im.kind("_mul_scalar", {{"scalar", "3"}}));
  expectBounded(t.im, [&](int i) {
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", 1 + i * 1e-6);
    const Tensor y = t.times(x, text);
    if (i % 16 == 0) t.backward({y});
  });
  // A handle keeps its kind.
  EXPECT_EQ(doublesOf(cantFail(t.im.call(first, {x}))), Doubles(8, 3));
}

TEST(ImperativeGrowth, A_18_Shapes) {
  Tape t(smallCaches());
  const Kind square = cantFail(t.im.kind("square", {}));
  const Tensor kept = t.leaf({1, 2, 3}, Doubles(6, 2)), y = cantFail(t.im.call(square, {kept}));
  expectBounded(t.im, [&](int i) {
    const int64_t dims[] = {1 + i % 8, 1 + i / 8 % 16, 1 + i / 128 % 4, 1 + i / 512};
    const Tensor x =
        t.im.full({1, dims[0], 1, dims[1] % 2 + 1, 1, dims[2], 1 + dims[3] % 20, 0, dims[3], dims[1]}, 1.0);
    cantFail(t.im.call(square, {x}));
  });
  // What holds a shape keeps it.
  EXPECT_EQ(kept.shape(), Dims({1, 2, 3}));
  t.backward({y});
  EXPECT_EQ(t.gradOf(kept), Doubles(6, 4));
}

// Tensors, calls and handles outlive what the table dropped meanwhile, and their Imperative.
TEST(ImperativeGrowth, WhatIsHeldOutlivesItsImperative) {
  Tensor tensor;
  Kind kind;
  {
    Tape t(smallCaches());
    const Tensor x = t.leaf({3}, {1, 2, 3});
    kind = cantFail(t.im.kind("_plus_scalar", {{"scalar", "0.125"}}));
    tensor = cantFail(t.im.call(kind, {x}));
    for (int i = 0; i < 5000; ++i) t.times(t.im.full({i % 70 + 1, i / 70 + 1}, 1.0), std::to_string(i));
    t.backward({tensor}, {.retain = true});
    EXPECT_EQ(t.gradOf(x), (Doubles{1, 1, 1}));
  }
  EXPECT_EQ(doublesOf(tensor), (Doubles{1.125, 2.125, 3.125}));
  EXPECT_EQ(tensor.shape(), Dims({3}));
}

}  // namespace
}  // namespace gradc::testing
