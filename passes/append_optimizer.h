// From a gradient graph to a training graph: the forward graph, the gradients, and one optimizer step per parameter.
//
// The input is a graph of buildGradient with its side table. The heads of the result are the forward heads, then the new
// value of each parameter, those of the last layers first: a gradient is read right after it is made, and its memory is
// free again. States of the optimizer (momentum, Adam's moments) are variables that the step overwrites; they start
// from zero. A step waits by control dependencies for everything else that reads its parameter, so the new value may
// be written over the old one.
//
// A graph is static, so what changes from step to step is an input: the learning rate is a variable of shape (1,). With
// `fixedRate` it is an attribute instead, and the steps are MXNet's own operators.
// Tested by tests/append_optimizer_test.cc
#pragma once

#include "passes/gradient/gradient.h"

namespace gradc {

enum class OptimizerKind : uint8_t { Sgd, Adam };

/// Which parameters decay. Weights: those whose name ends in `_weight` or `_gamma`, MXNet's rule; All: every one. The
/// attribute `__wd_mult__` of a variable goes before either.
enum class DecayRule : uint8_t { Weights, All };

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::Sgd;
  double momentum = 0;       // Sgd; 0: the step without state
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // Adam
  double weightDecay = 0;    // times `__wd_mult__` of the variable
  double rescale = 1;        // factor of every gradient
  double clip = -1;          // gradients are cut to ± this, element by element; below 0: not at all
  DecayRule decayRule = DecayRule::Weights;
  std::optional<double> fixedRate;  // times `__lr_mult__` of the variable, as the rate always is
};

struct TrainingGraph {
  struct Parameter {
    NodeId variable;
    size_t head;                 // its new value
    std::vector<NodeId> states;  // variables the step overwrites
  };
  Graph graph;
  std::vector<Parameter> parameters;  // in the order of the gradients
  NodeId rate;                        // invalid with fixedRate
  uint32_t numForwardHeads = 0;
};

/// The table of the result names the parameter that each head updates, and the states. UnsupportedOption for a graph that
/// is not a gradient graph of first order, for a gradient that is not of a variable, and for a parameter that is a head
/// itself; BadAttribute for a multiplier that is not a number. Linear.
llvm::Expected<TrainingGraph> appendOptimizer(Context &context, const Graph &gradients,
                                              const OptimizerOptions &options);

/// Adam's bias correction, part of the learning rate of step `t`, which counts from 1; 1 for other optimizers.
double rateCorrection(const OptimizerOptions &options, uint64_t t);

}  // namespace gradc
