// Which operators have fast kernels: one explicit list. Tested by tests/fast_kernels_test.cc
#pragma once

#include "runtime/kernels/prepared_kernel.h"

namespace gradc {

/// What the layouts of a kernel's operands of rank four have to do with each other.
enum class LayoutRole : uint8_t {
  Plain,   // it takes plain operands only
  Same,    // all have one layout, whichever
  Own,     // each may have its own
};

struct FastKernelRow {
  llvm::StringRef name;
  KernelFactory make;
  LayoutRole role;
};

/// Sorted by name.
llvm::ArrayRef<FastKernelRow> fastKernelTable();
/// The row of a built-in operator, or null. An operator of a host that merely has the same name is not in the table.
const FastKernelRow *findFastKernel(const OpDef &op);

}  // namespace gradc
