// Dense side tables keyed by node or entry of one graph.
#pragma once

#include "ir/graph/graph.h"

#include <cassert>
#include <vector>

namespace gradc {

template <class T> class NodeMap {
 public:
  NodeMap() = default;
  NodeMap(const Graph &graph, T initial) : values(graph.numNodes(), initial) {}
  T &operator[](NodeId n) { return values[checked(n)]; }
  const T &operator[](NodeId n) const { return values[checked(n)]; }
  size_t size() const { return values.size(); }

 private:
  uint32_t checked(NodeId n) const {
    assert(n.value < values.size() && "a node of another graph");
    return n.value;
  }

  std::vector<T> values;
};

template <class T> class EntryMap {
 public:
  EntryMap() = default;
  EntryMap(const Graph &graph, T initial) : values(graph.numEntries(), initial) {}
  T &operator[](EntryId e) { return values[checked(e)]; }
  const T &operator[](EntryId e) const { return values[checked(e)]; }
  size_t size() const { return values.size(); }
  llvm::ArrayRef<T> all() const { return values; }

 private:
  uint32_t checked(EntryId e) const {
    assert(e.value < values.size() && "an entry of another graph");
    return e.value;
  }

  std::vector<T> values;
};

}  // namespace gradc
