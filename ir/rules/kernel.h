// The signature of everything that computes values: reference kernels in OpDefs, fast kernels of the runtime.
//
// A kernel writes every output whose request is Write or InPlace completely, and does not touch one whose request is
// Null. It never sees Add: the executor adds the finished result once (REQ-06). Buffers of an in-place pair may be the
// same memory; no other buffers overlap.
#pragma once

#include "ir/base/error.h"
#include "ir/op/op.h"
#include "ir/tensor/random_stream.h"
#include "ir/tensor/tensor.h"

#include "llvm/Support/Error.h"

#include <string>

namespace gradc {

/// The form that one call runs in, and its random numbers. A backward node runs in the form of its forward call
/// (RET-08).
struct CallForm {
  bool isTraining = false;
  RandomKey random;
};

/// Thrown by a kernel that cannot compute although its preconditions hold, or that meets a value it refuses.
/// Executor::run turns it into an llvm::Error.
struct KernelError {
  std::string message;
  ErrorKind kind = ErrorKind::Internal;
};

/// A body of a node, prepared once and run many times. The kernel that runs it provides the memory.
class BodyRunner {
 public:
  virtual ~BodyRunner() = default;
  /// An input (in id order) or a head of the body, with the memory bound last; data is null for a head that is not
  /// requested.
  virtual TensorRef input(size_t i) const = 0;
  virtual TensorRef head(size_t h) const = 0;
  /// Sets where the following runs read an input or write a head. Only a state in place has one memory for both.
  virtual void bindInput(size_t i, void *data) = 0;
  virtual void bindHead(size_t h, void *data) = 0;
  /// Requires every input and every requested head to be bound. Random operators draw from `key`. Throws what its
  /// kernels throw.
  virtual void run(const RandomKey &key) = 0;
};

struct KernelCall {
  const NodeKind *kind = nullptr;
  llvm::ArrayRef<TensorRef> in;      // in the operator's input order; ignored inputs may have null data
  llvm::ArrayRef<TensorRef> out;     // all outputs, hidden ones included
  llvm::ArrayRef<Request> requests;  // one per output; Null for each output without elements
  bool isTraining = false;           // batch norm, dropout: the training form
  RandomKey random;
  llvm::ArrayRef<BodyRunner *> bodies;  // for operators with a flow
  void *workspace = nullptr;            // as many bytes as the operator's `workspace` function requested
  void *state = nullptr;                // the host's object for this node, bound by the caller of the graph; null: none
  /// Initially success. A host's kernel that does not throw stores its error here; its outputs are then discarded. Null
  /// if the caller ignores errors, as checks of a single operator do.
  llvm::Error *failure = nullptr;

  bool wants(size_t output) const { return requests[output] != Request::Null; }
  template <class P> const P &params() const { return kind->params<P>(); }
};

/// A call for gradcheck: `base` are the inputs at the base point, which decide the active piece (mask, argmax).
struct PieceCall : KernelCall {
  llvm::ArrayRef<TensorRef> base;
};

}  // namespace gradc
