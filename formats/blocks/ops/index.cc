// Rows and elements by index. Tested by tests/block_graph_test.cc
#include "formats/blocks/ops/op_row.h"
#include "formats/blocks/stacked_arrays.h"

using namespace llvm;

namespace gradc {
namespace {

Value rows(OpTranslation &op, Value table, Value ids, int64_t axis) {
  return op.emit("take", {table, ids}, {{"axis", std::to_string(axis)}, {"mode", std::string("clip")}});
}

// The row `padding_idx` counts as zeros.
void lookupTable(OpTranslation &op) {
  const Value ids = op.in("Ids"), table = op.in("W");
  const int64_t padding = op.integer("padding_idx", -1);
  Value v = rows(op, table, ids, 0);
  if (padding != -1) {
    const double row = static_cast<double>(padding < 0 ? padding + op.dim("W", 0) : padding);
    const Value numbers = op.emit("Cast", {ids}, {{"dtype", std::string("float64")}});
    const Value isKept =
        op.emit("expand_dims", {op.scalar("_not_equal_scalar", numbers, row)}, {{"axis", std::string("-1")}});
    v = op.emit("broadcast_mul", {v, op.emit("_cast_like", {isKept, v})});
  }
  op.out("Out", v);
}

void gather(OpTranslation &op) {
  op.refuse({"Axis"});
  Value index = op.in("Index");
  if (op.rank("Index") == 2) index = op.emit("Reshape", {index}, {{"shape", std::string("(-3,)")}});  // (n, 1)
  op.out("Out", rows(op, op.in("X"), index, op.integer("axis", 0)));
}

void scatter(OpTranslation &op) {
  if (!op.flag("overwrite", true)) return op.unsupported("'overwrite' false is not supported");
  Value ids = op.in("Ids");
  if (op.rank("Ids") == 2) ids = op.emit("Reshape", {ids}, {{"shape", std::string("(-3,)")}});
  op.out("Out", op.emit("_contrib_index_copy", {op.in("X"), ids, op.in("Updates")}));
}

void topK(OpTranslation &op) {
  op.refuse({"K"});
  const Value both = op.emit("topk", {op.in("X")},
                             {{"axis", std::to_string(op.integer("axis", -1))},
                              {"k", std::to_string(op.integer("k", 1))},
                              {"ret_typ", std::string("both")},
                              {"is_ascend", flagText(!op.flag("largest", true))},
                              {"dtype", std::string("int64")}});
  op.out("Out", both);
  op.out("Indices", OpTranslation::output(both, 1));
}

// Arrays are stacked (formats/blocks/stacked_arrays.h).
void readFromArray(OpTranslation &op) {
  const Value element =
      op.emit("take", {op.in("X"), op.in("I")}, {{"axis", std::string("0")}, {"mode", std::string("raise")}});
  op.out("Out", op.emit("Reshape", {element}, {{"shape", std::string("(-3, -2)")}}));
}

void writeToArray(OpTranslation &op) {
  const Value element = op.emit("expand_dims", {op.in("X")}, {{"axis", std::string("0")}});
  op.out("Out", op.emit("_contrib_index_copy", {op.in(kArraySlot), op.in("I"), element}));
}

/// The elements of an array that are in use. Where their number is only declared, an array of another length is an error when it
/// runs: the index below is 0 or out of range.
Value elementsInUse(OpTranslation &op, int64_t number) {
  const Value all = op.in("X");
  const std::string end = std::to_string(number);
  if (!op.has(kLengthSlot)) {
    const std::string zero = "0";
    return op.emit("slice_axis", {all}, {{"axis", zero}, {"begin", zero}, {"end", end}});
  }
  const std::string type = "int64", axis = "0", mode = "raise";
  const Value zeros = op.emit("_zeros", {}, {{"shape", std::string("(1,)")}, {"dtype", type}}),
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
  if (!isStack || rank == 0) v = op.emit("Reshape", {v}, {{"shape", tupleText(merged)}});
  op.out("Out", v);
  const int64_t size = axis < rank ? element[static_cast<size_t>(axis)] : 1;
  op.out("OutIndex",
         op.emit("_full", {},
                 {{"shape", tupleText({number})}, {"value", std::to_string(size)}, {"dtype", std::string("int32")}}));
}

constexpr BlockOpRow kRows[] = {
    {"gather", gather},
    {"lookup_table_v2", lookupTable},
    {"read_from_array", readFromArray},
    {"scatter", scatter},
    {"tensor_array_to_tensor", arrayToTensor},
    {"top_k_v2", topK},
    {"write_to_array", writeToArray},
};

}  // namespace

ArrayRef<BlockOpRow> indexBlockOps() { return kRows; }

}  // namespace gradc
