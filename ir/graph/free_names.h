// Unused names for nodes that are added (NAME-09). Tested by tests/passes/unroll_names_test.cc
#pragma once

#include "ir/graph/graph.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <string>

namespace gradc {

class FreeNames {
 public:
  /// No name is taken. Names are numbered from `first`.
  explicit FreeNames(uint64_t first = 1) : first(first), isFilled(true) {}
  /// The names of the graph are taken.
  explicit FreeNames(const Graph &graph, uint64_t first = 1) : graph(graph), first(first), isFilled(false) {}

  /// Takes the name; false if it is taken.
  bool add(llvm::StringRef name) {
    fill();
    return next.try_emplace(name, first).second;
  }
  /// `base`, or the first of `base`_1, `base`_2, … that is free.
  std::string take(llvm::StringRef base) { return add(base) ? base.str() : takeNumbered(base); }
  /// The first of `base`_1, `base`_2, … that is free.
  std::string takeNumbered(llvm::StringRef base) {
    fill();
    // Resumes where the last search ended: many equal names take linear time.
    uint64_t &number = next.try_emplace(base, first).first->second;
    std::string name;
    do name = (base + "_" + llvm::utostr(number++)).str();
    while (!next.try_emplace(name, first).second);
    return name;
  }

 private:
  void fill() {
    for (uint32_t n = 0; !isFilled && n < graph.numNodes(); ++n) next.try_emplace(graph.name(NodeId(n)), first);
    isFilled = true;
  }

  const Graph graph;
  const uint64_t first;
  bool isFilled;
  llvm::StringMap<uint64_t, llvm::BumpPtrAllocator> next;  // by name that is taken: the number to try next
};

}  // namespace gradc
