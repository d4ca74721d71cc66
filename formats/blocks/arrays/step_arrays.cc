// Tested by tests/formats/blocks/recurrent_array_test.cc
#include "formats/blocks/arrays/step_arrays.h"

#include "formats/blocks/arrays/array_elements.h"
#include "formats/blocks/program/block_attrs.h"
#include "formats/blocks/program/block_edits.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

class Reading {
 public:
  Reading(Context &context, BlockProgram &program, uint32_t body) : context(context), program(program), body(body) {}

  std::vector<BlockOp> run() {
    SmallVector<uint32_t, 4> pending = {body};
    while (!pending.empty()) {
      const uint32_t inner = pending.pop_back_val();
      for (const BlockOp &op : program.blocks[inner].ops)
        if (op.subBlock) pending.push_back(*op.subBlock);
      if (any_of(program.blocks[inner].ops, [&](const BlockOp &op) { return isRead(inner, op); })) rewrite(inner);
    }
    return std::move(made);
  }

 private:
  bool isRead(uint32_t inner, const BlockOp &op) const {
    if (program.text(op.type) != "read_from_array") return false;
    const TextId array = operandIn(program, op.inputs, "X");
    const std::optional<uint32_t> at = array.isValid() ? program.declaringBlock(inner, array) : std::nullopt;
    if (!at || *at >= body) return false;  // inner blocks come later
    const BlockVariable &record = *program.find(*at, array);
    return record.kind == FluidType::LodTensorArray && !record.stopsGradient && record.dtype &&
           isFloating(dtypeOf(*record.dtype)) && count(record.shape, -1) <= 1 &&
           operandIn(program, op.inputs, "I").isValid() && operandIn(program, op.outputs, "Out").isValid();
  }

  void rewrite(uint32_t inner) {
    std::vector<BlockOp> old = std::move(program.blocks[inner].ops), ops;
    for (BlockOp &op : old) {
      if (!isRead(inner, op)) {
        ops.push_back(std::move(op));
        continue;
      }
      const TextId array = operandIn(program, op.inputs, "X"), out = operandIn(program, op.outputs, "Out");
      const BlockVariable record = *program.find(*program.declaringBlock(inner, array), array);
      const TextId tensor = tensorOf(record), row = declare(inner, record, "@ROW", 1),
                   shape = declare(inner, record, "@SHAPE", 0);
      const std::string zero = intAttrText(AttrTag::Int, 0), dims = intsAttrText(AttrTag::Ints, record.shape);
      ops.push_back(makeOp("gather", {slot("X", tensor), slot("Index", operandIn(program, op.inputs, "I"))},
                           {slot("Out", row)}, {{"axis", zero}}));
      ops.push_back(makeOp("reshape2", {slot("X", row)}, {slot("Out", out), slot("XShape", shape)}, {{"shape", dims}}));
    }
    program.blocks[inner].ops = std::move(ops);
  }

  /// The tensor of all elements, which the first read makes.
  TextId tensorOf(const BlockVariable &array) {
    if (const auto known = tensors.find(array.name.value); known != tensors.end()) return known->second;
    const uint32_t block = *program.blocks[body].parent;
    const TextId tensor = declare(block, array, "@TENSOR", -1), sizes = declare(block, array, "@SIZES", -1);
    BlockVariable &record = *program.find(block, sizes);
    record.dtype = FluidType::Int32;
    record.shape = {-1};
    record.stopsGradient = true;
    const std::string zero = intAttrText(AttrTag::Int, 0), isStack = boolAttrText(true);
    made.push_back(makeOp("tensor_array_to_tensor", {slot("X", array.name)},
                          {slot("Out", tensor), slot("OutIndex", sizes)}, {{"axis", zero}, {"use_stack", isStack}}));
    return tensors[array.name.value] = tensor;
  }

  /// A tensor of `number` elements of the array, under a new name.
  TextId declare(uint32_t block, const BlockVariable &array, StringRef suffix, int64_t number) {
    TextId name;
    for (; !name.isValid(); ++numNames) {
      const std::string text = (program.text(array.name) + suffix + "@" + Twine(numNames)).str();
      if (!program.texts.find(text).isValid()) name = program.intern(text);
    }
    BlockVariable record{name, FluidType::LodTensor, array.dtype, array.shape, 0};
    record.shape.insert(record.shape.begin(), number);
    program.addVariable(block, std::move(record));
    return name;
  }

  BlockSlot slot(StringRef name, TextId variable) { return {program.intern(name), {variable}}; }
  BlockOp makeOp(StringRef type, std::vector<BlockSlot> inputs, std::vector<BlockSlot> outputs,
                 ArrayRef<AttrText> own) {
    return makeForwardOp(context, program, type, std::move(inputs), std::move(outputs), own);
  }

  Context &context;
  BlockProgram &program;
  const uint32_t body;
  std::vector<BlockOp> made;
  DenseMap<uint32_t, TextId> tensors;  // by array
  uint32_t numNames = 0;
};

}  // namespace

std::vector<BlockOp> readArraysAsTensors(Context &context, BlockProgram &program, uint32_t body) {
  return Reading(context, program, body).run();
}

}  // namespace gradc
