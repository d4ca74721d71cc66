// Entries inside bodies at which a gradient stops or passes a tap: named by a path, marked in the graph (NG-01,
// HOOK-02). Tested by tests/passes/gradient/stop_inside_test.cc
#pragma once

#include "ir/graph/bodies.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <map>
#include <optional>
#include <string>

namespace gradc {

/// A node in a body, `loop/0/h2h`: the node with the body, the body's number, the node there, to any depth.
struct NodeInside {
  llvm::SmallVector<std::pair<NodeId, uint32_t>, 2> bodies;  // from the graph down: the owner, the number of its body
  NodeId node;                                               // of the last body
  std::string path;                                          // as it was given
};

/// Finds nodes inside bodies by their paths. The names of each graph are listed once, so many paths take linear time.
class PathIndex {
 public:
  explicit PathIndex(const Graph &graph) : root(graph) {}

  /// The node that a path names; nullopt if there is none. AmbiguousName if several nodes have a name in the path;
  /// `name#2` is the second one.
  llvm::Expected<std::optional<NodeInside>> find(llvm::StringRef path);

 private:
  /// A node whose name begins the path, the number of its body, and the rest.
  struct FirstStep {
    NodeId node;
    uint32_t body = 0;
    llvm::StringRef rest;
  };
  llvm::ArrayRef<NodeId> named(const Graph &graph, llvm::StringRef name);
  llvm::Expected<NodeId> nodeNamed(const Graph &graph, llvm::StringRef name);
  llvm::Expected<std::optional<FirstStep>> firstStep(const Graph &graph, llvm::StringRef path);

  const Graph root;                                                        // keeps all graphs below it
  std::map<BodyKey, llvm::StringMap<llvm::SmallVector<NodeId, 1>>> nodes;  // by graph and name
};

inline llvm::Expected<std::optional<NodeInside>> findInside(const Graph &graph, llvm::StringRef path) {
  return PathIndex(graph).find(path);
}

/// The graph with `__stop_gradient__` on these nodes, so that no gradient enters their outputs. Ids and names stay;
/// other nodes with the same body are not affected.
llvm::Expected<Graph> stopInside(Context &context, const Graph &graph, llvm::ArrayRef<NodeInside> nodes);

/// The graph with `__tap_gradient__` on these nodes: the gradient of each of their outputs passes one `wellKnown.tap`
/// node, as for GradientRequest::taps. The tap is in the body of the gradient and runs in every step in which a
/// gradient arrives. Ids and names stay, as above.
llvm::Expected<Graph> tapInside(Context &context, const Graph &graph, llvm::ArrayRef<NodeInside> nodes);

/// The same with `__retain_gradient__`, whose value is the path. The tap of the node's first output gets it as well,
/// and passes/gradient/higher_order/retain_inside.h turns these gradients into heads. AlreadyMarked for a node given
/// twice, UnsupportedOption for a node in a body that decides.
llvm::Expected<Graph> markRetained(Context &context, const Graph &graph, llvm::ArrayRef<NodeInside> nodes);

}  // namespace gradc
