// One block of a program as a graph: what it reads of the blocks around it are its variables, what it writes there its heads.
// Tested by tests/block_graph_test.cc
#pragma once

#include "formats/blocks/graph_of_blocks.h"
#include "ir/graph_builder.h"

#include <memory>

namespace gradc {

/// A name as one block declares it.
struct DeclaredName {
  uint32_t block;
  TextId name;
  friend bool operator==(const DeclaredName &, const DeclaredName &) = default;
  std::pair<uint32_t, uint32_t> key() const { return {block, name.value}; }
};

struct BlockBody {
  Graph graph;
  std::vector<DeclaredName> inputs;   // what each variable stands for, in id order
  std::vector<DeclaredName> results;  // what each head is written to
};

/// Turns one block into a graph; the blocks that its operators own have theirs.
class BlockReader {
 public:
  BlockReader(Context &context, const BlockProgram &program, uint32_t index,
              llvm::ArrayRef<std::unique_ptr<BlockBody>> bodies, const BlockGraphOptions &options,
              const DenseSet<uint32_t> &noGrad);

  /// Of a block that is not the root. Every result of a loop's body is one of its inputs too.
  llvm::Expected<BlockBody> body(bool isLoop);
  llvm::Expected<BlockGraph> root();

 private:
  llvm::Error readOps();
  llvm::Error readOp(size_t at);
  llvm::Error readRow(size_t at);
  llvm::Error readOpaque(size_t at);
  llvm::Error readWhile(size_t at);
  llvm::Error readConditional(size_t at);
  llvm::Error readSelect(size_t at);
  llvm::Expected<Value> addFlow(llvm::StringRef opName, llvm::ArrayRef<Value> inputs, llvm::ArrayRef<AttrText> attrs,
                                llvm::ArrayRef<Graph> bodies, size_t at);

  DeclaredName declared(TextId name) const { return {*program.declaringBlock(index, name), name}; }
  Value read(DeclaredName name);
  Value read(TextId name) { return read(declared(name)); }
  /// The value before an operator that may leave it as it is; zeros where there is none.
  llvm::Expected<Value> readOrZeros(DeclaredName name, size_t at);
  void write(DeclaredName name, Value v);
  Value stopped(DeclaredName name, Value v, size_t at);
  llvm::Expected<Graph> choice(llvm::ArrayRef<std::string> names);
  std::vector<bool> reachable(llvm::ArrayRef<Value> heads) const;
  const BlockVariable &variable(DeclaredName name) const { return *program.find(name.block, name.name); }
  void giveName(NodeId n, TextId name);

  Context &context;
  const BlockProgram &program;
  uint32_t index;
  llvm::ArrayRef<std::unique_ptr<BlockBody>> bodies;
  const BlockGraphOptions &options;
  const DenseSet<uint32_t> &noGrad;
  GraphBuilder builder;

  struct Held {
    Value first, last;
    bool isWritten = false;
  };
  DenseMap<std::pair<uint32_t, uint32_t>, uint32_t> positions;  // into used, held
  std::vector<DeclaredName> used;                               // in the order of first uses
  std::vector<Held> held;
  std::vector<uint32_t> written;          // positions, in the order of first writes
  DenseMap<uint32_t, uint32_t> numNamed;  // by name: nodes called so
};

}  // namespace gradc
