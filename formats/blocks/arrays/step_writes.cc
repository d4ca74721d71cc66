// Tested by tests/formats/blocks/recurrent_array_test.cc
#include "formats/blocks/arrays/step_writes.h"

#include "formats/blocks/arrays/array_elements.h"
#include "formats/blocks/program/block_attrs.h"
#include "formats/blocks/program/block_edits.h"
#include "formats/blocks/program/block_program.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

class Writing {
 public:
  Writing(Context &context, BlockProgram &program, UnusedNames &unused, uint32_t body, size_t at)
      : context(context), program(program), unused(unused), body(body), around(*program.blocks[body].parent), at(at) {}

  std::vector<BlockOp> run() {
    constexpr int64_t kMostSteps = 10'000;
    const ArrayRef<TextId> inputs = program.variables(owner().inputs, "inputs");
    const BlockVariable *rows = inputs.empty() ? nullptr : visibleVariable(program, around, inputs[0]);
    if (!rows || rows->shape.empty() || rows->shape[0] < 1 || rows->shape[0] > kMostSteps) return {};
    numSteps = rows->shape[0];
    findOtherUses();
    const std::vector<BlockOp> old = std::move(program.blocks[body].ops);
    program.blocks[body].ops.clear();
    for (const BlockOp &op : old)
      if (isWrite(op) && !usedOtherwise.contains(operandIn(program, op.outputs, "Out"))) handOut(op);
      else program.blocks[body].ops.push_back(op);
    return writes();
  }

 private:
  struct Write {
    TextId element, index, array;  // rows, except for an index that is the same in each step
    bool hasIndexRows;
  };

  BlockOp &owner() { return program.blocks[around].ops[at]; }

  bool isWrite(const BlockOp &op) const {
    if (program.text(op.type) != "write_to_array") return false;
    const TextId array = operandIn(program, op.outputs, "Out");
    return array.isValid() && *program.declaringBlock(body, array) < body &&
           operandIn(program, op.inputs, "X").isValid() && operandIn(program, op.inputs, "I").isValid();
  }

  void findOtherUses() {
    SmallVector<uint32_t, 4> pending = {body};
    while (!pending.empty()) {
      const uint32_t inner = pending.pop_back_val();
      auto use = [&](TextId name) { usedOtherwise.insert(name); };
      for (const BlockOp &op : program.blocks[inner].ops) {
        if (op.subBlock) pending.push_back(*op.subBlock);
        forEachVariable(op.inputs, use);
        if (inner != body || !isWrite(op)) forEachVariable(op.outputs, use);
      }
    }
  }

  void handOut(const BlockOp &op) {
    const TextId index = operandIn(program, op.inputs, "I");
    const bool isLocal = program.find(body, index);
    found.push_back({output(operandIn(program, op.inputs, "X")), isLocal ? output(index) : index,
                     operandIn(program, op.outputs, "Out"), isLocal});
  }

  /// Makes a value of the step an output, and returns its name.
  TextId output(TextId name) {
    BlockVariable record = declare(body, *visibleVariable(program, body, name), "@ROW@");
    const TextId row = record.name;
    const std::string type = intAttrText(AttrTag::Int, static_cast<int64_t>(record.dtype.value_or(FluidType::Fp32)));
    program.blocks[body].ops.push_back(
        makeForwardOp(context, program, "rnn_memory_helper", {slot("X", name)}, {slot("Out", row)}, {{"dtype", type}}));
    record.shape.insert(record.shape.begin(), numSteps);
    program.addVariable(around, std::move(record));
    const TextId outputs = program.intern("outputs");
    std::vector<BlockSlot> &slots = owner().outputs;
    auto known = find_if(slots, [&](const BlockSlot &each) { return each.name == outputs; });
    if (known == slots.end()) known = slots.insert(slots.begin(), BlockSlot{outputs, {}});
    known->variables.push_back(row);
    return row;
  }

  /// The record of a new variable.
  BlockVariable declare(uint32_t block, BlockVariable like, StringRef infix) {
    like.name = unused.make((program.text(like.name) + infix).str());
    like.isParameter = like.isPersistable = like.isData = false;
    program.addVariable(block, like);
    return like;
  }

  std::vector<BlockOp> writes() {
    const bool isReverse = boolAttr(owner().attrs, "reverse").value_or(false);
    std::vector<BlockOp> made;
    for (int64_t i = 0; i < numSteps; ++i)
      for (const Write &write : found) {
        const int64_t step = isReverse ? numSteps - 1 - i : i;
        const TextId element = elementOf(write.element, step, made),
                     index = write.hasIndexRows ? elementOf(write.index, step, made) : write.index;
        made.push_back(makeForwardOp(context, program, "write_to_array", {slot("I", index), slot("X", element)},
                                     {slot("Out", write.array)}, {}));
      }
    return made;
  }

  TextId elementOf(TextId rows, int64_t step, std::vector<BlockOp> &made) {
    const TextId element = declare(around, *program.find(body, rows), "@ELEMENT@").name;
    const std::string axes = intsAttrText(AttrTag::Ints, {0}), begin = intsAttrText(AttrTag::Ints, {step}),
                      end = intsAttrText(AttrTag::Ints, {step + 1}), flags = intsAttrText(AttrTag::Ints, {1});
    made.push_back(makeForwardOp(
        context, program, "slice", {slot("Input", rows)}, {slot("Out", element)},
        {{"axes", axes}, {"decrease_axis", axes}, {"ends", end}, {"infer_flags", flags}, {"starts", begin}}));
    return element;
  }

  BlockSlot slot(StringRef name, TextId variable) { return {program.intern(name), {variable}}; }

  Context &context;
  BlockProgram &program;
  UnusedNames &unused;
  const uint32_t body, around;
  const size_t at;
  int64_t numSteps = 0;
  NameSet usedOtherwise;
  std::vector<Write> found;
};

}  // namespace

std::vector<BlockOp> writeArraysAfterSteps(Context &context, BlockProgram &program, UnusedNames &unused, uint32_t body,
                                           size_t at) {
  return Writing(context, program, unused, body, at).run();
}

}  // namespace gradc
