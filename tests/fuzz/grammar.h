// Draws and mutates graph files. What operators there are, and their attributes, it knows from the registry.
//
// Most edits are small and keep a right graph right, checked by inference; some are made to be wrong. Everything is a
// function of the text and the seed. docs/fuzzing.md
#pragma once

#include "tests/fuzz/edits.h"

#include "llvm/ADT/DenseMap.h"

namespace gradc::fuzz {

/// Graph attribute with the seed of what tests/fuzz/exercise.h leaves to chance; without it, everything is as usual.
inline constexpr llvm::StringLiteral kChoiceKey = "fuzz_choice";

class Grammar {
 public:
  /// Of a hundred mutations, how many are made with care, which costs an inference or two each.
  explicit Grammar(int carePercent = 60) : carePercent(carePercent) {}

  const Donors &donors() const { return donorGraphs; }
  /// A new graph with a node of that operator or alias among its nodes.
  std::string draw(uint64_t seed, llvm::StringRef name) const;
  /// Text that is no graph file gives a new graph.
  std::string mutate(llvm::StringRef text, uint64_t seed) const;
  /// Nodes of both.
  std::string cross(llvm::StringRef left, llvm::StringRef right, uint64_t seed) const;

 private:
  struct Parsed {
    std::optional<GraphSketch> sketch;
    std::optional<KnownShapes> shapes;  // once needed
  };
  /// A search edits the same few thousand texts again and again, and reading them takes longer than executing them.
  Parsed &parsed(llvm::StringRef text) const;

  Donors donorGraphs;
  int carePercent;
  mutable llvm::DenseMap<uint64_t, Parsed> cache;  // by hash of the text
};

}  // namespace gradc::fuzz
