// Graphs within graphs: the bodies of a node, which control flow and the fused operators of other frameworks have
//
#pragma once

#include "ir/base/dense_map.h"
#include "ir/graph/graph.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace gradc {

inline constexpr uint32_t kMaxBodyNesting = 64;  // levels of bodies within bodies; deeper nesting is refused

/// Hash of the content; equal graphs of one Context have equal hashes. Linear in nodes and edges.
uint64_t contentHash(const Graph &graph);

/// A graph at or below a root, and the node whose body it is.
struct NestedGraph {
  Graph graph;
  uint32_t parent = 0;  // list position of the graph that `owner` belongs to; 0 for the root itself
  NodeId owner = {};    // invalid for the root
  uint32_t body = 0;    // position among the owner's bodies
};

/// The root, then every graph below it once, however often it is used. The graph of the listed owner comes before the
/// body; graphs of its other owners may come after it. Linear.
std::vector<NestedGraph> nestedGraphs(const Graph &root);

/// Identifies a body within one Context: equal bodies share both pointers, different ones at most one.
using BodyKey = std::pair<const GraphColumns *, const GraphTable *>;
inline BodyKey keyOf(const Graph &body) { return {&body.columns(), &body.table()}; }

/// The position of each body in the list of `nestedGraphs`, the number that people read: `@1`.
using BodyNumbers = DenseMap<BodyKey, size_t>;
BodyNumbers numberBodies(llvm::ArrayRef<NestedGraph> list);

/// "body", or "body 1" of several.
std::string bodyName(size_t numBodies, size_t body);
/// "node 'loop' > body".
std::string bodyStep(const Graph &graph, NodeId owner, uint32_t body);
/// "body @1", "bodies @1, @2"; empty for a node without bodies.
std::string bodiesText(const Graph &graph, NodeId n, const BodyNumbers &numbers);
/// "node 'loop' > body" from the root down to `list[position]`; empty for the root.
std::string bodyPath(llvm::ArrayRef<NestedGraph> list, size_t position);

/// Turns an error about a node of a body into one about the graph of its owner; the message begins
/// "node 'loop' > body > ".
llvm::Error withinBody(llvm::Error error, const Graph &graph, NodeId owner, uint32_t body);
/// The same from `list[position]` up to the root, `list[0]`.
llvm::Error withinBody(llvm::Error error, llvm::ArrayRef<NestedGraph> list, size_t position);

}  // namespace gradc
