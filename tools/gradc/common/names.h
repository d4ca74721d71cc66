// Resolves names that a user types to entries of a graph (CLI-01), with "did you mean" for those that do not exist.
//
// ENTRY is, tried in this order: a node's name (its output 0), `name:index`, a listed output name (`softmax_output`,
// IR-16), a position in the heads (`@0`). Of several nodes with one name, `name#2` is the second in id order; `#12` is
// node 12. Tested by tests/tools/cli_test.cc
#pragma once

#include "ir/graph/graph.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace gradc {

/// The candidates nearest to `name`, nearest first, at most three; empty when none is near.
std::vector<std::string> closeMatches(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> candidates);
/// "'--a', '--b' or '--c'" for the prefix "--"; empty for no match.
std::string joinMatches(llvm::ArrayRef<std::string> matches, llvm::StringRef prefix);

class NameIndex {
 public:
  /// Sorts the nodes by name once: O(n log n).
  explicit NameIndex(const Graph &graph);

  /// E-25 for a node in a body, UnknownName with close matches, E-14 for a number or a bracket, E-34 with node ids,
  /// E-48 for an output that the node does not have.
  llvm::Expected<Value> entry(llvm::StringRef text) const;
  /// The same for a node that must be a variable.
  llvm::Expected<NodeId> variable(llvm::StringRef text) const;
  /// Entries of comma-separated lists; a text that is a name as a whole is not split.
  llvm::Expected<std::vector<Value>> entries(llvm::ArrayRef<std::string> lists) const;
  /// Whether some node has exactly this name.
  bool hasName(llvm::StringRef name) const { return !named(name).empty(); }

 private:
  llvm::ArrayRef<NodeId> named(llvm::StringRef name) const;
  std::optional<llvm::Expected<NodeId>> node(llvm::StringRef text) const;
  std::optional<Value> listedOutput(llvm::StringRef text) const;
  llvm::Expected<Value> head(llvm::StringRef position) const;
  std::optional<llvm::Error> inside(llvm::StringRef text) const;
  llvm::Error unknown(llvm::StringRef text) const;
  static std::optional<llvm::Error> wrongType(llvm::StringRef text);

  const Graph &graph;
  std::vector<NodeId> byName;  // nodes that have a name, by (name, id)
};

}  // namespace gradc
