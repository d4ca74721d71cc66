// The names in a request, as variables of the program. Tested by tests/formats/blocks/backward/append_backward_test.cc
#pragma once

#include "formats/blocks/backward/append_backward.h"
#include "formats/blocks/backward/gradients/gradient_variables.h"
#include "formats/blocks/program/gradient_names.h"

namespace gradc {

struct ResolvedRequest {
  std::vector<TextId> targets, inputs, noGradNames;
  IdMap<Attrs> errorClips;  // by variable: attributes of its `clip`
};

/// UnknownName; MissingAttr without a target; HeadCount (E-37) if there are gradients, but not as many as targets;
/// ForeignEntry (E-44) for targets of another block.
llvm::Expected<ResolvedRequest> resolveRequest(Context &context, const BlockProgram &program,
                                               const FluidRequest &request);

/// In a program that has no gradients yet, no operator uses a name with `@GRAD`, which marks them (E-34). Linear.
llvm::Error checkGradientNames(const BlockProgram &program);
/// In a later call, no operator on the path uses a gradient that an operator overwrites afterwards, because values of
/// gradients are not renamed, or the name of a gradient from which the call starts (E-34). Linear.
llvm::Error checkEarlierGradients(const BlockProgram &program, uint32_t block, llvm::ArrayRef<uint32_t> path,
                                  const NameSet &targetGradients, GradientNames &names);
/// A gradient block sees the names of its forward block, so it cannot give one of these to a gradient that it computes
/// or that its owner hands in (E-34). `op` owns the forward block; `gradientBlock` has the operators of its gradient.
llvm::Error checkNamesInside(const BlockProgram &program, uint32_t block, uint32_t op, uint32_t gradientBlock,
                             GradientNames &names);

/// How often the root of the program has been differentiated, as far as it shows: once if it has gradient operators,
/// and as many times as names have the prefix `grad/`. Linear.
uint32_t callsOn(const BlockProgram &program);

/// Who asks for the gradient of a target does not want it to end there: takes its flag off, and returns the flagged
/// ones.
std::vector<TextId> liftFlags(BlockProgram &program, uint32_t block, llvm::ArrayRef<TextId> targets);

/// The parameters of `AppendBackward`, as far as the root declares them.
std::vector<TextId> parametersOf(const BlockProgram &program, const FluidRequest &request);

/// The pairs of the parameters that the request names, or else of all trainable ones. The last operator of
/// `targetBlock` that writes such a gradient lists the pair in `op_role_var`. Errors: UnknownName; MissingGradVar
/// (E-47) if the gradient of a parameter that the request names is a variable of another block.
llvm::Expected<std::vector<FluidPair>> parameterPairs(Context &context, BlockProgram &program,
                                                      const FluidRequest &request, uint32_t targetBlock,
                                                      const GradientPlaces &places);

}  // namespace gradc
