// Operators that split a tensor into rows and stack rows, handed to passes that unroll loops.
#pragma once

#include "ir/op/op.h"
#include "ir/tensor/shape.h"

namespace gradc {

/// Kinds of nodes. A row is an element of axis 0.
struct RowOps {
  using Kind = WellKnownOps::Kind;

  /// All rows of x, with or without the axis: SliceChannel(x).
  Kind (*split)(Context &, int64_t count, bool dropsAxis) = nullptr;
  /// Rows without the axis as one tensor: stack(x0, …).
  Kind (*stack)(Context &, size_t count) = nullptr;
  /// One number throughout: _full().
  Kind (*full)(Context &, Dims shape, DType type, int64_t value) = nullptr;
};

}  // namespace gradc
