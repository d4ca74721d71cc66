// Rows and elements by index. Tested by tests/formats/blocks/block_graph_test.cc
#include "formats/blocks/arrays/stacked_arrays.h"
#include "formats/blocks/ops/op_row.h"

using namespace llvm;

namespace gradc {
namespace {

Value rows(OpTranslation &op, Value table, Value ids, int64_t axis) {
  return op.emit("take", {table, ids}, {{"axis", std::to_string(axis)}, {"mode", "clip"}});
}

// The row `padding_idx` counts as zeros. In the older form, ids have a last axis of one element.
void lookupTable(OpTranslation &op, bool isOld) {
  Value ids = op.in("Ids");
  const Value table = op.in("W");
  if (isOld && op.rank("Ids") > 1) ids = op.emit("squeeze", {ids}, {{"axis", "-1"}});
  const int64_t padding = op.integer("padding_idx", -1);
  Value v = rows(op, table, ids, 0);
  if (padding != -1) {
    const double row = static_cast<double>(padding < 0 ? padding + op.dim("W", 0) : padding);
    const Value numbers = op.emit("Cast", {ids}, {{"dtype", "float64"}});
    const Value isKept = op.emit("expand_dims", {op.scalar("_not_equal_scalar", numbers, row)}, {{"axis", "-1"}});
    v = op.emit("broadcast_mul", {v, op.emit("_cast_like", {isKept, v})});
  }
  if (op.rank("Ids") == 0) v = op.emit("squeeze", {v}, {{"axis", "0"}});  // an axis of gradc's alone
  op.out("Out", v);
}

void gather(OpTranslation &op) {
  op.refuse({"Axis"});
  Value index = op.in("Index");
  if (op.rank("Index") == 2) index = op.reshaped(index, {-3});  // (n, 1)
  const int64_t axis = op.axisOf("X", op.integer("axis", 0));
  Value v = rows(op, op.in("X"), index, axis);
  if (op.rank("Index") == 0 && op.rank("X") > 1) v = op.emit("squeeze", {v}, {{"axis", std::to_string(axis)}});
  op.out("Out", v);
}

/// Index tuples along the first axis, as gradc's operators have them; in Paddle they are along the last.
Value tuplesFirst(OpTranslation &op, Value index) {
  const auto rank = static_cast<int64_t>(op.rank("Index"));
  if (rank < 2) return index;
  std::vector<int64_t> axes = {rank - 1};
  for (int64_t i = 0; i + 1 < rank; ++i) axes.push_back(i);
  return op.emit("transpose", {index}, {{"axes", tupleText(axes)}});
}

void gatherNd(OpTranslation &op) {
  const Value x = op.in("X");
  op.out("Out", op.emit("gather_nd", {x, tuplesFirst(op, op.in("Index"))}));
}

void scatterNdAdd(OpTranslation &op) {
  const Value x = op.in("X"), index = tuplesFirst(op, op.in("Index"));
  op.out("Out", op.emit("_scatter_nd", {x, op.in("Updates"), index}, {{"reduction", "add"}}));
}

void indexSelect(OpTranslation &op) {
  const Value x = op.in("X");
  op.out("Out", rows(op, x, op.in("Index"), op.integer("dim", 0)));
}

void indexSample(OpTranslation &op) {
  const Value x = op.in("X");
  op.out("Out", op.emit("_take_along_axis", {x, op.in("Index")}, {{"axis", "1"}}));
}

void takeAlongAxis(OpTranslation &op) {
  const Value x = op.in("Input");
  op.out("Result", op.emit("_take_along_axis", {x, op.in("Index")}, {{"axis", std::to_string(op.integer("Axis", 0))}}));
}

void argsort(OpTranslation &op) {
  const Value x = op.in("X");
  const std::string axis = std::to_string(op.integer("axis", -1)),
                    isAscending = flagText(!op.flag("descending", false));
  op.out("Out", op.emit("sort", {x}, {{"axis", axis}, {"is_ascend", isAscending}}));
  op.out("Indices", op.emit("argsort", {x}, {{"axis", axis}, {"is_ascend", isAscending}, {"dtype", "int64"}}));
}

void oneHot(OpTranslation &op) {
  op.refuse({"depth_tensor"});
  op.out("Out", op.emit("one_hot", {op.in("X")},
                        {{"depth", std::to_string(op.integer("depth", 1))}, {"dtype", op.dtype("dtype")}}));
}

// Without `overwrite` the rows begin as zeros and all updates of one row are added up.
void scatterSum(OpTranslation &op, Value x, Value ids, Value updates) {
  const Value empty = op.emit("_contrib_index_copy", {x, ids, op.emit("zeros_like", {updates})});
  const Value tuples = op.emit("expand_dims", {ids}, {{"axis", "0"}});
  op.out("Out", op.emit("_scatter_nd", {empty, updates, tuples}, {{"reduction", "add"}}));
}

void scatter(OpTranslation &op) {
  Value ids = op.in("Ids");
  if (op.rank("Ids") == 2) ids = op.reshaped(ids, {-3});
  const Value x = op.in("X"), updates = op.in("Updates");
  if (!op.flag("overwrite", true)) return scatterSum(op, x, ids, updates);
  op.out("Out", op.emit("_contrib_index_copy", {x, ids, updates}));
}

// The number of elements to select. To `topk`, a number below 1 means all of them.
int64_t numSelected(OpTranslation &op) {
  const int64_t k = op.integer("k", 1);
  if (k >= 1) return k;
  op.fail(ErrorKind::BadAttribute, "attribute 'k' is " + Twine(k) + ", expected at least 1");
  return 1;
}

void topK(OpTranslation &op) {
  op.refuse({"K"});
  const Value both = op.emit("topk", {op.in("X")},
                             {{"axis", std::to_string(op.integer("axis", -1))},
                              {"k", std::to_string(numSelected(op))},
                              {"ret_typ", "both"},
                              {"is_ascend", flagText(!op.flag("largest", true))},
                              {"dtype", "int64"}});
  op.out("Out", both);
  op.out("Indices", OpTranslation::output(both, 1));
}

// The k-th smallest along an axis, counted from 1.
void kthValue(OpTranslation &op) {
  const int64_t axis = op.axisOf("X", op.integer("axis", -1)), k = numSelected(op);
  const std::string along = std::to_string(axis);
  const Value both = op.emit(
      "topk", {op.in("X")},
      {{"axis", along}, {"k", std::to_string(k)}, {"ret_typ", "both"}, {"is_ascend", "True"}, {"dtype", "int64"}});
  auto last = [&](Value v) {
    const Value kth = op.sliced(v, axis, k - 1, k);
    return op.flag("keepdim", false) ? kth : op.emit("squeeze", {kth}, {{"axis", along}});
  };
  op.out("Out", last(both));
  op.out("Indices", last(OpTranslation::output(both, 1)));
}

// Arrays are stacked (formats/blocks/arrays/stacked_arrays.h).
void readFromArray(OpTranslation &op) {
  const Value element = op.emit("take", {op.in("X"), op.in("I")}, {{"axis", "0"}, {"mode", "raise"}});
  op.out("Out", op.reshaped(element, {-3, -2}));
}

void writeToArray(OpTranslation &op) {
  const Value element = op.emit("expand_dims", {op.in("X")}, {{"axis", "0"}});
  op.out("Out", op.emit("_contrib_index_copy", {op.in(kArraySlot), op.in("I"), element}));
}

/// The elements of an array that are in use. Where their number is only declared, an array of another length is an
/// error when it runs: the index below is 0 or out of range.
Value elementsInUse(OpTranslation &op, int64_t number) {
  const Value all = op.in("X");
  if (!op.has(kLengthSlot)) return op.sliced(all, 0, 0, number);
  const std::string end = std::to_string(number), type = "int64", axis = "0", mode = "raise";
  const Value zeros = op.emit("_zeros", {}, {{"shape", "(1,)"}, {"dtype", type}}),
              tooMany = op.addScalar(op.in(kLengthSlot), -static_cast<double>(number)),
              zero = op.emit("take", {zeros, tooMany}, {{"axis", axis}, {"mode", mode}}),
              positions = op.emit("_arange", {}, {{"start", axis}, {"stop", end}, {"dtype", type}});
  return op.emit("take", {all, op.emit("broadcast_add", {positions, zero})}, {{"axis", axis}, {"mode", mode}});
}

// The elements stacked along a new axis, or concatenated along one of theirs.
void arrayToTensor(OpTranslation &op) {
  const int64_t number = op.integer(kNumElements, 0);
  if (number < 1) return op.fail(ErrorKind::BadEntry, "the number of elements is not known");
  const std::vector<int64_t> element = op.integers(kElementShape);
  const bool isStack = op.flag("use_stack", false);
  const auto rank = static_cast<int64_t>(element.size()), numAxes = rank + isStack;
  const int64_t given = op.integer("axis", 0), axis = given < 0 ? given + numAxes : given;
  if (axis < 0 || axis >= numAxes)
    return op.fail(ErrorKind::BadAttribute, "attribute 'axis' is " + Twine(given) +
                                                ", which is out of range for elements of rank " + Twine(rank));
  Value v = elementsInUse(op, number);
  std::vector<int64_t> axes, merged(static_cast<size_t>(axis), 0);
  for (int64_t i = 1; i <= rank; ++i) axes.push_back(i);
  axes.insert(axes.begin() + axis, 0);
  if (axis != 0) v = op.emit("transpose", {v}, {{"axes", tupleText(axes)}});
  merged.insert(merged.end(), {-3, -2});  // two become one, the rest stays
  if (!isStack || rank == 0) v = op.reshaped(v, merged);
  op.out("Out", v);
  const int64_t size = axis < rank ? element[static_cast<size_t>(axis)] : 1;
  op.out("OutIndex",
         op.emit("_full", {}, {{"shape", tupleText({number})}, {"value", std::to_string(size)}, {"dtype", "int32"}}));
}

constexpr BlockOpRow kRows[] = {
    {"argsort", argsort},
    {"gather", gather},
    {"gather_nd", gatherNd},
    {"index_sample", indexSample},
    {"index_select", indexSelect},
    {"kthvalue", kthValue},
    {"lookup_table", [](OpTranslation &op) { lookupTable(op, true); }},
    {"lookup_table_v2", [](OpTranslation &op) { lookupTable(op, false); }},
    {"one_hot_v2", oneHot},
    {"read_from_array", readFromArray},
    {"scatter", scatter},
    {"scatter_nd_add", scatterNdAdd},
    {"take_along_axis", takeAlongAxis},
    {"tensor_array_to_tensor", arrayToTensor},
    {"top_k_v2", topK},
    {"write_to_array", writeToArray},
};

}  // namespace

ArrayRef<BlockOpRow> indexBlockOps() { return kRows; }

}  // namespace gradc
