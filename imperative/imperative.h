// Operators that run at once, and the gradients of what ran.
//
//   Imperative im(context, ImperativeOptions());
//   Tensor w = im.tensor({2, 3}, ws);
//   im.attachGrad(w, Request::Write);
//   { RecordScope record(im); loss = im.call(square, {w}); }
//   im.backward({*loss}, BackwardOptions());
//   w.grad();
//
// A tape records calls that read a tracked tensor; `backward` makes a graph of them, which `buildGradient` differentiates,
// and keeps the compiled result for the next time the same was recorded. There is no other gradient engine.
//
// An Imperative and its Context serve one call at a time, behind one lock that is not held while code of the host runs.
// Modes belong to the thread. Errors leave everything as it was.
// Tested by tests/imperative_test.cc
#pragma once

#include "imperative/call_site.h"
#include "imperative/function.h"
#include "imperative/hooks.h"
#include "imperative/modes.h"
#include "imperative/tensor.h"
#include "ir/context.h"
#include "passes/gradient/gradient.h"
#include "runtime/executor.h"

#include <memory>
#include <optional>

namespace gradc {

/// What a write into a recorded, computed tensor is while recording: E-19, or a call that is recorded out of place and whose
/// result takes over the storage. Earlier readers keep their gradient; a value they kept that is overwritten is E-31.
enum class InplacePolicy : uint8_t { Error, Rebase };

struct ImperativeOptions {
  Backend backend = Backend::Auto;
  unsigned threads = 1;
  uint64_t seed = 0;  // of random operators
  InplacePolicy inplace = InplacePolicy::Error;
  size_t cachedBytes = size_t{256} << 20;  // of freed blocks above 1 MiB that are kept for later
  size_t planBytes = size_t{64} << 20;     // of compiled backwards that are kept, the latest used ones
  size_t maxKernels = 4096;                // prepared for calls, of the latest used ones
};

/// P-07: what a second backward over the same history is: an error, or allowed where no value was released.
enum class SecondBackward : uint8_t { Strict, Lenient };

struct BackwardOptions {
  Tensors heads = {};                        // one per y, gaps are no tensors; none at all: all gaps
  std::optional<bool> retain = {};           // keep values and history for another backward; else as `createGraph`
  bool createGraph = false;                  // record what computes the gradients
  std::optional<Tensors> inputs = {};        // only these get gradients; computed ones too
  HeadPolicy headPolicy = HeadPolicy::Ones;  // of gaps: Ones, Scalar or Required
  DuplicatePolicy duplicates = DuplicatePolicy::Allow;
  SecondBackward secondBackward = SecondBackward::Strict;
};

struct GradOptions {
  Tensors heads = {};
  std::optional<bool> retain = {};
  bool createGraph = false;
  UnusedPolicy unused = UnusedPolicy::Error;
  Tensors noGrad = {};     // NG-04: nothing flows into these
  bool onlyInputs = true;  // false is E-13
  HeadPolicy headPolicy = HeadPolicy::Ones;
  DuplicatePolicy duplicates = DuplicatePolicy::Allow;
  SecondBackward secondBackward = SecondBackward::Strict;
};

/// Of compiled backwards.
struct CacheStats {
  uint64_t hits = 0, misses = 0;
  size_t entries = 0, bytes = 0;
};

/// Where the memory of an Imperative is. Without what its Context holds, and what oneDNN allocates for prepared kernels.
struct MemoryStats {
  PoolStats pool;             // leaves, kept values, other tensors and the tape, free blocks
  size_t planBytes = 0;       // compiled backwards
  size_t signatureBytes = 0;  // what is known of calls
  size_t scratchBytes = 0;    // what backwards work with, kept for the next
  size_t numSignatures = 0, numKernels = 0;

  size_t totalBytes() const { return pool.systemBytes + planBytes + signatureBytes + scratchBytes; }
};

class Imperative {
 public:
  /// The context has its operators, and outlives this.
  Imperative(Context &context, const ImperativeOptions &options);
  ~Imperative();
  Imperative(const Imperative &) = delete;

  /// An operator with its attributes, to call any number of times. UnknownOp, BadAttribute.
  llvm::Expected<KindId> kind(llvm::StringRef op, llvm::ArrayRef<AttrText> attrs);
  KindId kind(const KindRef &handle);

  // ---- tensors; those without Expected return an empty tensor where `make` would be an error

  /// Of uninitialized memory. TooLarge; BadAttribute for dimensions that no tensor has or a type without size.
  llvm::Expected<Tensor> make(Dims dims, DType dtype);
  /// Of the host's memory, row-major and aligned to its elements, which is not copied and for which `release` is called
  /// once no tensor needs it, if it is not null; not after an error. Errors as of `make`, BindingMismatch for a misaligned address.
  llvm::Expected<Tensor> makeForeign(const TensorRef &memory, void (*release)(void *), void *user);
  template <class Values> Tensor tensor(Dims dims, const Values &values) {
    using T = std::remove_cv_t<std::remove_reference_t<decltype(*std::data(values))>>;
    return copyOf(dims, dtypeOf<T>(), std::data(values), std::size(values));
  }
  Tensor zeros(Dims dims, DType dtype);
  /// Every element is `value`, in its type.
  template <class T> Tensor full(Dims dims, T value) {
    Tensor tensor = copyOf(dims, dtypeOf<T>(), nullptr, 0);
    if (tensor) std::fill_n(tensor.template data<T>(), tensor.size(), value);
    return tensor;
  }
  /// The same memory, without history and mark. No tensor for one of another Imperative.
  Tensor detach(const Tensor &x);
  /// For graphs and messages.
  llvm::Error setName(const Tensor &x, llvm::StringRef name);

  // ---- marks

  /// Asks for the gradient of a leaf, zeros at first, or of a computed tensor (§9): by MXNet's rules, which record inside
  /// RecordScope alone. E-06 for integers; E-16 for a computed tensor that is marked with another buffer; E-71 and E-18 for
  /// a buffer of another shape or type, or that of another mark with request write.
  llvm::Error mark(const Tensor &x, Request request, const Tensor &buffer = {});
  /// The same, with zeros for a buffer; false instead of an error.
  bool attachGrad(const Tensor &x, Request request);
  /// By PyTorch's rules: request add, no gradient until one arrives, recorded outside of scopes too. E-06 for integers and,
  /// with the advice to detach, for computed tensors.
  llvm::Error requireGrad(const Tensor &x, bool on = true);
  /// Keeps the gradient of a computed tensor; again is no error. E-06 for an untracked one.
  llvm::Error retainGrad(const Tensor &x);
  /// E-17 where there is no mark.
  llvm::Error dropGrad(const Tensor &x);
  /// What the next backward adds to; no tensor: none. E-71 for another shape or type, E-06 for an unmarked x.
  llvm::Error setGrad(const Tensor &x, const Tensor &grad);
  /// Sets the gradient to zero in place, and its fresh flag to false.
  llvm::Error clearGrad(const Tensor &x);

  // ---- calls

  /// Output 0. E-42, E-44 for a tensor of another Imperative, what inference and kernels say, E-31 where the gradient would
  /// keep a value made in inference mode.
  llvm::Expected<Tensor> call(KindId kind, Tensors inputs, CallSite site = CallSite::here());
  /// Every visible output.
  llvm::Expected<TensorList> callAll(KindId kind, Tensors inputs, CallSite site = CallSite::here());
  /// Every visible output. Kernels of the host's operators, this one and those that compute its gradients, find the object in
  /// KernelCall::state; the history of the call keeps it.
  llvm::Expected<TensorList> callWith(std::shared_ptr<void> state, KindId kind, Tensors inputs,
                                      CallSite site = CallSite::here());
  /// Writes the visible outputs into tensors, which may be inputs too. E-19 for a tracked one while recording (unless
  /// InplacePolicy says otherwise); E-71, E-18 for outputs that do not fit, or that share memory.
  llvm::Error callInto(KindId kind, Tensors inputs, Tensors outputs, CallSite site = CallSite::here());
  /// Runs a function of the host and records it as one call. E-14, E-44 for what it returns, E-31 for what it saves, E-21 for
  /// one without forward or backward, and its own errors.
  llvm::Expected<TensorList> apply(const std::shared_ptr<const Function> &function, Tensors inputs,
                                   CallSite site = CallSite::here());
  /// To be asked before the host writes into a tensor's memory: counts a write; E-19 as in `callInto`.
  llvm::Error willWrite(const Tensor &x);

  // ---- gradients

  /// Brings the gradients of ys to the marked tensors they lead to.
  llvm::Error backward(Tensors ys, const BackwardOptions &options);
  /// The gradients of ys by xs, one per x; no tensor where there is none. No mark is touched.
  llvm::Expected<std::vector<Tensor>> grad(Tensors ys, Tensors xs, const GradOptions &options);
  /// What led to these tensors, as a graph with them as heads: variables have the names of their tensors, else arg0, arg1, …
  /// in the order of first use, and notes of their shapes. E-04 for a tensor without history, E-34 for two of one name.
  llvm::Expected<Graph> graphOf(Tensors ys);

  // ---- code of the host that backward and grad call

  /// Hooks of one tensor run in the order in which they were added, on its whole gradient, wherever that is computed and not
  /// zero; what is retained or returned is what they made of it. A hook that keeps its own tensor keeps both forever. E-06 for
  /// an untracked x, E-21 for no function.
  llvm::Expected<HookHandle> addHook(const Tensor &x, TensorHook hook);
  /// Called with a leaf as soon as its gradient has arrived, by `backward`; the leaf is no longer read by what that backward
  /// still has to compute, unless other leaves read it: to overwrite it then is E-31. It returns no tensor: E-24. Values are given
  /// back as the backward goes on, so that an error leaves the gradients that arrived before it, and the history that was run
  /// through is cleared. Not called once the host has let go of the leaf. E-23 for a computed tensor, E-06 and E-21 as above.
  llvm::Expected<HookHandle> addPostAccumulateHook(const Tensor &leaf, TensorHook hook);
  /// For inside of a hook or of another callback: called once, when the backward that it belongs to has succeeded; its error
  /// comes back from there, all else is done then. E-22 elsewhere, E-21 for no function.
  llvm::Error queueCallback(FinalCallback callback);

  CacheStats cacheStats() const;
  /// How the last structure that was not in the cache differs from the nearest one that was.
  std::string explainMiss() const;
  MemoryStats memoryStats() const;
  Engine &internals() { return *engine; }

 private:
  template <class T> static constexpr DType dtypeOf() {
    if constexpr (std::is_same_v<T, float>) return DType::Float32;
    else if constexpr (std::is_same_v<T, double>) return DType::Float64;
    else if constexpr (std::is_same_v<T, int32_t>) return DType::Int32;
    else if constexpr (std::is_same_v<T, int64_t>) return DType::Int64;
    else if constexpr (std::is_same_v<T, int8_t>) return DType::Int8;
    else if constexpr (std::is_same_v<T, uint8_t>) return DType::UInt8;
    else static_assert(!sizeof(T), "no element type");
  }
  /// Uninitialized where `values` is null; no tensor where their number does not fit.
  Tensor copyOf(Dims dims, DType dtype, const void *values, size_t number);

  std::unique_ptr<Engine> engine;
};

}  // namespace gradc
