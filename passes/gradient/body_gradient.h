// The gradient of a body: its backward part as a separate graph, and the body with the values that this part reads
// among its heads. Tested by tests/passes/gradient/body_gradient_test.cc
#pragma once

#include "passes/gradient/gradient.h"

#include "passes/rewrite/body_map.h"

#include "ir/rules/grad_rule.h"

namespace gradc {

struct BodyRequest {
  std::vector<uint32_t> heads;   // whose gradients are given, ascending
  std::vector<uint32_t> inputs;  // whose gradients are requested, ascending
  /// By input of the body: whether the body of the gradient has it as an input too, as it has operands and rows of
  /// operands. Any other input that is read has to be among the heads.
  std::vector<bool> isGivenAgain;
  /// By head: whether an output of the node has its value at each step, so that it can be read from there.
  std::vector<bool> isReadable;
  friend auto operator<=>(const BodyRequest &, const BodyRequest &) = default;
};

struct DifferentiatedBody {
  Graph forward;          // the body with heads added at the end; ids and the order of inputs are the body's
  size_t numAdded = 0;    // number of these heads
  BodyGradient gradient;  // toward every requested input
};

/// The differentiated bodies of one gradient pass: each body is differentiated once per request.
class BodyGradients {
 public:
  /// buildGradient for a graph or a body in it.
  using Differentiate = llvm::Expected<GradientResult>(Context &, const Graph &, const GradientRequest &,
                                                       const GradientOptions &, BodyGradients &);
  explicit BodyGradients(Differentiate &differentiate) : differentiate(differentiate) {}

  /// Differentiates a body. Gradients read forward values from what the body yielded and never recompute them; the
  /// forward node of a fused backward operator is copied for inference, but does not run.
  ///
  /// Errors of buildGradient for the body, unchanged; UnsupportedOption if a backward operator draws the random numbers
  /// of its forward node again.
  llvm::Expected<std::shared_ptr<const DifferentiatedBody>> find(Context &context, const Graph &body,
                                                                 const Inference *inference, const BodyRequest &request,
                                                                 const GradientOptions &options);

 private:
  Differentiate &differentiate;
  BodyMap<std::shared_ptr<const DifferentiatedBody>, const Inference *, BodyRequest> rows;
};

}  // namespace gradc
