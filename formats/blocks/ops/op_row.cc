// The rows of all families. Tested by tests/formats/blocks/block_graph_test.cc
#include "formats/blocks/ops/op_row.h"

#include "llvm/ADT/STLExtras.h"

#include <array>

using namespace llvm;

namespace gradc {
namespace {

std::array<ArrayRef<BlockOpRow>, 17> families() {
  return {activationBlockOps(),    arrangeBlockOps(), einsumBlockOps(),   elementwiseBlockOps(), indexBlockOps(),
          interpolationBlockOps(), layerBlockOps(),   linearBlockOps(),   lossBlockOps(),        optimizerBlockOps(),
          reductionBlockOps(),     regionBlockOps(),  samplingBlockOps(), scalingBlockOps(),     sequenceBlockOps(),
          shapeBlockOps(),         windowBlockOps()};
}

/// The row of a type in a sorted family; null: none.
const BlockOpRow *findIn(ArrayRef<BlockOpRow> family, StringRef type) {
  const auto *at =
      llvm::lower_bound(family, type, [](const BlockOpRow &row, StringRef name) { return row.type < name; });
  return at != family.end() && at->type == type ? at : nullptr;
}

}  // namespace

std::vector<const BlockOpRow *> allBlockOps() {
  std::vector<const BlockOpRow *> rows;
  for (ArrayRef<BlockOpRow> family : families())
    for (const BlockOpRow &row : family) rows.push_back(&row);
  llvm::sort(rows, [](const BlockOpRow *a, const BlockOpRow *b) { return a->type < b->type; });
  return rows;
}

const BlockOpRow *findBlockOp(StringRef type) {
  for (ArrayRef<BlockOpRow> family : families())
    if (const BlockOpRow *row = findIn(family, type)) return row;
  return nullptr;
}

const BlockOpRow *findGradientRow(StringRef type) { return findIn(gradientBlockOps(), type); }

}  // namespace gradc
