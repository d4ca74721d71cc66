// Which parameter has which gradient (phase 8 of append_backward.cc). Tested by
// tests/formats/blocks/backward/append_backward_test.cc
#pragma once

#include "formats/blocks/backward/append_backward.h"
#include "formats/blocks/backward/gradients/gradient_variables.h"

namespace gradc {

/// The pairs of the parameters that the request names, or else of all trainable ones. The last operator of
/// `targetBlock` that writes such a gradient lists the pair in `op_role_var`. Errors: UnknownName; MissingGradVar
/// (E-47) if the gradient of a parameter that the request names is a variable of another block.
llvm::Expected<std::vector<FluidPair>> parameterPairs(Context &context, BlockProgram &program,
                                                      const FluidRequest &request, uint32_t targetBlock,
                                                      const GradientPlaces &places);

}  // namespace gradc
