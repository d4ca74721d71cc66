// The gradient of a body: its backward part as a graph of its own, and the body with the values that part reads among its
// heads. Tested by tests/body_gradient_test.cc
#pragma once

#include "passes/gradient/gradient.h"

#include "ir/bodies.h"
#include "ir/grad_rule.h"

#include <map>

namespace gradc {

struct BodyRequest {
  std::vector<uint32_t> heads;   // whose gradients are given, ascending
  std::vector<uint32_t> inputs;  // whose gradients are requested, ascending
  /// By input of the body: given again when the gradient runs, as an operand or the row of one is. What is not, and is read,
  /// has to be among the heads.
  std::vector<bool> isGivenAgain;
  /// By head: an output of the node has what it is at each step, so it can be read from there.
  std::vector<bool> isReadable;
  friend auto operator<=>(const BodyRequest &, const BodyRequest &) = default;
};

struct DifferentiatedBody {
  Graph forward;          // the body with heads behind its own; ids and the order of inputs are the body's
  size_t numAdded = 0;    // heads
  BodyGradient gradient;  // toward every input that was requested
};

/// What one gradient knows of bodies: each is differentiated once for each request.
class BodyGradients {
 public:
  /// Differentiates a body. Whatever the gradient of a forward node needs is read from what the body yielded, never computed
  /// again; a fused backward operator keeps its forward node beside it, for inference, and nothing computes that.
  ///
  /// What buildGradient says of the body, as it is; UnsupportedOption where the backward part would have to keep a node that
  /// overwrites a variable.
  llvm::Expected<std::shared_ptr<const DifferentiatedBody>> find(Context &context, const Graph &body,
                                                                 const Inference *inference, const BodyRequest &request,
                                                                 const GradientOptions &options);

 private:
  struct Row {
    Graph body;  // kept, so that no other gets its address
    std::shared_ptr<const DifferentiatedBody> found;
  };
  std::map<std::tuple<BodyKey, const Inference *, BodyRequest>, Row> rows;
};

/// buildGradient, of a graph or of a body in it.
llvm::Expected<GradientResult> buildGradientWith(Context &context, const Graph &graph, const GradientRequest &request,
                                                 const GradientOptions &options, BodyGradients &bodies);

}  // namespace gradc
