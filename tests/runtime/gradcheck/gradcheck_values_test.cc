// gradcheck at values that are not just numbers: whole numbers that select elements, roots, runs that prove nothing.
#include "runtime/gradcheck/gradcheck.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc::testing {
namespace {

GradcheckReport checkOf(StringRef text, GradcheckOptions options = {}, std::vector<NamedArray> bindings = {}) {
  options.session.initSeed = 1;
  const Graph graph = cantFail(parseGraph(testContext(), text));
  Expected<GradcheckReport> report = gradcheck(testContext(), graph, std::move(bindings), options);
  if (report) return std::move(*report);
  ADD_FAILURE() << describeError(report.takeError());
  return {};
}

void expectPass(StringRef text, uint32_t heldInputs, GradcheckOptions options = {}) {
  const GradcheckReport report = checkOf(text, options);
  EXPECT_TRUE(report.passed()) << text.str();
  EXPECT_EQ(report.held.inputs, heldInputs) << text.str();
  for (const GradcheckRow &row : report.rows)
    EXPECT_EQ(row.failures, 0u) << text.str() << ": " << row.variable << ": " << row.worstError;
}

// A step of 1e-5 takes a whole number to the one below, as far as truncation is concerned.
TEST(GradcheckValues, RUN_03_WholeNumbersThatSelectElementsStay) {
  expectPass("x = var {__shape__=(4,3)}; i = var {__shape__=(4,)}; y = pick(x, i)", 1);
  expectPass("x = var {__shape__=(4,3)}; i = var {__shape__=(4,)}; l = log_softmax(x); y = pick(l, i)", 1);
  expectPass("x = var {__shape__=(4,3)}; i = var {__shape__=(4,)}; y = batch_take(x, i)", 1);
  expectPass("x = var {__shape__=(4,3)}; i = var {__shape__=(2,5)}; y = gather_nd(x, i)", 1);
  expectPass("x = var {__shape__=(1,)}; i = var {__shape__=(2,1)}; y = scatter_nd(x, i) {shape=(4,3)}", 1);
  expectPass("x = var {__shape__=(4,3)}; v = var {__shape__=(1,)}; i = var {__shape__=(2,1)};"
             "y = _scatter_set_nd(x, v, i) {shape=(4,3)}",
             1);
  GradcheckOptions second;
  second.order = 2;
  expectPass("x = var {__shape__=(4,3)}; i = var {__shape__=(4,)}; l = log_softmax(x); y = pick(l, i)", 2, second);
}

// Of a variable that is also read as a number, the gradient is that of the number.
TEST(GradcheckValues, RUN_03_AWholeNumberMayBeReadAsANumberToo) {
  expectPass("x = var {__shape__=(4,3)}; i = var {__shape__=(4,)}; p = pick(x, i); y = elemwise_mul(p, i)", 1);
}

// sqrt and its kin, spelled as a power; a whole exponent takes numbers of both signs.
TEST(GradcheckValues, RUN_04_BasesOfFractionalPowersArePositive) {
  expectPass("x = var {__shape__=(9,)}; y = _power_scalar(x) {scalar=0.5}", 0);
  expectPass("x = var {__shape__=(9,)}; y = _power_scalar(x) {scalar=-1.5}", 0);
  expectPass("x = var {__shape__=(9,)}; y = _power_scalar(x) {scalar=3}", 0);
}

TEST(GradcheckValues, RUN_03_TheFirstNodeThatIsNotFiniteIsNamed) {
  const auto minus = [] { return std::vector<NamedArray>{{"x", doubles({2}, {0.5, -1})}}; };
  const GradcheckReport report = checkOf(
      "x = var {__shape__=(2,)}; a = exp(x); r = _power_scalar(x) {scalar=0.5}; y = elemwise_mul(a, r)", {}, minus());
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(report.notFinite, "node 'r' (_power_scalar) is nan at the base point");
  const GradcheckReport root = checkOf("x = var {__shape__=(2,)}; y = sqrt(x)", {}, {{"x", doubles({2}, {0.5, 0})}});
  EXPECT_FALSE(root.passed());
  EXPECT_EQ(root.notFinite, "the function is not finite near the base point, though it is there");
  // Infinite values on the way are nobody's business if gradient and differences are finite.
  const GradcheckReport hidden =
      checkOf("x = var {__shape__=(2,)}; a = exp(x); z = zeros_like(x); i = log(z); c = _greater_scalar(a) {scalar=0};"
              "y = where(c, a, i)");
  EXPECT_TRUE(hidden.passed());
  EXPECT_EQ(hidden.notFinite, "");
}

// Zeros that the graph implies prove nothing about the other variables.
TEST(GradcheckValues, RUN_03_VacuousBesideStructuralZeros) {
  GradcheckOptions options;
  options.gradientOptions.unused = UnusedPolicy::None;
  const GradcheckReport report =
      checkOf("x = var {__shape__=(4,)}; h = _mul_scalar(x) {scalar=1e-30}; y = tanh(h); u = var {__shape__=(2,)};"
              "b = BlockGrad(u); heads y, b",
              options);
  EXPECT_TRUE(report.rows[2].isStructuralZero);
  EXPECT_TRUE(report.rows[1].isVacuous);
  EXPECT_FALSE(report.passed());
}

TEST(GradcheckValues, NG_01_MarkedNodesAreHeld) {
  const GradcheckReport report =
      checkOf("x = var {__shape__=(3,)}; a = exp(x) {__stop_gradient__=True}; y = elemwise_mul(a, x)");
  EXPECT_TRUE(report.passed());
  EXPECT_EQ(report.held.outputs, 1u);
}

// A length of 0 leaves the states as they were given.
TEST(GradcheckValues, RUN_04_LengthsOfRecurrentLayers) {
  for (StringRef mode : {"lstm", "gru", "rnn_relu"}) {
    const bool isLstm = mode == "lstm";
    const int64_t gates = isLstm ? 4 : mode == "gru" ? 3 : 1;
    const std::string text = ("x = var {__shape__=(4,3,2)}; p = var {__shape__=(" + Twine(gates * 2 * (2 + 2 + 2)) +
                              ",)}; s = var {__shape__=(1,3,2)};" + (isLstm ? " c = var {__shape__=(1,3,2)};" : "") +
                              " n = var {__shape__=(3,)}; y = RNN(x, p, s, " + (isLstm ? "c, n" : "n") +
                              ") {state_size=2, num_layers=1, mode=" + mode + ", use_sequence_length=True}")
                                 .str();
    GradcheckOptions options;
    options.session.infer.floatAs = DType::Float64;
    const GradcheckReport report = checkOf(text, options);
    EXPECT_TRUE(report.passed()) << mode.str();
    for (const GradcheckRow &row : report.rows)
      EXPECT_TRUE(row.variable == "n" || row.largestGradient > 1e-3) << mode.str() << ": " << row.variable;
  }
}

// Every element that has the extremum gets the whole gradient: the piece is the one on which that is the derivative.
TEST(GradcheckValues, RUN_03_TiesOfExtremaAreHeld) {
  const auto tied = [] { return std::vector<NamedArray>{{"x", doubles({2, 3}, {1, 2, 2, 3, 3, 3})}}; };
  for (StringRef y : {"max(x)", "max(x) {axis=1}", "min(x) {axis=0}", "min(x) {axis=1, keepdims=True}"})
    for (uint32_t order : {1u, 2u}) {
      GradcheckOptions options;
      options.order = order;
      const GradcheckReport report =
          checkOf(("x = var {__shape__=(2,3)}; m = " + y + "; y = exp(m)").str(), options, tied());
      EXPECT_TRUE(report.passed()) << y.str() << " of order " << order;
      EXPECT_GT(report.rows[1].largestGradient, 1e-3) << y.str();
    }
}

// A norm of zeros has the gradient 0.
TEST(GradcheckValues, RUN_03_ANormOfZerosIsHeld) {
  for (StringRef attrs : {"axis=1", "axis=1, ord=1"})
    for (uint32_t order : {1u, 2u}) {
      GradcheckOptions options;
      options.order = order;
      for (StringRef y : {"square(n)", "_copy(n)"}) {
        const GradcheckReport report =
            checkOf(("x = var {__shape__=(2,3)}; n = norm(x) {" + attrs + "}; y = " + y).str(), options,
                    {{"x", doubles({2, 3}, {0, 0, 0, 1, 2, 2})}});
        EXPECT_TRUE(report.passed()) << attrs.str() << ", " << y.str() << " of order " << order;
      }
    }
}

}  // namespace
}  // namespace gradc::testing
