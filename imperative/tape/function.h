// Functions of the host: forward and backward are code of the host, and the tape continues through them.
//
//   auto times = std::make_shared<Function>();
//   times->name = "times";
//   times->forward = [&](const FunctionContext &context, Tensors in) -> Expected<TensorList> {
//     context.save(in);
//     return listOf(im.call(mul, in));
//   };
//   times->backward = [&](const FunctionContext &context, Tensors dy) -> Expected<TensorList> {
//     Expected<TensorList> in = context.saved();
//     if (!in) return in.takeError();
//     …  // one gradient per input, no tensor where there is none
//   };
//   Expected<TensorList> y = im.apply(times, {a, b});
//
// Both run without the lock of the Imperative. `forward` records nothing; what `backward` calls is recorded with
// createGraph, so that it can be differentiated again. Errors of the host are returned unchanged. Tested by
// tests/imperative/imperative_function_test.cc
#pragma once

#include "imperative/tape/tensor.h"

#include "llvm/ADT/SmallVector.h"

#include <functional>
#include <memory>

namespace gradc {

struct FunctionCall;

/// What one call of a Function shares with its gradient. A handle: copies refer to the same call and may outlive it.
class FunctionContext {
 public:
  /// `needs`: per input.
  FunctionContext(std::shared_ptr<FunctionCall> call, std::shared_ptr<const bool[]> needs)
      : call(std::move(call)), needs(std::move(needs)) {}

  // ---- for `forward`
  /// Sets what `saved` returns, gaps included: inputs and outputs with their history. The last list counts; none does
  /// after `forward`. Values that may not be kept, or that were overwritten, are errors as for operators (E-31).
  void save(Tensors values) const;
  /// The output is not tracked.
  void markNonDifferentiable(size_t output) const;
  /// Whether `backward` sees zeros (the default) or no tensor for an output that no gradient arrives at.
  void setMaterializes(bool isOn) const;

  // ---- for both
  /// In `forward`: whether the input is tracked. In `backward`: whether its gradient is requested.
  bool needsGradient(size_t input) const;
  /// Any data of the host; lives as long as the call.
  std::shared_ptr<void> &data() const;

  // ---- for `backward`
  /// E-20 once the history of the call is cleared, E-31 if a value was overwritten.
  llvm::Expected<TensorList> saved() const;

 private:
  std::shared_ptr<FunctionCall> call;
  std::shared_ptr<const bool[]> needs;
};

struct Function {
  std::string name;  // for messages
  /// Its outputs: no more than 2^16, each a tensor (E-14).
  std::function<llvm::Expected<TensorList>(const FunctionContext &, Tensors inputs)> forward;
  /// Maps one gradient per output to one per input, which has the input's type (E-39) and its shape or one that sums
  /// down to it (E-57), or is a null Tensor, which contributes nothing. Another number of gradients is E-46, unless the
  /// surplus ones are null. Called at most once per backward, and not if no gradient arrives.
  std::function<llvm::Expected<TensorList>(const FunctionContext &, Tensors gradients)> backward;
  bool isOnceDifferentiable = false;  // with createGraph `backward` is not recorded, and its gradient is E-02
};

}  // namespace gradc
