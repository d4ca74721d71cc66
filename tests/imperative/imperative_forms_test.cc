// Calls of both forms in one backward.
#include "imperative/imperative.h"

#include "tests/support/runs/imperative.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using testing::Tape;
using Floats = std::vector<float>;

// Both backends, fast kernels among them, which are made for one form.
TEST(ImperativeForms, RET_08_EachGradientHasTheFormOfItsCall) {
  Floats values, weights;
  for (int i = 0; i < 256; ++i) {
    values.push_back(static_cast<float>(i * 37 % 101) / 50);
    weights.push_back(static_cast<float>(i * 29 % 53) / 50);
  }
  for (Backend backend : {Backend::Auto, Backend::Reference}) {
    ImperativeOptions options;
    options.backend = backend;
    Tape t(options);
    const int64_t dims[] = {4, 4, 4, 4};
    Tensor weight = t.im.tensor(dims, weights);
    auto gradient = [&](bool withTrained, bool withPredicted) {
      Tensor x = t.im.tensor(dims, values);
      cantFail(t.im.requireGrad(x));
      std::vector<Tensor> terms;
      for (bool isTraining : {true, false}) {
        if (!(isTraining ? withTrained : withPredicted)) continue;
        const Floats zero(4, 0.f), one(4, 1.f);
        TrainScope train(t.im);
        std::optional<PredictScope> predict;
        if (!isTraining) predict.emplace(t.im);
        Tensor y = t("BatchNorm",
                     {x, t.im.tensor({4}, one), t.im.tensor({4}, zero), t.im.tensor({4}, zero), t.im.tensor({4}, one)});
        terms.push_back(t.sum(t.mul(y, weight)));
      }
      t.backward(terms);
      return Floats(x.grad().values<float>());
    };
    const Floats trained = gradient(true, false), predicted = gradient(false, true), both = gradient(true, true);
    double apart = 0;
    for (size_t i = 0; i < both.size(); ++i) {
      EXPECT_NEAR(both[i], trained[i] + predicted[i], 1e-5) << i;
      apart = std::max(apart, std::abs(static_cast<double>(trained[i]) - predicted[i]));
    }
    EXPECT_GT(apart, 0.1);
  }
}

}  // namespace
}  // namespace gradc
