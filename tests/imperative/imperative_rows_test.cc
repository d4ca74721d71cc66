// Behaviours of other systems that need no part of the tape of their own.
#include "imperative/imperative.h"
#include "tests/support/runs/imperative.h"

#include <cmath>
#include <functional>

using namespace llvm;

namespace gradc {
namespace {

using testing::Doubles;
using testing::doublesOf;
using testing::Tape;

// Requests by argument, as MXNet's test of its autograd gives them; numbers are those of NumPy.
TEST(ImperativeRows, MA_01_REQ_01_RequestsByArgument) {
  using Call = std::function<Tensor(Tape &, ArrayRef<Tensor>)>;
  struct Case {
    const char *name;
    Call call;
    std::vector<Doubles> inputs, gradients;
  };
  const double e = std::exp(1.0), e2 = std::exp(2.0);
  const Case cases[] = {
      {"exp", [](Tape &t, ArrayRef<Tensor> x) { return t("exp", {x[0]}); }, {{1, 2}}, {{e, e2}}},
      {"x / 2",
       [](Tape &t, ArrayRef<Tensor> x) { return t("_div_scalar", {x[0]}, {{"scalar", "2"}}); },
       {{1, 2}},
       {{0.5, 0.5}}},
      {"x^2", [](Tape &t, ArrayRef<Tensor> x) { return t("square", {x[0]}); }, {{1, 2}}, {{2, 4}}},
      {"relu", [](Tape &t, ArrayRef<Tensor> x) { return t("relu", {x[0]}); }, {{-1, 2}}, {{0, 1}}},
      {"x + y", [](Tape &t, ArrayRef<Tensor> x) { return t.add(x[0], x[1]); }, {{1, 2}, {3, 4}}, {{1, 1}, {1, 1}}},
      {"x y", [](Tape &t, ArrayRef<Tensor> x) { return t.mul(x[0], x[1]); }, {{1, 2}, {3, 4}}, {{3, 4}, {1, 2}}},
      {"x + x y",
       [](Tape &t, ArrayRef<Tensor> x) { return t.add(x[0], t.mul(x[0], x[1])); },
       {{1, 2}, {3, 4}},
       {{4, 5}, {1, 2}}},
  };
  constexpr Request kRequests[] = {Request::Write, Request::Add, Request::Null};
  for (const Case &c : cases)
    for (size_t combination = 0, number = c.inputs.size() == 1 ? 3 : 9; combination < number; ++combination) {
      SCOPED_TRACE(c.name + (" " + std::to_string(combination)));
      Tape t;
      std::vector<Tensor> xs;
      std::vector<Request> requests;
      for (size_t i = 0, rest = combination; i < c.inputs.size(); ++i, rest /= 3) {
        xs.push_back(t.value({2}, c.inputs[i]));
        requests.push_back(kRequests[rest % 3]);
        cantFail(t.im.mark(xs[i], requests[i]));
      }
      for (double run = 1; run <= 2; ++run) {
        {
          RecordScope record(t.im);
          const Tensor y = c.call(t, xs);
          const bool isAny = llvm::any_of(requests, [](Request request) { return request != Request::Null; });
          EXPECT_EQ(t.rowOf(t.im.backward({y}, {})), isAny ? "success" : "E-08");
        }
        for (size_t i = 0; i < xs.size(); ++i) {
          if (requests[i] == Request::Null) {
            EXPECT_FALSE(xs[i].grad());
            continue;
          }
          const double times = requests[i] == Request::Add ? run : 1;
          const Doubles found = t.gradOf(xs[i]);
          for (size_t k = 0; k < 2; ++k) EXPECT_NEAR(found[k], times * c.gradients[i][k], 1e-15 * found[k]);
        }
      }
    }
}

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
  // Enough elements for four threads of the fast backend.
  std::vector<float> values(200000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 1e-3f * static_cast<float>(i % 977);
  for (Backend backend : {Backend::Reference, Backend::Auto}) {
    std::vector<float> first;
    for (unsigned threads : {1, 2, 4})
      for (int run = 0; run < 2; ++run) {
        ImperativeOptions options;
        options.backend = backend;
        options.threads = threads;
        Tape t(options);
        Tensor x = t.im.tensor({static_cast<int64_t>(values.size())}, values), y;
        cantFail(t.im.requireGrad(x));
        for (int i = 0; i < 16; ++i) {
          const std::string factor = (i % 3 ? "0.1" : "1.") + std::to_string(i);
          Tensor term = t.times(x, factor);
          y = i ? t.add(y, term) : term;
        }
        t.backward({t.sum(t("square", {y}))});
        const std::vector<float> found = valuesOf<float>(x.grad().ref());
        if (first.empty()) first = found;
        EXPECT_TRUE(found == first) << threads << " threads, run " << run;
      }
    EXPECT_EQ(first.size(), values.size());
  }
}

}  // namespace
}  // namespace gradc
