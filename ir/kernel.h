// The signature of everything that computes values: reference kernels in OpDefs, fast kernels of the runtime.
//
// A kernel writes every output whose request is Write or InPlace completely, and does not touch one whose request is
// Null. It never sees Add: the executor runs the kernel into scratch and adds once (REQ-06), unless the kernel's table
// row says that it accumulates itself. Buffers of an in-place pair may be the same memory; no other buffers overlap.
#pragma once

#include "ir/error.h"
#include "ir/op.h"
#include "ir/tensor.h"

#include "llvm/Support/Error.h"

#include <string>

namespace gradc {

/// Draws of a random operator: a pure function of (seed, step, ordinal of the node among random forward nodes, counter).
struct RandomKey {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint64_t ordinal = 0;

  uint64_t bits(uint64_t counter) const;
  /// Uniform in [0, 1), 53 bits.
  double uniform(uint64_t counter) const { return static_cast<double>(bits(counter) >> 11) * 0x1.0p-53; }
};

/// How one call is made: the form it runs in and what it draws. A backward node runs as its forward call did (RET-08).
struct CallForm {
  bool isTraining = false;
  RandomKey random;
};

/// Thrown by a kernel that cannot compute although everything it was made for holds, or that meets a value it refuses.
/// Executor::run makes an error of it.
struct KernelError {
  std::string message;
  ErrorKind kind = ErrorKind::Internal;
};

/// A body of a node, prepared once and run many times. Memory is the kernel's that runs it.
class BodyRunner {
 public:
  virtual ~BodyRunner() = default;
  /// An input, in id order, and a head of the body, with the memory that was bound last; null data for a head that is not wanted.
  virtual TensorRef input(size_t i) const = 0;
  virtual TensorRef head(size_t h) const = 0;
  /// From the next run on, where an input is read, and where a head is written. No head's memory overlaps that of an input.
  virtual void bindInput(size_t i, void *data) = 0;
  virtual void bindHead(size_t h, void *data) = 0;
  /// Every input and every wanted head is bound. Random operators draw numbers of `key`. Throws what its kernels throw.
  virtual void run(const RandomKey &key) = 0;
};

struct KernelCall {
  const NodeKind *kind = nullptr;
  llvm::ArrayRef<TensorRef> in;      // in the operator's input order; ignored inputs may have null data
  llvm::ArrayRef<TensorRef> out;     // all outputs, hidden ones included
  llvm::ArrayRef<Request> requests;  // one per output
  bool isTraining = false;           // batch norm, dropout: the training form
  RandomKey random;
  llvm::ArrayRef<BodyRunner *> bodies;  // of an operator with a flow
  void *workspace = nullptr;            // as many bytes as the operator's `workspace` function requested
  void *state = nullptr;                // the host's object for this node, bound by whoever runs the graph; null: none
  /// Success. A kernel of a host that does not throw leaves its error here, and its outputs count for nothing then. Null where
  /// nobody looks: checks of the operator by itself.
  llvm::Error *failure = nullptr;

  bool wants(size_t output) const { return requests[output] != Request::Null; }
  template <class P> const P &params() const { return kind->params<P>(); }
};

/// A call for gradcheck: `base` are the inputs at the base point, which decide the active piece (mask, argmax).
struct PieceCall : KernelCall {
  llvm::ArrayRef<TensorRef> base;
};

}  // namespace gradc
