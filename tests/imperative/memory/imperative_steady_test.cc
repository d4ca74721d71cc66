// A step that has run before allocates nothing: functions and objects of the host, and calls of many operands.
#include "imperative/imperative.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "tests/support/runs/failing_heap.h"
#include "tests/support/runs/host_functions.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

using testing::Doubles;
using testing::failingHeap;
using testing::function;
using testing::scalar;
using testing::Tape;

/// How often the step allocates, once it has run a few times.
template <class Step> uint64_t allocationsOf(Step step) {
  for (int i = 0; i < 5; ++i) step();
  failingHeap.count = 0;
  failingHeap.during([&] {
    for (int i = 0; i < 20; ++i) step();
    return 0;
  });
  return failingHeap.count;
}

/// The inputs as they are, with gradients of any order. The name is longer than what a std::string holds in itself.
std::shared_ptr<Function> wide(Tape &t) {
  const Kind copy = cantFail(t.im.kind("identity", {}));
  auto same = [&t, copy](Tensors in) -> Expected<TensorList> {
    TensorList out;
    for (const Tensor &x : in) {
      out.emplace_back();
      if (!x) continue;
      Expected<Tensor> y = t.im.call(copy, {x});
      if (!y) return y.takeError();
      out.back() = *y;
    }
    return out;
  };
  return function(
      "identity_of_several_inputs",
      [same](const FunctionContext &context, Tensors in) -> Expected<TensorList> {
        context.save(in);
        context.markNonDifferentiable(1);
        return same(in);
      },
      [same](const FunctionContext &context, Tensors dy) -> Expected<TensorList> {
        Expected<TensorList> saved = context.saved();
        if (!saved) return saved.takeError();
        EXPECT_TRUE(context.needsGradient(0));
        return same(dy);
      });
}

TEST(ImperativeSteady, CallsOfFunctions) {
  for (bool createGraph : {false, true})
    for (bool isOnce : {false, true})
      for (bool isPartial : {false, true}) {
        Tape t;
        const Kind mul = cantFail(t.im.kind("elemwise_mul", {}));
        const auto f = wide(t);
        f->isOnceDifferentiable = isOnce;
        const auto none =
            function("a_function_that_gives_no_gradient", f->forward, [](const FunctionContext &, Tensors dy) {
              return Expected<TensorList>(TensorList(dy.size(), Tensor()));
            });
        std::vector<Tensor> xs;
        for (int i = 0; i < 8; ++i) xs.push_back(t.leaf(i));
        auto step = [&] {
          TensorList ys = cantFail(t.im.apply(f, xs));
          if (isPartial) ys[0] = cantFail(t.im.call(mul, {ys[0], cantFail(t.im.apply(none, xs))[0]}));
          cantFail(t.im.backward({cantFail(t.im.call(mul, {ys[0], ys[2]}))}, {.createGraph = createGraph}));
          for (const Tensor &x : xs) cantFail(t.im.setGrad(x, Tensor()));
        };
        EXPECT_EQ(allocationsOf(step), 0u) << createGraph << isOnce << isPartial;
      }
}

TEST(ImperativeSteady, TargetsAndOperandsInAnyNumber) {
  Tape t;
  std::vector<Tensor> xs, once;
  for (int i = 0; i < 100; ++i) xs.push_back(t.leaf({3}, {1, 2, 3}));
  const Kind concat = cantFail(t.im.kind("Concat", {{"num_args", "100"}, {"dim", "0"}})),
             sum = cantFail(t.im.kind("sum", {})), square = cantFail(t.im.kind("square", {}));
  for (bool createGraph : {false, true}) {
    // They hold their tensors, so making them allocates; they are made once.
    const BackwardOptions options = {.createGraph = createGraph, .inputs = Tensors(xs)};
    auto step = [&] {
      const Tensor y = cantFail(t.im.call(sum, {cantFail(t.im.call(square, {cantFail(t.im.call(concat, xs))}))}));
      cantFail(t.im.backward({y}, options));
      for (const Tensor &x : xs) cantFail(t.im.setGrad(x, Tensor()));
    };
    EXPECT_EQ(allocationsOf(step), 0u) << createGraph;
  }
}

/// y = x; both kernels look at the object of the call.
void copyWithState(const KernelCall &call) {
  EXPECT_EQ(*static_cast<const int *>(call.state), 7);
  std::memcpy(call.out[0].data, call.in[0].data, call.out[0].bytes());
}
constinit const OpDef kLookingGradient = {
    .name = "_backward_looking", .inputs = {"dy"}, .shape = shapes::same, .kernel = copyWithState};
constinit const OpDef kLooking = {.name = "looking",
                                  .inputs = {"data"},
                                  .shape = shapes::same,
                                  .gradient = [](GradRule &g) { g.dx(0, g.emit(kLookingGradient, {g.dy(0)})); },
                                  .kernel = copyWithState};

TEST(ImperativeSteady, ObjectsOfCalls) {
  Tape t;
  for (const OpDef *op : {&kLooking, &kLookingGradient}) cantFail(t.context.ops.add(*op));
  const Kind looking = cantFail(t.im.kind("looking", {}));
  const Tensor x = t.leaf(3);
  const auto object = std::make_shared<int>(7);
  auto step = [&] { cantFail(t.im.backward(cantFail(t.im.callWith(object, looking, {x})), {})); };
  EXPECT_EQ(allocationsOf(step), 0u);
  EXPECT_EQ(object.use_count(), 1);
}

TEST(ImperativeSteady, ForeignMemoryAndHooks) {
  Tape t;
  const Tensor w = t.leaf(3);
  const Kind mul = cantFail(t.im.kind("elemwise_mul", {}));
  double memory = 5;
  auto step = [&] {
    const int64_t one[] = {1};
    const Tensor x = cantFail(t.im.makeForeign(TensorRef(&memory, DType::Float64, one), nullptr, nullptr));
    HookHandle hook = cantFail(t.im.addHook(w, [](const Tensor &) { return Expected<Tensor>(Tensor()); }));
    cantFail(t.im.backward({cantFail(t.im.call(mul, {w, x}))}, {}));
    hook.remove();
  };
  EXPECT_EQ(allocationsOf(step), 0u);
  EXPECT_EQ(scalar(w.grad()), 25 * 5);
}

// What oneDNN allocates while it runs is its own.
TEST(ImperativeSteady, FastKernels) {
  failingHeap.ignoresOneDnn = true;
  Tape t{ImperativeOptions()};
  Imperative &im = t.im;
  const auto kind = [&](StringRef op, ArrayRef<AttrText> attrs = {}) { return cantFail(im.kind(op, attrs)); };
  std::vector<Tensor> parameters;
  const auto parameter = [&](Dims dims) {
    Tensor value = im.zeros(dims, DType::Float32);
    for (int64_t i = 0; i < value.size(); ++i) value.data<float>()[i] = 0.01f * static_cast<float>(i * 37 % 19 - 9);
    im.attachGrad(value, Request::Write);
    return parameters.emplace_back(value);
  };
  const Tensor image = im.full({4, 3, 16, 16}, 0.3f), rate = im.full({1}, 1e-3f);
  const Tensor w1 = parameter({16, 3, 3, 3}), b1 = parameter({16}), w2 = parameter({8, 784}), b2 = parameter({8});
  const Kind convolution = kind("Convolution", {{"kernel", "(3,3)"}, {"num_filter", "16"}}), relu = kind("relu"),
             pool = kind("Pooling", {{"kernel", "(2,2)"}, {"stride", "(2,2)"}, {"pool_type", "avg"}}),
             dense = kind("FullyConnected", {{"num_hidden", "8"}}), softmax = kind("softmax"), square = kind("square"),
             sum = kind("sum"), sgd = kind("_scheduled_sgd_update");
  for (bool createGraph : {false, true}) {
    auto step = [&] {
      Tensor y;
      {
        RecordScope record(im);
        y = cantFail(im.call(relu, {cantFail(im.call(convolution, {image, w1, b1}))}));
        y = cantFail(im.call(dense, {cantFail(im.call(pool, {y})), w2, b2}));
        y = cantFail(im.call(sum, {cantFail(im.call(square, {cantFail(im.call(softmax, {y}))}))}));
      }
      cantFail(im.backward({y}, {.createGraph = createGraph}));
      NoGradScope quiet(im);
      for (const Tensor &x : parameters) {
        cantFail(im.callInto(sgd, {x, x.grad(), rate}, {x}));
        if (createGraph) cantFail(im.setGrad(x, Tensor()));
      }
    };
    EXPECT_EQ(allocationsOf(step), 0u) << createGraph;
  }
  failingHeap.ignoresOneDnn = false;
}

}  // namespace
}  // namespace gradc
