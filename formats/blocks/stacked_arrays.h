// Represents arrays of tensors as tensors whose first axis counts the elements. Tested by tests/block_array_test.cc
#pragma once

#include "formats/blocks/block_program.h"
#include "ir/context.h"

namespace gradc {

/// The slot for the previous array in an operator that writes an element.
inline constexpr llvm::StringLiteral kArraySlot = "Array";

/// The program with a tensor for each array, and one for its length if an operator reads that. Nothing: it has no arrays. Every
/// such tensor has as many elements as the program writes outside of loops, and `maxIterations` more if a loop writes any;
/// elements that are not written are zeros. InferMissing for an array whose elements' shape or type is not declared. Linear.
llvm::Expected<std::optional<BlockProgram>> withStackedArrays(Context &context, const BlockProgram &program,
                                                              int64_t maxIterations);

}  // namespace gradc
