// Tested by tests/formats/blocks/recurrent_test.cc
#include "formats/blocks/arrays/recurrent_op.h"

#include "formats/blocks/program/block_attrs.h"

using namespace llvm;

namespace gradc {
namespace {

class Reader {
 public:
  Reader(const BlockProgram &program, uint32_t block, size_t at) : program(program), block(block), at(at) {}

  Expected<RecurrentOp> read() {
    const BlockOp &op = program.blocks[block].ops[at];
    const bool isGradient = program.text(op.type) == "recurrent_grad";
    RecurrentOp made;
    if (!op.subBlock || (isGradient && !program.blocks[*op.subBlock].forward))
      return failure(ErrorKind::BadEntry, isGradient ? "expected a gradient block" : "expected a block");
    made.block = isGradient ? *program.blocks[*op.subBlock].forward : *op.subBlock;
    made.inputs = program.variables(op.inputs, "inputs");
    made.initialStates = program.variables(op.inputs, "initial_states");
    made.parameters = program.variables(op.inputs, "parameters");
    made.outputs = program.variables(isGradient ? op.inputs : op.outputs, "outputs");
    made.isReverse = boolAttr(op.attrs, "reverse").value_or(false);
    if (made.inputs.empty())
      return failure(ErrorKind::BadEntry, "slot 'inputs' is empty, expected a variable whose rows are the steps");
    for (auto [key, names] : {std::pair("ex_states", &made.exStates), std::pair("states", &made.states)})
      if (Error error = readNames(op, key, made, *names)) return error;
    NameSet sliced;
    for (auto [slot, names] : {std::pair("inputs", made.inputs), std::pair("outputs", made.outputs)})
      for (TextId name : names) {
        if (Error error = checkLinked(made, slot, name)) return error;
        if (!sliced.insert(name))
          return failure(ErrorKind::BadEntry, "slot '" + Twine(slot) + "' lists '" + program.text(name) +
                                                  "' again: one name cannot be two variables in the block");
      }
    NameSet begun(made.inputs);
    for (TextId name : made.exStates)
      if (!begun.insert(name))
        return failure(ErrorKind::BadAttribute,
                       "attribute 'ex_states' names '" + program.text(name) + "', which the step is given already");
    return made;
  }

 private:
  Failure failure(ErrorKind kind, const Twine &what) const { return failureAt(program, block, at, kind, what); }

  Error readNames(const BlockOp &op, StringRef key, const RecurrentOp &made, std::vector<TextId> &names) const {
    for (const std::string &text : stringsAttr(op.attrs, key).value_or(std::vector<std::string>())) {
      const TextId name = program.texts.find(text);
      if (!name.isValid() || !program.find(made.block, name))
        return failure(ErrorKind::BadAttribute, "attribute '" + key + "' names '" + text + "', which block " +
                                                    Twine(made.block) + " does not declare");
      names.push_back(name);
    }
    if (names.size() == made.initialStates.size()) return Error::success();
    return failure(ErrorKind::BadAttribute, "attribute '" + key + "' has " + Twine(names.size()) +
                                                " names, and slot 'initial_states' " +
                                                Twine(made.initialStates.size()) + " variables");
  }

  Error checkLinked(const RecurrentOp &made, StringRef slot, TextId name) const {
    if (name == kEmptyName) return failure(ErrorKind::BadEntry, "slot '" + slot + "' names no variable");
    if (program.find(made.block, name)) return Error::success();
    return failure(ErrorKind::BadEntry, "slot '" + slot + "' has '" + program.text(name) + "', which block " +
                                            Twine(made.block) + " does not declare");
  }

  const BlockProgram &program;
  const uint32_t block;
  const size_t at;
};

}  // namespace

Expected<RecurrentOp> readRecurrentOp(const BlockProgram &program, uint32_t block, size_t op) {
  return Reader(program, block, op).read();
}

NamesAround findNamesAround(const BlockProgram &program, uint32_t block) {
  NamesAround around;
  SmallVector<uint32_t, 4> pending = {block};
  while (!pending.empty()) {
    const uint32_t inner = pending.pop_back_val();
    auto isAround = [&](TextId name) {
      if (name == kEmptyName) return false;
      const std::optional<uint32_t> declaring = program.declaringBlock(inner, name);
      return !declaring || *declaring < block;  // inner blocks come later
    };
    for (const BlockOp &op : program.blocks[inner].ops) {
      if (op.subBlock) pending.push_back(*op.subBlock);
      forEachVariable(op.inputs, [&](TextId name) {
        if (isAround(name)) around.read.insert(name);
      });
      forEachVariable(op.outputs, [&](TextId name) {
        if (isAround(name)) around.written.insert(name);
      });
    }
  }
  return around;
}

}  // namespace gradc
