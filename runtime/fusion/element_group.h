// Nodes that work element by element, run piece by piece. Tested by tests/fusion_test.cc
#pragma once

#include "runtime/fusion/fused_group.h"

#include <cstdint>

namespace gradc {

inline constexpr size_t kMaxMembers = 24;
inline constexpr size_t kMaxOperands = 96;                 // of all members together
inline constexpr size_t kScratchBytes = size_t{32} << 10;  // of a thread: pieces of what is not stored
inline constexpr int64_t kPieceAlignment = 64;             // elements
inline constexpr int64_t kMinPiece = 512;
inline constexpr int64_t kMaxPiece = 4096;
inline constexpr size_t kMaxScratchWidth = kScratchBytes / kMinPiece;  // bytes per element

/// An operand of a member, in the order of the instructions: inputs, then outputs.
struct GroupOperand {
  enum class Kind : uint8_t {
    Whole,    // the same for every piece
    Part,     // the piece's elements of a stored tensor
    Scratch,  // the piece's elements, which are not stored
  };
  Kind kind = Kind::Whole;
  uint32_t width = 0;  // bytes of an element
  uint32_t slot = 0;   // of Scratch: bytes per element in front of it
};

struct ElementGroup {
  int64_t size = 0;   // elements
  int64_t piece = 0;  // of which so many are run at a time: scratch has room for them
  unsigned threads = 1;
  std::vector<GroupOperand> operands;
};

std::unique_ptr<GroupKernel> elementGroupKernel(ElementGroup group);

}  // namespace gradc
