// Reads the JSON graph format of every age into a Graph (docs/format.md).
//
// Accepts files from before NNVM (`param`, two-number entries, implicit aux states), of 0.9–1.2 (`attr`) and later ones
// (`attrs`), with or without `node_row_ptr`, versions, sub-graphs (bodies) and typed graph attributes. Older files are
// upgraded by evidence to what MXNet 1.9.1's loader makes of them. Unknown operators load as opaque nodes. One SAX
// pass, linear, no recursion over graph depth. Errors: E-33 (malformed), E-43 (cycle), E-48 (output index),
// BadAttribute, each with a byte offset.
#pragma once

#include "formats/json/source_map.h"
#include "ir/graph/bodies.h"

#include "llvm/Support/Error.h"

namespace gradc {

struct ReadOptions {
  uint32_t maxNesting = kMaxBodyNesting;  // graph objects within graph objects
};

struct LoadedGraph {
  Graph graph;
  SourceMap sources;
  std::vector<std::string> warnings;  // unreachable nodes dropped, arg_nodes out of order, …
  bool wasUpgraded = false;
};

llvm::Expected<LoadedGraph> readJson(Context &context, llvm::StringRef text, const ReadOptions &options);

}  // namespace gradc
