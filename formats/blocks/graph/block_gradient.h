// The gradient that a call requests, as a graph: it means what `append_backward` adds to the program, but is made by
// the one gradient engine.
//
// It is with respect to the trainable parameters in creation order (those of the parameter list, if there is one), or
// to the inputs, without data that is flagged `stop_gradient`. Gradients of names in the no-gradient set are cut in
// every block. Tested by tests/formats/blocks/block_gradient_test.cc
#pragma once

#include "formats/blocks/files/block_file.h"
#include "formats/blocks/graph/graph_of_blocks.h"
#include "passes/gradient/gradient.h"

namespace gradc {

struct BlockGradient {
  BlockGraph forward;            // heads: the loss, or the targets
  GradientRequest request;       // of forward.graph
  std::vector<std::string> wrt;  // names, parallel to request.wrt
  /// Requested names without a gradient: no target depends on them, or their gradients are cut.
  std::vector<std::string> unreached;
};

/// MissingAttr without a target, NoGraph (E-04) for a loss that no operator writes, HeadCount for another number of
/// target gradients than of targets, UnsupportedOption for `error_clip`. ForeignEntry (E-44) for a block other than the
/// root and for names of other blocks, UnknownName for a name that no block declares. Errors of graphOfBlocks.
llvm::Expected<BlockGradient> gradientOfCall(Context &context, const BlockProgram &program, const BlockCall &call,
                                             BlockGraphOptions options);

}  // namespace gradc
