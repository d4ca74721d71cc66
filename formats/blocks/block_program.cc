// Lookup outwards, and one pass over the operators of a block. Tested by tests/block_program_test.cc
#include "formats/blocks/block_program.h"

#include "ir/error.h"
#include "ir/out_of_memory.h"
#include "ir/graph_builder.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace gradc {
namespace {

std::string blockName(uint32_t block) { return "block " + std::to_string(block); }

/// Turns one block into a graph; the blocks it owns have theirs already.
class BlockReader {
 public:
  BlockReader(Context &ctx, const Block &block, ArrayRef<Graph> graphOfBlock)
      : ctx(ctx), block(block), graphOfBlock(graphOfBlock), builder(ctx) {}

  Expected<Graph> run() {
    for (const BlockOp &op : block.ops)
      if (Error error = read(op)) return error;
    SmallVector<Value, 16> heads;
    for (StringRef name : written) heads.push_back(latest[name]);
    Expected<Frozen> frozen = std::move(builder).freeze(heads, {});
    if (!frozen) return frozen.takeError();
    return frozen->graph;
  }

 private:
  Value valueOf(StringRef name) {
    auto known = latest.find(name);
    if (known != latest.end()) return known->second;
    return latest[name] = builder.addVariable(name, Attrs());
  }

  Error read(const BlockOp &op) {
    SmallVector<Value, 8> inputs;
    for (const std::string &name : op.inputs) inputs.push_back(valueOf(name));
    Expected<NodeId> node = add(op, inputs);
    if (!node) return node.takeError();
    if (op.outputs.size() > builder.numOutputs(*node))
      return Failure(ErrorKind::BadEntry, "operator '" + op.type + "' names " + Twine(op.outputs.size()) +
                                              " outputs, it has " + Twine(builder.numOutputs(*node)));
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      if (hasWritten.try_emplace(op.outputs[i]).second) written.push_back(op.outputs[i]);
      latest[op.outputs[i]] = Value{*node, static_cast<uint16_t>(i), 0};
    }
    return Error::success();
  }

  // A node is called as what it writes first.
  Expected<NodeId> add(const BlockOp &op, ArrayRef<Value> inputs) {
    StringRef name = op.outputs.empty() ? StringRef() : StringRef(op.outputs.front());
    ArrayRef<Graph> bodies = op.subBlock ? graphOfBlock.slice(*op.subBlock, 1) : ArrayRef<Graph>();
    if (const OpDef *known = ctx.ops.find(op.type))
      return builder.add(*known, inputs, {name, op.attrs, NodeId(), bodies});
    const uint32_t numOutputs = std::max<uint32_t>(1, static_cast<uint32_t>(op.outputs.size()));
    Expected<KindRef> kind = ctx.opaqueKind(op.type, op.attrs, numOutputs, bodies);
    if (!kind) return kind.takeError();
    NodeId n = builder.addKind(*kind, inputs, NodeId());
    builder.setName(n, name, "");
    return n;
  }

  Context &ctx;
  const Block &block;
  ArrayRef<Graph> graphOfBlock;
  GraphBuilder builder;
  StringMap<Value> latest;  // what each name holds
  StringMap<char> hasWritten;
  std::vector<StringRef> written;  // names in the order of their first writes
};

Error verifyLinks(const BlockProgram &program, uint32_t index) {
  const Block &block = program.blocks[index];
  if (index == 0 ? block.parent.has_value() : !block.parent || *block.parent >= index)
    return Failure(ErrorKind::BadJson,
                   blockName(index) + " has " + (block.parent ? "parent " + Twine(*block.parent) : Twine("no parent")) +
                       (index ? ", expected a block before it" : ", expected none: it is the root"));
  if (block.forward && block.forward != block.parent)
    return Failure(ErrorKind::BadJson, blockName(index) + " is the gradient of block " + Twine(*block.forward) +
                                           ", expected that of its parent");
  return Error::success();
}

Error verifyOp(const BlockProgram &program, uint32_t index, const BlockOp &op) {
  for (const std::vector<std::string> *names : {&op.inputs, &op.outputs})
    for (const std::string &name : *names)
      if (!program.declaringBlock(index, name))
        return Failure(ErrorKind::ForeignEntry, "operator '" + op.type + "' of " + blockName(index) + " uses '" + name +
                                                    "', which neither this block nor one around it declares");
  return Error::success();
}

}  // namespace

std::optional<uint32_t> BlockProgram::declaringBlock(uint32_t block, StringRef name) const {
  for (std::optional<uint32_t> at = block; at; at = blocks[*at].parent)
    if (is_contained(blocks[*at].variables, name)) return at;
  return std::nullopt;
}

Error verifyBlocks(const BlockProgram &program) {
  return catchingBadAlloc("to verify the program", [&]() -> Error {
    if (program.blocks.empty()) return Failure(ErrorKind::BadJson, "the program has no block, expected a root");
    std::vector<bool> isOwned(program.blocks.size());
    for (uint32_t i = 0; i < program.blocks.size(); ++i)
      if (Error error = verifyLinks(program, i)) return error;
    for (uint32_t i = 0; i < program.blocks.size(); ++i)
      for (const BlockOp &op : program.blocks[i].ops) {
        if (Error error = verifyOp(program, i, op)) return error;
        if (!op.subBlock) continue;
        const uint32_t owned = *op.subBlock;
        if (owned >= program.blocks.size() || program.blocks[owned].parent != i || isOwned[owned])
          return Failure(ErrorKind::BadJson, "operator '" + op.type + "' of " + blockName(i) + " owns block " +
                                                 Twine(owned) + ", expected a child of its block that no other owns");
        isOwned[owned] = true;
      }
    return Error::success();
  });
}

Expected<Graph> graphOfBlocks(Context &context, const BlockProgram &program) {
  return catchingBadAlloc("to make a graph of the program", [&]() -> Expected<Graph> {
    if (Error error = verifyBlocks(program)) return error;
    std::vector<Graph> graphOfBlock(program.blocks.size());
    // Children have larger numbers than their parents, so they come first this way.
    for (size_t i = program.blocks.size(); i-- > 0;) {
      Expected<Graph> graph = BlockReader(context, program.blocks[i], graphOfBlock).run();
      if (!graph) return graph.takeError();
      graphOfBlock[i] = std::move(*graph);
    }
    return graphOfBlock[0];
  });
}

}  // namespace gradc
