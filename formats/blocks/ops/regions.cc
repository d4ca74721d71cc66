// Operators that overwrite or cut parts of a tensor. Tested by tests/formats/blocks/block_rules_test.cc
#include "formats/blocks/ops/slice_region.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <limits>

using namespace llvm;

namespace gradc {
namespace {

/// The values in the attributes of `set_value`, as Paddle's older and newer programs have them; empty: none.
std::vector<double> valuesOf(OpTranslation &op) {
  std::vector<double> values = op.numbers("values");
  for (const char *key : {"fp32_values", "fp64_values"}) append_range(values, op.numbers(key));
  for (const char *key : {"bool_values", "int32_values", "int64_values"})
    for (int64_t value : op.integers(key)) values.push_back(static_cast<double>(value));
  return values;
}

/// What is written, with the axes of the region: `decrease_axes` counts those that the program leaves out.
Value writtenValue(OpTranslation &op) {
  Value v;
  size_t rank = 0;
  if (op.has("ValueTensor")) {
    v = op.in("ValueTensor");
    rank = op.rank("ValueTensor");
  } else {
    const std::vector<double> values = valuesOf(op);
    if (values.empty())
      op.fail(ErrorKind::BadEntry, "slot 'ValueTensor' has no operand 0, and no attribute has values");
    const std::vector<int64_t> shape = op.integers("shape");
    rank = shape.size();
    std::string text = "(";
    for (double value : values) text += numberText(value) + ", ";
    v = op.emit("_constant", {},
                {{"shape", tupleText(shape.empty() ? std::vector<int64_t>{1} : shape)},
                 {"values", text + ")"},
                 {"dtype", "float64"}});
  }
  std::vector<int64_t> left = op.integers("decrease_axes");
  llvm::sort(left);
  const size_t all = op.rank("Input");
  if (rank + left.size() > all) left.clear();
  v = op.withRank(v, std::max<size_t>(rank, 1), all - left.size());
  if (!left.empty() && left.size() == all) left.pop_back();  // a scalar has an axis here
  for (int64_t axis : left) v = op.emit("expand_dims", {v}, {{"axis", std::to_string(axis)}});
  return v;
}

void setValue(OpTranslation &op) {
  op.refuse({"StartsTensorList", "EndsTensorList", "StepsTensorList"});
  if (!op.integers("none_axes").empty()) return op.unsupported("'none_axes' are not supported");
  const std::vector<int64_t> steps = op.integers("steps");
  if (any_of(steps, [](int64_t step) { return step < 1; })) return op.unsupported("'steps' below 1 are not supported");
  const std::optional<SliceRegion> bounds = sliceRegion(op, "steps", steps);
  if (!bounds) return;
  const std::initializer_list<AttrPair> region = {
      {"begin", bounds->begin}, {"end", bounds->end}, {"step", bounds->step}};
  const Value x = op.in("Input"), value = op.emit("_cast_like", {writtenValue(op), x});
  const Value whole = op.emit("broadcast_like", {value, op.emit("slice", {x}, region)});
  op.out("Out", op.emit("_slice_assign", {x, whole}, region));
}

Value written(OpTranslation &op, Value base, Value updates, Value tuples, bool isSum) {
  return op.emit("_scatter_nd", {base, updates, tuples}, {{"reduction", std::string(isSum ? "add" : "none")}});
}
Value wholeNumbers(OpTranslation &op, Value v) { return op.emit("Cast", {v}, {{"dtype", "int64"}}); }

/// One index tuple for each element of the indices, along a new first axis.
Value stacked(OpTranslation &op, ArrayRef<Value> indices) {
  return op.emit("stack", indices, {{"num_args", std::to_string(indices.size())}, {"axis", "0"}});
}

void putAlongAxis(OpTranslation &op) {
  const std::string how = op.text("Reduce", "assign");
  if ((how != "assign" && how != "add") || !op.flag("Include_self", true))
    return op.unsupported("'Reduce' " + how + " is not supported, expected assign or add, with 'Include_self'");
  const Value x = op.in("Input"), index = op.in("Index");
  const int64_t axis = op.axisOf("Input", op.integer("Axis", 0));
  std::vector<Value> tuples;
  for (size_t i = 0; i < op.rank("Index"); ++i)
    tuples.push_back(wholeNumbers(
        op, static_cast<int64_t>(i) == axis ? index : op.emit("_index_like", {index}, {{"axis", std::to_string(i)}})));
  Value updates = op.in("Value");
  if (op.shape("Value") != op.shape("Index"))
    updates = op.emit("broadcast_like", {updates, op.emit("_cast_like", {index, updates})});
  op.out("Result", written(op, x, updates, stacked(op, tuples), how == "add"));
}

void indexAdd(OpTranslation &op) {
  const int64_t axis = op.axisOf("X", op.integer("axis", 0));
  auto swapped = [&](Value v) {
    return axis == 0 ? v : op.emit("SwapAxis", {v}, {{"dim1", "0"}, {"dim2", std::to_string(axis)}});
  };
  const Value tuples = op.emit("expand_dims", {op.in("Index")}, {{"axis", "0"}});
  op.out("Out", swapped(written(op, swapped(op.in("X")), swapped(op.in("AddValue")), tuples, true)));
}

void indexPut(OpTranslation &op) {
  const Value x = op.in("x");
  std::vector<Value> indices;
  for (size_t i = 0; i < op.count("indices"); ++i) {
    if (op.rank("indices", i) != 1 || !op.isWhole("indices", i) || op.isTruth("indices", i))
      return op.unsupported("'indices' other than vectors of whole numbers are not supported");
    indices.push_back(wholeNumbers(op, op.in("indices", i)));
  }
  if (indices.empty() || indices.size() > op.rank("x"))
    return op.fail(ErrorKind::BadEntry, "slot 'indices' has " + Twine(indices.size()) +
                                            " operands, slot 'x' has rank " + Twine(op.rank("x")));
  const Value tuples = stacked(op, indices), region = op.emit("gather_nd", {x, tuples});
  Value value = op.in("value");
  value = op.withRank(value, std::max<size_t>(op.rank("value"), 1), op.rank("x") - indices.size() + 1);
  op.out("out", written(op, x, op.emit("broadcast_like", {value, region}), tuples, op.flag("accumulate", false)));
}

void crop(OpTranslation &op) {
  op.refuse({"Shape", "ShapeTensor", "Offsets", "OffsetsTensor"});
  const std::vector<int64_t> shape = op.integers("shape"), offsets = op.integers("offsets");
  const size_t rank = op.rank("X");
  if (shape.size() != rank || offsets.size() != rank)
    return op.fail(ErrorKind::BadAttribute, "attributes 'shape' and 'offsets' need " + Twine(rank) + " elements each");
  std::vector<std::string> begin, end;
  for (auto [size, offset] : zip(shape, offsets)) {
    if (offset < 0 || offset > int64_t{INT32_MAX} || size > int64_t{INT32_MAX})
      return op.unsupported("'offsets' and 'shape' beyond 32-bit numbers are not supported");
    begin.push_back(std::to_string(offset));
    end.push_back(size < 0 ? "None" : std::to_string(offset + size));
  }
  op.out("Out", op.emit("slice", {op.in("X")}, {{"begin", tupleOf(begin)}, {"end", tupleOf(end)}}));
}

// How many elements are selected is known only at run time.
void selectWhere(OpTranslation &op) {
  op.unsupported("the shape of its result depends on values, which is not supported; use 'where' and a sum");
}

constexpr BlockOpRow kRows[] = {
    {"crop_tensor", crop},          {"index_add", indexAdd},          {"index_put", indexPut},
    {"masked_select", selectWhere}, {"put_along_axis", putAlongAxis}, {"set_value", setValue},
    {"where_index", selectWhere},
};

}  // namespace

ArrayRef<BlockOpRow> regionBlockOps() { return kRows; }

}  // namespace gradc
