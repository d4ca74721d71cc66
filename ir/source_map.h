// Where each node of a graph stands in the file it was read from. Beside the graph, not in it: only messages need it.
#pragma once

#include "ir/ids.h"

#include <cstdint>
#include <vector>

namespace gradc {

struct SourceMap {
  struct Range {
    int64_t begin = -1, end = -1;  // byte offsets of the node's object, end exclusive; -1: not from a file
    uint32_t fileId = 0;           // position of the node in the file's `nodes`
  };
  std::vector<Range> nodes;        // by NodeId of the graph that was read
};

}  // namespace gradc
