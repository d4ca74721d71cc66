// Represents arrays of tensors as tensors whose first axis counts the elements. Tested by
// tests/formats/blocks/block_array_test.cc
#pragma once

#include "formats/blocks/program/block_program.h"
#include "ir/graph/context.h"

namespace gradc {

/// The slot for the previous array in an operator that writes an element.
inline constexpr llvm::StringLiteral kArraySlot = "Array";

/// Of `tensor_array_to_tensor`: how many elements it takes and what shape they have, and a slot for the array's length
/// where it has to be compared with that number.
inline constexpr llvm::StringLiteral kNumElements = "num_elements", kElementShape = "element_shape",
                                     kLengthSlot = "Length";

/// The program with a tensor for each array, and one for its length if an operator reads that. Nothing: it has no
/// arrays. Every such tensor has as many elements as the program writes outside of loops, and `maxIterations` more if a
/// loop writes any; elements that are not written are zeros. InferMissing for an array whose elements' shape or type is
/// not declared, or that an operator takes as a whole when its length is not known. Linear in what findArrayLengths
/// executes.
llvm::Expected<std::optional<BlockProgram>> withStackedArrays(Context &context, const BlockProgram &program,
                                                              int64_t maxIterations);

}  // namespace gradc
