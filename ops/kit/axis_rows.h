// A tensor seen as rows along one axis, as softmax, normalisations and per-channel operators walk over it.
// Tested by tests/ops/layer_ops_test.cc
#pragma once

#include "ir/tensor/shape.h"

namespace gradc {

/// Element k of row r is at begin(r) + k · inner.
struct AxisRows {
  int64_t outer = 1, length = 1, inner = 1;

  /// Rows run along `axis` of `shape`.
  AxisRows(Dims shape, size_t axis) {
    for (size_t i = 0; i < shape.size(); ++i) (i < axis ? outer : i == axis ? length : inner) *= shape[i];
  }
  int64_t count() const { return outer * inner; }
  int64_t begin(int64_t row) const { return row / inner * length * inner + row % inner; }

  /// Calls visit(offset) for every element whose index along the axis is `k`, in order.
  template <class F> void forEachAcross(int64_t k, F visit) const {
    for (int64_t o = 0; o < outer && inner > 0; ++o) {
      const int64_t first = (o * length + k) * inner;
      for (int64_t i = first; i < first + inner; ++i) visit(i);
    }
  }
};

}  // namespace gradc
