// The parts of an Imperative. Functions expect the lock of the store to be held.
#pragma once

#include "imperative/host_run.h"
#include "imperative/imperative.h"
#include "imperative/marks.h"
#include "imperative/plans/plan_cache.h"
#include "imperative/tape/signature.h"
#include "imperative/tape/tape.h"
#include "imperative/tape/tape_shapes.h"
#include "ir/base/dense_map.h"
#include "runtime/executor/failures.h"

namespace gradc {

/// Makes a computed tensor an untracked one.
inline void dropHistory(TensorImpl &impl) {
  setTrackedBits(impl, 0);
  impl.isDerived = 0;
  release(std::exchange(impl.producer, nullptr));
}

/// The host's object behind TapeNode::state; null for none.
inline void *objectOf(const Storage *state) {
  return state ? static_cast<const std::shared_ptr<void> *>(state->releaseUser)->get() : nullptr;
}

/// Whether it is what a backward made of untracked values.
inline bool isDerived(const TensorImpl &impl) {
  return impl.isDerived && (!impl.storage || impl.storage->version.load(std::memory_order_relaxed) == 0);
}

/// Where an input of a call comes from, with a reference to it. `mask`: the bits of TensorImpl::tracked that count.
/// Engine:: makeMarks comes first.
Edge edgeOf(TensorImpl &impl, uint8_t mask);

/// The working memory of one backward, reused by the next: a steady step allocates nothing.
struct Scratch {
  Collected collected;
  BackwardRequest request;
  std::vector<TapeValue> ys;
  std::vector<Tensor> heads;
  std::vector<Mark *> marks;      // whose gradients the results are
  std::vector<Storage *> memory;  // of the heads of a plan
  std::vector<Tensor> results;
  std::vector<uint32_t> key;
  HostScratch host;
  DenseSet<const Mark *> listed;  // whose gradients are requested
  struct Recorded {
    std::vector<Tensor> values;           // by entry of the combined graph
    std::vector<Tensor> inputs, outputs;  // of the call under way
    std::vector<Origin *> origins;        // by call, made when needed
    std::vector<uint32_t> versions;       // of the forward values
    std::vector<uint8_t> isDelivered;     // by result: already delivered to its leaf
    DenseSet<const Storage *> taken;
    DenseMap<const char *, const Tensor *> sums;  // by address of the caller's buffer
  } recorded;                                     // for a replay call by call

  size_t heapBytes() const;
  void clear();
};

/// What every entry of the API does: holds the lock while `work` runs, and turns exceptions into errors. E-21 for a
/// call by a function of the host's operator, which runs with the lock held.
template <class Work> auto entering(Store &store, const char *what, Work work) -> decltype(work()) {
  return catching(what, [&]() -> decltype(work()) {
    StoreLock lock(store);
    return work();
  });
}

class Engine {
 public:
  Engine(const Imperative &owner, Context &context, const ImperativeOptions &options)
      : owner(owner), ctx(context), options(options), store(*new Store(options.cachedBytes)),
        signatures(context, store, store.shapes, signatureOptions(), options.maxKernels), plans(options.planBytes) {
    spare.reserve(kMaxSpare);  // they come back where nothing may fail
  }
  ~Engine();

  /// Takes over the storage; null: new memory, or none if only shape and type are read.
  llvm::Expected<Tensor> makeTensor(OperandType type, Storage *storage, bool isShapeOnly = false);
  llvm::Expected<OperandType> typeOf(Dims dims, DType dtype);
  /// E-44 for a tensor of another Imperative, E-14 for no tensor.
  llvm::Error checkOwn(Tensors list, const llvm::Twine &what) const;
  /// E-44 for a kind that this Imperative has not made.
  llvm::Error checkOwn(const KindRow *kind) const;
  /// The mark of a tensor, made if there is none.
  llvm::Expected<Mark *> markOf(TensorImpl &impl);
  /// Marks for the inputs of a call to be recorded that have no history.
  llvm::Error makeMarks(Tensors inputs, uint8_t mask);
  SignatureOptions signatureOptions() const { return {options.backend, options.threads, options.integers}; }
  /// Bits of TensorImpl::tracked that count in these modes.
  static uint8_t trackedMask(const Modes &modes) {
    return modes.recording == Recording::Off ? 0 : modes.recording == Recording::On ? kTracked : kTrackedByLeaf;
  }
  /// E-19 for a tensor whose history a write would contradict. `isTarget`: the call that writes becomes its history, if
  /// the policy allows that and no other tensor shares the memory.
  llvm::Error checkWritable(const TensorImpl &impl, const Modes &modes, bool isTarget) const;
  /// A new tensor with the current memory and mark of another one, and its history as far as `mask` counts it.
  llvm::Expected<Tensor> snapshot(const TensorImpl &impl, uint8_t mask);

  const Imperative &owner;
  Context &ctx;
  const ImperativeOptions options;
  Store &store;
  SignatureTable signatures;
  PlanCache plans;
  uint64_t numCalls = 0, numDraws = 0;
  uint32_t epoch = 0;  // the last one that collecting has left in nodes; see nextEpoch
  static constexpr size_t kMaxSpare = 16;
  std::vector<std::unique_ptr<Scratch>> spare;  // not in use by a backward
  Storage *workspace = nullptr;

  // Of the call under way.
  struct Output {
    Storage *storage = nullptr;
    void *tensor = nullptr;
  };
  std::vector<uint64_t> callKey;  // of its signature
  std::vector<Output> outputs;
  std::vector<std::pair<Storage *, Storage *>> copies;  // what it keeps and overwrites, and the copies

  /// One that no node has: 0 is that of new ones.
  uint32_t nextEpoch() { return ++epoch ? epoch : ++epoch; }

  BufferMarks bufferMarks;
  RecordedGradients recordedGradients;
  FailureSlot failure;                                           // of kernels of calls
  Kind copyKind, addKind, sumLikeKind, zerosLikeKind;            // once needed
  DenseMap<uint64_t, llvm::SmallVector<Kind, 1>> functionKinds;  // by hash
  DenseMap<const TensorImpl *, int64_t> outputOf;  // what a function took and gave: the output that it is, or -1

  /// The kind of an operator without attributes; `known` caches it.
  KindRow *kindOf(const OpDef &op, Kind &known);
  /// The kind of a call of the host's code (function_op.h). BadAttribute for more inputs or outputs than those may
  /// have.
  llvm::Expected<KindRow *> functionKind(const OpDef &op, llvm::StringRef name, size_t numArgs, size_t numOutputs);
  /// Flags that are off.
  std::shared_ptr<bool[]> makeFlags(size_t number) {
    return std::allocate_shared<bool[]>(PoolAllocator<bool>(store), number);
  }
  llvm::Error growWorkspace(size_t bytes);
};

}  // namespace gradc
