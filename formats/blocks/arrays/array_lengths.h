// How many elements arrays of tensors have, where the program determines it: by running its counters and conditions.
// Tested by tests/formats/blocks/array_tensor_test.cc
#pragma once

#include "formats/blocks/program/block_program.h"

#include <map>

namespace gradc {

/// The number of elements that each `tensor_array_to_tensor` reads, by block and operator, where that is the same each
/// time the operator runs. Counters are numbers that are known (known_sizes.h); loops run while comparisons of such
/// numbers hold. Empty for a program that executes more than a million operators.
std::map<std::pair<uint32_t, size_t>, int64_t> findArrayLengths(const BlockProgram &program);

}  // namespace gradc
