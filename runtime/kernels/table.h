// Which operators have fast kernels: those with a row in the file of a kernel, and element-wise operators by their
// flags. Tested by tests/runtime/kernels/fast_kernel_table_test.cc
#pragma once

#include "runtime/kernels/core/kernel_row.h"

namespace gradc {

/// Sorted by name.
llvm::ArrayRef<const FastKernelRow *> fastKernelTable();
/// The row of a built-in operator; or a nameless row for an operator that brings a fast kernel, is element-wise, or is
/// a built-in optimizer step. Null for all others, whatever their names.
const FastKernelRow *findFastKernel(const OpDef &op);
/// How the operator's reference kernel treats layouts: Elements for built-in optimizer steps, else Plain.
LayoutRole referenceRole(const OpDef &op);

}  // namespace gradc
