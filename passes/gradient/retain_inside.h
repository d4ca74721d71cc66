// Gradients of entries inside bodies, as heads of the emitted graph: a loop stacks them, one row per step (§9).
// Tested by tests/retain_inside_test.cc
#pragma once

#include "passes/gradient/gradient.h"

namespace gradc {

/// A node of this kind with other bodies, each with `numAdded` heads more, which are visible outputs of the node: stacked ones of a
/// loop in front of its states, else the last. Input i of body b is what input was[b][i] of the old body was. Null where
/// the operator has no such form. Built-in operators: ops/control/relocated.h.
using MoreOutputs = llvm::Expected<KindRef>(Context &context, const NodeKind &kind, llvm::ArrayRef<Graph> bodies,
                                            llvm::ArrayRef<std::vector<uint32_t>> was, size_t numAdded);

/// Makes a head, behind those there are, of the gradient of each node that markRetained marked before `gradient`, of order 1, was
/// built; the marks and their taps are gone. In a loop the gradient of a step is row t of the head where the step runs row
/// t, zeros where no step runs; of loops within loops it is row t, u, and so on. It is zeros of the node's shape where
/// another branch runs, and where no gradient arrives (NL-02). In the table the head is retained, of the path, in the order of
/// `paths`.
///
/// UnsupportedOption for operators that moreOutputs has no form of; Unreachable where no gradient arrives at a node of a graph of
/// gradients alone, which has nothing of its shape.
llvm::Expected<Graph> retainInside(Context &context, const Graph &gradient, llvm::ArrayRef<std::string> paths,
                                   MoreOutputs *moreOutputs);

/// buildGradientOfOrder of a graph with marks, and the above after the first order, of which what is retained is.
llvm::Expected<GradientResult> buildGradientRetaining(Context &context, const Graph &graph,
                                                      const GradientRequest &request, const GradientOptions &options,
                                                      uint32_t order, llvm::ArrayRef<std::string> paths,
                                                      MoreOutputs *moreOutputs);

}  // namespace gradc
