// Dense side tables keyed by node or entry of one graph.
#pragma once

#include "ir/graph.h"

#include <vector>

namespace gradc {

template <class T> class NodeMap {
 public:
  NodeMap() = default;
  NodeMap(const Graph &graph, T initial) : values(graph.numNodes(), initial) {}
  T &operator[](NodeId n) { return values[n.value]; }
  const T &operator[](NodeId n) const { return values[n.value]; }
  size_t size() const { return values.size(); }

 private:
  std::vector<T> values;
};

template <class T> class EntryMap {
 public:
  EntryMap() = default;
  EntryMap(const Graph &graph, T initial) : values(graph.numEntries(), initial) {}
  T &operator[](EntryId e) { return values[e.value]; }
  const T &operator[](EntryId e) const { return values[e.value]; }
  size_t size() const { return values.size(); }
  llvm::ArrayRef<T> all() const { return values; }

 private:
  std::vector<T> values;
};

}  // namespace gradc
