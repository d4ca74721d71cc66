// The in-place pairs of most operators: which output may take over the memory of which input.
#pragma once

#include "ir/op/op.h"

namespace gradc {

inline constexpr InplacePair kInplaceFirst[] = {{0, 0}};
inline constexpr InplacePair kInplaceEither[] = {{0, 0}, {1, 0}};
inline constexpr InplacePair kInplaceIdentity[] = {{0, 0, true}};

}  // namespace gradc
