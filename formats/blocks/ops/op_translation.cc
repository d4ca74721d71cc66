// Tested by tests/formats/blocks/block_graph_test.cc
#include "formats/blocks/ops/op_translation.h"

#include "formats/blocks/program/block_attrs.h"
#include "formats/blocks/program/json_stream.h"
#include "ir/graph/context.h"

#include <cmath>

using namespace llvm;

namespace gradc {

OpTranslation::OpTranslation(GraphBuilder &builder, const BlockProgram &program, uint32_t block, size_t index,
                             const BlockOp &op, Read read)
    : builder(builder), program(program), block(block), index(index), op(op), read(std::move(read)) {}

void OpTranslation::fail(ErrorKind kind, const Twine &what) {
  if (!error) error.emplace(failureAt(program, block, index, kind, what));
}

Expected<std::vector<OpTranslation::Written>> OpTranslation::finish() {
  if (error) return std::move(*error);
  return std::move(written);
}

TextId OpTranslation::variable(StringRef slot, size_t i) {
  for (ArrayRef<BlockSlot> slots : {ArrayRef(op.inputs), ArrayRef(op.outputs)})
    if (ArrayRef<TextId> names = program.variables(slots, slot); i < names.size()) return names[i];
  fail(ErrorKind::BadEntry, "slot '" + slot + "' has no operand " + Twine(i));
  return TextId();
}

Value OpTranslation::in(StringRef slot, size_t i) {
  ArrayRef<TextId> names = program.variables(op.inputs, slot);
  if (i >= names.size()) fail(ErrorKind::BadEntry, "slot '" + slot + "' has no operand " + Twine(i));
  else if (names[i] == kEmptyName) fail(ErrorKind::BadEntry, "slot '" + slot + "' names no variable");
  return error ? Value() : read(slot, i, names[i]);
}

std::vector<Value> OpTranslation::ins(StringRef slot) {
  std::vector<Value> values;
  for (size_t i = 0; i < count(slot) && !error; ++i) values.push_back(in(slot, i));
  if (values.empty()) fail(ErrorKind::BadEntry, "slot '" + slot + "' has no operand 0");
  return values;
}

void OpTranslation::refuse(std::initializer_list<StringRef> slots) {
  for (StringRef slot : slots)
    if (has(slot)) unsupported("an operand in slot '" + slot + "' is not supported, expected it as an attribute");
}

const BlockVariable *OpTranslation::record(StringRef slot, size_t i) {
  const TextId name = variable(slot, i);
  return error ? nullptr : visibleVariable(program, block, name);
}

bool OpTranslation::isWhole(StringRef slot, size_t i) {
  const BlockVariable *known = record(slot, i);
  return known && known->dtype && dtypeOf(*known->dtype) != DType::Unknown && !isFloating(dtypeOf(*known->dtype));
}

bool OpTranslation::isTruth(StringRef slot, size_t i) {
  const BlockVariable *known = record(slot, i);
  return known && known->dtype == FluidType::Bool;
}

bool OpTranslation::isStored(StringRef slot, size_t i) {
  const BlockVariable *known = record(slot, i);
  return block == 0 && known && known->isPersistable;
}

ArrayRef<int64_t> OpTranslation::shape(StringRef slot, size_t i) {
  const BlockVariable *known = record(slot, i);
  if (error) return {};
  if (known && known->dtype) return known->shape;
  fail(ErrorKind::InferMissing,
       "variable '" + program.text(variable(slot, i)) + "' in slot '" + slot + "' is declared without a shape");
  return {};
}

int64_t OpTranslation::axisOf(StringRef slot, int64_t axis) {
  const auto numAxes = static_cast<int64_t>(rank(slot));
  const int64_t positive = axis < 0 ? axis + numAxes : axis;
  if (positive < 0 || positive >= std::max<int64_t>(numAxes, 1)) {
    fail(ErrorKind::BadAttribute,
         "axis " + Twine(axis) + " of slot '" + slot + "' is out of range, its rank is " + Twine(numAxes));
    return 0;
  }
  return positive;
}

int64_t OpTranslation::dim(StringRef slot, int64_t axis) {
  const auto at = static_cast<size_t>(axisOf(slot, axis));
  ArrayRef<int64_t> dims = shape(slot);
  if (error || at >= dims.size()) return 1;
  if (dims[at] < 0)
    fail(ErrorKind::InferMissing, "dimension " + Twine(at) + " of slot '" + slot + "' is not known, expected a number");
  return dims[at];
}

template <class T> T OpTranslation::attribute(StringRef key, std::optional<T> found, T missing, StringRef form) {
  if (found) return *found;
  if (op.attrs.get(key))
    fail(ErrorKind::BadAttribute, "attribute '" + key + "' is " + *op.attrs.get(key) + ", expected " + form);
  return missing;
}

int64_t OpTranslation::integer(StringRef key, int64_t missing) {
  return attribute(key, intAttr(op.attrs, key), missing, "a whole number");
}
bool OpTranslation::flag(StringRef key, bool missing) {
  return attribute(key, boolAttr(op.attrs, key), missing, "true or false");
}
double OpTranslation::number(StringRef key, double missing) {
  return attribute(key, floatAttr(op.attrs, key), missing, "a number");
}
std::string OpTranslation::text(StringRef key, StringRef missing) {
  return attribute(key, stringAttr(op.attrs, key), missing.str(), "a string");
}
std::vector<int64_t> OpTranslation::integers(StringRef key) {
  return attribute(key, intsAttr(op.attrs, key), std::vector<int64_t>(), "whole numbers");
}
std::vector<double> OpTranslation::numbers(StringRef key) {
  return attribute(key, floatsAttr(op.attrs, key), std::vector<double>(), "numbers");
}

std::string OpTranslation::dtype(StringRef key) {
  const int64_t number = integer(key, -1);
  const DType type = number < 0 || number > 255 ? DType::Unknown : dtypeOf(static_cast<FluidType>(number));
  if (type == DType::Unknown)
    fail(ErrorKind::BadType, "attribute '" + key + "' is " + Twine(number) + ", which is not an element type");
  return dtypeName(type).str();
}

Value OpTranslation::emit(StringRef opName, ArrayRef<Value> inputs, ArrayRef<AttrPair> attrs) {
  if (error) return Value();
  const OpDef *known = builder.context().ops.find(opName);
  if (!known) {
    fail(ErrorKind::UnknownOp, "needs operator '" + opName + "', which is not registered");
    return Value();
  }
  SmallVector<AttrText, 8> texts;
  for (const AttrPair &pair : attrs) texts.push_back({pair.first, pair.second});
  Expected<NodeId> node = builder.add(*known, inputs, {"", builder.context().attrs(texts)});
  if (node) return {*node, 0, 0};
  error.emplace(blameOp(program, block, index, node.takeError()));
  return Value();
}

Value OpTranslation::scalar(StringRef opName, Value v, double number) {
  const bool isInteger = number == std::trunc(number) && std::abs(number) < 1e15;
  return emit(opName, {v}, {{"scalar", numberText(number)}, {"is_int", flagText(isInteger)}});
}

Value OpTranslation::reshaped(Value v, ArrayRef<int64_t> shape) {
  return emit("Reshape", {v}, {{"shape", shape.empty() ? "(1,)" : tupleText(shape)}});
}
Value OpTranslation::withRank(Value v, size_t rank, size_t wanted) {
  for (; rank < wanted; ++rank) v = emit("expand_dims", {v}, {{"axis", "0"}});
  return v;
}
Value OpTranslation::sliced(Value v, int64_t axis, int64_t begin, int64_t end) {
  return emit("slice_axis", {v},
              {{"axis", std::to_string(axis)}, {"begin", std::to_string(begin)}, {"end", std::to_string(end)}});
}
Value OpTranslation::joined(ArrayRef<Value> parts, int64_t axis) {
  return emit("Concat", parts, {{"num_args", std::to_string(parts.size())}, {"dim", std::to_string(axis)}});
}

Value OpTranslation::alignedWithX(Value y) {
  const auto rankX = static_cast<int64_t>(rank("X")), rankY = static_cast<int64_t>(rank("Y"));
  const int64_t axis = integer("axis", -1);
  if (axis < 0 || axis >= rankX - rankY) return y;
  std::vector<int64_t> shape = {-2};  // keeps all dimensions
  shape.insert(shape.end(), static_cast<size_t>(rankX - rankY - axis), 1);
  return reshaped(y, shape);
}

void OpTranslation::out(StringRef slot, Value v, size_t i) {
  ArrayRef<TextId> names = program.variables(op.outputs, slot);
  if (error || i >= names.size() || names[i] == kEmptyName) return;
  written.push_back({names[i], v, slot, i});
}

std::string tupleText(ArrayRef<int64_t> numbers) {
  std::string text = "(";
  for (int64_t number : numbers) text += (text.size() > 1 ? ", " : "") + std::to_string(number);
  return text + (numbers.size() == 1 ? ",)" : ")");
}

std::string numberText(double number) {
  if (!std::isfinite(number)) return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
  std::string text = spellFloat(number, false);
  StringRef whole = text;
  return whole.consume_back(".0") ? whole.str() : text;
}

}  // namespace gradc
