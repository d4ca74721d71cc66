// Messages on standard error: errors, warnings and notes with their place in the input file.
//
//   model.json:3:16: error: input 0 of node 'y' refers to node 7, but the graph has 1 node [bad_json]
//      "inputs": [[7, 0, 0]]}
//                 ^
// Places are byte offsets or nodes; a node is found through the source map, a generated one through its origin. Lines
// are clipped to 72 columns around the place, because minified files are one line. Of a program of blocks, the place is
// that of the operator that the node was made for, which a note describes. `--diag=json` prints one object per line
// instead. Tested by tests/tools/cli_test.cc and testdata/cli.
#pragma once

#include "formats/json/source_map.h"
#include "ir/base/error.h"
#include "ir/graph/graph.h"

#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <functional>
#include <memory>
#include <optional>

namespace gradc {

enum class DiagForm : uint8_t { Text, Json };

class Diagnostics {
 public:
  Diagnostics(llvm::raw_ostream &os, DiagForm form) : os(os), form(form) {}

  /// The text that byte offsets refer to from now on. Returns it; it lives as long as this object or the next call.
  llvm::StringRef setSource(llvm::StringRef path, std::unique_ptr<llvm::MemoryBuffer> text);
  /// The graph read from that text, and the places of its nodes.
  void setInput(const Graph &graph, SourceMap sources);
  /// What a node of a graph represents in a text that is not a graph.
  struct Origin {
    int64_t offset;  // -1: not known
    std::string text;
    std::vector<std::string> notes;
  };
  using FindOrigin = std::function<std::optional<Origin>(const Place &place)>;
  /// The same for a graph that was made of what that text describes.
  void setInput(const Graph &graph, FindOrigin find);
  /// The graph that node places refer to from now on: the input, or one made from it.
  void setCurrent(const Graph &graph) { current = graph; }

  /// Prints every error inside and returns the exit code: 1 rejected, 2 usage or I/O, 70 internal. Success is 0.
  int report(llvm::Error error);
  void warning(const llvm::Twine &message);
  void note(const llvm::Twine &message);

 private:
  struct Message {
    llvm::StringRef severity;
    std::string text;
    llvm::StringRef kind;  // of errors
    llvm::StringRef row;
    Place place;
  };
  struct Position {
    size_t offset;
    size_t line, column;  // from 1; the column counts bytes
  };

  int report(const GradcError &error);
  void print(const Message &message);
  void printText(const Message &message, std::optional<Position> position);
  void printJson(const Message &message, std::optional<Position> position);
  void printExcerpt(const Position &position);
  std::optional<NodeId> inputNode(NodeId node) const;
  std::optional<Place> inputPlace(Place place) const;
  std::optional<Origin> originOf(const Place &place) const;
  std::optional<Graph> graphOf(const Place &place) const;
  std::optional<Position> locate(Place place) const;

  llvm::raw_ostream &os;
  DiagForm form;
  std::string path;
  std::unique_ptr<llvm::MemoryBuffer> source;
  Graph input, current;
  bool hasInput = false;
  SourceMap sources;
  FindOrigin findOrigin;  // empty for the text of a graph
};

}  // namespace gradc
