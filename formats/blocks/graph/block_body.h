// One block of a program as a graph. Its variables are the names it reads from enclosing blocks, its heads the names it
// writes there. A gradient block also has variables for values of its forward block at the same step. Tested by
// tests/formats/blocks/block_graph_test.cc and tests/formats/blocks/backward/block_backward_test.cc
#pragma once

#include "formats/blocks/graph/gradient_ports.h"
#include "formats/blocks/graph/graph_of_blocks.h"
#include "formats/blocks/graph/op_function.h"
#include "formats/blocks/ops/op_translation.h"
#include "ir/graph/graph_builder.h"

#include <map>
#include <memory>

namespace gradc {

/// A name as one block declares it.
struct DeclaredName {
  uint32_t block;
  TextId name;
  friend bool operator==(const DeclaredName &, const DeclaredName &) = default;
  std::pair<uint32_t, uint32_t> key() const { return {block, name.value}; }
};

/// What a variable of a block's graph represents.
struct BlockInput {
  enum class From : uint8_t {
    Around,    // a name of an enclosing block
    Forward,   // a value of the forward block, at the same step
    Arriving,  // a gradient that the operator or the following step hands in
    Carried,   // `recurrent`: what the following step hands in
    Sum,       // the sum of gradients over the following steps
  };
  From from = From::Around;
  DeclaredName name = {};  // not for Forward
  Value value = {};        // for Forward: in the forward block's builder
};

struct BlockBody {
  Graph graph;
  std::vector<BlockInput> inputs;     // by variable, in id order
  std::vector<bool> isRead;           // by input: more than its shape is read
  std::vector<DeclaredName> results;  // the name each head is written to; empty for a gradient block
  /// Position in `inputs`, by variable of the block's builder.
  DenseMap<uint32_t, uint32_t> inputAt;
  /// The heads after the results are values that gradient blocks read: their positions, by node and output in the
  /// block's builder.
  DenseMap<std::pair<uint32_t, uint32_t>, uint32_t> savedAt;
  std::vector<uint32_t> ops;  // BlockOrigins, of this block
};

class BlockReader;

/// What the readers of one program share.
struct BlockReaders {
  BlockReaders(Context &context, const BlockProgram &program, const BlockGraphOptions &options)
      : context(context), program(program), options(options) {}

  Context &context;
  const BlockProgram &program;
  const BlockGraphOptions &options;
  DenseSet<uint32_t> noGrad, heads, arrays;                // names; those of the root
  std::vector<std::unique_ptr<BlockBody>> bodies = {};     // by block
  std::vector<std::unique_ptr<BlockReader>> readers = {};  // by block, while it may be needed
  struct Owner {
    uint32_t block = 0;
    size_t op = 0;
    BlockOwner kind = BlockOwner::Branch;
    bool isRun = false;
  };
  std::vector<Owner> owners = {};                     // by block
  std::vector<std::vector<uint32_t>> gradients = {};  // by block: its gradient blocks that are run
  bool hasGradientOps = false;
};

/// Turns one block into a graph; the blocks that its operators own have separate readers. The other files of this
/// folder read operators into it: flows, steps of `recurrent`, gradients.
class BlockReader {
 public:
  BlockReader(BlockReaders &all, uint32_t index);

  /// Reads the operators. Which of their values gradient blocks read is known once those blocks are finished.
  llvm::Error readOps();
  /// For blocks other than the root. Every result of a loop's body is also one of its inputs.
  llvm::Expected<BlockBody> body();
  llvm::Expected<BlockGraph> root();
  /// The graph of these heads.
  llvm::Expected<BlockBody> finish(llvm::ArrayRef<Value> heads, BlockBody body);

  const BlockOp &op(size_t at) const { return program.blocks[index].ops[at]; }
  DeclaredName declared(TextId name) const { return {*program.declaringBlock(index, name), name}; }
  const BlockVariable &variable(DeclaredName name) const { return *program.find(name.block, name.name); }
  bool isGradient() const { return ports.has_value(); }

  Value read(DeclaredName name);
  Value read(TextId name);
  /// The value before an operator that may leave it unchanged; zeros if there is none.
  llvm::Expected<Value> readOrZeros(DeclaredName name, size_t at);
  /// The value that a block begins with, for an input of its body. If the block needs one and the root has none, the
  /// name is a variable.
  llvm::Expected<Value> readInput(const BlockBody &body, size_t input, size_t at);
  void write(DeclaredName name, Value v);
  Value stopped(DeclaredName name, Value v, size_t at);
  Value addVariable(TextId name, const Attrs &attrs, BlockInput input);
  /// Adds a node without attributes, whose operator accepts any inputs.
  Value emit(llvm::StringRef op, llvm::ArrayRef<Value> inputs);
  std::vector<bool> reachable(llvm::ArrayRef<Value> heads) const;
  /// The last value of an outer name that the next step reads; its first value becomes an input.
  Value asState(uint32_t position, const std::vector<bool> &isReached);

  BlockReader *forwardReader() const;
  /// The value of a name at a step, in this block's builder; nothing if the block does not use the name.
  std::optional<Value> valueAtStep(DeclaredName name);
  /// The same in the forward block, for a name that this block uses.
  std::optional<Value> forwardValue(TextId name);
  /// The variable that represents a value of the forward block.
  Value forwardVariable(Value v);

  BlockReaders &all;
  Context &context;
  const BlockProgram &program;
  uint32_t index;
  const BlockGraphOptions &options;
  GraphBuilder builder;
  std::optional<GradientPorts> ports;  // of a gradient block

  struct NameState {
    Value first, last;
    bool isWritten = false;
  };
  /// An operator that was read: its nodes, and the values of its operands, slot by slot.
  struct OpRecord {
    uint32_t firstNode = 0, endNode = 0;
    std::vector<Value> inputs, outputs;
  };

  DenseMap<std::pair<uint32_t, uint32_t>, uint32_t> positions;  // into used, states
  std::vector<DeclaredName> used;                               // in the order of first uses
  std::vector<NameState> states;
  std::vector<uint32_t> written;                           // positions, in the order of first writes
  std::vector<std::pair<NodeId, BlockInput>> variables;    // in id order
  DenseMap<uint32_t, NodeId> skeletons;                    // by forward node
  DenseSet<uint32_t> counters;                             // names
  DenseSet<uint32_t> carried;                              // flagged names whose flags do not count now
  DenseMap<uint32_t, NodeId> flowNodes;                    // by block: the node that runs it
  DenseMap<uint32_t, std::vector<uint32_t>> flowOperands;  // by block: the node's operand for each input of the body
  std::vector<OpRecord> records;                           // by operator, where the program has gradient operators
  /// Operators, by type and what their gradients read, and by the operands that have gradients as well (ForwardSearch).
  DenseMap<uint64_t, std::vector<uint32_t>> recordsByKey;

 private:
  /// What an operator reads in the place of an operand.
  struct Substitute {
    llvm::StringRef slot;
    size_t i;
    Value value;
  };

  llvm::Error readOp(size_t at);
  llvm::Error readRow(size_t at);
  llvm::Error readOpaque(size_t at);
  /// BlockOrigins of this block.
  std::vector<uint32_t> opsOf(const Frozen &frozen) const;
  /// Whether the variable stops gradients and is not a target.
  bool isFlagged(DeclaredName name) const;
  /// Whether all floating-point names that the operator reads are flagged ones of this block, and it reads a carried
  /// name.
  bool repeatsFlags(size_t at) const;
  /// With options.holdsLost: constants in the place of the operands through which no gradient gets in Paddle.
  void replaceLostInputs(size_t at);
  void giveName(NodeId n, TextId name);
  bool isLoopBody() const { return all.owners[index].kind == BlockOwner::Loop; }
  bool isStepBlock() const { return all.owners[index].kind == BlockOwner::Recurrent; }

  DenseMap<uint32_t, uint32_t> numNamed;                  // by name: number of nodes with that name
  DenseMap<std::pair<uint32_t, uint32_t>, Value> atStep;  // by forward node and output: its variable here
  std::vector<uint32_t> opOf;                             // by node: BlockOrigins
  std::vector<Substitute> substitutes;                    // of the operator that is read
};

}  // namespace gradc
