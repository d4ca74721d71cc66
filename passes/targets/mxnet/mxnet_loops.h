// Loops and branches of gradients in the form that MXNet 1.9.1 has. Tested by tests/passes/lowering/lower_loops_test.cc
#pragma once

#include "ir/rules/grad_rule.h"

namespace gradc {

/// Whether MXNet runs a loop or branch unchanged: no hidden outputs, and all heads of a body are distinct computed
/// values.
bool isMxnetFlow(const NodeKind &kind);
/// Whether MXNet has the operator in a body, where it infers every node separately and requires every operator to have
/// a gradient.
bool isInMxnetBodies(const NodeKind &kind);

/// `_foreach`, `_scan` and `_while_loop` as a `_foreach`: added values are stacked before the states; the rows of a
/// reverse loop are reversed around it. If a count or a condition ends the loop, all rows run, and steps beyond the end
/// keep the states and yield zeros: MXNet does not know the shapes of its `_while_loop`'s outputs, which a loop that
/// slices them needs.
void mxnetLoop(DecomposeRule &d);
/// `_cond`: each branch yields zeros for what the other one adds. Their shapes have to be known.
void mxnetCond(DecomposeRule &d);
/// `_cond` in a body: runs both branches and selects between their values. MXNet does not know the shapes of a
/// `_cond`'s outputs, and the outputs of a loop need them.
void mxnetSelect(DecomposeRule &d);
/// `_sum_like` as a sum over the axes that follow from the shapes.
void mxnetSumLike(DecomposeRule &d);

}  // namespace gradc
