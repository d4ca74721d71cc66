// Tested by tests/formats/blocks/block_program_test.cc
#include "formats/blocks/program/block_program.h"

#include "formats/blocks/program/block_attrs.h"
#include "ir/base/out_of_memory.h"
#include "ir/graph/bodies.h"

using namespace llvm;

namespace gradc {

BlockProgram::BlockProgram(const BlockProgram &other)
    : texts(other.texts), blocks(other.blocks), parameters(other.parameters), places(other.places) {
  otherPositions.reserve(other.otherPositions.size());
  for (const auto &[key, position] : other.otherPositions) otherPositions.try_emplace(key, position);
}

bool BlockProgram::addVariable(uint32_t block, BlockVariable variable) {
  if (variable.name == kEmptyName) return true;
  std::vector<BlockVariable> &known = blocks[block].variables;
  const uint32_t name = variable.name.value, position = static_cast<uint32_t>(known.size());
  if (name >= places.size()) places.resize(texts.size());
  Place &first = places[name];
  if (first.block == block) return false;
  if (first.block == Place().block) {
    known.push_back(std::move(variable));
    first = {block, position};
    return true;
  }
  if (!otherPositions.try_emplace({block, name}, position).second) return false;
  first.hasOthers = true;
  known.push_back(std::move(variable));
  return true;
}

const BlockVariable *BlockProgram::find(uint32_t block, TextId name) const {
  if (name.value >= places.size()) return nullptr;
  const Place &first = places[name.value];
  if (first.block == block) return &blocks[block].variables[first.position];
  if (!first.hasOthers) return nullptr;
  auto at = otherPositions.find({block, name.value});
  return at == otherPositions.end() ? nullptr : &blocks[block].variables[at->second];
}

BlockVariable *BlockProgram::find(uint32_t block, TextId name) {
  return const_cast<BlockVariable *>(std::as_const(*this).find(block, name));
}

void numberOps(BlockProgram &program) {
  for (Block &block : program.blocks)
    for (size_t i = 0; i < block.ops.size(); ++i) block.ops[i].number = static_cast<int64_t>(i);
}

void forgetNumbers(BlockProgram &program) {
  for (Block &block : program.blocks)
    for (BlockOp &op : block.ops) op.number = -1;
}

uint32_t numberOf(const BlockOp &op, size_t position) {
  return static_cast<uint32_t>(op.number < 0 ? static_cast<int64_t>(position) : op.number);
}

std::optional<uint32_t> BlockProgram::declaringBlock(uint32_t block, TextId name) const {
  for (std::optional<uint32_t> at = block; at; at = blocks[*at].parent) {
    if (find(*at, name)) return at;
    if (std::optional<uint32_t> forward = blocks[*at].forward; forward && find(*forward, name)) return forward;
  }
  return std::nullopt;
}

ArrayRef<TextId> BlockProgram::variables(ArrayRef<BlockSlot> slots, StringRef slot) const {
  for (const BlockSlot &known : slots)
    if (text(known.name) == slot) return known.variables;
  return {};
}

const BlockVariable *visibleVariable(const BlockProgram &program, uint32_t block, TextId name) {
  const std::optional<uint32_t> declaring = program.declaringBlock(block, name);
  return declaring ? program.find(*declaring, name) : nullptr;
}

bool isFloatTensor(const BlockVariable *variable) {
  return variable && variable->kind == FluidType::LodTensor && variable->dtype && isFloating(dtypeOf(*variable->dtype));
}

bool carriesGradient(const BlockProgram &program, uint32_t block, TextId name) {
  const BlockVariable *variable = visibleVariable(program, block, name);
  return isFloatTensor(variable) && !variable->stopsGradient;
}

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
