// The kernel of a node with 16-bit operands: converts them, runs the float32 kernel, converts back
// (ir/rules/widening.h). Tested by tests/ir/widening_test.cc
#pragma once

#include "ir/rules/widening.h"
#include "runtime/kernels/core/prepared_kernel.h"

namespace gradc {

/// Makes the kernel of a site whose operands are those of the float32 kernel; null: the reference kernel.
using WidenedFactory = llvm::function_ref<std::unique_ptr<PreparedKernel>(const KernelSite &)>;

class WidenedKernel : public PreparedKernel {
 public:
  /// `site` has the node's operands in the types in which they are stored, row-major; `widening` is for these operands.
  /// Null if neither the factory nor the operator has a kernel.
  static std::unique_ptr<WidenedKernel> create(const KernelSite &site, const Widening &widening, WidenedFactory make);

  /// The workspace is the scratch of the widening, then that of the inner kernel.
  void run(const KernelCall &call) override;
  size_t workspaceBytes() const override { return widening.scratchBytes() + innerBytes; }
  Reorders reorders() const override { return whole ? whole->reorders() : Reorders(); }
  bool isFast() const override { return whole != nullptr; }

 private:
  WidenedKernel(const KernelSite &site, const Widening &widening);
  void runPart(const KernelCall &call, int64_t begin, int64_t size, PreparedKernel *inner);
  TensorRef innerOperand(size_t i, const TensorRef &stored, char *scratch, int64_t begin) const;
  void widenInputs(const KernelCall &call, int64_t begin, int64_t size) const;
  void narrowResults(const KernelCall &call, int64_t begin, int64_t size) const;
  int64_t length(const TensorRef &stored, int64_t size) const { return widening.blockLength() ? size : stored.size(); }

  Widening widening;
  unsigned threads;
  std::unique_ptr<PreparedKernel> whole, rest;  // of the operands or of a block, and of the last, shorter block
  size_t innerBytes = 0;
  int64_t partDims[1] = {0}, restDims[1] = {0};
  llvm::SmallVector<TensorRef, 8> operands;  // of the current part, inputs first
  llvm::SmallVector<Request, 4> requests;
};

}  // namespace gradc
