// A non-owning view of one tensor in memory, as kernels see it.
#pragma once

#include "ir/shape.h"
#include "ir/types.h"

#include <cassert>

namespace gradc {

/// Row-major (C order), contiguous, 64-byte aligned when it lives in an arena. `shape` is fully known and outlives the view.
struct TensorRef {
  void *data = nullptr;
  DType dtype = DType::Unknown;
  Dims shape;

  template <class T> T *as() const { return static_cast<T *>(data); }
  int64_t size() const {
    int64_t product = 1;
    for (int64_t dim : shape) product *= dim;
    return product;
  }
  size_t bytes() const { return static_cast<size_t>(size()) * dtypeBytes(dtype); }
};

}  // namespace gradc
