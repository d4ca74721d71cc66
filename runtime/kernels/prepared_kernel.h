// A fast kernel: made once for one node of known shapes, run once per step.
//
// What a kernel computes is what the operator's reference kernel defines, up to rounding. It may ask for scratch and for
// operands of rank four in other orders than row-major (runtime/kernels/layout_settlement.h decides). It never sees
// Request::Add, and like a reference kernel leaves unrequested outputs alone and works where the operator's in-place pairs
// share memory.
// Tested by tests/fast_kernels_test.cc
#pragma once

#include "ir/kernel.h"

#include <memory>

namespace gradc {

/// A node to make a kernel for. The operands have shapes, types and layouts, and no data; they are row-major unless the
/// operator's table row allows more.
struct KernelSite {
  const NodeKind *kind = nullptr;
  llvm::ArrayRef<TensorRef> in, out;
  llvm::ArrayRef<Request> requests;  // per output: Null or Write
  bool isTraining = false;
  unsigned threads = 1;
  /// Of a forward operator: its workspace is kept for a gradient operator. Of that one: it has this kernel's workspace.
  bool keepsTape = false, hasTape = false;

  bool wants(size_t output) const { return requests[output] != Request::Null; }
};

/// Conversions between the layouts of the entries and those oneDNN computes in, of one run of a kernel.
struct Reorders {
  uint32_t numWeights = 0, numImages = 0;
  size_t bytes = 0;  // read

  Reorders &operator+=(const Reorders &other) {
    numWeights += other.numWeights;
    numImages += other.numImages;
    bytes += other.bytes;
    return *this;
  }
};

class PreparedKernel {
 public:
  virtual ~PreparedKernel() = default;
  /// `call.workspace` has workspaceBytes(), aligned to 64. Throws KernelError, and std::bad_alloc without memory.
  virtual void run(const KernelCall &call) = 0;
  virtual size_t workspaceBytes() const { return 0; }
  virtual Reorders reorders() const { return {}; }
  /// Of a kernel made with `hasTape`: the workspace of the forward kernel, which has run just before each run of this one
  /// and which nothing else reads. Called once, before the first run.
  virtual void takeTape(void *) {}
  /// Whether `run` also takes a part of the elements: the same range of every operand, as vectors, and whole those of one
  /// element where the others have more. The parts may be run in any order, side by side, with the same bits.
  virtual bool takesParts() const { return false; }
  /// False where it brings operands to the reference kernel.
  virtual bool isFast() const { return true; }
};

/// Null when this node is better left to the reference kernel.
using KernelFactory = std::unique_ptr<PreparedKernel> (*)(const KernelSite &);

}  // namespace gradc
