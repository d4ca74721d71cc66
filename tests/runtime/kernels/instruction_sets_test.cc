// Loops on every instruction set that the machine has: equal bits.
#include "ir/base/instruction_sets.h"

#include "runtime/kernels/matrix/gemm.h"
#include "runtime/kernels/rnn/rnn_cells.h"
#include "tests/support/ops/fast_runs.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;
using Values = gradc::testing::Array;

/// Until its end, loops use no more than that set.
class Limit {
 public:
  explicit Limit(InstructionSet most) : before(limitInstructions(most)) {}
  ~Limit() { limitInstructions(before); }

 private:
  InstructionSet before;
};

constexpr InstructionSet kSets[] = {InstructionSet::Baseline, InstructionSet::Avx2, InstructionSet::Avx512};

// None of oneDNN's, whose sums differ between sets. Sizes leave remainders.
constexpr const char *kGraphs[] = {
    "y = softmax(x) {axis=1}; heads y",
    "y = log_softmax(x); heads y",
    "n = LayerNorm(x, g, b); e = gelu(n); y = sum(e) {axis=1}; heads y",
    "n = BatchNorm(x, g, b, m, v) {fix_gamma=False}; y = Activation(n) {act_type=softrelu}; heads y",
    "e = expm1(x); a = abs(e); l = log1p(a); s = sin(l); c = cos(x); u = elemwise_mul(s, c); y = erf(u); heads y",
    "k = silu(x); z = LeakyReLU(k) {act_type=selu}; q = expm1(z); y = mean(q) {axis=0}; heads y",
    "c = clip(x) {a_min=-0.3, a_max=0.4}; p = _plus_scalar(c) {scalar=3}; r = sqrt(p); y = _rdiv_scalar(r) {scalar=2};"
    " heads y",
    "m = mean(x) {axis=0}; y = broadcast_div(x, m); heads y",
    "y = LeakyReLU(x, g) {act_type=prelu}; heads y",
    "r = Reshape(x) {shape=(-1,)}; y = LeakyReLU(r, g) {act_type=prelu}; heads y",
    "i = Reshape(x) {shape=(1,37,7,149)}; n = InstanceNorm(i, g, b); u = UpSampling(n) {scale=2, sample_type=nearest,"
    " num_args=1}; y = L2Normalization(u) {mode=channel}; heads y",
    "i = Reshape(x) {shape=(1,37,7,149)}; r = _contrib_BilinearResize2D(i) {height=11, width=97};"
    " p = Pad(r) {mode=reflect, pad_width=(0,0,0,0,3,2,1,4)};"
    " y = _contrib_AdaptiveAvgPooling2D(p) {output_size=(5,31)}; heads y",
    "a = max(x) {axis=1}; b = min(x) {axis=1}; y = broadcast_sub(a, b); heads y",
    // reference loops
    "a = abs(x); p = _plus_scalar(a) {scalar=1}; r = rsqrt(p); s = softsign(r); m = smooth_l1(x) {scalar=2};"
    " h = hard_sigmoid(x); w = hard_swish(m); q = elemwise_sub(w, h); l = log1p(p); k = _power_scalar(l) {scalar=3};"
    " y = add_n(s, q, k) {num_args=3}; heads y",
};

// Fast and reference kernels run the same loops here, so that comparing the two would show nothing.
TEST(InstructionSets, RUN_02_EqualBitsOfStepsOnEverySet) {
  for (const char *text :
       {"y = sgd_mom_update(w, g, s) {lr=0.1, momentum=0.9, wd=0.1, clip_gradient=0.3}; t = _copy(s) ^y; heads y, t",
        "y = adam_update(w, g, s, var) {lr=0.1}; t = _copy(s) ^y; u = _copy(var) ^y; heads y, t, u",
        "y = rmspropalex_update(w, g, var, s, d) {lr=0.1, clip_weights=0.5}; t = _copy(d) ^y; heads y, t",
        "y = ftrl_update(w, g, s, var) {lr=0.1, wd=0.01}; t = _copy(s) ^y; heads y, t",
        "y = signum_update(w, g, s) {lr=0.1, momentum=0.9, wd_lh=0.1}; t = _copy(s) ^y; heads y, t"}) {
    SCOPED_TRACE(text);
    TestGraph g(text);
    Bindings bindings = drawBindings(g, {{"w", DimsBuffer{37, 1043}}});
    for (double &square : bindings["var"].values) square += 1;  // more than the square of a mean
    for (DType type : {DType::Float32, DType::Float64}) {
      FastOptions options;
      options.run.floatAs = type;
      std::vector<std::vector<Values>> fast;
      for (InstructionSet set : kSets) {
        Limit limit(set);
        fast.push_back(runFast(g, bindings, options).heads);
      }
      for (size_t s = 1; s < fast.size(); ++s)
        for (size_t h = 0; h < fast[0].size(); ++h)
          EXPECT_EQ(fast[s][h].values, fast[0][h].values) << "head " << h << ", set " << s;
    }
  }
}

TEST(InstructionSets, RUN_02_EqualBitsOnEverySet) {
  for (const char *text : kGraphs) {
    SCOPED_TRACE(text);
    TestContext context;
    const Graph graph = cantFail(parseGraph(context, text));
    Bindings bindings = drawBindings(graph, {{"x", DimsBuffer{37, 1043}}});
    std::vector<std::string> variables;
    for (const auto &[name, values] : bindings)
      if (name == "x" || name == "g" || name == "b") variables.push_back(name);
    FastOptions options;
    options.run.isTraining = true;
    Values head = cantFail(NaiveRun::run(graph, bindings, options.run)).heads()[0];
    for (size_t i = 0; i < head.values.size(); ++i) head.values[i] = drawNumber(1, i);
    bindings["p1_0"] = head;
    const Graph gradient = cantFail(derivativeGraph(context, graph, variables, 1));
    for (DType type : {DType::Float32, DType::Float64}) {
      options.run.floatAs = type;
      std::vector<std::vector<Values>> fast;
      for (InstructionSet set : kSets) {
        Limit limit(set);
        FastResult found = runFast(gradient, bindings, options);
        EXPECT_FALSE(found.operators.empty());
        fast.push_back(std::move(found.heads));
      }
      for (size_t s = 1; s < fast.size(); ++s)
        for (size_t h = 0; h < fast[0].size(); ++h)
          EXPECT_EQ(fast[s][h].values, fast[0][h].values) << "head " << h << ", set " << s;
    }
  }
}

TEST(InstructionSets, RUN_02_SamplesAgreeWithReferenceOnEverySet) {
  size_t numOperators = 0;
  for (InstructionSet set : kSets) {
    Limit limit(set);
    for (const Sample &row : tableSamples()) {
      TestContext context;
      SampleGraph sample(context, row);
      numOperators += compareOrders(context, sample, std::min(1u, row.orders)).operators.size();
    }
  }
  EXPECT_GT(numOperators, 1000u);
}

/// Draws gates and states, runs the loops over cells, and lists all that they wrote.
template <class T> std::vector<T> cellsAfter(RnnMode mode, bool clips, bool slopes) {
  constexpr int64_t kRows = 3, kSize = 37, kStride = 4 * kSize;
  uint64_t next = 0;
  std::vector<std::vector<T>> columns;
  auto drawn = [&](int64_t count) {
    std::vector<T> &column = columns.emplace_back();
    for (int64_t i = 0; i < count; ++i) column.push_back(static_cast<T>(drawNumber(1, next++)));
    return column.data();
  };
  columns.reserve(16);
  CellRules rules{mode, std::nullopt, std::nullopt, false};
  if (clips) rules = {mode, -0.3, 0.4, true};
  if (slopes) {
    fast::CellSlopeRows<T> cells{};
    cells.rows = kRows, cells.size = kSize, cells.stride = kStride;
    cells.gates = drawn(kRows * kStride), cells.shares = drawn(kRows * kStride);
    cells.state = drawn(kRows * kSize), cells.cell = drawn(kRows * kSize);
    cells.hiddenHead = drawn(kRows * kSize), cells.cellHead = drawn(kRows * kSize);
    cells.stateSlope = drawn(kRows * kSize);
    fast::slopeCells(rules, cells);
  } else {
    fast::CellStepRows<T> cells{};
    cells.rows = kRows, cells.size = kSize, cells.stride = kStride;
    cells.gates = drawn(kRows * kStride), cells.shares = drawn(kRows * kStride);
    cells.inputBias = drawn(kStride), cells.stateBias = drawn(kStride);
    cells.state = drawn(kRows * kSize), cells.cell = drawn(kRows * kSize);
    cells.hidden = drawn(kRows * kSize), cells.nextCell = drawn(kRows * kSize);
    fast::stepCells(rules, cells);
  }
  std::vector<T> all;
  for (const std::vector<T> &column : columns) all.insert(all.end(), column.begin(), column.end());
  return all;
}

TEST(InstructionSets, RUN_02_EqualBitsOfCellsOnEverySet) {
  for (RnnMode mode : {RnnMode::Relu, RnnMode::Tanh, RnnMode::Lstm, RnnMode::Gru})
    for (bool clips : {false, mode == RnnMode::Lstm})
      for (bool slopes : {false, true}) {
        std::vector<std::vector<float>> found;
        for (InstructionSet set : kSets) {
          Limit limit(set);
          found.push_back(cellsAfter<float>(mode, clips, slopes));
        }
        EXPECT_EQ(found[1], found[0]) << static_cast<int>(mode) << slopes;
        EXPECT_EQ(found[2], found[0]) << static_cast<int>(mode) << slopes;
      }
}

// x·x - fl(x·x) is 0 where products are rounded before they are added, and not where they are fused.
TEST(InstructionSets, ProductsOfDoublesUseTheLimit) {
  constexpr int64_t kSize = 16;
  const double x = 1 + 0x1p-30;
  std::vector<double> a, b;
  for (int64_t i = 0; i < kSize; ++i) a.insert(a.end(), {1, x});
  b.assign(kSize, -(x * x));
  b.insert(b.end(), kSize, x);
  auto product = [&] {
    std::vector<double> c(kSize * kSize);
    multiply(Gemm<double>{.transA = false,
                          .transB = false,
                          .m = kSize,
                          .n = kSize,
                          .k = 2,
                          .a = a.data(),
                          .b = b.data(),
                          .lda = 2,
                          .ldb = kSize,
                          .beta = 0,
                          .c = c.data(),
                          .ldc = kSize});
    return c[kSize + 1];
  };
  {
    Limit limit(InstructionSet::Baseline);
    EXPECT_EQ(product(), 0);
  }
#if defined(__x86_64__)
  if (instructionSet() >= InstructionSet::Avx2) {
    EXPECT_NE(product(), 0);
  }
#endif
}

TEST(InstructionSets, TheBestOfTheMachineUpToTheLimit) {
  const InstructionSet best = instructionSet();
#if defined(__x86_64__)
  const bool hasFmaAndF16c = __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  EXPECT_EQ(best >= InstructionSet::Avx2, __builtin_cpu_supports("avx2") && hasFmaAndF16c);
#endif
  {
    Limit limit(InstructionSet::Baseline);
    EXPECT_EQ(instructionSet(), InstructionSet::Baseline);
  }
  EXPECT_EQ(instructionSet(), best);
}

}  // namespace
}  // namespace gradc
