// Row-major walks over tensors with arbitrary strides: the index arithmetic of broadcasting and reductions.
//
// A walk visits every index of `dims` in row-major order and keeps one offset into a buffer. Stride 0 repeats a
// dimension, which is all that broadcasting is. Tested by tests/ops/reduce_ops_test.cc
#pragma once

#include "ir/tensor/shape.h"

namespace gradc {

class StridedWalk {
 public:
  /// `strides` in elements, one per dimension.
  StridedWalk(Dims dims, Dims strides)
      : dims(dims.begin(), dims.end()), strides(strides.begin(), strides.end()), index(dims.size(), 0) {}

  int64_t offset() const { return at; }

  /// Moves to the next index; after the last one the walk is back at the first.
  void next() {
    for (size_t axis = dims.size(); axis-- > 0;) {
      at += strides[axis];
      if (++index[axis] < dims[axis]) return;
      at -= dims[axis] * strides[axis];
      index[axis] = 0;
    }
  }

 private:
  DimsBuffer dims, strides, index;
  int64_t at = 0;
};

/// Row-major strides of `dims`.
inline DimsBuffer contiguousStrides(Dims dims) {
  DimsBuffer strides(dims.size(), 1);
  for (size_t axis = dims.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * dims[axis];
  return strides;
}

/// Strides with which a tensor of shape `part` is read at the indices of `whole`: aligned at the last axis (NumPy), 0
/// where `part` has no such axis or a single element along it.
inline DimsBuffer broadcastStrides(Dims whole, Dims part) {
  DimsBuffer own = contiguousStrides(part), strides(whole.size(), 0);
  for (size_t back = 1; back <= part.size(); ++back)
    if (part[part.size() - back] != 1) strides[whole.size() - back] = own[part.size() - back];
  return strides;
}

}  // namespace gradc
