// Which operators have fast kernels: an explicit list, and element-wise operators by their flags.
// Tested by tests/runtime/kernels/fast_kernel_table_test.cc
#pragma once

#include "ir/graph/graph.h"
#include "runtime/kernels/core/prepared_kernel.h"

namespace gradc {

/// Constraints on the layouts of an operator's rank-four operands.
enum class LayoutRole : uint8_t {
  Plain,     // row-major operands only
  Same,      // images, all of one layout
  Elements,  // element by element: any layout, but all the same
  Own,       // images, each with its own layout; filters where the row says
};

/// The filters among the operands of role Own.
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

/// Sorted by name.
llvm::ArrayRef<FastKernelRow> fastKernelTable();
/// The row of a built-in operator; or a nameless row for an operator that brings its own fast kernel, is element-wise, or is
/// a built-in optimizer step. Null for all others, whatever their names.
const FastKernelRow *findFastKernel(const OpDef &op);
/// How the operator's reference kernel treats layouts: Elements for built-in optimizer steps, else Plain.
LayoutRole referenceRole(const OpDef &op);

}  // namespace gradc
