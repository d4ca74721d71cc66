// The gradient of a program of blocks as a program of blocks: what Paddle Fluid's append_backward, gradients and
// minimize add, operator for operator (NAME-06). Where Paddle's program computes another value than the gradient, this
// one computes the gradient; docs/blocks.md lists these places. Tested by
// tests/formats/blocks/backward/append_backward_test.cc and tests/oracles/paddle_programs.py
#pragma once

#include "formats/blocks/backward/gradients/sum_gradients.h"
#include "formats/blocks/graph/lost_gradients.h"
#include "formats/blocks/program/block_program.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <array>
#include <string>

namespace gradc {

/// Clips the gradient of `variable` to [min, max] after every operator that writes it.
struct ErrorClip {
  std::string variable;
  double min, max;
};

/// Called for each operator that is appended (HOOK-01), with its block, its position there, and a function from a
/// gradient to its variable.
using BackwardCallback = llvm::function_ref<void(const BlockProgram &program, uint32_t block, size_t op,
                                                 llvm::function_ref<TextId(TextId gradient)> variableOf)>;

struct FluidRequest {
  enum class Api : uint8_t { AppendBackward, Gradients };

  Api api = Api::AppendBackward;
  /// Variables of `block` to differentiate: the loss, or the targets of `Gradients`. Their flags do not count.
  std::vector<std::string> targets;
  uint32_t block = 0;
  /// The head gradient of each target; ones for an empty name or without a list.
  std::vector<std::string> targetGradients = {};
  /// `Gradients`: what to differentiate with respect to.
  std::vector<std::string> inputs = {};
  /// `AppendBackward`: the parameters to return pairs for, in this order; by default all trainable ones, in creation
  /// order.
  std::optional<std::vector<std::string>> parameters = {};
  /// Variables of these names stop gradients, whatever their block (NG-01).
  std::vector<std::string> noGrad = {};
  /// Number of earlier calls on the program, at least what callsOn finds: a name that is taken gets the prefix `grad/`
  /// once more than that (NAME-07).
  uint32_t priorCalls = 0;
  std::vector<ErrorClip> errorClips = {};
  std::vector<BackwardCallback> callbacks = {};
  SumOptions sums = {};
};

struct FluidPair {
  TextId variable;
  TextId gradient;  // invalid: `variable` has none
};

struct FluidResult {
  BlockProgram program;
  /// `AppendBackward`: parameters that have a gradient. `Gradients`: one for each input.
  std::vector<FluidPair> pairs;
  /// What Paddle's operators leave out of them.
  std::vector<LostGradient> lost;
};

/// Errors: those of verifyBlocks and verifySlots; UnknownName for names the program does not have; ForeignEntry (E-44)
/// for targets of another block; HeadCount, HeadShape (E-37, E-38); ImplicitHead (E-03) for a loss of several elements;
/// UnknownOp, NotDifferentiable (E-32, E-02) on the path; EmptySum (E-45); MissingGradVar (E-47). Linear in operators
/// and variables.
llvm::Expected<FluidResult> appendBackward(Context &context, BlockProgram program, const FluidRequest &request);

}  // namespace gradc
