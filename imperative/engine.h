// What an Imperative is made of. Functions expect the lock of the store to be held.
#pragma once

#include "imperative/host_run.h"
#include "imperative/imperative.h"
#include "imperative/plan_cache.h"
#include "imperative/signature.h"
#include "imperative/tape.h"
#include "ir/dense_map.h"
#include "runtime/failures.h"

#include "llvm/ADT/SmallPtrSet.h"

namespace gradc {

struct CallRequest {
  KindId kind;
  Tensors inputs;
  Modes modes;
  CallSite site = {};
  Tensors into = {};  // per visible output; none: new tensors
  llvm::ArrayRef<KnownOutput> known =
      {};                       // all outputs, where known; one that is not wanted comes back as an empty handle
  TapeNode *forward = nullptr;  // of a fused backward operator
  Origin *origin = nullptr;     // of what the call computes the gradient of
  uint64_t draw = 0;            // of a random operator that repeats what another drew; 0: it draws
  Storage *state = nullptr;     // of the object that the kernel finds; null: none
};

/// The host's object behind TapeNode::state; null for none.
inline void *objectOf(const Storage *state) {
  return state ? static_cast<const std::shared_ptr<void> *>(state->releaseUser)->get() : nullptr;
}

/// Where an input of a call comes from, held. `mask`: the bits of TensorImpl::tracked that count.
Edge edgeOf(TensorImpl &impl, uint8_t mask);

/// What one backward works with, reused by the next: a steady step allocates nothing.
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
  struct Recorded {
    std::vector<Tensor> values;        // by entry of the combined graph
    std::vector<Origin *> origins;     // by call, made as they are needed
    std::vector<uint32_t> versions;    // of the forward values
    std::vector<uint8_t> isDelivered;  // by result: its leaf has it already
    llvm::SmallPtrSet<const Storage *, 16> taken;
  } recorded;  // of a replay call by call

  size_t heapBytes() const;
  void clear();
};

/// Marks whose gradient is a buffer of the caller's, with request write: of each buffer the last one.
class BufferMarks {
 public:
  BufferMarks() = default;
  BufferMarks(const BufferMarks &) = delete;
  ~BufferMarks();
  void add(const Storage &buffer, Mark &mark);
  /// Whether another mark writes there.
  bool isOthers(const Storage &buffer, const Mark &mark) const;
  size_t size() const { return marks.size(); }

 private:
  DenseMap<const Storage *, Mark *> marks;
  size_t limit = 16;  // when it has so many, those that nobody else refers to go
};

/// Marks whose gradient has a history. It leads back to the leaf, so leaf and gradient keep each other: until the gradient is
/// replaced, or else until the Imperative ends, which takes the histories away.
class RecordedGradients {
 public:
  RecordedGradients() = default;
  RecordedGradients(const RecordedGradients &) = delete;
  ~RecordedGradients();
  void add(Mark &mark);

 private:
  std::vector<Mark *> marks;
  size_t limit = 16;  // when it has so many, those without such a gradient go
};

class Engine {
 public:
  Engine(const Imperative &owner, Context &context, const ImperativeOptions &options)
      : owner(owner), ctx(context), options(options), store(*new Store(options.cachedBytes)),
        signatures(context, store.shapes, {options.backend, options.threads}, options.maxKernels),
        plans(options.planBytes) {}
  ~Engine();

  /// Puts the first visible outputs into `outputs`, as many as it has.
  llvm::Error call(const CallRequest &request, llvm::MutableArrayRef<Tensor> outputs);

  /// Takes over the storage; null: new memory, or none where only shape and type are looked at.
  llvm::Expected<Tensor> makeTensor(OperandType type, Storage *storage, bool isShapeOnly = false);
  llvm::Expected<OperandType> typeOf(Dims dims, DType dtype);
  /// "call 12, operator 'square'"
  std::string describe(const TapeNode &node) const;
  std::string describeCall(uint64_t call, uint32_t kind) const;
  /// The same with where the host called it, and what it computes the gradient of.
  std::string describeFully(const TapeNode &node) const;
  /// The call of a node for those that a backward records for it; null without memory.
  Origin *makeOrigin(const TapeNode &node);
  /// In words, of `plans`.
  std::string explainMiss() const;
  /// "tensor 'w'", "a tensor of shape (2,3)"
  static std::string describe(const TensorImpl &impl);
  /// E-44 for a tensor of another Imperative, E-14 for no tensor.
  llvm::Error checkOwn(Tensors list, const llvm::Twine &what) const;
  /// E-44 for a kind that this Imperative has not made.
  llvm::Error checkOwn(KindId kind) const;
  /// The mark of a tensor, made if there is none.
  llvm::Expected<Mark *> markOf(TensorImpl &impl);
  /// Bits of TensorImpl::tracked that count in these modes.
  static uint8_t trackedMask(const Modes &modes) {
    return modes.recording == Recording::Off ? 0 : modes.recording == Recording::On ? kTracked : kTrackedByLeaf;
  }
  llvm::Error checkWritable(const TensorImpl &impl, const Modes &modes) const;

  const Imperative &owner;
  Context &ctx;
  const ImperativeOptions options;
  Store &store;
  SignatureTable signatures;
  PlanCache plans;
  uint64_t numCalls = 0, numDraws = 0, numTensors = 0;
  uint32_t epoch = 0;                           // of the marks that collecting leaves in nodes
  std::vector<std::unique_ptr<Scratch>> spare;  // not in use by a backward
  Storage *workspace = nullptr;
  std::vector<uint64_t> callKey;  // of the signature of the call under way

  BufferMarks bufferMarks;
  RecordedGradients recordedGradients;
  FailureSlot failure;                      // of kernels of calls
  std::optional<KindId> copyKind, addKind;  // once they are needed

  /// The call of a computed tensor knows its mark: whose gradient to bring, and what hooks see.
  llvm::Error tieToCall(TensorImpl &impl, Mark &mark);
  /// Of an operator without attributes; `known` remembers it.
  KindId kindOf(const OpDef &op, std::optional<KindId> &known);
  llvm::Error growWorkspace(size_t bytes);
  /// Makes of a recorded gradient the recorded sum with what it is added to, if it is.
  llvm::Error addRecorded(const Mark &mark, Tensor &gradient);
  /// Brings a gradient to a mark; `isRecorded`: it has a history of its own, and is the sum already.
  void deliver(Mark &mark, Tensor gradient, bool isRecorded);
};

}  // namespace gradc
