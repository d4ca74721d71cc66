// What calls of one kind on operands of the same shapes and types have in common, determined once.
//
// Interned by kind, form, and per input shape, type and whether it is tracked. A signature has what a call needs: the
// outputs' shapes, the prepared kernel with its operands filled in except for their addresses, and the operands that the
// gradient reads (exact even for an operator that has only a decomposition).
// Tested by tests/imperative_edges_test.cc
#pragma once

#include "imperative/single_call.h"
#include "ir/kernel.h"
#include "runtime/executor.h"
#include "runtime/kernels/prepared_kernel.h"

#include "ir/dense_map.h"

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

struct Signature {
  uint32_t id = 0;
  KindId kind;
  KindRef called;             // the kind
  KindRef handle;             // what runs: the kind, or one whose bodies also yield what gradients read
  std::vector<uint64_t> key;  // form, then per input its type and whether it is tracked, then the known outputs
  bool isTraining = false, isRandom = false, isTracked = false, isPrepared = false;
  bool isUsed = false;      // since the hand of the clock last passed (evict)
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

  size_t numInputs() const { return inputs.size(); }
  bool isInput(KeptOperand operand) const { return operand < inputs.size(); }
};

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

/// Kinds by number, and their signatures.
class SignatureTable {
 public:
  SignatureTable(Context &context, ShapeTable &shapes, const SignatureOptions &options, size_t maxKernels)
      : ctx(context), shapes(shapes), options(options), maxKernels(maxKernels) {}

  KindId kindId(const KindRef &kind);
  uint32_t numKinds() const { return static_cast<uint32_t>(rows.size()); }
  const KindRef &kind(KindId id) const { return rows[id.value].kind; }

  /// `key` as in Signature. `known` are the types of the outputs if the caller has them, as for fused backward operators, which
  /// cannot be inferred as single nodes; else they are inferred (E-50, E-58). E-42 for another number of inputs, E-63 for types
  /// no kernel computes in, E-32 for an operator without kernel. The signature lives as long as the table.
  llvm::Expected<Signature *> find(KindId kind, llvm::ArrayRef<uint64_t> key, llvm::ArrayRef<KnownOutput> known) {
    Row &row = rows[kind.value];
    Signature *signature = row.last;
    if (!signature || llvm::ArrayRef(signature->key) != key) {
      llvm::Expected<Signature *> found = findSlow(kind, key, known);
      if (!found) return found.takeError();
      row.last = signature = *found;
    }
    signature->isUsed = true;
    if (!signature->isPrepared)
      if (llvm::Error error = prepare(*signature)) return error;
    return signature;
  }
  uint32_t size() const { return static_cast<uint32_t>(all.size()); }
  const Signature &operator[](uint32_t id) const { return *all[id]; }
  /// Without prepared kernels. Linear in signatures.
  size_t heapBytes() const;
  /// Signatures with a prepared kernel.
  size_t numPrepared() const { return prepared.size(); }

 private:
  struct Row {
    KindRef kind;
    Signature *last = nullptr;
  };

  llvm::Expected<Signature *> findSlow(KindId kind, llvm::ArrayRef<uint64_t> key, llvm::ArrayRef<KnownOutput> known);
  llvm::Expected<std::unique_ptr<Signature>> make(KindId kind, llvm::ArrayRef<uint64_t> key,
                                                  llvm::ArrayRef<KnownOutput> known);
  llvm::Error prepare(Signature &signature);
  llvm::Error prepareBodies(Signature &signature);
  /// Drops kernels beyond the limit, but not the one prepared last, which is about to run.
  void evict();

  Context &ctx;
  ShapeTable &shapes;
  const SignatureOptions options;
  const size_t maxKernels;
  std::vector<Row> rows;
  DenseMap<uint64_t, llvm::SmallVector<Signature *, 1>> byHash;
  DenseMap<const NodeKind *, uint32_t> numbers;
  std::vector<std::unique_ptr<Signature>> all;
  std::vector<Signature *> prepared;  // the clock, around which the hand goes
  size_t hand = 0;
};

}  // namespace gradc
