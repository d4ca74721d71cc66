// Operators that split a tensor into rows and stack rows, handed to passes that unroll loops.
#pragma once

namespace gradc {

struct OpDef;

struct RowOps {
  const OpDef *split = nullptr;  // SliceChannel(x; num_outputs, axis, squeeze_axis)
  const OpDef *stack = nullptr;  // stack(x0, …; num_args, axis)
  const OpDef *full = nullptr;   // _full(; shape, dtype, value)
};

}  // namespace gradc
