// Where hooks run among the instructions of a backward, and what they write there.
#include "imperative/imperative.h"
#include "tests/support/runs/imperative.h"

using namespace llvm;

namespace gradc {
namespace {

using testing::Doubles;
using testing::doublesOf;
using testing::Tape;

// The hook of a gradient without elements runs between instructions. Wherever that is, no instruction is left out, and
// the hook of another gradient is in time for what reads that gradient.
TEST(ImperativeTapOrder, HOOK_02_AmongGradientsWithoutElements) {
  for (bool isEmptyFirst : {false, true})
    for (bool isEmptyLater : {false, true}) {
      Tape t;
      const Tensor x = t.leaf({2}, {1, 2}), none = t.leaf({0}, {});
      Doubles seen;
      auto branch = [&](const Tensor &from) {
        const Tensor to = t.times(t.times(t.times(from, "2"), "3"), "5");
        cantFail(t.im.addHook(to, [&](const Tensor &gradient) -> Expected<Tensor> {
          for (double number : doublesOf(gradient)) seen.push_back(number);
          return t.times(gradient, "10");
        }));
        return t.sum(t("square", {to}));
      };
      std::vector<Tensor> ys;
      if (isEmptyFirst) ys.push_back(branch(none));
      ys.push_back(branch(x));
      if (isEmptyLater) ys.push_back(branch(none));
      std::vector<Tensor> heads(ys.size(), t.value(3));
      heads[isEmptyFirst] = t.value(7);
      t.backward(ys, {.heads = heads});
      EXPECT_EQ(seen, (Doubles{7 * 2 * 30, 7 * 2 * 60}));
      EXPECT_EQ(t.gradOf(x), (Doubles{420 * 300, 840 * 300})) << isEmptyFirst << isEmptyLater;
    }
}

// As in PyTorch: a hook may write into the gradient, and return it or no tensor.
TEST(ImperativeTapOrder, HOOK_02_AHookThatWritesIntoTheGradient) {
  for (bool createGraph : {false, true})
    for (bool isReturned : {false, true}) {
      Tape t;
      const Tensor x = t.leaf({2}, {1, 2}), y = t("square", {x});
      cantFail(t.im.addHook(y, [&](const Tensor &gradient) -> Expected<Tensor> {
        NoGradScope quiet(t.im);
        if (Error error = t.into("_mul_scalar", {gradient}, {gradient}, {{"scalar", "10"}})) return error;
        return isReturned ? gradient : Tensor();
      }));
      const Tensor heads[] = {t.value({2}, {1, 1})};
      t.backward({y}, {.heads = heads, .createGraph = createGraph});
      EXPECT_EQ(t.gradOf(x), (Doubles{20, 40})) << createGraph << isReturned;
      cantFail(t.im.setGrad(x, Tensor()));
    }
}

}  // namespace
}  // namespace gradc
