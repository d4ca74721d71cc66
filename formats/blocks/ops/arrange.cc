// Operators that move elements between axes: shuffles, diagonals, repetitions. Tested by
// tests/formats/blocks/block_rules_test.cc
#include "formats/blocks/ops/op_row.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr int64_t kMostPixels = 1 << 15;  // along an axis, so that squares are numbers

Value transposed(OpTranslation &op, Value v, ArrayRef<int64_t> axes) {
  return op.emit("transpose", {v}, {{"axes", tupleText(axes)}});
}

/// An attribute that divides an axis into parts; refuses others, and layouts other than NCHW.
std::optional<int64_t> factorOf(OpTranslation &op, StringRef key) {
  const int64_t factor = op.integer(key, 1);
  if (op.text("data_format", "NCHW") == "NCHW" && factor >= 1 && factor <= kMostPixels) return factor;
  op.unsupported("'data_format' or '" + key + "' is not supported");
  return std::nullopt;
}

void pixelShuffle(OpTranslation &op) {
  const std::optional<int64_t> factor = factorOf(op, "upscale_factor");
  if (!factor) return;
  if (op.dim("X", 1) % (*factor * *factor) != 0)
    return op.unsupported("'upscale_factor' " + Twine(*factor) + " is not supported for " + Twine(op.dim("X", 1)) +
                          " channels");
  const int64_t channels = op.dim("X", 1) / (*factor * *factor);
  Value v = op.reshaped(op.in("X"), {0, -4, channels, -1, -2});
  v = op.reshaped(v, {0, 0, -4, *factor, *factor, -2});
  v = transposed(op, v, {0, 1, 4, 2, 5, 3});
  op.out("Out", op.reshaped(v, {0, 0, -3, -3}));
}

void pixelUnshuffle(OpTranslation &op) {
  const std::optional<int64_t> factor = factorOf(op, "downscale_factor");
  if (!factor) return;
  Value v = op.reshaped(op.in("X"), {0, 0, -4, -1, *factor, -4, -1, *factor});
  v = transposed(op, v, {0, 1, 3, 5, 2, 4});
  v = op.reshaped(v, {0, -3, -2});
  op.out("Out", op.reshaped(v, {0, -3, -2}));
}

void channelShuffle(OpTranslation &op) {
  const std::optional<int64_t> groups = factorOf(op, "groups");
  if (!groups) return;
  const Value v = op.reshaped(op.in("X"), {0, -4, *groups, -1, -2});
  op.out("Out", op.reshaped(transposed(op, v, {0, 2, 1, 3, 4}), {0, -3, -2}));
}

// One channel of each group, the largest.
void maxout(OpTranslation &op) {
  const int64_t groups = op.integer("groups", 1), axis = op.axisOf("X", op.integer("axis", 1));
  std::vector<int64_t> shape(static_cast<size_t>(axis), 0);
  shape.insert(shape.end(), {-4, -1, groups, -2});
  op.out("Out", op.emit("max", {op.reshaped(op.in("X"), shape)}, {{"axis", std::to_string(axis + 1)}}));
}

Value diagonalOf(OpTranslation &op, StringRef slot) {
  return op.emit("diag", {op.in(slot)},
                 {{"k", std::to_string(op.integer("offset", 0))},
                  {"axis1", std::to_string(op.axisOf(slot, op.integer("axis1", 0)))},
                  {"axis2", std::to_string(op.axisOf(slot, op.integer("axis2", 1)))}});
}
void diagonal(OpTranslation &op) { op.out("Out", diagonalOf(op, "Input")); }
void trace(OpTranslation &op) { op.out("Out", op.emit("sum", {diagonalOf(op, "Input")}, {{"axis", "-1"}})); }

// A matrix with a vector on its diagonal, or the diagonal of a matrix.
void diagonalMatrix(OpTranslation &op) {
  if (op.rank("X") == 1 && op.number("padding_value", 0) != 0)
    return op.unsupported("'padding_value' other than 0 is not supported");
  op.out("Out", op.emit("diag", {op.in("X")}, {{"k", std::to_string(op.integer("offset", 0))}}));
}

void repeatInterleave(OpTranslation &op) {
  op.refuse({"RepeatsTensor"});
  op.out("Out", op.emit("repeat", {op.in("X")},
                        {{"repeats", std::to_string(op.integer("Repeats", 1))},
                         {"axis", std::to_string(op.axisOf("X", op.integer("dim", 0)))}}));
}

/// All operands in one shape.
void broadcastTensors(OpTranslation &op) {
  const std::vector<Value> operands = op.ins("X");
  if (operands.empty()) return;  // a mistake, as `ins` has recorded
  Value shape = operands.front();
  std::vector<Value> aligned;
  size_t rank = 1;
  for (size_t i = 0; i < operands.size(); ++i) rank = std::max(rank, op.rank("X", i));
  for (auto [i, operand] : enumerate(operands)) {
    const Value v = op.withRank(operand, std::max<size_t>(op.rank("X", i), 1), rank);
    aligned.push_back(v);
    if (aligned.size() > 1)
      shape = op.emit("broadcast_add", {op.emit("zeros_like", {shape}), op.emit("zeros_like", {v})});
  }
  for (auto [i, v] : enumerate(aligned))
    op.out("Out", operands.size() == 1 ? v : op.emit("broadcast_like", {v, shape}), i);
}

/// Vector i along axis i of a grid.
void meshgrid(OpTranslation &op) {
  const std::vector<Value> operands = op.ins("X");
  std::vector<int64_t> grid;
  for (size_t i = 0; i < operands.size(); ++i) grid.push_back(op.rank("X", i) == 0 ? 1 : op.shape("X", i)[0]);
  if (is_contained(grid, -1)) return op.unsupported("vectors of unknown length are not supported");
  for (auto [i, v] : enumerate(operands)) {
    std::vector<int64_t> shape(grid.size(), 1);
    shape[i] = grid[i];
    op.out("Out", op.emit("broadcast_to", {op.reshaped(v, shape)}, {{"shape", tupleText(grid)}}), i);
  }
}

// Of several tensors, row i of the one that Ids[i] names.
void multiplex(OpTranslation &op) {
  const std::vector<Value> operands = op.ins("X");
  const Value all = op.emit("stack", operands, {{"num_args", std::to_string(operands.size())}, {"axis", "0"}});
  const Value ids = op.reshaped(op.in("Ids"), {1, -1});
  const Value rows = op.emit("_index_like", {ids}, {{"axis", "1"}});
  auto asNumbers = [&](Value v) { return op.emit("Cast", {v}, {{"dtype", "float64"}}); };
  const Value tuples = op.joined({asNumbers(ids), asNumbers(rows)}, 0);
  op.out("Out", op.emit("gather_nd", {all, tuples}));
}

constexpr BlockOpRow kRows[] = {
    {"broadcast_tensors", broadcastTensors},
    {"channel_shuffle", channelShuffle},
    {"diag_v2", diagonalMatrix},
    {"diagonal", diagonal},
    {"maxout", maxout},
    {"meshgrid", meshgrid},
    {"multiplex", multiplex},
    {"pixel_shuffle", pixelShuffle},
    {"pixel_unshuffle", pixelUnshuffle},
    {"repeat_interleave", repeatInterleave},
    {"trace", trace},
};

}  // namespace

ArrayRef<BlockOpRow> arrangeBlockOps() { return kRows; }

}  // namespace gradc
