// The meaning of a program of blocks, as a graph without names. Each write of a name is a separate value, and a reader
// sees the latest one before it (IR-12). `while` becomes `_while_loop`, `conditional_block` and `select_input` become
// `_cond`; rows translate operators of other types (formats/blocks/ops/op_row.h), and an operator whose type has no row
// becomes an opaque node. Shape [] becomes (1,). Tested by tests/formats/blocks/block_graph_test.cc
#pragma once

#include "formats/blocks/program/block_program.h"
#include "ir/graph/graph.h"

#include "llvm/ADT/StringMap.h"

#include <string>

namespace gradc {

struct BlockGraphOptions {
  /// Names whose values are the heads; empty: every name that the root writes, in the order of first writes.
  std::vector<std::string> heads = {};
  /// Names whose gradients are cut, in addition to variables with stop_gradient, at each value written to one in any
  /// block.
  std::vector<std::string> noGrad = {};
  int64_t maxIterations = 10'000;  // of each `while`
  uint32_t numSeeds = 0;           // of the heads, at their end: head gradients, no targets
  /// What Paddle's gradient operators leave out (lost_gradients.h) is constant for the gradient, as for gradients that
  /// the program contains.
  bool holdsLost = false;
};

/// The values of a name in the root.
struct BlockName {
  std::string name;
  Value first, last;  // the first and the last; invalid if no head depends on it
};

/// The operators for which the nodes of a program's graph were made.
struct BlockOrigins {
  static constexpr uint32_t kNone = 0xffffffff;

  /// By block and node of its graph: the operator's position in the block. None for variables.
  std::vector<std::vector<uint32_t>> ops;

  struct Op {
    uint32_t block;
    size_t op;
  };
  /// The operator of a node or of a node in a body; of a body that does not come from a block, the operator that owns
  /// it. `program` is the one that was read.
  std::optional<Op> find(const BlockProgram &program, const Place &place) const;
};

struct BlockGraph {
  Graph graph;
  std::vector<std::string> headNames;   // by head: the name whose value it is
  std::vector<BlockName> names;         // in the order of first uses
  llvm::StringMap<uint32_t> positions;  // in `names`
  BlockOrigins origins;

  /// Null: the root does not use the name.
  const BlockName *find(llvm::StringRef name) const;
};

/// The graph of the root. A name that the root reads before it writes it is a variable, with the shape and type of its
/// record. Linear.
///
/// Errors are those of verifyBlocks and verifySlots; UnknownOp (E-32) for a context without the operators of control
/// flow; BadAttribute, BadEntry and UnsupportedOption for what a row does not accept, each naming block, operator,
/// type, slot and Paddle's call site; UnknownName for heads that the root does not declare.
llvm::Expected<BlockGraph> graphOfBlocks(Context &context, const BlockProgram &program,
                                         const BlockGraphOptions &options);

}  // namespace gradc
