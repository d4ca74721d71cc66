// The rows in which files of fast kernels list what they offer; runtime/kernels/table.h collects them. Tested by
// tests/runtime/kernels/fast_kernel_table_test.cc
#pragma once

#include "ir/graph/graph.h"
#include "runtime/kernels/core/prepared_kernel.h"

namespace gradc {

/// Constraints on the layouts of an operator's rank-four operands.
enum class LayoutRole : uint8_t {
  Plain,        // row-major operands only
  Same,         // images, all of one layout
  Elements,     // element by element: any layout, but all the same
  Independent,  // images, each of which may have any layout; filters where the row says
};

/// The filters among the operands of role Independent.
struct FilterOperands {
  static constexpr int8_t kNone = -1;
  int8_t in = kNone, out = kNone;
  /// Whether FilterTiles are better for this node on this processor. The site's layouts are not settled yet.
  bool (*suitTiles)(const KernelSite &) = nullptr;
};

/// In the row of a gradient operator: from which forward kernel its kernel can take over a tape, and when.
struct TapeOperands {
  llvm::StringRef forward;  // the forward operator
  /// Whether both nodes, whose attributes are the same, compute on the same operands.
  bool (*fit)(const NodeKind &forward, llvm::ArrayRef<Value> forwardInputs,
              llvm::ArrayRef<Value> backwardInputs) = nullptr;
};

struct FastKernelRow {
  llvm::StringRef name;
  KernelFactory make;
  LayoutRole role;
  FilterOperands filters = {};
  TapeOperands tape = {};
};

using FastKernels = llvm::ArrayRef<FastKernelRow>;

namespace fast {

#define FAMILY(name) extern const FastKernels k##name##Kernels;
#include "runtime/kernels/core/families.def"
#undef FAMILY

}  // namespace fast
}  // namespace gradc
