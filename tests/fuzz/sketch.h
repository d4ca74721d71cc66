// A graph file as the grammar edits it: loose enough to hold invalid graphs, so that files can be wrong.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gradc::fuzz {

using AttrList = std::vector<std::pair<std::string, std::string>>;

struct SketchEntry {
  int64_t node = 0, index = 0, version = 0;
};

struct SketchNode {
  std::string op, name;
  AttrList attrs = {};
  std::vector<SketchEntry> inputs = {};
  std::vector<int64_t> deps = {};
  std::vector<std::string> subgraphs = {};  // JSON text

  bool isVariable() const { return op == "null"; }
  /// Null without such an attribute.
  std::string *attr(llvm::StringRef key);
  void setAttr(llvm::StringRef key, std::string value);
};

struct GraphSketch {
  std::vector<SketchNode> nodes;
  std::vector<SketchEntry> heads;
  AttrList attrs;  // key, JSON text

  void setAttr(llvm::StringRef key, std::string json);
};

/// None for text that is not a JSON object with a list of nodes. What does not fit a sketch is left out.
std::optional<GraphSketch> parseSketch(llvm::StringRef text);
/// One node per line; `arg_nodes` are the variables.
std::string printSketch(const GraphSketch &sketch);

SketchNode variable(std::string name, llvm::ArrayRef<int64_t> dims);
/// A node id shifted by `offset`. An id that no graph has may wrap around; it remains such an id.
int64_t shiftedId(int64_t id, size_t offset);
/// Appends the nodes of `part`, shifting their ids by the number of existing nodes; its heads and attributes are left
/// out.
void appendNodes(GraphSketch &sketch, const GraphSketch &part);
/// Removes the nodes that no head depends on.
void dropUnreached(GraphSketch &sketch);

/// "(2,3)"
std::string shapeText(llvm::ArrayRef<int64_t> dims);
/// None for text that is not a list of integers.
std::optional<std::vector<int64_t>> parseShapeText(llvm::StringRef text);

}  // namespace gradc::fuzz
