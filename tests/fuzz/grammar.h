// Draws and mutates graph files. Operators and their attributes come from the registry.
//
// Most edits are small and keep a valid graph valid, which inference checks; some are invalid on purpose. Everything is
// a function of the text and the seed. docs/fuzzing.md
#pragma once

#include "tests/fuzz/edits.h"

#include "llvm/ADT/DenseMap.h"

namespace gradc::fuzz {

/// Graph attribute with the seed for what tests/fuzz/exercise.h leaves to chance; without it, defaults are used.
inline constexpr llvm::StringLiteral kChoiceKey = "fuzz_choice";

class Grammar {
 public:
  /// Of a hundred mutations, `carePercent` are made with care, which costs an inference or two each.
  explicit Grammar(int carePercent = 60) : carePercent(carePercent) {}

  const Donors &donors() const { return donorGraphs; }
  /// A new graph with a node of that operator or alias among its nodes.
  std::string draw(uint64_t seed, llvm::StringRef name) const;
  /// Text that is not a graph file gives a new graph.
  std::string mutate(llvm::StringRef text, uint64_t seed) const;
  /// A graph with the nodes of both.
  std::string cross(llvm::StringRef left, llvm::StringRef right, uint64_t seed) const;

 private:
  struct Parsed {
    std::optional<GraphSketch> sketch;
    std::optional<KnownShapes> shapes;  // once needed
  };
  /// Cached: a search edits the same few thousand texts again and again, and reading them takes longer than executing
  /// them.
  Parsed &parsed(llvm::StringRef text) const;

  Donors donorGraphs;
  int carePercent;
  mutable llvm::DenseMap<uint64_t, Parsed> cache;  // by hash of the text
};

}  // namespace gradc::fuzz
