// Every allocation of a program on the tape fails once: that call is an error, nothing is left behind, and the same
// program runs again.
#include "imperative/imperative.h"
#include "tests/support/runs/fail_each.h"
#include "tests/support/runs/host_functions.h"

using namespace llvm;

namespace gradc {
namespace {

using testing::Doubles;
using testing::doublesOf;
using testing::Tape;

/// The steps of a program, of which the first that fails ends it.
class Program {
 public:
  explicit Program(Tape &t) : t(t), x(t.leaf({2}, {1, 2})), w(t.leaf({2}, {3, 5})), c(t.value({2}, {1, 1})) {}

  Error run() {
    Expected<Tensor> y = call("elemwise_mul", {x, w});
    if (!y) return y.takeError();
    Expected<TensorList> z = t.im.apply(product, {*y, w});
    if (!z) return z.takeError();
    Expected<HookHandle> hook = t.im.addHook(*y, [this](const Tensor &g) { return call("identity", {g}); });
    if (!hook) return hook.takeError();
    Expected<HookHandle> late = t.im.addPostAccumulateHook(x, [this](const Tensor &) -> Expected<Tensor> {
      if (Error error = t.im.queueCallback([]() { return Error::success(); })) return error;
      return Tensor();
    });
    if (!late) return late.takeError();
    if (Error error = t.im.retainGrad(*y)) return error;
    if (Error error = t.im.backward(*z, {.createGraph = isRecorded})) return error;
    Expected<Kind> square = t.im.kind("square", {});
    if (!square) return square.takeError();
    Expected<Tensor> u = call("elemwise_add", {w, w});
    if (!u) return u.takeError();
    if (Error error = t.im.callInto(*square, {*u}, {*u})) return error;
    if (Error error = t.im.setName(*u, "a name that is longer than a string holds")) return error;
    Expected<Graph> graph = t.im.graphOf({*u});
    if (!graph) return graph.takeError();
    const int64_t dims[] = {2};
    Expected<Tensor> foreign = t.im.makeForeign(TensorRef(memory, DType::Float64, dims), nullptr, nullptr);
    if (!foreign) return foreign.takeError();
    if (Error error = t.im.mark(c, Request::Write, *foreign)) return error;
    Expected<Tensor> v = call("elemwise_mul", {c, *u});
    if (!v) return v.takeError();
    if (Error error = t.im.backward({*v}, {.retain = true})) return error;
    Expected<std::vector<Tensor>> dw = t.im.grad({*v}, {w}, {.createGraph = isRecorded, .unused = UnusedPolicy::Zeros});
    if (!dw) return dw.takeError();
    gradient = (*dw)[0];
    return Error::success();
  }

  void reset() {
    for (const Tensor &leaf : {x, w}) cantFail(t.im.setGrad(leaf, Tensor()));
  }

  std::string result() const {
    std::string bytes;
    for (const Tensor &value : {gradient, x.grad(), w.grad()})
      for (double number : doublesOf(value)) bytes += std::to_string(number) + " ";
    return bytes;
  }

  bool isRecorded = false;

 private:
  Expected<Tensor> call(StringRef op, Tensors inputs) {
    Expected<Kind> kind = t.im.kind(op, {});
    if (!kind) return kind.takeError();
    return t.im.call(*kind, inputs);
  }

  Tape &t;
  const Tensor x, w, c;
  Tensor gradient;
  double memory[2] = {1, 1};
  const std::shared_ptr<Function> product = testing::function(
      "product",
      [this](const FunctionContext &context, Tensors in) -> Expected<TensorList> {
        context.save(in);
        Expected<Tensor> y = call("elemwise_mul", in);
        if (!y) return y.takeError();
        return TensorList{*y};
      },
      [this](const FunctionContext &context, Tensors dy) -> Expected<TensorList> {
        Expected<TensorList> in = context.saved();
        if (!in) return in.takeError();
        Expected<Tensor> a = call("elemwise_mul", {dy[0], (*in)[1]}), b = call("elemwise_mul", {dy[0], (*in)[0]});
        if (!a || !b) return joinErrors(a.takeError(), b.takeError());
        return TensorList{*a, *b};
      });
};

class EveryAllocation : public ::testing::TestWithParam<bool> {};

TEST_P(EveryAllocation, OfAProgramOnTheTape) {
#ifdef GRADC_HEAP_OF_SANITIZER
  GTEST_SKIP() << "a sanitizer has malloc";
#endif
  testing::failEach([&]() -> Expected<std::string> {
    ImperativeOptions options = Tape::referenceOptions();
    options.inplace = InplacePolicy::Rebase;
    Tape t(options);
    Program program(t);
    program.isRecorded = GetParam();
    Error error = testing::failingHeap.during([&] { return program.run(); });
    if (error) {
      program.reset();
      if (Error again = program.run()) report_fatal_error(std::move(again));  // what failed has left nothing
      return error;
    }
    return program.result();
  });
}

INSTANTIATE_TEST_SUITE_P(Imperative, EveryAllocation, ::testing::Bool());

}  // namespace
}  // namespace gradc
