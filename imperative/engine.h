// The parts of an Imperative. Functions expect the lock of the store to be held.
#pragma once

#include "imperative/host_run.h"
#include "imperative/imperative.h"
#include "imperative/plans/plan_cache.h"
#include "imperative/tape/signature.h"
#include "imperative/tape/tape.h"
#include "imperative/tape/tape_shapes.h"
#include "ir/base/dense_map.h"
#include "runtime/executor/failures.h"

#include "llvm/ADT/SetVector.h"

namespace gradc {

struct CallRequest {
  KindRow *kind;
  Tensors inputs;
  Modes modes;
  CallSite site = {};
  Tensors into = {};  // per visible output; none: new tensors
  llvm::ArrayRef<KnownOutput> known =
      {};                       // all outputs, if known; one that is not requested comes back as an empty handle
  TapeNode *forward = nullptr;  // of a fused backward operator
  Origin *origin = nullptr;     // the call whose gradient this one computes
  uint64_t draw = 0;            // for a random operator, the draw that it repeats; 0: a new one
  Storage *state = nullptr;     // of the host's object for the kernel; null: none
  bool keepsDerived = false;    // a result of untracked values keeps the call, for graphs
};

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
    std::vector<Origin *> origins;        // by call, made as they are needed
    std::vector<uint32_t> versions;       // of the forward values
    std::vector<uint8_t> isDelivered;     // by result: its leaf has it already
    DenseSet<const Storage *> taken;
    DenseMap<const char *, const Tensor *> sums;  // by address of the caller's buffer
  } recorded;                                     // for a replay call by call

  size_t heapBytes() const;
  void clear();
};

/// Marks whose gradient is a buffer of the caller's, by the address of its memory.
class BufferMarks {
 public:
  BufferMarks() = default;
  BufferMarks(const BufferMarks &) = delete;
  ~BufferMarks();
  void add(const Storage &buffer, Mark &mark);
  /// REQ-09: whether another mark puts its gradient there, unless both add to all of it, in one type.
  bool isRefused(const Storage &buffer, Mark &mark, Request request);
  size_t size() const { return number; }
  size_t heapBytes() const;

 private:
  using List = llvm::SetVector<Mark *, llvm::SmallVector<Mark *, 4>, DenseSet<Mark *>, 4>;
  void dropLast(List &list);
  /// Whether the buffer of another mark has some of these bytes, but not the same ones.
  bool hasPartOf(const Storage &buffer, const Mark &mark) const;

  DenseMap<const char *, List> lists;
  size_t number = 0, limit = 16;  // at this number, marks without other references are dropped
};

/// Marks whose gradient has a history. It leads back to the leaf, so leaf and gradient keep each other alive until the
/// gradient is replaced, or until the end of the Imperative, which removes the histories.
class RecordedGradients {
 public:
  RecordedGradients() = default;
  RecordedGradients(const RecordedGradients &) = delete;
  ~RecordedGradients();
  void add(Mark &mark);
  /// The next ones to be added need no memory.
  void reserve(size_t number) { marks.reserve(marks.size() + number); }
  size_t heapBytes() const { return heapBytesOf(marks); }

 private:
  std::vector<Mark *> marks;
  size_t limit = 16;  // at this size, marks without such a gradient are dropped
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

  /// Puts the first visible outputs into `outputs`, as many as fit.
  llvm::Error call(const CallRequest &request, llvm::MutableArrayRef<Tensor> outputs);

  /// Takes over the storage; null: new memory, or none if only shape and type are read.
  llvm::Expected<Tensor> makeTensor(OperandType type, Storage *storage, bool isShapeOnly = false);
  llvm::Expected<OperandType> typeOf(Dims dims, DType dtype);
  /// "call 12, operator 'square'"
  std::string describe(const TapeNode &node) const;
  std::string describeCall(uint64_t call, const NodeKind &kind) const;
  /// The same with the call site, and the calls whose gradient it computes.
  std::string describeFully(const TapeNode &node) const;
  /// The origin of the calls that a backward records for a node; null without memory.
  Origin *makeOrigin(const TapeNode &node);
  /// Explains the last miss of `plans`.
  std::string explainMiss() const;
  /// "tensor 'w'", "a tensor of shape (2,3)"
  static std::string describe(const TensorImpl &impl);
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
  /// A tensor of its own for what another one is now: memory, mark, and history as far as `mask` counts it.
  llvm::Expected<Tensor> snapshot(const TensorImpl &impl, uint8_t mask);

  const Imperative &owner;
  Context &ctx;
  const ImperativeOptions options;
  Store &store;
  SignatureTable signatures;
  PlanCache plans;
  uint64_t numCalls = 0, numDraws = 0;
  uint64_t droppedAtMiss = 0;  // SignatureTable::numDropped when the cache of plans missed last
  uint32_t epoch = 0;          // the last one that collecting has left in nodes; see nextEpoch
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

  /// The mark of a tensor, made if there is none. The call of a computed tensor is linked to it, for the delivery of
  /// its gradient and for hooks; tensors that are the same output of a call have one mark.
  llvm::Expected<Mark *> tiedMarkOf(TensorImpl &impl);
  /// The kind of an operator without attributes; `known` caches it.
  KindRow *kindOf(const OpDef &op, Kind &known);
  /// The kind of a call of the host's code (function_op.h). BadAttribute for more inputs or outputs than those may
  /// have.
  llvm::Expected<KindRow *> functionKind(const OpDef &op, llvm::StringRef name, size_t numArgs, size_t numOutputs);
  /// Flags that are off.
  std::shared_ptr<bool[]> makeFlags(size_t number) {
    return std::allocate_shared<bool[]>(PoolAllocator<bool>(store), number);
  }
  /// Zeros that x has nothing to do with, but which have a history, so that the next order of gradients is zero as well
  /// (HO-08).
  llvm::Expected<Tensor> trackedZeros(const Tensor &x);
  llvm::Error growWorkspace(size_t bytes);
  /// If the mark requests `add`, replaces a recorded gradient by its recorded sum with `before`.
  llvm::Error addRecorded(const Mark &mark, Tensor &gradient, const Tensor &before);
  /// Delivers a gradient to a mark that was not dropped; `isRecorded`: it has a history of its own, and is the sum
  /// already.
  void deliver(Mark &mark, Tensor gradient, bool isRecorded);
};

}  // namespace gradc
