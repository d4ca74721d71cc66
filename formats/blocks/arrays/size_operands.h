// Sizes that operators are given as operands. Tested by tests/formats/blocks/size_operands_test.cc
#pragma once

#include "formats/blocks/program/block_program.h"
#include "ir/graph/context.h"

namespace gradc {

/// The program with sizes, axes and positions as attributes where operands give them (`ShapeTensor`,
/// `StartsTensorList`, `AxisTensor`) and where these are known before the program runs: constants, declared shapes, and
/// what a few operators make of them. The new shape of `reshape2` may have a size that is not known: as 0 where it is
/// that of the same axis of `X`, otherwise once as -1. Other operands stay. Nothing if no operator changes. Linear.
std::optional<BlockProgram> withKnownSizes(Context &context, const BlockProgram &program);

}  // namespace gradc
