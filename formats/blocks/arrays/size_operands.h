// Sizes, axes and positions that operators take as operands (`ShapeTensor`, `StartsTensorList`, `AxisTensor`). They
// become attributes where they are known before the program runs: constants, declared shapes, and what a few operators
// compute from those. The new shape of `reshape2` may have one unknown size, written as 0 if it is the size of the same
// axis of `X`, else as -1. Tested by tests/formats/blocks/size_operands_test.cc
#pragma once

#include "formats/blocks/program/block_program.h"
#include "ir/graph/context.h"

namespace gradc {

/// The program in which known operands of this kind are attributes; other operands stay. Nothing if no operator
/// changes. Linear.
std::optional<BlockProgram> withKnownSizes(Context &context, const BlockProgram &program);

}  // namespace gradc
