// Operators that move elements: other shapes, parts, joined tensors. Tested by tests/formats/blocks/block_graph_test.cc
#include "formats/blocks/ops/slice_region.h"
#include "ir/tensor/dim.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace gradc {
namespace {

// Operators whose names end in 2 also yield the shape of x for their gradients, in Paddle as an empty array. Here it is
// x.
void outWithShape(OpTranslation &op, Value v, Value x) {
  op.out("Out", v);
  op.out("XShape", x);
}

void reshape(OpTranslation &op) {
  op.refuse({"Shape", "ShapeTensor"});
  const Value x = op.in("X");
  outWithShape(op, op.reshaped(x, op.integers("shape")), x);
}

void flatten(OpTranslation &op) {
  const Value x = op.in("X");
  if (op.rank("X") == 0) return outWithShape(op, op.emit("_copy", {x}), x);
  const int64_t first = op.axisOf("X", op.integer("start_axis", 1)), last = op.axisOf("X", op.integer("stop_axis", -1));
  std::vector<int64_t> shape(static_cast<size_t>(first), 0);
  shape.insert(shape.end(), {-3, -2});  // two become one, the rest stays
  Value v = x;
  for (int64_t i = first; i < last; ++i) v = op.reshaped(v, shape);
  outWithShape(op, first < last ? v : op.emit("_copy", {x}), x);
}

void transpose(OpTranslation &op) {
  const Value x = op.in("X");
  outWithShape(op, op.emit("transpose", {x}, {{"axes", tupleText(op.integers("axis"))}}), x);
}

void squeeze(OpTranslation &op) {
  const Value x = op.in("X");
  std::vector<int64_t> axes = op.integers("axes");
  for (int64_t &axis : axes) axis = op.axisOf("X", axis);
  if (axes.empty()) {
    for (size_t i = 0; i < op.rank("X"); ++i)
      if (op.shape("X")[i] == 1) axes.push_back(static_cast<int64_t>(i));
  } else {
    const ArrayRef<int64_t> dims = op.shape("X");
    llvm::erase_if(axes, [&](int64_t axis) {  // Paddle leaves longer axes alone
      return static_cast<size_t>(axis) >= dims.size() || dims[static_cast<size_t>(axis)] > 1;
    });
  }
  if (axes.empty()) return outWithShape(op, op.emit("_copy", {x}), x);
  outWithShape(
      op, axes.size() == op.rank("X") ? op.reshaped(x, {1}) : op.emit("squeeze", {x}, {{"axis", tupleText(axes)}}), x);
}

void unsqueeze(OpTranslation &op) {
  op.refuse({"AxesTensor", "AxesTensorList"});
  const Value x = op.in("X");
  Value v = x;
  auto rank = static_cast<int64_t>(op.rank("X"));
  if (rank == 0) return outWithShape(op, op.reshaped(x, std::vector<int64_t>(op.integers("axes").size(), 1)), x);
  for (int64_t axis : op.integers("axes")) {
    v = op.emit("expand_dims", {v}, {{"axis", std::to_string(axis < 0 ? axis + rank + 1 : axis)}});
    ++rank;
  }
  outWithShape(op, v, x);
}

void concat(OpTranslation &op) {
  op.refuse({"AxisTensor"});
  const std::vector<Value> parts = op.ins("X");
  op.out("Out", op.joined(parts, op.integer("axis", 0)));
}

void stack(OpTranslation &op) {
  const std::vector<Value> parts = op.ins("X");
  if (op.rank("X") == 0)  // scalars have one axis here already
    return op.out("Y", op.joined(parts, 0));
  op.out("Y", op.emit("stack", parts,
                      {{"num_args", std::to_string(parts.size())}, {"axis", std::to_string(op.integer("axis", 0))}}));
}

void unstackInto(OpTranslation &op, StringRef slot) {
  const size_t number = op.numOut(slot);
  const Value parts = op.emit("SliceChannel", {op.in("X")},
                              {{"num_outputs", std::to_string(number)},
                               {"axis", std::to_string(op.integer("axis", 0))},
                               {"squeeze_axis", "True"}});
  for (size_t i = 0; i < number; ++i) op.out(slot, OpTranslation::output(parts, static_cast<uint16_t>(i)), i);
}

void unstack(OpTranslation &op) { unstackInto(op, "Y"); }

void split(OpTranslation &op) {
  op.refuse({"AxisTensor", "SectionsTensorList"});
  const Value x = op.in("X");
  const int64_t axis = op.axisOf("X", op.integer("axis", 0));
  std::vector<int64_t> sections = op.integers("sections");
  const size_t number = op.numOut("Out");
  const int64_t parts = sections.empty() ? op.integer("num", 0) : 0;  // 0: as many as there are outputs
  if (parts != 0 && parts != static_cast<int64_t>(number))
    return op.fail(ErrorKind::BadAttribute,
                   "attribute 'num' is " + Twine(parts) + ", expected " + Twine(number) + ", the number of outputs");
  if (sections.empty()) {
    const Value cuts =
        op.emit("SliceChannel", {x}, {{"num_outputs", std::to_string(number)}, {"axis", std::to_string(axis)}});
    for (size_t i = 0; i < number; ++i) op.out("Out", OpTranslation::output(cuts, static_cast<uint16_t>(i)), i);
    return;
  }
  if (sections.size() != number)
    return op.fail(ErrorKind::BadAttribute, "attribute 'sections' has " + Twine(sections.size()) +
                                                " elements, expected one for each of " + Twine(number) + " outputs");
  Dim sum = 0;
  for (int64_t section : sections) sum = sum + std::max<int64_t>(section, 0);
  const auto numOpen = llvm::count_if(sections, [](int64_t section) { return section < 0; });
  const int64_t rest = numOpen == 0 ? 0 : op.dim("X", axis) - sum.nearest();
  if (sum.isEndless() || numOpen > 1 || rest < 0)
    return op.fail(ErrorKind::BadAttribute, "attribute 'sections' is " + tupleText(sections) +
                                                ", expected the parts of axis " + Twine(axis) +
                                                ", of which one may be negative: the rest");
  for (int64_t &section : sections)
    if (section < 0) section = rest;
  int64_t begin = 0;
  for (size_t i = 0; i < number; begin += sections[i++])
    op.out("Out", op.sliced(x, axis, begin, begin + sections[i]), i);
}

/// Removes the axes in `decrease_axis`, each of one element.
Value decreased(OpTranslation &op, Value v, size_t rank) {
  const std::vector<int64_t> axes = op.integers("decrease_axis");
  if (axes.empty()) return v;
  return axes.size() == rank ? op.reshaped(v, {1}) : op.emit("squeeze", {v}, {{"axis", tupleText(axes)}});
}

void slice(OpTranslation &op, ArrayRef<int64_t> strides) {
  const std::optional<SliceRegion> region = sliceRegion(op, "strides", strides);
  if (!region) return;
  const Value part =
      op.emit("slice", {op.in("Input")}, {{"begin", region->begin}, {"end", region->end}, {"step", region->step}});
  op.out("Out", decreased(op, part, op.rank("Input")));
}

/// Operands that give the starts or ends of a slice.
constexpr StringLiteral kBounds[] = {"StartsTensor", "StartsTensorList", "EndsTensor", "EndsTensorList"};

/// How many elements a slice whose bounds are operands takes of an axis: 1 where the axis is removed, otherwise as many
/// as the result is declared with.
int64_t numTaken(OpTranslation &op, int64_t axis) {
  const std::vector<int64_t> removed = op.integers("decrease_axis");
  if (is_contained(removed, axis)) return 1;
  const ArrayRef<int64_t> made = op.shape("Out");
  const auto at = static_cast<size_t>(axis - count_if(removed, [&](int64_t other) { return other < axis; }));
  const int64_t number = at < made.size() ? made[at] : -1;
  if (number < 1)
    op.unsupported("the bounds of axis " + Twine(axis) +
                   " are operands, and how many elements lie between them is not known, expected one that "
                   "'decrease_axis' removes or a declared dimension");
  return number;
}

/// Where a slice along `axes[i]` starts, with one element.
Value startOf(OpTranslation &op, size_t i) {
  if (op.has("StartsTensorList")) return op.in("StartsTensorList", i);
  const auto at = static_cast<int64_t>(i);
  return op.sliced(op.in("StartsTensor"), 0, at, at + 1);
}

/// A slice with bounds that are known only when it runs. A start outside of the axis is an error then.
void sliceAtOperands(OpTranslation &op) {
  const std::vector<int64_t> axes = op.integers("axes"), starts = op.integers("starts"), ends = op.integers("ends");
  std::vector<int64_t> isKnown = op.integers("infer_flags");
  isKnown.resize(axes.size(), 1);
  if (op.has("StartsTensorList") && op.count("StartsTensorList") != axes.size())
    return op.fail(ErrorKind::BadEntry, "slot 'StartsTensorList' has " + Twine(op.count("StartsTensorList")) +
                                            " operands, attribute 'axes' has " + Twine(axes.size()));
  if (starts.size() != axes.size() || ends.size() != axes.size())
    return op.fail(ErrorKind::BadAttribute, "attributes 'axes', 'starts' and 'ends' differ in length");
  Value v = op.in("Input");
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = op.axisOf("Input", axes[i]);
    const std::string along = std::to_string(axis);
    if (isKnown[i] == 1) {
      const std::string end = ends[i] >= int64_t{INT32_MAX} ? "None" : std::to_string(ends[i]);
      v = op.emit("slice_axis", {v}, {{"axis", along}, {"begin", std::to_string(starts[i])}, {"end", end}});
      continue;
    }
    if (!op.has("StartsTensorList") && !op.has("StartsTensor"))
      return op.unsupported("an end that is an operand is not supported without a start that is one");
    const int64_t number = numTaken(op, axis);
    Value at = startOf(op, i);
    if (number != 1) {
      const std::string type = "int64";
      const Value steps = op.emit("_arange", {}, {{"start", "0"}, {"stop", std::to_string(number)}, {"dtype", type}});
      at = op.emit("broadcast_add", {steps, op.emit("Cast", {at}, {{"dtype", type}})});
    }
    v = op.emit("take", {v, at}, {{"axis", along}, {"mode", "raise"}});
  }
  op.out("Out", decreased(op, v, op.rank("Input")));
}

void plainSlice(OpTranslation &op) {
  if (any_of(kBounds, [&](StringRef slot) { return op.has(slot); })) return sliceAtOperands(op);
  slice(op, std::vector<int64_t>(op.integers("axes").size(), 1));
}

void stridedSlice(OpTranslation &op) {
  op.refuse({"StartsTensor", "StartsTensorList", "EndsTensor", "EndsTensorList", "StridesTensor", "StridesTensorList"});
  slice(op, op.integers("strides"));
}

void expand(OpTranslation &op) {
  op.refuse({"Shape", "expand_shapes_tensor"});
  std::vector<int64_t> shape = op.integers("shape");
  const size_t rank = std::max<size_t>(op.rank("X"), 1);
  const Value v = op.withRank(op.in("X"), rank, shape.size());
  for (int64_t &size : shape)
    if (size == -1) size = 0;  // unchanged
  op.out("Out", op.emit("broadcast_to", {v}, {{"shape", tupleText(shape)}}));
}

void expandAs(OpTranslation &op) {
  std::vector<int64_t> shape = op.integers("target_shape");
  const size_t rank = std::max<size_t>(op.rank("X"), 1);
  const Value v = op.withRank(op.in("X"), rank, shape.size());
  if (op.has("Y")) return op.out("Out", op.emit("broadcast_like", {v, op.in("Y")}));
  op.out("Out", op.emit("broadcast_to", {v}, {{"shape", tupleText(shape)}}));
}

void tile(OpTranslation &op) {
  op.refuse({"RepeatTimes", "repeat_times_tensor"});
  op.out("Out", op.emit("tile", {op.in("X")}, {{"reps", tupleText(op.integers("repeat_times"))}}));
}

/// Constants around the elements of one axis.
Value framed(OpTranslation &op, Value v, ArrayRef<int64_t> shape, size_t axis, int64_t before, int64_t after,
             const std::string &value) {
  std::vector<Value> parts;
  auto add = [&](int64_t number) {
    std::vector<int64_t> part(shape.begin(), shape.end());
    part[axis] = number;
    const Value full = op.emit("_full", {}, {{"shape", tupleText(part)}, {"value", value}, {"dtype", "float64"}});
    parts.push_back(op.emit("_cast_like", {full, v}));
  };
  if (before > 0) add(before);
  parts.push_back(v);
  if (after > 0) add(after);
  if (parts.size() == 1) return v;
  return op.joined(parts, static_cast<int64_t>(axis));
}

void pad(OpTranslation &op) {
  const std::vector<int64_t> pads = op.integers("paddings");
  const size_t rank = op.rank("X");
  if (pads.size() != 2 * rank || llvm::any_of(pads, [](int64_t n) { return n < 0 || n > int64_t{INT32_MAX}; }))
    return op.fail(ErrorKind::BadAttribute, "attribute 'paddings' is " + tupleText(pads) + ", expected " +
                                                Twine(2 * rank) + " numbers of 0 to 2147483647");
  const std::string value = numberText(op.number("pad_value", 0));
  Value v = op.in("X");
  std::vector<int64_t> shape;
  for (size_t i = 0; i < rank; ++i) shape.push_back(std::min(op.dim("X", static_cast<int64_t>(i)), int64_t{1} << 62));
  for (size_t i = 0; i < rank; ++i) {
    v = framed(op, v, shape, i, pads[2 * i], pads[2 * i + 1], value);
    shape[i] += pads[2 * i] + pads[2 * i + 1];
  }
  op.out("Out", v);
}

// Depth joins the channels; it cannot be padded itself.
void pad3d(OpTranslation &op) {
  op.refuse({"Paddings"});
  const std::vector<int64_t> pads = op.integers("paddings");
  const std::string mode = op.text("mode", "constant"), layout = op.text("data_format", "NCDHW");
  if (layout != "NCDHW" || op.rank("X") != 5)
    return op.unsupported("'data_format' " + layout + " is not supported, expected NCDHW and rank 5");
  if (pads.size() != 6 || pads[4] != 0 || pads[5] != 0)
    return op.unsupported("'paddings' " + tupleText(pads) + " are not supported, expected 6 numbers, the last two 0");
  if (mode != "constant" && mode != "reflect" && mode != "replicate")
    return op.unsupported("'mode' " + mode + " is not supported, expected constant, reflect or replicate");
  const Value flat = op.reshaped(op.in("X"), {0, -3, -2});
  const Value v = op.emit("Pad", {flat},
                          {{"mode", mode == "replicate" ? "edge" : mode},
                           {"pad_width", tupleText({0, 0, 0, 0, pads[2], pads[3], pads[0], pads[1]})},
                           {"constant_value", numberText(op.number("value", 0))}});
  op.out("Out", op.reshaped(v, {0, -4, op.dim("X", 1), -1, -2}));
}

void flip(OpTranslation &op) {
  std::vector<std::string> step(op.rank("X"), "None");
  for (int64_t axis : op.integers("axis"))
    if (const auto at = static_cast<size_t>(op.axisOf("X", axis)); at < step.size()) step[at] = "-1";
  std::string ends = "(", steps = "(";
  for (const std::string &part : step) {
    ends += "None, ";
    steps += part + ", ";
  }
  op.out("Out", op.emit("slice", {op.in("X")}, {{"begin", ends + ")"}, {"end", ends + ")"}, {"step", steps + ")"}}));
}

void roll(OpTranslation &op) {
  op.refuse({"ShiftsTensor"});
  const std::vector<int64_t> shifts = op.integers("shifts");
  std::vector<int64_t> axes = op.integers("axis");
  const Value x = op.in("X");
  Value v = x;
  const bool isFlat = axes.empty() && shifts.size() == 1;
  if (!isFlat && shifts.size() != axes.size())
    return op.fail(ErrorKind::BadAttribute, "attributes 'shifts' and 'axis' differ in length");
  auto turn = [&](int64_t axis, int64_t length, int64_t shift) {
    const int64_t by = length > 0 ? ((shift % length) + length) % length : 0;
    if (by == 0) return;
    v = op.joined({op.sliced(v, axis, length - by, length), op.sliced(v, axis, 0, length - by)}, axis);
  };
  if (isFlat) {
    int64_t length = 1;
    for (size_t i = 0; i < op.rank("X"); ++i)
      if (MulOverflow(length, op.dim("X", static_cast<int64_t>(i)), length))
        return op.unsupported("a tensor of that many elements is not supported");
    v = op.reshaped(x, {-1});
    turn(0, length, shifts[0]);
    v = op.emit("reshape_like", {v, x});
  }
  for (size_t i = 0; i < axes.size(); ++i) turn(op.axisOf("X", axes[i]), op.dim("X", axes[i]), shifts[i]);
  op.out("Out", v);
}

// One triangle of each matrix, and zeros.
void triangle(OpTranslation &op) {
  const Value x = op.in("X");
  const bool isLower = op.flag("lower", true);
  auto index = [&](int64_t axis) { return op.emit("_index_like", {x}, {{"axis", std::to_string(axis)}}); };
  if (op.rank("X") < 2)
    return op.fail(ErrorKind::BadEntry, "slot 'X' has rank " + Twine(op.rank("X")) + ", expected at least 2");
  const Value last = op.addScalar(index(-2), static_cast<double>(op.integer("diagonal", 0)));
  const Value isKept = op.emit(isLower ? "broadcast_lesser_equal" : "broadcast_greater_equal", {index(-1), last});
  op.out("Out", op.emit("where", {isKept, x, op.emit("zeros_like", {x})}));
}

void unbind(OpTranslation &op) { unstackInto(op, "Out"); }

constexpr BlockOpRow kRows[] = {
    {"concat", concat},
    {"expand_as_v2", expandAs},
    {"expand_v2", expand},
    {"flatten_contiguous_range", flatten},
    {"flip", flip},
    {"pad", pad},
    {"pad3d", pad3d},
    {"reshape2", reshape},
    {"roll", roll},
    {"slice", plainSlice},
    {"split", split},
    {"squeeze2", squeeze},
    {"stack", stack},
    {"strided_slice", stridedSlice},
    {"tile", tile},
    {"transpose2", transpose},
    {"tril_triu", triangle},
    {"unbind", unbind},
    {"unsqueeze2", unsqueeze},
    {"unstack", unstack},
};

}  // namespace

ArrayRef<BlockOpRow> shapeBlockOps() { return kRows; }

}  // namespace gradc
