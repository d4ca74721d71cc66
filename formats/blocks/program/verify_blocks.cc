// Links first, then names. Tested by tests/formats/blocks/block_program_test.cc
#include "formats/blocks/program/block_program.h"

#include "formats/blocks/program/block_attrs.h"
#include "ir/base/out_of_memory.h"
#include "ir/graph/bodies.h"

using namespace llvm;

namespace gradc {
namespace {

std::string blockName(uint32_t block) { return "block " + std::to_string(block); }

Error verifyLinks(const BlockProgram &program, uint32_t index, std::vector<uint32_t> &depths) {
  const Block &block = program.blocks[index];
  if (index == 0 ? block.parent.has_value() : !block.parent || *block.parent >= index)
    return Failure(ErrorKind::BadJson,
                   blockName(index) + " has " + (block.parent ? "parent " + Twine(*block.parent) : Twine("no parent")) +
                       (index ? ", expected a block before it" : ", expected none: it is the root"));
  depths[index] = index ? depths[*block.parent] + 1 : 0;
  if (depths[index] > kMaxBodyNesting)
    return Failure(ErrorKind::BadJson,
                   blockName(index) + " is nested more than " + Twine(kMaxBodyNesting) + " levels deep");
  if (!block.forward || block.forward == block.parent) return Error::success();
  if (index == 0 || *block.forward == 0 || *block.forward >= index)
    return Failure(ErrorKind::BadJson, blockName(index) + " is the gradient of block " + Twine(*block.forward) +
                                           (index ? ", expected a block before it that is not the root"
                                                  : ", expected of none: it is the root"));
  const uint32_t around = *program.blocks[*block.forward].parent;
  if (around != *block.parent && program.blocks[*block.parent].forward != around)
    return Failure(ErrorKind::BadJson,
                   blockName(index) + " is the gradient of block " + Twine(*block.forward) +
                       ", expected the gradient of its parent, or of a child of block " + Twine(*block.parent) +
                       (program.blocks[*block.parent].forward ? " or of that block's forward block" : ""));
  return Error::success();
}

/// For the owner of a gradient block of `recurrent`: the gradients that a step gets from the following one. Paddle
/// declares them nowhere.
DenseSet<uint32_t> undeclaredNames(const BlockProgram &program, const BlockOp &owner) {
  DenseSet<uint32_t> names;
  if (program.text(owner.type) == "recurrent_grad")
    for (const std::string &state : stringsAttr(owner.attrs, "states").value_or(std::vector<std::string>()))
      if (const TextId name = program.texts.find(state + "@GRAD"); name.isValid()) names.insert(name.value);
  return names;
}

Error verifyNames(const BlockProgram &program, uint32_t block, size_t index, ArrayRef<BlockSlot> slots,
                  const DenseSet<uint32_t> &undeclared) {
  for (const BlockSlot &slot : slots)
    for (TextId name : slot.variables)
      if (name != kEmptyName && !program.declaringBlock(block, name) && !undeclared.contains(name.value))
        return failureAt(program, block, index, ErrorKind::ForeignEntry,
                         "slot '" + program.text(slot.name) + "' names '" + program.text(name) +
                             "', which neither this block nor one around it declares");
  return Error::success();
}

Error verifyOp(const BlockProgram &program, uint32_t block, size_t index, std::vector<const BlockOp *> &owners) {
  const BlockOp &op = program.blocks[block].ops[index];
  const bool isHelper = owners[block] && program.text(op.type) == "rnn_memory_helper_grad";
  const DenseSet<uint32_t> none;
  if (Error error = verifyNames(program, block, index, op.inputs,
                                isHelper ? undeclaredNames(program, *owners[block]) : DenseSet<uint32_t>()))
    return error;
  if (Error error = verifyNames(program, block, index, op.outputs, none)) return error;
  if (!op.subBlock) return Error::success();
  const uint32_t owned = *op.subBlock;
  if (owned >= program.blocks.size() || program.blocks[owned].parent != block || owners[owned])
    return failureAt(program, block, index, ErrorKind::BadJson,
                     "owns block " + Twine(owned) + ", expected a child of its own block without another owner");
  owners[owned] = &op;
  return Error::success();
}

}  // namespace

std::string describe(const BlockProgram &program, uint32_t block, size_t op) {
  const BlockOp &known = program.blocks[block].ops[op];
  return ("block " + Twine(block) + ", operator " + Twine(numberOf(known, op)) + " (" + program.text(known.type) + ")")
      .str();
}

Failure failureAt(const BlockProgram &program, uint32_t block, size_t index, ErrorKind kind, const Twine &what) {
  const BlockOp &op = program.blocks[block].ops[index];
  Failure failure(kind, describe(program, block, index) + ": " + what);
  if (op.offset >= 0) failure = std::move(failure).atOffset(op.offset);
  if (op.callstack.isValid()) failure = std::move(failure).note("created at " + callSite(program.text(op.callstack)));
  return failure;
}

Error blameOp(const BlockProgram &program, uint32_t block, size_t index, Error error) {
  return amend(std::move(error), [&](GradcError &info) {
    const BlockOp &op = program.blocks[block].ops[index];
    info.message = describe(program, block, index) + ": " + info.message;
    info.place = {NodeId(), op.offset, {}};
    if (op.callstack.isValid()) info.notes.push_back({"created at " + callSite(program.text(op.callstack)), {}});
  });
}

Error verifyBlocks(const BlockProgram &program) {
  return catchingBadAlloc("to verify the program", [&]() -> Error {
    if (program.blocks.empty()) return Failure(ErrorKind::BadJson, "the program has no block, expected a root");
    const size_t numBlocks = program.blocks.size();
    std::vector<uint32_t> depths(numBlocks);
    for (uint32_t i = 0; i < numBlocks; ++i) {
      if (Error error = verifyLinks(program, i, depths)) return error;
      for (const BlockVariable &variable : program.blocks[i].variables)
        if (program.text(variable.name).empty())
          return Failure(ErrorKind::BadJson, blockName(i) + " declares a variable without a name");
    }
    std::vector<const BlockOp *> owners(numBlocks);
    for (uint32_t i = 0; i < numBlocks; ++i)
      for (size_t op = 0; op < program.blocks[i].ops.size(); ++op)
        if (Error error = verifyOp(program, i, op, owners)) return error;
    return Error::success();
  });
}

}  // namespace gradc
