// What put_rows.cc takes over. Tested by tests/runtime/kernels/row_kernels_test.cc
#pragma once

#include "runtime/kernels/core/prepared_kernel.h"

namespace gradc::fast {

/// scatter_nd that adds what falls on one element.
std::unique_ptr<PreparedKernel> addAtTuples(const KernelSite &site);

}  // namespace gradc::fast
