// Operators of a host that keep an object from a call to its gradient (KernelCall::state).
#include "imperative/imperative.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "tests/support/runs/imperative.h"

using namespace llvm;

namespace gradc {
namespace {

using testing::doublesOf;
using testing::scalar;
using testing::Tape;

struct Factor {
  explicit Factor(double value) : value(value) { ++numAlive; }
  ~Factor() { --numAlive; }
  double value;
  inline static int numAlive = 0;
};

void multiply(const KernelCall &call) {
  const double factor = call.state ? static_cast<Factor *>(call.state)->value : 1;
  for (int64_t i = 0; i < call.out[0].size(); ++i)
    call.out[0].as<double>()[i] = factor * call.in[0].as<const double>()[i];
}

extern const OpDef kBackward;
void scaleGradient(GradRule &g) { g.dx(0, g.emit(kBackward, {g.dy(0)})); }
constinit const OpDef kBackward = {.name = "_backward_host_scaled",
                                   .inputs = {"dy"},
                                   .shape = shapes::same,
                                   .gradient = scaleGradient,
                                   .kernel = multiply};
constinit const OpDef kScaled = {
    .name = "host_scaled", .inputs = {"x"}, .shape = shapes::same, .gradient = scaleGradient, .kernel = multiply};

class ImperativeState : public ::testing::Test {
 protected:
  ImperativeState() {
    cantFail(t.context.ops.add(kScaled));
    cantFail(t.context.ops.add(kBackward));
    scaled = cantFail(t.im.kind("host_scaled", {}));
  }
  Tensor call(double factor, const Tensor &x) {
    return cantFail(t.im.callWith(std::make_shared<Factor>(factor), scaled, {x}))[0];
  }

  Tape t;
  Kind scaled;
};

TEST_F(ImperativeState, RET_08_GradientsFindTheObjectOfTheirCall) {
  Tensor x = t.leaf(2);
  // The second step has other objects, and finds the compiled backward of the first.
  for (double factor : {3., 7.}) {
    Tensor y = t.mul(call(factor, x), call(factor + 1, x));
    EXPECT_EQ(scalar(y), 4 * factor * (factor + 1));
    EXPECT_EQ(scalar(t.grad({y}, {x})[0]), 4 * factor * (factor + 1));
  }
  EXPECT_EQ(t.im.cacheStats().misses, 1u);
  EXPECT_EQ(Factor::numAlive, 0);
  // One without an object, of the same signature.
  Tensor plain = t.mul(cantFail(t.im.call(scaled, {x})), call(5, x));
  EXPECT_EQ(scalar(plain), 20);
  EXPECT_EQ(scalar(t.grad({plain}, {x})[0]), 20);
  EXPECT_EQ(t.im.cacheStats().misses, 1u);
}

TEST_F(ImperativeState, RET_08_GradientsOfGradientsToo) {
  Tensor x = t.leaf(2);
  {
    Tensor y = t("square", {call(3, x)});
    Tensor first = t.grad({y}, {x}, {.createGraph = true})[0];
    EXPECT_EQ(scalar(first), 36);
    EXPECT_EQ(scalar(t.grad({first}, {x})[0]), 18);
  }
  EXPECT_EQ(Factor::numAlive, 0);
}

TEST_F(ImperativeState, RET_08_TheHistoryKeepsIt) {
  Tensor x = t.leaf(2), y = call(3, x);
  EXPECT_EQ(Factor::numAlive, 1);
  t.grad({y}, {x}, {.retain = true});
  EXPECT_EQ(Factor::numAlive, 1);
  t.grad({y}, {x});
  EXPECT_EQ(Factor::numAlive, 0);
  NoGradScope quiet(t.im);
  EXPECT_EQ(scalar(call(3, x)), 6);
  EXPECT_EQ(Factor::numAlive, 0) << "nothing was recorded";
}

TEST_F(ImperativeState, RET_08_AFailedCallLetsItGo) {
  Tensor x = t.leaf(2);
  EXPECT_EQ(t.rowOf(t.im.callWith(std::make_shared<Factor>(1), scaled, {x, x})), "E-42");
  EXPECT_EQ(Factor::numAlive, 0);
}

}  // namespace
}  // namespace gradc
