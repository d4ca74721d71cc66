// Operators that own or choose blocks, as nodes with bodies. Tested by tests/formats/blocks/block_graph_test.cc
#pragma once

#include "formats/blocks/graph/block_body.h"

namespace gradc {

llvm::Error readWhile(BlockReader &reader, size_t at);
llvm::Error readConditional(BlockReader &reader, size_t at);
/// `select_input` and `select_output`.
llvm::Error readSelect(BlockReader &reader, size_t at);
llvm::Error readSelectOutput(BlockReader &reader, size_t at);

/// Adds a node with bodies. Errors are about operator `at`.
llvm::Expected<Value> addFlow(BlockReader &reader, llvm::StringRef opName, llvm::ArrayRef<Value> inputs,
                              llvm::ArrayRef<AttrText> attrs, llvm::ArrayRef<Graph> bodies, size_t at);
/// A graph of these variables, each a head.
llvm::Expected<Graph> choice(Context &context, llvm::ArrayRef<std::string> names);
/// Writes a value that an inner block made: a flag of the name does not count.
void writeCarried(BlockReader &reader, DeclaredName name, Value v);

}  // namespace gradc
