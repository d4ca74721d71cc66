// Which version of each variable is the latest, while a graph is composed node by node (IR-08).
//
// An input that is a variable is read at its latest version; an operator that overwrites it makes the next one, which
// is also the version at its own input: of two batch norms on one moving mean the first reads version 1, the second
// version 2. Tested by tests/ir/graph_builder_test.cc
#pragma once

#include "ir/base/dense_map.h"
#include "ir/graph/graph.h"

#include "llvm/Support/Error.h"

namespace gradc {

class GraphBuilder;

class LatestVersions {
 public:
  /// Starts from the latest versions in the base graph.
  explicit LatestVersions(const Graph *base);

  /// Whether the inputs of such a node may need versions; false as long as nothing is overwritten.
  bool affects(const NodeKind &kind) const { return !kind.mutated.isEmpty() || !latest.empty(); }
  /// Gives variables their versions; E-30 where the operator overwrites something other than a variable.
  llvm::Error refresh(const GraphBuilder &builder, llvm::StringRef name, const NodeKind &kind,
                      llvm::MutableArrayRef<Value> inputs);

 private:
  void note(Value v, uint32_t version);

  DenseMap<uint32_t, uint32_t> latest;  // by variable, of those overwritten so far
};

}  // namespace gradc
