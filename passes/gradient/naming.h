// Names of generated nodes (§18).
//
// In the unique style (NAME-09) a name that is taken gets a counter. Most generated names need no look-up: a *regular*
// name is the name of a base node followed by a marker that no base name contains. As long as the base's names are
// distinct and free of markers, regular names are distinct from each other and from all others, and for the rest a hash
// shows whether a name may have been given before. When uniqueness is not certain (a gradient graph differentiated
// again, equal names, equal hashes) all names go into one set of strings, and every further one is looked up in it.
#pragma once

#include "ir/base/dense_map.h"
#include "passes/gradient/gradient.h"

#include "ir/graph/free_names.h"
#include "ir/graph/graph_builder.h"

#include "llvm/ADT/SmallString.h"

namespace gradc {

class Namer {
 public:
  /// Takes the names of `base` as given.
  Namer(GraphBuilder &builder, const Graph &base, NamingStyle style);

  /// Names `n` part1 + part2; in the unique style followed by "_1", "_2", … when the name is taken.
  void name(NodeId n, llvm::StringRef part1, llvm::StringRef part2);
  /// Gives `n` a regular name: that of a node of the base, and a suffix that starts with a marker and was not used with
  /// this node before.
  void nameRegularly(NodeId n, NodeId ofBase, llvm::StringRef suffix);
  /// Names the nodes [first, last) after their forward node, one of the base: `<base>_backward`, or
  /// `<base>_backward_<k>` for several (NAME-01). Nodes that have a name keep it.
  void nameBackward(uint32_t first, uint32_t last, NodeId forward);

  NamingStyle style() const { return namingStyle; }

 private:
  bool isNewHash(llvm::StringRef name);
  void lookUpEverything();

  GraphBuilder &builder;
  NamingStyle namingStyle;
  bool isRegular;             // regular names are given without a look-up
  DenseSet<uint64_t> hashes;  // while isRegular: of the base's names and of irregular ones
  FreeNames names;            // afterwards: every name
  llvm::SmallString<64> scratch;
};

}  // namespace gradc
