// Represents arrays of tensors as tensors whose first axis counts the elements. Such a tensor has as many elements as
// the program writes outside of loops, and `maxIterations` more if a loop writes any; elements that are not written are
// zeros. Tested by tests/formats/blocks/block_array_test.cc
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

/// The program with a tensor for each array, and one for its length if an operator reads that; nothing if it has no
/// arrays. InferMissing for an array whose elements have no declared shape or type, or that an operator takes as a
/// whole while its length is unknown. Linear in what findArrayLengths executes.
llvm::Expected<std::optional<BlockProgram>> withStackedArrays(Context &context, const BlockProgram &program,
                                                              int64_t maxIterations);

}  // namespace gradc
