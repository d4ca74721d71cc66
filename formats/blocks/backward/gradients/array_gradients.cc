// Tested by tests/formats/blocks/backward/array_gradient_test.cc
#include "formats/blocks/backward/gradients/array_gradients.h"

#include "formats/blocks/program/block_attrs.h"

using namespace llvm;

namespace gradc {
namespace {

/// Whether Paddle's form computes the gradient.
bool isPlain(const ArrayUse &use) {
  if (use.isWrittenAgain) return false;
  return !use.isInBlocks || !(use.isReadAgain || use.hasManyReaders || use.isOnlyRead || use.isReadInBranch);
}

void addOperand(BlockProgram &program, std::vector<BlockSlot> &slots, StringRef name, TextId variable) {
  const TextId id = program.intern(name);
  auto found = find_if(slots, [&](const BlockSlot &slot) { return slot.name == id; });
  if (found == slots.end()) slots.push_back({id, {variable}});
  else if (!is_contained(found->variables, variable)) found->variables.push_back(variable);
}

}  // namespace

void ArrayGradients::choose() {
  uses = findArrayUses(program);
  for (const auto &[array, use] : uses)
    if (!isPlain(use)) arrays.insert(TextId(array));
  for (TextId array : arrays.names()) gradients.insert(names.gradient(array));
  if (arrays.names().empty()) return;
  for (Block &block : program.blocks)
    for (BlockOp &op : block.ops) {
      if (!op.subBlock || program.text(op.type) != "while") continue;
      NameSet both;
      forEachOperand(op, [&](TextId name) {
        if (arrays.contains(name)) both.insert(name);
      });
      for (TextId array : both.names()) {
        addOperand(program, op.inputs, "X", array);
        addOperand(program, op.outputs, "Out", array);
      }
    }
}

Expected<bool> ArrayGradients::make(uint32_t block, uint32_t index, const NameSet &cut, std::vector<BlockOp> &made) {
  if (uses.empty()) return false;
  if (Error error = check(block, index, cut)) return error;
  const BlockOp forward = program.blocks[block].ops[index];
  begin(block, forward, cut, made);
  const StringRef type = program.text(forward.type);
  if (type == "tensor_array_to_tensor") {
    if (!operandIn(program, forward.inputs, "X").isValid() || !operandIn(program, forward.outputs, "Out").isValid())
      return failureAt(program, block, index, ErrorKind::BadEntry,
                       "expected one variable in each of the slots 'X' and 'Out'");
    return makeWhole(forward, cut, made);
  }
  const bool isRead = type == "read_from_array";
  if (!isRead && type != "write_to_array") return false;
  if (!operandIn(program, forward.inputs, "X").isValid() || !operandIn(program, forward.inputs, "I").isValid() ||
      !operandIn(program, forward.outputs, "Out").isValid())
    return failureAt(program, block, index, ErrorKind::BadEntry,
                     "expected one variable in each of the slots 'X', 'I' and 'Out'");
  if (isRead && cut.contains(names.gradient(operandIn(program, forward.outputs, "Out")))) return true;
  const TextId array = isRead ? operandIn(program, forward.inputs, "X") : operandIn(program, forward.outputs, "Out");
  if (!arrays.contains(array) || cut.contains(names.gradient(array))) return false;
  if (isRead) makeRead(forward, made);
  else makeWrite(forward, cut, made);
  return true;
}

/// Branches cannot accumulate: where one is not run, contributions are lost, and nothing writes the zeros it would
/// leave.
Error ArrayGradients::check(uint32_t block, uint32_t index, const NameSet &cut) {
  const BlockOp &op = program.blocks[block].ops[index];
  Error error = Error::success();
  forEachOperand(op, [&](TextId name) {
    const auto found = uses.find(name.value);
    if (error || found == uses.end() || cut.contains(names.gradient(name))) return;
    const ArrayUse &use = found->second;
    if (!arrays.contains(name) || !(use.isInBranch || use.hasOthers)) return;
    error = failureAt(program, block, index, ErrorKind::NotDifferentiable,
                      "the gradient of array '" + program.text(name) + "' cannot be written as operators: " +
                          (use.isInBranch
                               ? "a branch reads it, or may write an element again"
                               : "an element may be written or read again, and an operator takes the whole array") +
                          "; as a graph it is supported");
  });
  return error;
}

/// Puts the zeros of an array's gradient before the first gradient operator in the block that declares the array.
void ArrayGradients::begin(uint32_t block, const BlockOp &forward, const NameSet &cut, std::vector<BlockOp> &made) {
  forEachOperand(forward, [&](TextId name) {
    if (!arrays.contains(name) || !program.find(block, name) || cut.contains(names.gradient(name))) return;
    if (begun.insert(name.value).second) made.push_back(makeOp("fill_zeros_like", {slot("X", name)}, gradientOf(name)));
  });
}

void ArrayGradients::makeRead(const BlockOp &forward, std::vector<BlockOp> &made) {
  const TextId out = operandIn(program, forward.outputs, "Out"), arrived = gradientOf(out);
  const TextId array = gradientOf(operandIn(program, forward.inputs, "X")),
               index = operandIn(program, forward.inputs, "I");
  const TextId element = elementName(arrived);
  made.push_back(makeOp("read_from_array", {slot("I", index), slot("X", array), slot("X_W", out)}, element));
  made.push_back(makeOp("sum", {slot("X", {element, arrived})}, element));
  made.push_back(makeOp("write_to_array", {slot("I", index), slot("X", element)}, array));
}

/// The gradient of the tensor is an array, which is added to that of the array.
bool ArrayGradients::makeWhole(const BlockOp &forward, const NameSet &cut, std::vector<BlockOp> &made) {
  const TextId array = operandIn(program, forward.inputs, "X"), out = operandIn(program, forward.outputs, "Out");
  if (!arrays.contains(array) || cut.contains(names.gradient(array))) return false;
  const TextId gradient = gradientOf(array), elements = elementName(gradient);
  BlockOp op = makeOp("tensor_array_to_tensor_grad", {slot("Out@GRAD", gradientOf(out)), slot("X", array)}, elements);
  op.attrs = context.withAttrs(forward.attrs, ArrayRef(op.attrs.pairs()));
  op.outputs[0].name = program.intern("X@GRAD");
  made.push_back(std::move(op));
  made.push_back(makeOp("sum", {slot("X", {gradient, elements})}, gradient));
  return true;
}

void ArrayGradients::makeWrite(const BlockOp &forward, const NameSet &cut, std::vector<BlockOp> &made) {
  const TextId x = operandIn(program, forward.inputs, "X"), index = operandIn(program, forward.inputs, "I");
  const TextId array = gradientOf(operandIn(program, forward.outputs, "Out"));
  const TextId gradient = gradientOf(x), zeros = elementName(gradient);
  if (!cut.contains(gradient))
    made.push_back(makeOp("read_from_array", {slot("I", index), slot("X", array), slot("X_W", x)}, gradient));
  const std::string dtype = intAttrText(AttrTag::Int, -1), zero = floatAttrText(AttrTag::Float, 0);
  made.push_back(makeOp("fill_any_like", {slot("X", x)}, zeros, {{"dtype", dtype}, {"value", zero}}));
  made.push_back(makeOp("write_to_array", {slot("I", index), slot("X", zeros)}, array));
}

void ArrayGradients::forget(ArrayRef<BlockOp> dropped) {
  for (const BlockOp &op : dropped)
    if (program.text(op.type) == "fill_zeros_like")
      forEachVariable(op.inputs, [&](TextId name) { begun.erase(name.value); });
}

TextId ArrayGradients::gradientOf(TextId variable) {
  const TextId gradient = names.gradient(variable);
  maker.setVariable(gradient, variable);
  return gradient;
}

/// A new name for an intermediate value of an element.
TextId ArrayGradients::elementName(TextId gradient) {
  for (;; ++numElements) {
    const std::string text = (program.text(gradient) + "@ELEMENT@" + Twine(numElements)).str();
    if (!program.texts.find(text).isValid()) return program.intern(text);
  }
}

BlockSlot ArrayGradients::slot(StringRef name, ArrayRef<TextId> variables) {
  return {program.intern(name), {variables.begin(), variables.end()}};
}

BlockOp ArrayGradients::makeOp(StringRef type, std::vector<BlockSlot> inputs, TextId out, ArrayRef<AttrText> own) {
  const std::string role = intAttrText(AttrTag::Int, 1), none = stringsAttrText(AttrTag::Strings, {});
  SmallVector<AttrText, 4> attrs(own);
  attrs.push_back({"op_role", role});
  attrs.push_back({"op_role_var", none});
  return {program.intern(type), std::move(inputs), {slot("Out", out)}, context.attrs(attrs)};
}

}  // namespace gradc
