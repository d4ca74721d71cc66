// Behaviours of other systems that need no part of the tape of their own.
#include "imperative/imperative.h"
#include "tests/support/imperative.h"

using namespace llvm;

namespace gradc {
namespace {

using testing::Doubles;
using testing::doublesOf;
using testing::Tape;

TEST(ImperativeRows, MA_02_AnOperatorWithParametersAndAnUnreadVariable) {
  Tape t;
  Tensor a = t.value({4, 3}, Doubles(12, 0.5)), w = t.value({2, 3}, Doubles(6, 0.25)), c = t.value({2}, {1, 2});
  Tensor unread = t.value({2}, {3, 4});
  for (const Tensor &x : {a, w, c, unread}) cantFail(t.im.mark(x, Request::Write));
  Tensor y;
  {
    RecordScope record(t.im);
    y = t("FullyConnected", {a, w, c}, {{"num_hidden", "2"}});
  }
  t.backward({y});
  EXPECT_EQ(t.gradOf(c), (Doubles{4, 4}));
  EXPECT_EQ(t.gradOf(unread), (Doubles{0, 0}));
  EXPECT_TRUE(c.isFresh());
  EXPECT_FALSE(unread.isFresh());
}

TEST(ImperativeRows, PD_22_H_08_RootsThatAreAncestorsThroughBackwardAndGrad) {
  for (bool createGraph : {false, true}) {
    Tape t;
    Tensor a = t.leaf(1), b = t.leaf(1);
    Tensor c = t.add(a, b), d = t.add(c, c), e = t.add(d, d);
    GradOptions options;
    options.retain = true;
    options.createGraph = createGraph;
    const std::vector<Tensor> gradients = t.grad({e, c, d}, {a, b}, options);
    EXPECT_EQ(doublesOf(gradients[0]), (Doubles{7}));
    EXPECT_EQ(doublesOf(gradients[1]), (Doubles{7}));
    t.backward({e, c, d}, {.createGraph = createGraph});
    EXPECT_EQ(t.gradOf(a), (Doubles{7}));
    EXPECT_EQ(t.gradOf(b), (Doubles{7}));
  }
}

// Sixteen terms of very different sizes, whose sum depends on their order.
TEST(ImperativeRows, PD_23_CON_02_SixteenUsesHaveTheSameBitsInEveryRun) {
  Doubles first;
  for (unsigned threads : {1, 2, 4})
    for (int run = 0; run < 2; ++run) {
      ImperativeOptions options = Tape::referenceOptions();
      options.threads = threads;
      Tape t(options);
      Tensor x = t.leaf({3}, {1, 2, 3}), y;
      for (int i = 0; i < 16; ++i) {
        const std::string factor = (i % 3 ? "0.1" : "1e1") + std::to_string(i);
        Tensor term = t.times(x, factor);
        y = i ? t.add(y, term) : term;
      }
      t.backward({y});
      if (first.empty()) first = t.gradOf(x);
      EXPECT_EQ(t.gradOf(x), first) << threads;
    }
  EXPECT_EQ(first.size(), 3u);
}

}  // namespace
}  // namespace gradc
