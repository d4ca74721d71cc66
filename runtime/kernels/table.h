// Which operators have fast kernels: one explicit list, and those that work element by element by their flags. Tested by tests/fast_kernels_test.cc
#pragma once

#include "ir/graph.h"
#include "runtime/kernels/prepared_kernel.h"

namespace gradc {

/// What the layouts of an operator's operands of rank four have to do with each other.
enum class LayoutRole : uint8_t {
  Plain,     // row-major operands only
  Same,      // images, all of one layout
  Elements,  // element by element: all of one layout, whichever
  Own,       // images, each with its own layout; filters where the row says
};

/// The filters among the operands of role Own.
struct FilterOperands {
  static constexpr int8_t kNone = -1;
  int8_t in = kNone, out = kNone;
  /// Whether they are better off as FilterTiles, for this node on this processor. The site's layouts say nothing yet.
  bool (*suitTiles)(const KernelSite &) = nullptr;
};

/// For the row of a gradient operator: how its kernel takes over what the forward operator's kernel kept.
struct TapeOperands {
  llvm::StringRef forward;  // the operator
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
/// The row of a built-in operator, or a row without name of one that brings its fast kernel, works element by element, or is
/// a built-in step of an optimizer; else null, whatever its name.
const FastKernelRow *findFastKernel(const OpDef &op);
/// What the operator's reference kernel makes of layouts: Elements for the built-in ones listed, else Plain.
LayoutRole referenceRole(const OpDef &op);

}  // namespace gradc
