// What calls of one kind on operands of the same shapes and types have in common, determined once.
//
// Interned by kind, form, and per input shape, type and whether it is tracked. A signature has what a call needs: the
// outputs' shapes, the prepared kernel with its operands filled in except for their addresses, and the operands that
// the gradient reads (exact even for an operator that has only a decomposition). Tested by
// tests/imperative/imperative_edges_test.cc
#pragma once

#include "imperative/tape/kind.h"
#include "imperative/tape/single_call.h"
#include "imperative/tape/tape_shapes.h"
#include "ir/rules/kernel.h"
#include "runtime/executor/executor.h"
#include "runtime/kernels/core/prepared_kernel.h"

#include "ir/base/dense_map.h"

#include <memory>

namespace gradc {

/// An output whose type the caller knows.
struct KnownOutput {
  OperandType type;
  bool isWanted = true;  // else its contents do not matter, and it is not computed
  bool isRead = false;   // although it is hidden
};

/// The number of an operand: inputs first, then outputs.
using KeptOperand = uint32_t;

/// Counted: the table, the calls on the tape and the compiled backwards hold it.
struct Signature {
  std::atomic<uint32_t> refs{1};
  uint32_t prepaid = 0;  // references taken in advance: a recorded call only counts down
  uint32_t id = 0;       // unique among the signatures that exist
  KindRow *kind = nullptr;
  KindRef called;             // the kind
  KindRef handle;             // what runs: the kind, or one whose bodies also yield what gradients read
  std::vector<uint64_t> key;  // form, then per input its type and whether it is tracked, then the known outputs
  bool isTraining = false, isRandom = false, isTracked = false, isPrepared = false;
  bool isUsed = false;      // since the hand of the clock last passed (evict)
  bool isRecent = true;     // used since the last sweep
  bool isHostCode = false;  // the kernel is code of the host

  struct Output {
    OperandType type;
    size_t bytes = 0;
    bool isTracked = false;
    bool isWanted = true;
    bool isRead = false;
    bool hasMemory = false;    // visible, or hidden and kept or read; it may have no elements
    int32_t sharedInput = -1;  // the output is that input's memory under another shape
  };
  std::vector<Output> outputs;
  uint32_t numVisible = 0;
  std::vector<OperandType> inputs;
  std::vector<KeptOperand> kept;  // ascending
  std::vector<uint32_t> mutated;  // inputs

  std::vector<TensorRef> operands;  // inputs, then outputs; addresses are those of the last call
  std::vector<Request> requests;
  KernelCall call;  // views of the two
  std::unique_ptr<PreparedKernel> fast;
  PreparedBodies bodies;  // of an operator with a flow
  size_t workspaceBytes = 0;
  bool isEmpty = false;  // no output has an element: there is nothing to run
  ShapeReferences shapes;

  Signature() = default;
  ~Signature() {
    if (kind) release(kind);
  }
  size_t numInputs() const { return inputs.size(); }
  bool isInput(KeptOperand operand) const { return operand < inputs.size(); }
};

/// With the lock held.
inline void retain(Signature *signature) {
  if (signature->prepaid == 0) {
    signature->prepaid = 1 << 12;
    signature->refs.fetch_add(signature->prepaid, std::memory_order_relaxed);
  }
  --signature->prepaid;
}
/// By any thread.
inline void release(Signature *signature, uint32_t number = 1) {
  if (signature->refs.fetch_sub(number, std::memory_order_acq_rel) == number) delete signature;
}

struct SignatureOptions {
  Backend backend = Backend::Auto;
  unsigned threads = 1;
  IntegerPolicy integers = IntegerPolicy::Stop;

  bool carriesGradient(DType type) const { return integers == IntegerPolicy::Permissive || isFloating(type); }
};

/// The words of a key: the first one, and that of an operand.
inline uint64_t formWord(bool isTraining, size_t numInputs) {
  return isTraining | static_cast<uint64_t>(numInputs) << 1;
}
inline uint64_t keyWord(OperandType type, bool isTracked) {
  return type.shape.value | static_cast<uint64_t>(static_cast<uint8_t>(type.dtype)) << 32 |
         static_cast<uint64_t>(isTracked) << 40;
}
inline uint64_t keyWord(const KnownOutput &output) {
  return keyWord(output.type, output.isWanted) | static_cast<uint64_t>(output.isRead) << 41;
}

/// Kinds and their signatures. What no call, handle or compiled backward refers to is dropped at a sweep, when there
/// are twice as many as were left by the last one; signatures used since then stay.
class SignatureTable {
 public:
  SignatureTable(Context &context, Store &store, TapeShapes &shapes, const SignatureOptions &options, size_t maxKernels)
      : ctx(context), store(store), shapes(shapes), options(options), maxKernels(maxKernels) {}
  ~SignatureTable();

  KindRow *row(const KindRef &kind);
  /// The kind with this number; null if it was dropped.
  const KindRow *findKind(uint32_t number) const;

  /// The signature, which lives until the next call of `find` unless a caller refers to it. `known` are the types of
  /// the outputs if the caller knows them, as for fused backward operators, which cannot be inferred as single nodes;
  /// else they are inferred. E-42 for another number of inputs, E-50 and E-58 of inference, E-63 for types no kernel
  /// computes in, E-32 for an operator without kernel.
  llvm::Expected<Signature *> find(KindRow &row, llvm::ArrayRef<uint64_t> key, llvm::ArrayRef<KnownOutput> known) {
    Signature *signature = row.last;
    if (!signature || llvm::ArrayRef(signature->key) != key) {
      llvm::Expected<Signature *> found = findSlow(row, key, known);
      if (!found) return found.takeError();
      row.last = signature = *found;
    }
    signature->isUsed = signature->isRecent = true;
    if (!signature->isPrepared)
      if (llvm::Error error = prepare(*signature)) return error;
    return signature;
  }
  uint32_t size() const { return static_cast<uint32_t>(all.size() - freeIds.size()); }
  /// Null for the id of one that was dropped.
  const Signature *findById(uint32_t id) const { return id < all.size() ? all[id] : nullptr; }
  Signature *at(uint32_t id) const { return all[id]; }
  /// How many were dropped so far.
  uint64_t numDropped() const { return dropped; }
  /// Without prepared kernels, with shapes. Linear in signatures.
  size_t heapBytes() const;
  /// Signatures with a prepared kernel.
  size_t numPrepared() const { return prepared.size(); }

 private:
  llvm::Expected<Signature *> findSlow(KindRow &row, llvm::ArrayRef<uint64_t> key, llvm::ArrayRef<KnownOutput> known);
  llvm::Expected<Signature *> make(KindRow &row, llvm::ArrayRef<uint64_t> key, llvm::ArrayRef<KnownOutput> known);
  llvm::Error prepare(Signature &signature);
  llvm::Error prepareBodies(Signature &signature);
  /// Drops kernels beyond the limit, but not the one prepared last, which is about to run.
  void evict();
  void sweepSignatures();
  void sweepKinds();

  Context &ctx;
  Store &store;
  TapeShapes &shapes;
  const SignatureOptions options;
  const size_t maxKernels;
  std::vector<KindRow *> rows;  // by number, ascending
  uint32_t numKinds = 0;        // made so far
  size_t kindLimit = 1024, signatureLimit = 1024;
  uint64_t dropped = 0;
  DenseMap<uint64_t, llvm::SmallVector<Signature *, 1>> byHash;
  DenseMap<const NodeKind *, KindRow *> known;
  std::vector<Signature *> all;  // by id; null: free
  std::vector<uint32_t> freeIds;
  std::vector<Signature *> prepared;  // the clock, around which the hand goes
  size_t hand = 0;
};

}  // namespace gradc
