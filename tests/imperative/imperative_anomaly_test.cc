// Watching gradients for NaN, and what messages say about calls.
#include "imperative/imperative.h"
#include "tests/support/runs/imperative.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using testing::scalar;
using testing::Tape;

/// 0 · inf on the way back: √x at 0, times 0.
struct Broken : Tape {
  Tensor x = leaf(0);
  Kind sqrt = cantFail(im.kind("sqrt", {})), mul = cantFail(im.kind("elemwise_mul", {}));
  uint32_t line = 0;

  Tensor loss() {
    line = __LINE__ + 1;
    Tensor root = cantFail(im.call(sqrt, {x}));
    return cantFail(im.call(mul, {root, root}));
  }
  std::string site() const { return (Twine(__FILE__) + ":" + Twine(line)).str(); }
};

TEST(ImperativeAnomaly, TA_82_HOOK_09_NamesTheNodeTheOutputAndTheCall) {
  for (bool createGraph : {false, true}) {
    Broken t;
    Tensor y = t.loss();
    AnomalyScope anomaly(t.im);
    const GradcError error = errorOf(t.im.backward({y}, {.createGraph = createGraph}));
    EXPECT_EQ(error.kind, ErrorKind::NotANumber);
    EXPECT_NE(error.message.find("output 0 of '"), std::string::npos) << error.message;
    EXPECT_NE(error.message.find("call 1 of operator 'sqrt' at " + t.site()), std::string::npos) << error.message;
    EXPECT_FALSE(t.x.grad());
  }
}

TEST(ImperativeAnomaly, TA_82_AtTheSecondOrderTheForwardCallToo) {
  Tape t;
  Tensor x = t.leaf(0);
  const Kind power = cantFail(t.im.kind("_power_scalar", {{"scalar", "1.5"}}));
  const uint32_t line = __LINE__ + 1;
  Tensor y = cantFail(t.im.call(power, {x}));
  GradOptions options;
  options.createGraph = true;
  Tensor dx = t.grad({y}, {x}, options)[0];
  EXPECT_EQ(scalar(dx), 0);
  // d²y = ¾ / √x is inf at 0, and 0 · inf is NaN.
  AnomalyScope anomaly(t.im);
  options.createGraph = false;
  const Tensor heads[] = {t.value(0)};
  options.heads = heads;
  const GradcError error = errorOf(t.im.grad({dx}, {x}, options).takeError());
  EXPECT_EQ(error.kind, ErrorKind::NotANumber) << error.message;
  EXPECT_NE(error.message.find(", the gradient of call 1 of operator '_power_scalar' at " +
                               (Twine(__FILE__) + ":" + Twine(line)).str()),
            std::string::npos)
      << error.message;
}

TEST(ImperativeAnomaly, TA_83_WithoutTheCheckNaNComesOut) {
  Broken t;
  Tensor y = t.loss();
  AnomalyScope anomaly(t.im, false);
  t.backward({y});
  EXPECT_TRUE(std::isnan(scalar(t.x.grad())));
}

TEST(ImperativeAnomaly, TheScopeEnds) {
  Broken t;
  {
    AnomalyScope anomaly(t.im);
    RecordScope record(t.im);
    EXPECT_TRUE(modesOf(t.im).checksNaN);
  }
  EXPECT_FALSE(modesOf(t.im).checksNaN);
  t.backward({t.loss()});
}

}  // namespace
}  // namespace gradc
