// A non-owning view of one tensor in memory, as kernels see it.
#pragma once

#include "ir/tensor/shape.h"
#include "ir/tensor/types.h"

#include <cassert>

namespace gradc {

/// Contiguous, 64-byte aligned when it is in an arena. `shape` is fully known and outlives the view. Memory that is not
/// dense and row-major (C order) is marked by `layout` and `storage`; reference kernels never receive such views.
struct TensorRef {
  void *data = nullptr;
  DType dtype = DType::Unknown;
  Layout layout = Layout::Plain;
  StorageKind storage = StorageKind::Dense;
  Dims shape;

  TensorRef() = default;
  TensorRef(void *data, DType dtype, Dims shape, Layout layout = Layout::Plain,
            StorageKind storage = StorageKind::Dense)
      : data(data), dtype(dtype), layout(layout), storage(storage), shape(shape) {}

  bool isRowMajorDense() const { return layout == Layout::Plain && storage == StorageKind::Dense; }

  template <class T> T *as() const { return static_cast<T *>(data); }
  int64_t size() const {
    int64_t product = 1;
    for (int64_t dim : shape) product *= dim;
    return product;
  }
  size_t bytes() const { return static_cast<size_t>(size()) * dtypeBytes(dtype); }
};

}  // namespace gradc
