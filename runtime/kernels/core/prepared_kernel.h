// A fast kernel: made once for one node of known shapes, run once per step.
//
// A kernel computes the same as the operator's reference kernel, up to rounding. It may request scratch, and layouts
// other than row-major for operands of rank three or four (runtime/kernels/layout_settlement.h decides). It never sees
// Request::Add, and like a reference kernel leaves unrequested outputs alone and works when the operator's in-place
// pairs share memory. Tested by tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/rules/kernel.h"

#include <memory>

namespace gradc {

/// The pixels of one channel of images (n, c, h, w) or lines (n, c, w).
inline int64_t numPixels(Dims images) {
  int64_t pixels = 1;
  for (int64_t extent : images.drop_front(2)) pixels *= extent;
  return pixels;
}

/// A node to make a kernel for. The operands have shapes, types and layouts, but no data; they are row-major unless the
/// operator's table row allows more.
struct KernelSite {
  const NodeKind *kind = nullptr;
  llvm::ArrayRef<TensorRef> in, out;
  llvm::ArrayRef<Request> requests;  // per output: Null or Write
  bool isTraining = false;
  unsigned threads = 1;
  /// keepsTape: the workspace of this forward operator is kept for its gradient. hasTape: this gradient operator
  /// receives the workspace of its forward kernel.
  bool keepsTape = false, hasTape = false;

  bool wants(size_t output) const { return requests[output] != Request::Null; }
};

/// Conversions, in one run of a kernel, between the layouts of entries and those that oneDNN computes in.
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
  /// `call.workspace` has workspaceBytes(), aligned to 64. Throws KernelError, and std::bad_alloc if there is no
  /// memory.
  virtual void run(const KernelCall &call) = 0;
  virtual size_t workspaceBytes() const { return 0; }
  virtual Reorders reorders() const { return {}; }
  /// Gives a kernel made with `hasTape` the workspace of its forward kernel, which has run before each run of this one
  /// and whose workspace nothing else reads. Called once, before the first run.
  virtual void takeTape(void *) {}
  /// Whether `run` also accepts parts: the same range of every operand, as vectors, but one-element operands whole
  /// where others have more elements. Parts may run in any order and in parallel, with the same bits.
  virtual bool takesParts() const { return false; }
  /// False if it only feeds the reference kernel.
  virtual bool isFast() const { return true; }
};

/// One that divides its work among threads.
class ThreadedKernel : public PreparedKernel {
 public:
  explicit ThreadedKernel(unsigned threads) : threads(threads) {}

 protected:
  const unsigned threads;
};

/// One that takes parts, and divides their elements among threads.
class PartwiseKernel : public ThreadedKernel {
 public:
  explicit PartwiseKernel(const KernelSite &site) : ThreadedKernel(site.threads) {}
  bool takesParts() const final { return true; }
};

/// Returns null if the node is better left to the reference kernel.
using KernelFactory = std::unique_ptr<PreparedKernel> (*)(const KernelSite &);

}  // namespace gradc
