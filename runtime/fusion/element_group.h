// Element-wise nodes, run piece by piece. Tested by tests/runtime/fusion_test.cc
#pragma once

#include "runtime/kernels/core/fused_group.h"

#include <cstdint>

namespace gradc {

inline constexpr size_t kMaxMembers = 24;
inline constexpr size_t kMaxOperands = 96;                 // of all members together
inline constexpr size_t kScratchBytes = size_t{32} << 10;  // per thread, for pieces of entries that are not stored
inline constexpr int64_t kPieceAlignment = 64;             // elements
inline constexpr int64_t kMinPiece = 512;
inline constexpr int64_t kMaxPiece = 4096;
inline constexpr size_t kMaxScratchWidth = kScratchBytes / kMinPiece;  // bytes per element

/// An operand of a member, in the order of the instructions: inputs, then outputs.
struct GroupOperand {
  enum class Kind : uint8_t {
    Whole,    // the same for every piece
    Part,     // the piece's elements of a stored tensor
    Scratch,  // the piece's elements of an entry that is not stored
  };
  Kind kind = Kind::Whole;
  uint32_t width = 0;  // bytes of an element
  uint32_t slot = 0;   // of Scratch: bytes per element before it
};

struct ElementGroup {
  int64_t size = 0;   // elements
  int64_t piece = 0;  // elements run at a time; they fit into scratch
  unsigned threads = 1;
  std::vector<GroupOperand> operands;
};

std::unique_ptr<GroupKernel> elementGroupKernel(ElementGroup group);

}  // namespace gradc
