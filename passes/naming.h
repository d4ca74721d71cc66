// Names of generated nodes (§18).
//
// Unique names are guarded by a set of 64-bit hashes: one probe per node, no text stored twice. A hash collision only
// adds a counter to a name that did not need one, the same one on every run.
#pragma once

#include "passes/gradient.h"

#include "ir/graph_builder.h"

#include "llvm/ADT/SmallString.h"

namespace gradc {

class Namer {
 public:
  /// Takes the names of `base` as given.
  Namer(GraphBuilder &builder, const Graph &base, NamingStyle style);

  /// Names `n` part1 + part2; in the unique style with "_1", "_2", … behind it when the name is taken (NAME-09).
  void name(NodeId n, llvm::StringRef part1, llvm::StringRef part2);
  /// Names the nodes [first, last) after their forward node: `<base>_backward`, or `<base>_backward_<k>` for several
  /// (NAME-01). Nodes that have a name keep it.
  void nameBackward(uint32_t first, uint32_t last, NodeId forward);

  NamingStyle style() const { return namingStyle; }

 private:
  bool insert(uint64_t hash);
  void grow();

  GraphBuilder &builder;
  NamingStyle namingStyle;
  std::vector<uint64_t> table;  // open addressing, 0: empty
  size_t count = 0;
  llvm::SmallString<64> scratch, candidate;
};

}  // namespace gradc
