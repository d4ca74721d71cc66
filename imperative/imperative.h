// Operators that run immediately, and the gradients of what ran.
//
//   Imperative im(context, ImperativeOptions());
//   Tensor w = im.tensor({2, 3}, ws);
//   im.attachGrad(w, Request::Write);
//   { RecordScope record(im); loss = im.call(square, {w}); }
//   im.backward({*loss}, BackwardOptions());
//   w.grad();
//
// A tape records calls that read a tracked tensor; `backward` makes a graph of them, which `buildGradient`
// differentiates, and keeps the compiled result for the next tape of the same structure. There is no other gradient
// engine.
//
// An Imperative serves one call at a time, behind one lock that is not held while hooks, functions and callbacks of the
// host run. Kernels and rules of the host's operators run with it: calls from there are E-21. Modes belong to the
// thread. Errors leave everything as it was, and functions that return one throw nothing. Tested by
// tests/imperative/imperative_test.cc
#pragma once

#include "imperative/hooks.h"
#include "imperative/plans/policies.h"
#include "imperative/tape/function.h"
#include "imperative/tape/kind.h"
#include "imperative/tape/modes.h"
#include "imperative/tape/tensor.h"
#include "ir/graph/context.h"
#include "runtime/executor/executor.h"

#include <memory>
#include <optional>

namespace gradc {

/// How a write to a recorded, computed tensor is treated while recording: as E-19, or as a call that is recorded out of
/// place and whose result takes over the storage. Earlier readers keep their gradient; it is E-31 if a value they kept
/// is overwritten. What the call itself keeps and overwrites is copied.
enum class InplacePolicy : uint8_t { Error, Rebase };

struct ImperativeOptions {
  Backend backend = Backend::Auto;
  unsigned threads = 1;
  uint64_t seed = 0;  // of random operators
  InplacePolicy inplace = InplacePolicy::Error;
  IntegerPolicy integers = IntegerPolicy::Stop;  // P-09: Permissive tracks integer tensors, too
  size_t cachedBytes = size_t{256} << 20;        // of freed blocks above 1 MiB that are kept for later
  size_t planBytes = size_t{64} << 20;           // of compiled backwards that are kept, the most recently used ones
  size_t maxKernels = 4096;                      // prepared for calls, the most recently used ones
};

/// P-07: a second backward over the same history is an error, or allowed if no value was released.
enum class SecondBackward : uint8_t { Strict, Lenient };

struct BackwardOptions {
  OwnedTensors heads = {};                   // one per y, no tensor for a gap; empty: all gaps
  std::optional<bool> retain = {};           // keep values and history for another backward; else as `createGraph`
  bool createGraph = false;                  // record the computation of the gradients
  std::optional<OwnedTensors> inputs = {};   // only these get gradients; may be computed tensors
  HeadPolicy headPolicy = HeadPolicy::Ones;  // for gaps: Ones, Scalar or Required; Input is E-13
  DuplicatePolicy duplicates = DuplicatePolicy::Allow;
  SecondBackward secondBackward = SecondBackward::Strict;
  TapePolicies policies = {};
};

struct GradOptions {
  OwnedTensors heads = {};
  std::optional<bool> retain = {};
  bool createGraph = false;
  UnusedPolicy unused = UnusedPolicy::Error;
  OwnedTensors noGrad = {};  // NG-04: no gradient flows into these
  bool onlyInputs = true;    // false is E-13
  HeadPolicy headPolicy = HeadPolicy::Ones;
  DuplicatePolicy duplicates = DuplicatePolicy::Allow;
  SecondBackward secondBackward = SecondBackward::Strict;
  TapePolicies policies = {};
};

/// The memory of an Imperative, without what its Context holds and what oneDNN allocates for prepared kernels.
struct MemoryStats {
  PoolStats pool;             // leaves, kept values, other tensors and the tape, free blocks
  size_t planBytes = 0;       // compiled backwards
  size_t signatureBytes = 0;  // signatures of calls
  size_t scratchBytes = 0;    // working memory of backwards, kept for the next, and lists of gradients
  size_t numSignatures = 0, numKernels = 0;

  size_t totalBytes() const { return pool.systemBytes + planBytes + signatureBytes + scratchBytes; }
};

class Imperative {
 public:
  /// The context must have its operators and outlive this.
  Imperative(Context &context, const ImperativeOptions &options);
  ~Imperative();
  Imperative(const Imperative &) = delete;

  /// An operator with its attributes, to call any number of times. UnknownName; BadAttribute, also for a key that the
  /// operator does not have, unless it is an annotation (`__key__`).
  llvm::Expected<Kind> kind(llvm::StringRef op, llvm::ArrayRef<AttrText> attrs);
  /// The kind of a node, whatever attributes it has. No kind for a null handle; calls of no kind are E-44.
  llvm::Expected<Kind> kind(const KindRef &handle);

  // ---- tensors; those without Expected return no tensor where `make` would be an error

  /// A tensor of uninitialized memory. TooLarge; BadAttribute for dimensions that no tensor has or a type without size.
  llvm::Expected<Tensor> make(Dims dims, DType dtype);
  /// A tensor over the host's memory, row-major, dense and aligned to its elements, which is not copied. `release`,
  /// unless null, is called once no tensor needs the memory, but not after an error. Errors as of `make`;
  /// BindingMismatch for a null or misaligned address or another layout.
  llvm::Expected<Tensor> makeForeign(const TensorRef &memory, void (*release)(void *), void *user);
  template <class Values> Tensor tensor(Dims dims, const Values &values) {
    using T = std::remove_cv_t<std::remove_reference_t<decltype(*std::data(values))>>;
    return copyOf(dims, dtypeOf<T>(), std::data(values), std::size(values));
  }
  Tensor zeros(Dims dims, DType dtype);
  /// Every element is `value`, in its type.
  template <class T> Tensor full(Dims dims, T value) {
    Tensor tensor = uninitialized(dims, dtypeOf<T>());
    if (tensor) std::fill_n(tensor.template data<T>(), tensor.size(), value);
    return tensor;
  }
  /// The same memory, without history and mark. No tensor for one of another Imperative.
  Tensor detach(const Tensor &x);
  /// For graphs and messages.
  llvm::Error setName(const Tensor &x, llvm::StringRef name);

  // ---- marks

  /// Requests the gradient of a leaf, zeros at first, or of a computed tensor (§9), by MXNet's rules, which record only
  /// inside RecordScope. E-06 for integers; E-16 for a computed tensor that is marked with another buffer; E-71 for a
  /// buffer of another shape or type, E-18 for x's own memory and for the buffer of another mark, unless both add.
  llvm::Error mark(const Tensor &x, Request request, const Tensor &buffer = {});
  /// The same, with zeros for a buffer; false instead of an error.
  bool attachGrad(const Tensor &x, Request request);
  /// Marks by PyTorch's rules: request add, no gradient until one arrives, recorded outside of scopes too. E-06 for
  /// integers and, with the advice to detach, for computed tensors.
  llvm::Error requireGrad(const Tensor &x, bool on = true);
  /// Keeps the gradient of a computed tensor; repeating it is no error. E-06 for an untracked one.
  llvm::Error retainGrad(const Tensor &x);
  /// Removes the mark. E-17 if there is none.
  llvm::Error dropGrad(const Tensor &x);
  /// Sets what the next backward adds to; no tensor: none, also for the gradient that `inputs` gave a computed x. E-71
  /// for another shape or type, E-18 for x's own memory, E-06 for an x without mark and gradient.
  llvm::Error setGrad(const Tensor &x, const Tensor &grad);
  /// Sets the gradient to zero in place, without history, and its fresh flag to false.
  llvm::Error clearGrad(const Tensor &x);

  // ---- calls

  /// Runs an operator; returns output 0. E-42, E-44 for a tensor of another Imperative, errors of inference and
  /// kernels, E-31 if the gradient would keep a value made in inference mode.
  llvm::Expected<Tensor> call(const Kind &kind, Tensors inputs, CallSite site = CallSite::here());
  /// The same; returns every visible output.
  llvm::Expected<TensorList> callAll(const Kind &kind, Tensors inputs, CallSite site = CallSite::here());
  /// The same as callAll. Kernels of the host's operators, of this one and of those that compute its gradients, find
  /// the object in KernelCall::state; the history of the call keeps it.
  llvm::Expected<TensorList> callWith(std::shared_ptr<void> state, const Kind &kind, Tensors inputs,
                                      CallSite site = CallSite::here());
  /// Writes the visible outputs into tensors, which may be inputs too. E-19 for a tracked one while recording (unless
  /// InplacePolicy says otherwise); E-71, E-18 for outputs that do not fit, or that share memory.
  llvm::Error callInto(const Kind &kind, Tensors inputs, Tensors outputs, CallSite site = CallSite::here());
  /// Runs a function of the host and records it as one call. E-14, E-44 for what it returns, E-31 for what it saves,
  /// E-21 for one without forward or backward, and errors of the function.
  llvm::Expected<TensorList> apply(const std::shared_ptr<const Function> &function, Tensors inputs,
                                   CallSite site = CallSite::here());
  /// Call before the host writes to a tensor's memory: counts a write; E-19 as in `callInto`.
  llvm::Error willWrite(const Tensor &x);

  // ---- gradients

  /// Delivers the gradients of ys to the marked tensors in their history.
  llvm::Error backward(Tensors ys, const BackwardOptions &options);
  /// The gradients of ys with respect to xs, one per x; no tensor where there is none. Touches no mark.
  llvm::Expected<std::vector<Tensor>> grad(Tensors ys, Tensors xs, const GradOptions &options);
  /// The history of these tensors, as a graph with them as heads. Variables have the names of their tensors, else arg0,
  /// arg1, … in the order of first use, and attributes for shape and type. E-04 for a tensor without history, E-34 for
  /// two of one name.
  llvm::Expected<Graph> graphOf(Tensors ys);

  // ---- code of the host that backward and grad call

  /// Hooks of one tensor run in the order in which they were added, on its whole gradient, if that is computed and not
  /// zero; their result is what is retained or returned. A hook that refers to the tensor it is added to keeps both
  /// alive forever. E-06 for an untracked x, E-21 for an empty function.
  llvm::Expected<HookHandle> addHook(const Tensor &x, TensorHook hook);
  /// `backward` calls the hook, which returns no tensor (E-24), with a leaf as soon as its gradient has arrived, unless
  /// the host has released the leaf. An error leaves the gradients that arrived before it, and the history that was run
  /// through is cleared, because values are released as the backward proceeds. E-31 if the hook overwrites a leaf that
  /// the backward still reads for other leaves, E-23 for a computed tensor, E-06 and E-21 as above.
  llvm::Expected<HookHandle> addPostAccumulateHook(const Tensor &leaf, TensorHook hook);
  /// Inside a hook or another callback, queues a callback that runs once, when the backward that it belongs to has
  /// succeeded. That backward returns its error; everything else is done by then. E-22 elsewhere, E-21 for an empty
  /// function.
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
  /// No tensor where `make` would be an error.
  Tensor uninitialized(Dims dims, DType dtype);
  /// The same if the number of values does not fit.
  Tensor copyOf(Dims dims, DType dtype, const void *values, size_t number);

  std::unique_ptr<Engine> engine;
};

}  // namespace gradc
