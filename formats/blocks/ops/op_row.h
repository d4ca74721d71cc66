// One row for each operator type of block programs: what such an operator computes, in gradc's operators. A new type is
// one row in one of the families' files. Tested by tests/formats/blocks/block_graph_test.cc
#pragma once

#include "formats/blocks/ops/op_translation.h"

namespace gradc {

struct BlockOpRow {
  llvm::StringLiteral type;
  void (*translate)(OpTranslation &op);
};

/// Null for a type without a row.
const BlockOpRow *findBlockOp(llvm::StringRef type);
/// What a gradient operator computes, for the gradient of that operator, where Paddle takes that toward a result of the
/// forward operator that gradc's rule does not read: `rsqrt_grad_grad` has a gradient of `Out`. Null for other types.
const BlockOpRow *findGradientRow(llvm::StringRef type);
/// Every row, in order of types.
std::vector<const BlockOpRow *> allBlockOps();

// The families' rows, sorted (formats/blocks/ops/op_row.cc puts them together).
llvm::ArrayRef<BlockOpRow> activationBlockOps();
llvm::ArrayRef<BlockOpRow> elementwiseBlockOps();
llvm::ArrayRef<BlockOpRow> shapeBlockOps();
llvm::ArrayRef<BlockOpRow> linearBlockOps();
llvm::ArrayRef<BlockOpRow> reductionBlockOps();
llvm::ArrayRef<BlockOpRow> indexBlockOps();
llvm::ArrayRef<BlockOpRow> layerBlockOps();
llvm::ArrayRef<BlockOpRow> lossBlockOps();
llvm::ArrayRef<BlockOpRow> optimizerBlockOps();
llvm::ArrayRef<BlockOpRow> windowBlockOps();
llvm::ArrayRef<BlockOpRow> interpolationBlockOps();
llvm::ArrayRef<BlockOpRow> arrangeBlockOps();
llvm::ArrayRef<BlockOpRow> einsumBlockOps();
llvm::ArrayRef<BlockOpRow> regionBlockOps();
llvm::ArrayRef<BlockOpRow> samplingBlockOps();
llvm::ArrayRef<BlockOpRow> scalingBlockOps();
llvm::ArrayRef<BlockOpRow> sequenceBlockOps();
/// Rows of gradient operators.
llvm::ArrayRef<BlockOpRow> gradientBlockOps();

}  // namespace gradc
