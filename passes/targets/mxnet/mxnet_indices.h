// Positions, and elements picked and put by position, in the operators of MXNet 1.9.1. Tested by
// tests/passes/lowering/lower_loops_test.cc
#pragma once

#include "ir/rules/grad_rule.h"

namespace gradc {

/// `_index_like` as the cumulative sum of ones, less one. MXNet's sum takes no negative axis.
void mxnetIndexLike(DecomposeRule &d);
/// `_scatter_nd` that adds, if the shape is known.
void mxnetScatterAdd(DecomposeRule &d);
/// `_scatter_along_axis` and `_take_along_axis`, if the shapes are known.
void mxnetScatterAlong(DecomposeRule &d);
void mxnetTakeAlong(DecomposeRule &d);

}  // namespace gradc
