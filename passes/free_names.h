// Names for nodes that a pass adds, none of which the graph has already (NAME-09). Tested by tests/unroll_names_test.cc
#pragma once

#include "ir/graph.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <string>

namespace gradc {

class FreeNames {
 public:
  explicit FreeNames(const Graph &graph) : graph(graph) {}

  /// `base`, or the first of `base`_1, `base`_2, … that neither the graph nor an earlier call has.
  std::string take(llvm::StringRef base) {
    if (!isFilled)
      for (uint32_t n = 0; n < graph.numNodes(); ++n) numbers.try_emplace(graph.name(NodeId(n)), 0);
    isFilled = true;
    auto [at, isNew] = numbers.try_emplace(base, 0);
    if (isNew) return base.str();
    // Resumes where the last search ended: many equal names take linear time.
    uint64_t &number = at->second;
    std::string name;
    do name = (base + "_" + llvm::utostr(++number)).str();
    while (!numbers.try_emplace(name, 0).second);
    return name;
  }

 private:
  const Graph graph;
  bool isFilled = false;
  llvm::StringMap<uint64_t> numbers;  // by name that is taken: the last number behind it
};

}  // namespace gradc
