// Products of matrices. Tested by tests/block_graph_test.cc
#include "formats/blocks/ops/op_row.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

Value reshaped(OpTranslation &op, Value v, ArrayRef<int64_t> shape) {
  return op.emit("Reshape", {v}, {{"shape", tupleText(shape)}});
}

/// The number of leading axes that become the rows of a matrix; both it and the columns have at least one.
int64_t numRowAxes(OpTranslation &op, StringRef slot, StringRef key) {
  const int64_t number = op.integer(key, 1), rank = static_cast<int64_t>(op.rank(slot));
  if (number >= 1 && number < rank) return number;
  op.fail(ErrorKind::BadAttribute, "attribute '" + key + "' is " + Twine(number) +
                                       ", expected at least 1 and less than the rank of slot '" + slot +
                                       "', which is " + Twine(rank));
  return 1;
}

/// A matrix whose rows are the first `numRows` axes of an operand, its columns the others.
Value matrix(OpTranslation &op, StringRef slot, int64_t numRows) {
  Value v = op.in(slot);
  for (int64_t i = 1; i < numRows; ++i) v = reshaped(op, v, {-3, -2});  // two axes become one, the rest stays
  const auto numColumns = static_cast<int64_t>(op.rank(slot)) - numRows;
  for (int64_t i = 1; i < numColumns; ++i) v = reshaped(op, v, {0, -3, -2});
  return v;
}

void mul(OpTranslation &op) {
  const int64_t rowsX = numRowAxes(op, "X", "x_num_col_dims"), rowsY = numRowAxes(op, "Y", "y_num_col_dims");
  const Value product = op.emit("dot", {matrix(op, "X", rowsX), matrix(op, "Y", rowsY)});
  Value v = product;
  const auto columns = static_cast<int64_t>(op.rank("Y")) - rowsY;
  if (columns > 1)
    v = op.emit("reshape_like", {v, op.in("Y")},
                {{"lhs_begin", std::string("1")}, {"lhs_end", std::string("2")}, {"rhs_begin", std::to_string(rowsY)}});
  if (rowsX > 1)
    v = op.emit("reshape_like", {v, op.in("X")},
                {{"lhs_begin", std::string("0")},
                 {"lhs_end", std::string("1")},
                 {"rhs_begin", std::string("0")},
                 {"rhs_end", std::to_string(rowsX)}});
  op.out("Out", v);
}

/// Broadcasts a stack of matrices to these leading axes.
Value withBatch(OpTranslation &op, Value v, StringRef slot, ArrayRef<int64_t> batch, ArrayRef<int64_t> own) {
  ArrayRef<int64_t> dims = op.shape(slot);
  if (dims.drop_back(2) == batch) return v;
  for (size_t rank = dims.size(); rank < own.size(); ++rank)
    v = op.emit("expand_dims", {v}, {{"axis", std::string("0")}});
  std::vector<int64_t> shape(batch.begin(), batch.end());
  shape.insert(shape.end(), {0, 0});  // as they are
  return op.emit("broadcast_to", {v}, {{"shape", tupleText(shape)}});
}

void matmul(OpTranslation &op) {
  const bool transX = op.flag("trans_x", false), transY = op.flag("trans_y", false);
  const size_t rankX = op.rank("X"), rankY = op.rank("Y");
  if (rankX == 0 || rankY == 0)
    return op.fail(ErrorKind::BadEntry,
                   Twine("slot '") + (rankX == 0 ? "X" : "Y") + "' has rank 0, expected at least 1");
  const Value x = op.in("X"), y = op.in("Y");
  const std::initializer_list<AttrPair> transposes = {{"transpose_a", flagText(transX && rankX > 1)},
                                                      {"transpose_b", flagText(transY && rankY > 1)}};
  if (rankX <= 2 && rankY <= 2) return op.out("Out", op.emit("dot", {x, y}, transposes));
  // A vector is a row on the left and a column on the right; its axis is removed afterwards.
  if (rankX == 1 || rankY == 1) {
    const Value left = rankX == 1 ? reshaped(op, x, {1, -1}) : x, right = rankY == 1 ? reshaped(op, y, {-1, 1}) : y;
    if (rankX == 1 ? transY : transX)
      return op.unsupported("the product of a vector and transposed matrices of rank above 2 is not supported");
    if (rankY == 1) return op.out("Out", reshaped(op, op.emit("dot", {left, right}), {-2}));
    return op.unsupported("a vector times matrices of rank above 2 is not supported");
  }
  ArrayRef<int64_t> dimsX = op.shape("X"), dimsY = op.shape("Y");
  if (rankY == 2 && !transX) return op.out("Out", op.emit("dot", {x, y}, transposes));
  ArrayRef<int64_t> batchX = dimsX.drop_back(2), batchY = dimsY.drop_back(2);
  std::vector<int64_t> batch(std::max(batchX.size(), batchY.size()), 1), own(batch.size() + 2);
  for (ArrayRef<int64_t> from : {batchX, batchY})
    for (size_t i = 0; i < from.size(); ++i) {
      int64_t &size = batch[batch.size() - from.size() + i];
      if (size == 1) size = from[i];
    }
  if (is_contained(batch, -1) && batchX != batchY)
    return op.unsupported("batch dimensions of unknown size cannot be broadcast");
  const Value left = withBatch(op, x, "X", batch, own), right = withBatch(op, y, "Y", batch, own);
  op.out("Out", op.emit("_linalg_gemm2", {left, right}, transposes));
}

constexpr BlockOpRow kRows[] = {
    {"matmul_v2", matmul},
    {"mul", mul},
};

}  // namespace

ArrayRef<BlockOpRow> linearBlockOps() { return kRows; }

}  // namespace gradc
