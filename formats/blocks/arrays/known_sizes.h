// Whole numbers that are known before the program runs: sizes, positions, counters. Tested by
// tests/formats/blocks/size_operands_test.cc and tests/formats/blocks/array_tensor_test.cc
#pragma once

#include "formats/blocks/program/block_program.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace gradc {

/// A number, or a dimension of a variable that is not known.
struct Size {
  std::optional<int64_t> number;
  TextId of = {};
  size_t axis = 0;
};
/// The elements of a tensor, at most 64, in order; its shape is left open.
using Sizes = std::vector<Size>;

/// What is known of a name when an operator runs; null: nothing.
using FindSizes = llvm::function_ref<const Sizes *(TextId)>;

/// What an operator makes of what is known of its operands: constants, declared shapes, copies, parts, sums and
/// products, and the next number of a counter. Nothing for other operators.
std::optional<Sizes> sizesMade(const BlockProgram &program, uint32_t block, const BlockOp &op, FindSizes find);

}  // namespace gradc
