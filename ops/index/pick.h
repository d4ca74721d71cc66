// What the kernels of the runtime read of ops/index/pick.cc. Tested by tests/ops/indexing_ops_test.cc
#pragma once

#include "ops/index/rows.h"

namespace gradc {

/// The indices of pick, its gradient and batch_take, one for each row of the data.
AxisIndices pickedIndices(const NodeKind &kind, const TensorRef &numbers, Dims data);

/// Calls visit(row, number of the picked element) for the rows [begin, end) of the data.
template <class F> void forPicked(const AxisIndices &indices, Dims data, int64_t begin, int64_t end, F visit) {
  const AxisRows rows(data, static_cast<size_t>(indices.axis));
  const int64_t count = end - begin;
  indices.part(begin, count).forEach([&](int64_t i, int64_t at) {
    visit(begin + i, rows.begin(begin + i) + at * rows.inner);
  });
}

/// The rows [begin, end) of one_hot.
void markClasses(const KernelCall &call, int64_t begin, int64_t end);

}  // namespace gradc
