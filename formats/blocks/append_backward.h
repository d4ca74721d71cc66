// The gradient of a program of blocks as a program of blocks: what Paddle Fluid's append_backward, gradients and minimize
// add, operator for operator (NAME-06). Where Paddle's program computes another value than the gradient, this one computes
// the gradient; docs/blocks.md lists these places. Tested by tests/append_backward_test.cc and tests/paddle_programs.py
#pragma once

#include "formats/blocks/block_program.h"
#include "formats/blocks/sum_gradients.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <array>
#include <string>

namespace gradc {

/// Values of a variable's gradient beyond [min, max] are cut off where it has arrived.
struct ErrorClip {
  std::string variable;
  double min, max;
};

/// What a callback hears of each operator that is appended (HOOK-01): the block it is in, its position there, and the variable
/// each gradient belongs to.
using BackwardCallback = llvm::function_ref<void(const BlockProgram &program, uint32_t block, size_t op,
                                                 llvm::function_ref<TextId(TextId gradient)> variableOf)>;

struct FluidRequest {
  enum class Api : uint8_t { AppendBackward, Gradients };

  Api api = Api::AppendBackward;
  /// What is differentiated: the loss, or the targets of `Gradients`, variables of `block`.
  std::vector<std::string> targets;
  uint32_t block = 0;
  /// The head of each target; an empty name, or no list: ones.
  std::vector<std::string> targetGradients = {};
  /// Of `Gradients`: with respect to what.
  std::vector<std::string> inputs = {};
  /// Of `AppendBackward`: the pairs to return, and their order; none: all trainable parameters, in the order of their creation.
  std::optional<std::vector<std::string>> parameters = {};
  /// No gradient goes through variables of these names, in whatever block (NG-01).
  std::vector<std::string> noGrad = {};
  /// How often the program was differentiated before: names that are taken get `grad/` so many times, and once (NAME-07).
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
};

/// Errors: those of verifyBlocks; UnknownName for names the program does not have; ForeignEntry (E-44) for targets of another
/// block; HeadCount, HeadShape (E-37, E-38); ImplicitHead (E-03) for a loss of several elements; UnknownOp,
/// NotDifferentiable (E-32, E-02) on the path; EmptySum (E-45); MissingGradVar (E-47). Linear in operators and variables.
llvm::Expected<FluidResult> appendBackward(Context &context, BlockProgram program, const FluidRequest &request);

}  // namespace gradc
