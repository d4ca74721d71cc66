// Where each node of a graph and of its bodies begins and ends in the file it was read from. Kept beside the graph, not
// in it, because only messages need it.
#pragma once

#include "ir/base/error.h"

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

}  // namespace gradc
