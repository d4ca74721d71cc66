// The gradient that a call asks for, as a graph: the same meaning as `append_backward` gives the program, from the one gradient
// engine. Tested by tests/block_gradient_test.cc
#pragma once

#include "formats/blocks/block_file.h"
#include "formats/blocks/graph_of_blocks.h"
#include "passes/gradient/gradient.h"

namespace gradc {

struct BlockGradient {
  BlockGraph forward;            // heads: the loss, or the targets
  GradientRequest request;       // of forward.graph
  std::vector<std::string> wrt;  // names, parallel to request.wrt
  /// Names requested that no target depends on, or whose gradients are cut: they have none.
  std::vector<std::string> unreached;
};

/// The parameters that can be trained, in the order of their creation and among those of a parameter list, or the inputs. The
/// names of the no-gradient set are cut in every block. UnknownName for what the root does not declare, LengthMismatch for
/// target gradients that are not as many as targets; graphOfBlocks' errors.
llvm::Expected<BlockGradient> gradientOfCall(Context &context, const BlockProgram &program, const BlockCall &call,
                                             BlockGraphOptions options);

}  // namespace gradc
