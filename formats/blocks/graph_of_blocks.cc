// Lookup outwards, and one pass over the operators of a block. Tested by tests/block_program_test.cc
#include "formats/blocks/graph_of_blocks.h"

#include "ir/error.h"
#include "ir/out_of_memory.h"
#include "ir/graph_builder.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace gradc {
namespace {

/// Turns one block into a graph; the blocks it owns have theirs already.
class BlockReader {
 public:
  BlockReader(Context &ctx, const BlockProgram &program, uint32_t index, ArrayRef<Graph> graphOfBlock)
      : ctx(ctx), program(program), block(program.blocks[index]), graphOfBlock(graphOfBlock), builder(ctx) {}

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
    SmallVector<StringRef, 4> outputs;
    for (const BlockSlot &slot : op.inputs)
      for (TextId name : slot.variables) inputs.push_back(valueOf(program.text(name)));
    for (const BlockSlot &slot : op.outputs)
      for (TextId name : slot.variables) outputs.push_back(program.text(name));
    Expected<NodeId> node = add(op, inputs, outputs);
    if (!node) return node.takeError();
    if (outputs.size() > builder.numOutputs(*node))
      return Failure(ErrorKind::BadEntry, "operator '" + program.text(op.type) + "' names " + Twine(outputs.size()) +
                                              " outputs, it has " + Twine(builder.numOutputs(*node)));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (hasWritten.try_emplace(outputs[i]).second) written.push_back(outputs[i]);
      latest[outputs[i]] = Value{*node, static_cast<uint16_t>(i), 0};
    }
    return Error::success();
  }

  // A node is called as what it writes first.
  Expected<NodeId> add(const BlockOp &op, ArrayRef<Value> inputs, ArrayRef<StringRef> outputs) {
    StringRef name = outputs.empty() ? StringRef() : outputs.front(), type = program.text(op.type);
    ArrayRef<Graph> bodies = op.subBlock ? graphOfBlock.slice(*op.subBlock, 1) : ArrayRef<Graph>();
    if (const OpDef *known = ctx.ops.find(type)) return builder.add(*known, inputs, {name, op.attrs, NodeId(), bodies});
    const uint32_t numOutputs = std::max<uint32_t>(1, static_cast<uint32_t>(outputs.size()));
    Expected<KindRef> kind = ctx.opaqueKind(type, op.attrs, numOutputs, bodies);
    if (!kind) return kind.takeError();
    NodeId n = builder.addKind(*kind, inputs, NodeId());
    builder.setName(n, name, "");
    return n;
  }

  Context &ctx;
  const BlockProgram &program;
  const Block &block;
  ArrayRef<Graph> graphOfBlock;
  GraphBuilder builder;
  StringMap<Value> latest;  // what each name holds
  StringMap<char> hasWritten;
  std::vector<StringRef> written;  // names in the order of their first writes
};

}  // namespace

Expected<Graph> graphOfBlocks(Context &context, const BlockProgram &program) {
  return catchingBadAlloc("to make a graph of the program", [&]() -> Expected<Graph> {
    if (Error error = verifyBlocks(program)) return error;
    std::vector<Graph> graphOfBlock(program.blocks.size());
    // Children have larger numbers than their parents, so they come first this way.
    for (size_t i = program.blocks.size(); i-- > 0;) {
      Expected<Graph> graph = BlockReader(context, program, static_cast<uint32_t>(i), graphOfBlock).run();
      if (!graph) return graph.takeError();
      graphOfBlock[i] = std::move(*graph);
    }
    return graphOfBlock[0];
  });
}

}  // namespace gradc
