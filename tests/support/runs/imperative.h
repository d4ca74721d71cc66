// Shorthands for tests of the tape: an Imperative with the built-in operators, calls by name, values as lists.
#pragma once

#include "imperative/imperative.h"
#include "ops/registry.h"
#include "tests/support/tensors.h"

#include <gtest/gtest.h>

namespace gradc::testing {

using Doubles = std::vector<double>;

inline Doubles doublesOf(const Tensor &tensor) {
  if (!tensor) return {};
  return valuesOf<double>(tensor.ref());
}
inline double scalar(const Tensor &tensor) {
  EXPECT_TRUE(static_cast<bool>(tensor) && tensor.size() == 1);
  return tensor ? doublesOf(tensor)[0] : -1e99;
}

/// Records by leaf, in float64. A call of an operator that fails ends the test.
class Tape {
 public:
  explicit Tape(ImperativeOptions options = referenceOptions())
      : im((registerBuiltinOps(context.ops), context), options) {}
  static ImperativeOptions referenceOptions() {
    ImperativeOptions options;
    options.backend = Backend::Reference;
    return options;
  }

  Tensor value(Dims dims, const Doubles &values) { return im.tensor(dims, values); }
  Tensor value(double x) { return value({1}, {x}); }
  /// A value that requires its gradient.
  Tensor leaf(Dims dims, const Doubles &values) {
    Tensor tensor = value(dims, values);
    llvm::cantFail(im.requireGrad(tensor));
    return tensor;
  }
  Tensor leaf(double x) { return leaf({1}, {x}); }

  llvm::Expected<Tensor> attempt(llvm::StringRef op, Tensors inputs, llvm::ArrayRef<AttrText> attrs = {}) {
    return im.call(llvm::cantFail(im.kind(op, attrs)), inputs);
  }
  Tensor operator()(llvm::StringRef op, Tensors inputs, llvm::ArrayRef<AttrText> attrs = {}) {
    llvm::Expected<Tensor> result = attempt(op, inputs, attrs);
    if (!result) llvm::report_fatal_error(result.takeError());
    return *result;
  }
  llvm::SmallVector<Tensor, 2> all(llvm::StringRef op, Tensors inputs, llvm::ArrayRef<AttrText> attrs = {}) {
    return llvm::cantFail(im.callAll(llvm::cantFail(im.kind(op, attrs)), inputs));
  }
  llvm::Error into(llvm::StringRef op, Tensors inputs, Tensors outputs, llvm::ArrayRef<AttrText> attrs = {}) {
    return im.callInto(llvm::cantFail(im.kind(op, attrs)), inputs, outputs);
  }
  Tensor times(const Tensor &x, llvm::StringRef factor) { return (*this)("_mul_scalar", {x}, {{"scalar", factor}}); }
  Tensor plus(const Tensor &x, llvm::StringRef term) { return (*this)("_plus_scalar", {x}, {{"scalar", term}}); }
  Tensor mul(const Tensor &a, const Tensor &b) { return (*this)("elemwise_mul", {a, b}); }
  Tensor add(const Tensor &a, const Tensor &b) { return (*this)("elemwise_add", {a, b}); }
  Tensor sum(const Tensor &x) { return (*this)("sum", {x}); }

  Doubles gradOf(const Tensor &x) { return doublesOf(x.grad()); }
  void backward(Tensors ys, const BackwardOptions &options = {}) {
    llvm::Error error = im.backward(ys, options);
    EXPECT_FALSE(static_cast<bool>(error)) << llvm::toString(std::move(error));
  }
  std::vector<Tensor> grad(Tensors ys, Tensors xs, const GradOptions &options = {}) {
    llvm::Expected<std::vector<Tensor>> result = im.grad(ys, xs, options);
    if (!result) llvm::report_fatal_error(result.takeError());
    return *result;
  }
  /// The row of the error, "success", or the name of a kind without a row.
  static std::string rowOf(llvm::Error error) {
    const GradcError found = errorOf(std::move(error));
    if (found.message == "success") return found.message;
    const llvm::StringRef row = errorRow(found.kind);
    return (row.empty() ? errorKindName(found.kind) : row).str();
  }
  template <class T> static std::string rowOf(llvm::Expected<T> value) {
    return value ? std::string("success") : rowOf(value.takeError());
  }

  Context context;
  Imperative im;
};

}  // namespace gradc::testing
