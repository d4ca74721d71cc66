// Nodes of one graph that run in forms of their own, as a backward part does whose calls ran in different forms.
#include "tests/support/runs/exec_bench.h"

#include <gtest/gtest.h>

using namespace llvm;
using gradc::testing::Bench;
using gradc::testing::TestGraph;

namespace gradc {
namespace {

using Doubles = std::vector<double>;

TEST(CallForms, RET_08_EachNodeRunsInTheFormAndWithTheKeyItIsGiven) {
  TestGraph g("x = var {__shape__=(64,)}; a = Dropout(x); b = Dropout(x); c = Dropout(x); d = Dropout(x);"
              "heads a, b, c, d");
  std::vector<CallForm> forms(g.graph.numNodes());
  auto form = [&](StringRef name) -> CallForm & { return forms[testing::nodeNamed(g, name).value]; };
  form("a") = form("b") = {true, {5, 3, 1}};
  form("c") = {false, {5, 3, 1}};
  form("d") = {true, {5, 3, 2}};
  for (Backend backend : {Backend::Auto, Backend::Reference}) {
    Bench bench(g);
    bench.options.forms = forms;
    bench.options.backend = backend;
    bench.options.isTraining = true;
    cantFail(bench.prepare());
    bench.bind("x", doubles({64}, Doubles(64, 1.0)));
    Doubles before;
    for (uint64_t step : {0, 9}) {
      cantFail(bench.executor->run(step));
      auto value = [&](size_t head) { return valuesOf<double>(bench.executor->head(head)); };
      EXPECT_EQ(value(0), value(1)) << "one key, one draw";
      EXPECT_NE(value(0), value(3));
      EXPECT_TRUE(is_contained(value(0), 0.0) && is_contained(value(3), 0.0));
      EXPECT_EQ(value(2), Doubles(64, 1.0));
      if (step != 0) {
        EXPECT_EQ(value(0), before) << "the step of the run is not in the key";
      }
      before = value(0);
    }
  }
}

// Fast kernels are made for one form.
TEST(CallForms, RET_08_FastKernelsAreMadeForTheFormOfTheirNode) {
  TestGraph g("x = var {__shape__=(4,8,4,4)}; a = BatchNorm(x, g, b, m, v); c = BatchNorm(x, g, b, n, w); heads a, c");
  std::vector<float> x;
  for (int i = 0; i < 512; ++i) x.push_back(static_cast<float>(i * 37 % 101) / 50);
  const std::vector<float> zero(8, 0.f), one(8, 1.f);
  auto run = [&](bool isTraining, ArrayRef<CallForm> forms) {
    Bench bench(g);
    bench.inferOptions.floatAs.reset();
    bench.options.isTraining = isTraining;
    bench.options.forms = forms;
    cantFail(bench.prepare());
    bench.bind("x", floats({4, 8, 4, 4}, x));
    for (StringRef name : {"b", "m", "n"}) bench.bind(name, floats({8}, zero));
    for (StringRef name : {"g", "v", "w"}) bench.bind(name, floats({8}, one));
    cantFail(bench.executor->run(0));
    return std::pair(valuesOf<float>(bench.executor->head(0)), valuesOf<float>(bench.executor->head(1)));
  };
  std::vector<CallForm> forms(g.graph.numNodes());
  forms[testing::nodeNamed(g, "a").value].isTraining = true;
  const auto mixed = run(false, forms), training = run(true, {}), predicting = run(false, {});
  EXPECT_EQ(mixed.first, training.first);
  EXPECT_EQ(mixed.second, predicting.second);
  EXPECT_NE(mixed.first, mixed.second);
}

}  // namespace
}  // namespace gradc
