// Tested by tests/formats/blocks/block_program_test.cc
#include "formats/blocks/program/block_program.h"

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

}  // namespace gradc
