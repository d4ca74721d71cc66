// Places in a JSON text: where each node of a graph and of its bodies begins and ends in the file, and the path of a
// byte, as in `nodes[17].inputs[0]`. Only messages need them, so they are beside the graph, not in it.
#pragma once

#include "ir/base/error.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <vector>

namespace gradc {

struct SourceMap {
  struct Body;
  struct Range {
    int64_t begin = -1, end = -1;  // byte offsets of the node's object, end exclusive; -1: not from a file
    uint32_t fileId = 0;           // position of the node in the file's `nodes`
  };
  std::vector<Range> nodes;  // by NodeId of the graph that was read
  std::vector<Body> bodies;  // sorted by owner and position

  /// Begin of the node's object, -1 where it is not from the file.
  int64_t offsetOf(const Place &place) const;
};

struct SourceMap::Body {
  BodyStep step;
  SourceMap sources;
};

/// Adds the path of the error's place in `text` to its notes: line and column are of little use in a file that is one
/// line.
llvm::Error withJsonPath(llvm::Error error, llvm::StringRef text);

}  // namespace gradc
