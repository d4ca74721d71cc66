// Sums gradients that arrive several times: each arrival is renamed, and the sum takes the name of the gradient (AGG-08
// … -11). A gradient that an operator writes in place is neither renamed nor an arrival (AGG-10), except one that is
// handed to the block: there the result is the first arrival. Tested by
// tests/formats/blocks/backward/append_backward_test.cc
#pragma once

#include "formats/blocks/program/gradient_names.h"
#include "ir/graph/context.h"

namespace gradc {

enum class SumStyle : uint8_t {
  Block,     // `@RENAME@block<forward block>@<k>`; the sum is before the first reader, or at the end (AGG-08)
  Operator,  // `@RENAME@<uid>@<k>`; the sum is after the last arrival (AGG-11)
};

struct SumOptions {
  SumStyle style = SumStyle::Block;
  /// Up to this many arrivals are added pairwise by `grad_add`, more by one `sum` (AGG-08; opposite to AGG-03).
  uint32_t pairwiseLimit = 0;
};

/// Renames arrivals and inserts sums into `ops`, the gradient operators of block `forwardBlock`; skips the names in
/// `addedUp`. `handed` are the gradients that the block receives from outside. Linear.
void sumGradients(Context &context, std::vector<BlockOp> &ops, GradientNames &names, uint32_t forwardBlock,
                  const NameSet &handed, const NameSet &addedUp, const SumOptions &options);

}  // namespace gradc
