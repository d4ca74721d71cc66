// Functions of the host for tests of the tape.
#pragma once

#include "tests/support/runs/imperative.h"

namespace gradc::testing {

using HostCode = std::function<llvm::Expected<TensorList>(const FunctionContext &, Tensors)>;

inline std::shared_ptr<Function> function(llvm::StringRef name, HostCode forward, HostCode backward) {
  auto made = std::make_shared<Function>();
  made->name = name.str();
  made->forward = std::move(forward);
  made->backward = std::move(backward);
  return made;
}
inline TensorList apply(Tape &t, const std::shared_ptr<Function> &f, Tensors inputs) {
  return llvm::cantFail(t.im.apply(f, inputs));
}

/// a·b by the rule of products.
inline std::shared_ptr<Function> product(Tape &t) {
  return function(
      "product",
      [&t](const FunctionContext &context, Tensors in) -> llvm::Expected<TensorList> {
        context.save(in);
        return TensorList{t.mul(in[0], in[1])};
      },
      [&t](const FunctionContext &context, Tensors dy) -> llvm::Expected<TensorList> {
        llvm::Expected<TensorList> in = context.saved();
        if (!in) return in.takeError();
        return TensorList{t.mul(dy[0], (*in)[1]), t.mul(dy[0], (*in)[0])};
      });
}
/// y = x, with a gradient that the host defines.
inline std::shared_ptr<Function> identity(Tape &t, HostCode backward) {
  return function(
      "identity",
      [&t](const FunctionContext &, Tensors in) -> llvm::Expected<TensorList> {
        return TensorList{t.times(in[0], "1")};
      },
      std::move(backward));
}

}  // namespace gradc::testing
