// Loops and branches of gradients as MXNet 1.9.1 has them. Tested by tests/lower_loops_test.cc
#pragma once

#include "ir/grad_rule.h"

namespace gradc {

/// Whether MXNet runs a loop or branch as it is: what its bodies yield are outputs, each computed, and each once.
bool isMxnetFlow(const NodeKind &kind);
/// Whether MXNet has the operator in a body: there it infers every node by itself, and requires that every operator has a
/// gradient.
bool isInMxnetBodies(const NodeKind &kind);

/// `_foreach`, `_scan` and `_while_loop` as a `_foreach`: values that were added are stacked before the states; rows that run
/// down are reversed around it. Where a count or a condition ends the loop, all rows run, and steps beyond the end keep
/// their states and yield zeros: of the outputs of its `_while_loop` MXNet knows no shapes, which a loop that slices them needs.
void mxnetLoop(DecomposeRule &d);
/// `_cond`: each branch yields zeros for what the other one adds. Shapes of these have to be known.
void mxnetCond(DecomposeRule &d);
/// `_cond` in a body: both branches, and the choice between what they yield. Of the outputs of a `_cond` MXNet knows no shapes,
/// and the outputs of a loop need them.
void mxnetSelect(DecomposeRule &d);
/// `_sum_like` by the axes that the shapes tell.
void mxnetSumLike(DecomposeRule &d);
/// `_scatter_nd` that adds, where the shape is known.
void mxnetScatterAdd(DecomposeRule &d);

}  // namespace gradc
