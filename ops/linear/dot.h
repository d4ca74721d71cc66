// What the kernels of the runtime and other operators read of ops/linear/dot.cc. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/op/op.h"

#include <cstdint>

namespace gradc {

/// Of dot, and of batch_dot (ops/linear/batch_dot.h).
struct DotTransposes {
  bool a, b;
};
DotTransposes dotTransposes(const NodeKind &kind);

/// Operands of dot as matrices: lhs (m, k) or, transposed, (k, m); rhs (k, n) or (n, k). m and n gather all remaining
/// axes.
struct DotExtents {
  int64_t m, n, k;
};
DotExtents dotExtents(DotTransposes transposes, Dims lhs, Dims rhs);

}  // namespace gradc
