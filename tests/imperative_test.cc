// Calls, records and gradients of tensors.
#include "imperative/imperative.h"

#include "tests/support/imperative.h"

using namespace llvm;

namespace gradc {
namespace {

using testing::scalar;
using testing::Tape;
using Floats = std::vector<float>;

TEST(Imperative, TheExampleOfTheDocumentation) {
  Context context;
  registerBuiltinOps(context.ops);
  const Floats xs = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, ws = {0.1f, 0.2f, -0.3f, 0.4f, -0.5f, 0.6f};
  Imperative im(context, ImperativeOptions());
  Tensor x = im.tensor({4, 3}, xs), w = im.tensor({2, 3}, ws), b = im.zeros({2}, DType::Float32);
  im.attachGrad(w, Request::Write);
  KindId dense = cantFail(im.kind("FullyConnected", {{"num_hidden", "2"}}));
  KindId square = cantFail(im.kind("square", {})), sum = cantFail(im.kind("sum", {}));
  KindId sgd = cantFail(im.kind("_scheduled_sgd_update", {}));
  Tensor lr = im.full({1}, 0.0001f);
  auto loss = [&]() -> Expected<Tensor> {
    RecordScope record(im, {.isTraining = true});
    Expected<Tensor> y = im.call(dense, {x, w, b});
    if (!y || !(y = im.call(square, {*y}))) return y;
    return im.call(sum, {*y});
  };
  auto train = [&]() -> Error {
    for (int step = 0; step < 100; ++step) {
      Expected<Tensor> value = loss();
      if (!value) return value.takeError();
      if (Error error = im.backward({*value}, BackwardOptions())) return error;
      NoGradScope quiet(im);
      if (Error error = im.callInto(sgd, {w, w.grad(), lr}, {w})) return error;
    }
    return Error::success();
  };
  const float before = cantFail(loss()).values<float>()[0];
  cantFail(train());
  EXPECT_EQ(im.cacheStats().misses, 1u);
  EXPECT_EQ(im.cacheStats().hits, 99u);
  EXPECT_LT(cantFail(loss()).values<float>()[0], before / 2);
  EXPECT_EQ(w.version(), 100u);
  Expected<Graph> graph = im.graphOf({cantFail(loss())});
  ASSERT_TRUE(static_cast<bool>(graph)) << toString(graph.takeError());
  EXPECT_EQ(graph->numNodes(), 6u);
}

TEST(Imperative, TA_01_SecondBackwardWithSavedValues) {
  Tape t;
  Tensor x = t.leaf(3);
  Tensor y = t("elemwise_mul", {x, x});
  cantFail(t.im.backward({y}, {}));
  EXPECT_EQ(scalar(x.grad()), 6);
  EXPECT_EQ(t.rowOf(t.im.backward({y}, {})), "E-20");
  EXPECT_EQ(scalar(x.grad()), 6);
}

}  // namespace
}  // namespace gradc
