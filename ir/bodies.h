// Graphs within graphs: the bodies of a node, which control flow and the fused operators of other frameworks have.
#pragma once

#include "ir/graph.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/Error.h"

#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

namespace gradc {

inline constexpr uint32_t kMaxBodyNesting = 64;  // bodies within bodies; what is nested deeper is refused

/// The body lists of the kinds of one Context. Equal graphs are stored once, so that equal kinds are one kind.
class BodyTable {
 public:
  /// Number of the list of these graphs, each replaced by the first one equal to it. 0 is the empty list. Linear in nodes and
  /// edges.
  uint32_t intern(llvm::ArrayRef<Graph> graphs);
  llvm::ArrayRef<Graph> operator[](uint32_t list) const { return lists[list]; }

 private:
  uint32_t internGraph(const Graph &graph);

  std::deque<Graph> graphs;
  std::unordered_multimap<uint64_t, uint32_t> graphIds;  // by hash of the content
  std::deque<std::vector<Graph>> lists = {{}};
  std::unordered_map<std::string, uint32_t> listIds = {{"", 0}};  // by the bytes of the graphs' numbers
};

/// A graph at or below a root, and the node whose body it is.
struct NestedGraph {
  Graph graph;
  uint32_t parent = 0;  // position in the list of the graph that `owner` belongs to; the root's is its own
  NodeId owner = {};    // invalid for the root
  uint32_t body = 0;    // position among the owner's bodies
};

/// The root, then every graph below it once, however often it is used; owners come before their bodies. Linear.
std::vector<NestedGraph> nestedGraphs(const Graph &root);

/// The position of each body in the list of `nestedGraphs`, the number that people read: `@1`.
using BodyNumbers = llvm::DenseMap<const GraphColumns *, size_t>;
BodyNumbers numberBodies(llvm::ArrayRef<NestedGraph> list);

/// "body", or "body 1" of several.
std::string bodyName(size_t numBodies, size_t body);
/// "body @1", "bodies @1, @2"; empty for a node without.
std::string bodiesText(const Graph &graph, NodeId n, const BodyNumbers &numbers);
/// "node 'loop' > body" from the root down to `list[position]`; empty for the root.
std::string bodyPath(llvm::ArrayRef<NestedGraph> list, size_t position);

/// Errors about nodes of a body, as errors about the graph with its owner: the message begins with "node 'loop' > body > ".
llvm::Error withinBody(llvm::Error error, const Graph &graph, NodeId owner, uint32_t body);
/// The same from `list[position]` up to the root, `list[0]`.
llvm::Error withinBody(llvm::Error error, llvm::ArrayRef<NestedGraph> list, size_t position);

}  // namespace gradc
