// Operators that move elements: other shapes, parts, joined tensors. Tested by tests/block_graph_test.cc
#include "formats/blocks/ops/op_row.h"
#include "ir/dim.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

// Operators whose names end in 2 also yield the shape of x for their gradients, in Paddle as an empty array. Here it is x.
void outWithShape(OpTranslation &op, Value v, Value x) {
  op.out("Out", v);
  op.out("XShape", x);
}

Value reshaped(OpTranslation &op, Value v, std::vector<int64_t> shape) {
  if (shape.empty()) shape.push_back(1);  // a scalar
  return op.emit("Reshape", {v}, {{"shape", tupleText(shape)}});
}

void reshape(OpTranslation &op) {
  op.refuse({"Shape", "ShapeTensor"});
  const Value x = op.in("X");
  outWithShape(op, reshaped(op, x, op.integers("shape")), x);
}

void flatten(OpTranslation &op) {
  const Value x = op.in("X");
  const int64_t first = op.axisOf("X", op.integer("start_axis", 1)), last = op.axisOf("X", op.integer("stop_axis", -1));
  std::vector<int64_t> shape(static_cast<size_t>(first), 0);
  shape.insert(shape.end(), {-3, -2});  // two become one, the rest stays
  Value v = x;
  for (int64_t i = first; i < last; ++i) v = reshaped(op, v, shape);
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
    llvm::erase_if(axes, [&](int64_t axis) { return op.dim("X", axis) != 1; });  // Paddle leaves those as they are
  }
  if (axes.empty()) return outWithShape(op, op.emit("_copy", {x}), x);
  outWithShape(
      op, axes.size() == op.rank("X") ? reshaped(op, x, {1}) : op.emit("squeeze", {x}, {{"axis", tupleText(axes)}}), x);
}

void unsqueeze(OpTranslation &op) {
  op.refuse({"AxesTensor", "AxesTensorList"});
  const Value x = op.in("X");
  Value v = x;
  auto rank = static_cast<int64_t>(op.rank("X"));
  if (rank == 0) return outWithShape(op, reshaped(op, x, std::vector<int64_t>(op.integers("axes").size(), 1)), x);
  for (int64_t axis : op.integers("axes")) {
    v = op.emit("expand_dims", {v}, {{"axis", std::to_string(axis < 0 ? axis + rank + 1 : axis)}});
    ++rank;
  }
  outWithShape(op, v, x);
}

void concat(OpTranslation &op) {
  op.refuse({"AxisTensor"});
  const std::vector<Value> parts = op.ins("X");
  op.out("Out", op.emit("Concat", parts,
                        {{"num_args", std::to_string(parts.size())}, {"dim", std::to_string(op.integer("axis", 0))}}));
}

void stack(OpTranslation &op) {
  const std::vector<Value> parts = op.ins("X");
  op.out("Y", op.emit("stack", parts,
                      {{"num_args", std::to_string(parts.size())}, {"axis", std::to_string(op.integer("axis", 0))}}));
}

void unstack(OpTranslation &op) {
  const size_t number = op.numOut("Y");
  const Value parts = op.emit("SliceChannel", {op.in("X")},
                              {{"num_outputs", std::to_string(number)},
                               {"axis", std::to_string(op.integer("axis", 0))},
                               {"squeeze_axis", std::string("True")}});
  for (size_t i = 0; i < number; ++i) op.out("Y", OpTranslation::output(parts, static_cast<uint16_t>(i)), i);
}

Value cut(OpTranslation &op, Value x, int64_t axis, int64_t begin, std::optional<int64_t> end) {
  return op.emit(
      "slice_axis", {x},
      {{"axis", std::to_string(axis)}, {"begin", std::to_string(begin)}, {"end", end ? std::to_string(*end) : "None"}});
}

void split(OpTranslation &op) {
  op.refuse({"AxisTensor", "SectionsTensorList"});
  const Value x = op.in("X");
  const int64_t axis = op.axisOf("X", op.integer("axis", 0));
  std::vector<int64_t> sections = op.integers("sections");
  const size_t number = op.numOut("Out");
  if (sections.empty()) {
    const Value parts =
        op.emit("SliceChannel", {x}, {{"num_outputs", std::to_string(number)}, {"axis", std::to_string(axis)}});
    for (size_t i = 0; i < number; ++i) op.out("Out", OpTranslation::output(parts, static_cast<uint16_t>(i)), i);
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
  for (size_t i = 0; i < number; begin += sections[i++]) op.out("Out", cut(op, x, axis, begin, begin + sections[i]), i);
}

/// Removes the axes in `decrease_axis`, each of one element.
Value decreased(OpTranslation &op, Value v, size_t rank) {
  const std::vector<int64_t> axes = op.integers("decrease_axis");
  if (axes.empty()) return v;
  return axes.size() == rank ? reshaped(op, v, {1}) : op.emit("squeeze", {v}, {{"axis", tupleText(axes)}});
}

void slice(OpTranslation &op, ArrayRef<int64_t> strides) {
  op.refuse({"StartsTensor", "StartsTensorList", "EndsTensor", "EndsTensorList", "StridesTensor", "StridesTensorList"});
  const std::vector<int64_t> axes = op.integers("axes"), starts = op.integers("starts"), ends = op.integers("ends");
  if (starts.size() != axes.size() || ends.size() != axes.size() || strides.size() != axes.size())
    return op.fail(ErrorKind::BadAttribute, "attributes 'axes', 'starts', 'ends' and 'strides' differ in length");
  const size_t rank = op.rank("Input");
  std::vector<std::string> begin(rank, "None"), end(rank, "None"), step(rank, "None");
  constexpr int64_t kFar = std::numeric_limits<int32_t>::max();
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(op.axisOf("Input", axes[i]));
    if (axis >= rank) return;
    if (starts[i] < kFar && starts[i] > -kFar) begin[axis] = std::to_string(starts[i]);
    if (ends[i] < kFar && ends[i] > -kFar) end[axis] = std::to_string(ends[i]);
    if (strides[i] != 1) step[axis] = std::to_string(strides[i]);
  }
  auto tuple = [](ArrayRef<std::string> parts) {
    return "(" + llvm::join(parts, ", ") + (parts.size() == 1 ? ",)" : ")");
  };
  op.out("Out", decreased(op,
                          op.emit("slice", {op.in("Input")},
                                  {{"begin", tuple(begin)}, {"end", tuple(end)}, {"step", tuple(step)}}),
                          rank));
}

void plainSlice(OpTranslation &op) { slice(op, std::vector<int64_t>(op.integers("axes").size(), 1)); }
void stridedSlice(OpTranslation &op) { slice(op, op.integers("strides")); }

void expand(OpTranslation &op) {
  op.refuse({"Shape", "expand_shapes_tensor"});
  std::vector<int64_t> shape = op.integers("shape");
  const size_t rank = op.rank("X"), more = shape.size() - std::min(rank, shape.size());
  Value v = op.in("X");
  for (size_t i = 0; i < more && rank; ++i) v = op.emit("expand_dims", {v}, {{"axis", std::string("0")}});
  for (int64_t &size : shape)
    if (size == -1) size = 0;  // as it is
  op.out("Out", op.emit("broadcast_to", {v}, {{"shape", tupleText(shape)}}));
}

constexpr BlockOpRow kRows[] = {
    {"concat", concat},        {"expand_v2", expand},     {"flatten_contiguous_range", flatten},
    {"reshape2", reshape},     {"slice", plainSlice},     {"split", split},
    {"squeeze2", squeeze},     {"stack", stack},          {"strided_slice", stridedSlice},
    {"transpose2", transpose}, {"unsqueeze2", unsqueeze}, {"unstack", unstack},
};

}  // namespace

ArrayRef<BlockOpRow> shapeBlockOps() { return kRows; }

}  // namespace gradc
