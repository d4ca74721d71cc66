// Three steps of descent on Σ w², recorded and differentiated as they run.
#include "imperative/imperative.h"
#include "ops/registry.h"

#include <cstdio>

using namespace gradc;

static llvm::Error work() {
  Context context;
  registerBuiltinOps(context.ops);
  Imperative im(context, ImperativeOptions());
  const float start[] = {1, -2, 3};
  const Tensor w = im.tensor({3}, start), rate = im.full({1}, 0.25f);
  im.attachGrad(w, Request::Write);
  llvm::Expected<Kind> square = im.kind("square", {});
  if (!square) return square.takeError();
  llvm::Expected<Kind> sum = im.kind("sum", {});
  if (!sum) return sum.takeError();
  llvm::Expected<Kind> sgd = im.kind("_scheduled_sgd_update", {});
  if (!sgd) return sgd.takeError();

  auto loss = [&]() -> llvm::Expected<Tensor> {
    RecordScope record(im);
    llvm::Expected<Tensor> y = im.call(*square, {w});
    if (!y) return y;
    return im.call(*sum, {*y});
  };
  for (int step = 0; step < 3; ++step) {
    llvm::Expected<Tensor> y = loss();
    if (!y) return y.takeError();
    if (llvm::Error error = im.backward({*y}, BackwardOptions())) return error;
    const float *dw = w.grad().data<float>();
    std::printf("loss %g, dw %g %g %g\n", y->data<float>()[0], dw[0], dw[1], dw[2]);
    NoGradScope quiet(im);
    if (llvm::Error error = im.callInto(*sgd, {w, w.grad(), rate}, {w})) return error;
  }
  std::printf("compiled: %d\n", static_cast<int>(im.cacheStats().misses));
  return llvm::Error::success();
}

int main() {
  llvm::Error error = work();
  if (!error) return 0;
  std::fprintf(stderr, "%s\n", llvm::toString(std::move(error)).c_str());
  return 1;
}
