// Parts of tensors that `slice`, `strided_slice` and `set_value` name by axes, starts and ends.
// Tested by tests/formats/blocks/block_rules_test.cc
#pragma once

#include "formats/blocks/ops/op_row.h"

#include <optional>
#include <string>

namespace gradc {

/// Attributes of the operator `slice`: tuples with an entry for each axis.
struct SliceRegion {
  std::string begin, end, step;
};

/// "(a, b)", for an attribute with entries that may be None.
std::string tupleOf(llvm::ArrayRef<std::string> parts);

/// From the attributes `axes`, `starts` and `ends`, and from `steps`, which is the attribute `stepsName`. Empty after a
/// failure: lists of different lengths, or an axis that the operand `Input` does not have.
std::optional<SliceRegion> sliceRegion(OpTranslation &op, llvm::StringRef stepsName, llvm::ArrayRef<int64_t> steps);

}  // namespace gradc
