// Products of matrices. Tested by tests/formats/blocks/block_graph_test.cc
#include "formats/blocks/ops/op_row.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

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
  for (int64_t i = 1; i < numRows; ++i) v = op.reshaped(v, {-3, -2});  // two axes become one, the rest stays
  const auto numColumns = static_cast<int64_t>(op.rank(slot)) - numRows;
  for (int64_t i = 1; i < numColumns; ++i) v = op.reshaped(v, {0, -3, -2});
  return v;
}

void mul(OpTranslation &op) {
  const int64_t rowsX = numRowAxes(op, "X", "x_num_col_dims"), rowsY = numRowAxes(op, "Y", "y_num_col_dims");
  const Value product = op.emit("dot", {matrix(op, "X", rowsX), matrix(op, "Y", rowsY)});
  Value v = product;
  const auto columns = static_cast<int64_t>(op.rank("Y")) - rowsY;
  if (columns > 1)
    v = op.emit("reshape_like", {v, op.in("Y")},
                {{"lhs_begin", "1"}, {"lhs_end", "2"}, {"rhs_begin", std::to_string(rowsY)}});
  if (rowsX > 1)
    v = op.emit("reshape_like", {v, op.in("X")},
                {{"lhs_begin", "0"}, {"lhs_end", "1"}, {"rhs_begin", "0"}, {"rhs_end", std::to_string(rowsX)}});
  op.out("Out", v);
}

/// Broadcasts a stack of matrices to these leading axes.
Value withBatch(OpTranslation &op, Value v, StringRef slot, ArrayRef<int64_t> batch) {
  ArrayRef<int64_t> dims = op.shape(slot);
  if (dims.drop_back(2) == batch) return v;
  std::vector<int64_t> shape(batch.begin(), batch.end());
  shape.insert(shape.end(), {0, 0});  // unchanged
  return op.emit("broadcast_to", {op.withRank(v, dims.size(), shape.size())}, {{"shape", tupleText(shape)}});
}

/// Matrices of rank above 2, or one matrix, times a vector.
Value timesVector(OpTranslation &op, Value matrices, size_t rank, bool isTransposed, Value vector) {
  if (isTransposed)
    matrices =
        op.emit("SwapAxis", {matrices}, {{"dim1", std::to_string(rank - 2)}, {"dim2", std::to_string(rank - 1)}});
  return op.emit("dot", {matrices, vector});
}

Value product(OpTranslation &op, bool transX, bool transY) {
  const size_t rankX = op.rank("X"), rankY = op.rank("Y");
  if (rankX == 0 || rankY == 0) {
    op.fail(ErrorKind::BadEntry, Twine("slot '") + (rankX == 0 ? "X" : "Y") + "' has rank 0, expected at least 1");
    return Value();
  }
  const Value x = op.in("X"), y = op.in("Y");
  const std::initializer_list<AttrPair> transposes = {{"transpose_a", flagText(transX && rankX > 1)},
                                                      {"transpose_b", flagText(transY && rankY > 1)}};
  if (rankX <= 2 && rankY <= 2) return op.emit("dot", {x, y}, transposes);
  if (rankY == 1) return timesVector(op, x, rankX, transX, y);
  if (rankX == 1) return timesVector(op, y, rankY, !transY, x);
  ArrayRef<int64_t> dimsX = op.shape("X"), dimsY = op.shape("Y");
  if (rankY == 2 && !transX) return op.emit("dot", {x, y}, transposes);
  ArrayRef<int64_t> batchX = dimsX.drop_back(2), batchY = dimsY.drop_back(2);
  std::vector<int64_t> batch(std::max(batchX.size(), batchY.size()), 1);
  for (ArrayRef<int64_t> from : {batchX, batchY})
    for (size_t i = 0; i < from.size(); ++i) {
      int64_t &size = batch[batch.size() - from.size() + i];
      if (size == 1) size = from[i];
    }
  if (is_contained(batch, -1) && batchX != batchY)
    op.unsupported("batch dimensions of unknown size cannot be broadcast");
  const Value left = withBatch(op, x, "X", batch), right = withBatch(op, y, "Y", batch);
  return op.emit("_linalg_gemm2", {left, right}, transposes);
}

void matmul(OpTranslation &op) { op.out("Out", product(op, op.flag("trans_x", false), op.flag("trans_y", false))); }

// The older form of matmul_v2.
void scaledMatmul(OpTranslation &op) {
  const Value v = product(op, op.flag("transpose_X", false), op.flag("transpose_Y", false));
  const double alpha = op.number("alpha", 1);
  op.out("Out", alpha == 1 ? v : op.timesScalar(v, alpha));
}

void bmm(OpTranslation &op) { op.out("Out", product(op, false, false)); }
void mv(OpTranslation &op) { op.out("Out", op.emit("dot", {op.in("X"), op.in("Vec")})); }

void dot(OpTranslation &op) {
  const std::initializer_list<AttrPair> along = {{"axis", "-1"}};
  op.out("Out", op.emit("sum", {op.emit("elemwise_mul", {op.in("X"), op.in("Y")})}, along));
}

void addmm(OpTranslation &op) {
  const Value product = op.emit("dot", {op.in("X"), op.in("Y")});
  op.out("Out", op.emit("broadcast_add", {op.timesScalar(op.in("Input"), op.number("Beta", 1)),
                                          op.timesScalar(product, op.number("Alpha", 1))}));
}

// Out[i·p + j] = X[i]·Y[j] where Y has p elements, along every axis.
void kron(OpTranslation &op) {
  const size_t rank = std::max(op.rank("X"), op.rank("Y"));
  if (rank == 0) return op.unsupported("operands of rank 0 are not supported");
  Value x = op.withRank(op.in("X"), op.rank("X"), rank), y = op.withRank(op.in("Y"), op.rank("Y"), rank);
  std::vector<int64_t> merged(rank, -3);
  for (size_t i = rank; i-- > 0;) {
    x = op.emit("expand_dims", {x}, {{"axis", std::to_string(i + 1)}});
    y = op.emit("expand_dims", {y}, {{"axis", std::to_string(i)}});
  }
  op.out("Out", op.reshaped(op.emit("broadcast_mul", {x, y}), merged));
}

// x₁·y₂ − x₂·y₁, where the numbers say how far the three elements are turned.
void cross(OpTranslation &op) {
  constexpr int64_t kFirst = 9;  // marks the first axis of three elements
  int64_t axis = op.integer("dim", kFirst);
  if (axis == kFirst) axis = find(op.shape("X"), 3) - op.shape("X").begin();
  axis = op.axisOf("X", axis);
  auto turned = [&](StringRef slot, int64_t by) {
    const Value v = op.in(slot);
    return op.joined({op.sliced(v, axis, by, 3), op.sliced(v, axis, 0, by)}, axis);
  };
  op.out("Out", op.emit("elemwise_sub", {op.emit("elemwise_mul", {turned("X", 1), turned("Y", 2)}),
                                         op.emit("elemwise_mul", {turned("X", 2), turned("Y", 1)})}));
}

constexpr BlockOpRow kRows[] = {
    {"addmm", addmm},         {"bmm", bmm},          {"cross", cross}, {"dot", dot}, {"kron", kron},
    {"matmul", scaledMatmul}, {"matmul_v2", matmul}, {"mul", mul},     {"mv", mv},
};

}  // namespace

ArrayRef<BlockOpRow> linearBlockOps() { return kRows; }

}  // namespace gradc
