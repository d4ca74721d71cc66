// Sums, means and extrema along axes. Tested by tests/block_graph_test.cc
#include "formats/blocks/ops/op_row.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

/// The axes that are reduced; empty: all.
std::vector<int64_t> axesOf(OpTranslation &op, StringRef key) {
  std::vector<int64_t> axes = op.integers(key);
  for (int64_t &axis : axes) axis = op.axisOf("X", axis);
  if (op.flag("reduce_all", false) || axes.size() >= op.rank("X")) axes.clear();
  return axes;
}

Value reduced(OpTranslation &op, StringRef name, Value v, ArrayRef<int64_t> axes, bool keepsAxes) {
  if (axes.empty()) return op.emit(name, {v}, {{"keepdims", flagText(keepsAxes)}});
  return op.emit(name, {v}, {{"axis", tupleText(axes)}, {"keepdims", flagText(keepsAxes)}});
}

void reduce(OpTranslation &op, StringRef name) {
  const Value v = reduced(op, name, op.in("X"), axesOf(op, "dim"), op.flag("keep_dim", false));
  op.out("Out", op.integer("out_dtype", -1) < 0 ? v : op.emit("Cast", {v}, {{"dtype", op.dtype("out_dtype")}}));
}

void mean(OpTranslation &op) { op.out("Out", op.emit("mean", {op.in("X")})); }

// m + log Σ exp(x − m), where m is the maximum: nothing overflows, and m's own gradients add up to 0.
void logsumexp(OpTranslation &op) {
  const Value x = op.in("X");
  const std::vector<int64_t> axes = axesOf(op, "axis");
  const Value m = op.emit("BlockGrad", {reduced(op, "max", x, axes, true)});
  const Value sum = reduced(op, "sum", op.emit("exp", {op.emit("broadcast_sub", {x, m})}), axes, true);
  const Value kept = op.emit("elemwise_add", {op.emit("log", {sum}), m});
  const bool keepsAxes = op.flag("keepdim", false);
  op.out("Out", keepsAxes ? kept : reduced(op, "sum", kept, axes, false));
}

void squaredNorm(OpTranslation &op) { op.out("Out", op.emit("sum", {op.emit("square", {op.in("X")})})); }

void argExtremum(OpTranslation &op, StringRef name) {
  const bool isFlat = op.flag("flatten", false);
  const Value v = isFlat ? op.emit(name, {op.emit("Reshape", {op.in("X")}, {{"shape", std::string("(-1,)")}})},
                                   {{"axis", std::string("0")}})
                         : op.emit(name, {op.in("X")},
                                   {{"axis", std::to_string(op.integer("axis", -1))},
                                    {"keepdims", flagText(op.flag("keepdims", false))}});
  const int64_t type = op.integer("dtype", -1);
  op.out("Out", op.emit("Cast", {v}, {{"dtype", type < 0 ? std::string("int64") : op.dtype("dtype")}}));
}

constexpr BlockOpRow kRows[] = {
    {"arg_max", [](OpTranslation &op) { argExtremum(op, "argmax"); }},
    {"arg_min", [](OpTranslation &op) { argExtremum(op, "argmin"); }},
    {"logsumexp", logsumexp},
    {"mean", mean},
    {"reduce_max", [](OpTranslation &op) { reduce(op, "max"); }},
    {"reduce_mean", [](OpTranslation &op) { reduce(op, "mean"); }},
    {"reduce_min", [](OpTranslation &op) { reduce(op, "min"); }},
    {"reduce_prod", [](OpTranslation &op) { reduce(op, "prod"); }},
    {"reduce_sum", [](OpTranslation &op) { reduce(op, "sum"); }},
    {"squared_l2_norm", squaredNorm},
};

}  // namespace

ArrayRef<BlockOpRow> reductionBlockOps() { return kRows; }

}  // namespace gradc
