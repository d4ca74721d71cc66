// Blocks from the innermost out: an operator's block has a larger number than the one it is in. Tested by
// tests/block_graph_test.cc
#include "formats/blocks/graph_of_blocks.h"

#include "formats/blocks/block_body.h"
#include "formats/blocks/ops/op_row.h"
#include "ir/out_of_memory.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

/// By block: run by an operator that this block or one it is in has a meaning for. Blocks of others, gradients among them,
/// are not looked into.
struct Owners {
  std::vector<bool> isRun, isLoop;
};

Owners ownersOf(const BlockProgram &program) {
  const size_t numBlocks = program.blocks.size();
  Owners owners{std::vector<bool>(numBlocks), std::vector<bool>(numBlocks)};
  owners.isRun[0] = true;
  for (size_t i = 0; i < numBlocks; ++i)
    for (const BlockOp &op : program.blocks[i].ops) {
      if (!owners.isRun[i] || !op.subBlock) continue;
      const bool isLoop = program.text(op.type) == "while";
      owners.isLoop[*op.subBlock] = isLoop;
      owners.isRun[*op.subBlock] = isLoop || program.text(op.type) == "conditional_block";
    }
  return owners;
}

}  // namespace

const BlockName *BlockGraph::find(StringRef name) const {
  const auto at = llvm::find_if(names, [&](const BlockName &known) { return known.name == name; });
  return at == names.end() ? nullptr : &*at;
}

Expected<BlockGraph> graphOfBlocks(Context &context, const BlockProgram &program, const BlockGraphOptions &options) {
  return catchingBadAlloc("to make a graph of the program", [&]() -> Expected<BlockGraph> {
    if (Error error = verifyBlocks(program)) return error;
    const Owners owners = ownersOf(program);
    DenseSet<uint32_t> noGrad;
    for (const std::string &name : options.noGrad)
      if (const TextId id = program.texts.find(name); id.isValid()) noGrad.insert(id.value);
    std::vector<std::unique_ptr<BlockBody>> bodies(program.blocks.size());
    for (uint32_t i = static_cast<uint32_t>(program.blocks.size()); i-- > 1;) {
      if (!owners.isRun[i]) continue;
      Expected<BlockBody> body = BlockReader(context, program, i, bodies, options, noGrad).body(owners.isLoop[i]);
      if (!body) return body.takeError();
      bodies[i] = std::make_unique<BlockBody>(std::move(*body));
    }
    return BlockReader(context, program, 0, bodies, options, noGrad).root();
  });
}

}  // namespace gradc
