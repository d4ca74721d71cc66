// The body of a gradient node: the gradient of a forward body, and what the node adds to it.
#pragma once

#include "ir/graph/body_flow.h"
#include "ir/graph/free_names.h"
#include "ir/graph/graph_builder.h"
#include "ir/rules/grad_rule.h"

#include <map>

namespace gradc {

/// Where an input of the new node comes from, in terms of the forward node.
struct AdjointInput {
  enum class From : uint8_t {
    Gradient,  // of output `index`
    Output,    // output `index` itself
    Operand,   // input `index`
    Sum,       // the gradient of input `index` so far
  };
  From from;
  uint32_t index;
  friend auto operator<=>(const AdjointInput &, const AdjointInput &) = default;
};

class AdjointBody {
 public:
  AdjointBody(Context &context, const BodyFlow::Body &ports, const BodyGradient &gradient);

  bool isEmpty() const { return gradient.gradientOf.empty(); }
  /// Whether the body yields a gradient of this input of the forward node.
  bool hasGradientOf(uint32_t operand) const;
  /// The gradient of an input of the forward node, summed over the inputs of the body that read it. Requires
  /// `hasGradientOf`.
  Value gradientOf(uint32_t operand);
  /// The variable of the body for an input of the new node; made on first use.
  Value variable(AdjointInput input);
  Value emit(const OpDef &op, llvm::ArrayRef<Value> operands);

  struct Finished {
    Graph graph;
    std::vector<AdjointInput> inputs;  // of the graph, in id order
  };
  Finished finish(llvm::ArrayRef<Value> heads) &&;

 private:
  AdjointInput sourceOf(BodyGradient::Input input) const;
  void setFreeName(NodeId n, const std::string &base);

  const BodyFlow::Body &ports;
  const BodyGradient &gradient;
  GraphBuilder builder;
  std::multimap<uint32_t, uint32_t> headsOf;  // by input of the forward node: heads of the backward body, in order
  FreeNames names;
  std::vector<std::pair<AdjointInput, NodeId>> given;  // every variable
  std::map<AdjointInput, NodeId> variables;            // the first one of each input
};

}  // namespace gradc
