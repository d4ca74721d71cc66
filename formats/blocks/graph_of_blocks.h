// What a program of blocks means, as a graph without names. Each write of a name is a value of its own, and a reader sees the
// latest before it (IR-12). `while` becomes `_while_loop`, `conditional_block` and `select_input` `_cond`; what an operator of
// another type computes is its row (formats/blocks/ops/op_row.h). Tested by tests/block_graph_test.cc
#pragma once

#include "formats/blocks/block_program.h"
#include "ir/graph.h"

#include "llvm/ADT/StringMap.h"

#include <string>

namespace gradc {

struct BlockGraphOptions {
  /// Names whose values are the heads; empty: every name that the root writes, in the order of first writes.
  std::vector<std::string> heads = {};
  /// Names whose gradients are cut, beside those of variables with stop_gradient: each value written to one, in any block.
  std::vector<std::string> noGrad = {};
  int64_t maxIterations = 10'000;  // of each `while`
};

/// What a name of the root means.
struct BlockName {
  std::string name;
  Value first, last;  // what it held at first, and at the end; invalid where only nodes that no head reaches read it
};

struct BlockGraph {
  Graph graph;
  std::vector<BlockName> names;         // in the order of first uses
  llvm::StringMap<uint32_t> positions;  // in `names`

  /// Null: the root does not use the name.
  const BlockName *find(llvm::StringRef name) const;
};

/// The graph of the root. What the root reads before it writes it is a variable, with the shape and type of its record. An
/// array of shape [] is one of shape (1,) here.
///
/// verifyBlocks' errors; UnknownOp (E-32) for a type without a row, BadAttribute, BadEntry and UnsupportedOption for what a
/// row does not take, each naming block, operator, type, slot and Paddle's call site; UnknownName for heads that the root
/// does not declare. Linear.
llvm::Expected<BlockGraph> graphOfBlocks(Context &context, const BlockProgram &program,
                                         const BlockGraphOptions &options);

}  // namespace gradc
