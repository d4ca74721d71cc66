// How far a decomposition goes, where a graph is differentiated and where it is lowered.
#pragma once

#include <cstdint>

namespace gradc {

/// Decompositions within decompositions. Those of the built-in operators are nested a handful of levels deep.
inline constexpr uint32_t kMaxDecompositions = 64;
/// Nodes that one node may decompose to. An RNN has some dozens per layer, the gradient of a Concat one per part.
inline constexpr uint32_t kMaxDecomposedNodes = 1 << 18;

}  // namespace gradc
