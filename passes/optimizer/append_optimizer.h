// From a gradient graph to a training graph: the forward graph, the gradients, and one optimizer step per parameter.
//
// The input is a graph of buildGradient with its side table. The heads of the result are the forward heads, then the
// new value of each parameter, those of the last layers first: a gradient is read right after it is made, which frees
// its memory. States of the optimizer (momentum, Adam's moments) are variables that the step overwrites; they start
// from zero. A step waits by control dependencies for everything else that reads its parameter, so the new value may be
// written over the old one.
//
// The operators determine what a step needs: inputs that they overwrite are states, and each gets the attributes it
// declares. A graph is static, so what changes from step to step is an input: the learning rate is a variable of shape
// (1,), and so is the number of the step if an operator reads it. With `fixedRate` the rate is an attribute instead,
// and the steps are MXNet's own operators.
//
// A 16-bit parameter also has a float32 copy, a variable that the step reads and updates; the gradient is converted,
// and the new value is the rounded copy. So steps smaller than half a unit in the last place are not lost.
//
// Tested by tests/passes/append_optimizer_test.cc
#pragma once

#include "ir/op/optimizer_ops.h"
#include "passes/gradient/gradient.h"

namespace gradc {

enum class OptimizerKind : uint8_t {
  Sgd,
  Adam,
  Nag,
  SignSgd,
  Signum,
  RmsProp,
  RmsPropAlex,
  AdaGrad,
  Ftrl,
  Ftml,
  AdamW,
  Lamb
};
inline constexpr size_t kNumOptimizers = 12;

struct OptimizerInfo {
  llvm::StringRef name;                   // of --optimizer
  double rate;                            // by default
  OptimizerRecipe OptimizerOps::*recipe;  // of Sgd the one without momentum
  bool hasBiasCorrection = false;         // a step depends on how many were taken before
};
const OptimizerInfo &optimizerInfo(OptimizerKind kind);

/// Which parameters decay. Weights: those whose name ends in `_weight` or `_gamma`, MXNet's rule; All: every one. The
/// attribute `__wd_mult__` of a variable takes precedence over both.
enum class DecayRule : uint8_t { Weights, All };

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::Sgd;
  double momentum = 0;                                     // of Sgd (0: the step without state), Nag, Signum
  std::optional<double> beta1, beta2, epsilon;             // if the operator has them; nullopt: its defaults
  std::vector<std::pair<std::string, std::string>> attrs;  // any other attribute of the operator
  double weightDecay = 0;                                  // times `__wd_mult__` of the variable
  double rescale = 1;                                      // factor of every gradient
  double clip = -1;  // gradients are clipped to ± this, element by element; below 0: no clipping
  DecayRule decayRule = DecayRule::Weights;
  std::optional<double> fixedRate;  // times `__lr_mult__` of the variable, as the rate always is
  /// Types of parameters, by node; may be shorter. 16-bit ones get a float32 copy.
  std::vector<DType> types;
};

struct TrainingGraph {
  struct Parameter {
    NodeId variable;
    size_t head;                 // its new value
    std::vector<NodeId> states;  // variables the step overwrites
    NodeId master;               // the state that is the float32 copy, which starts as the parameter; invalid: none
  };
  Graph graph;
  std::vector<Parameter> parameters;  // in the order of the gradients
  NodeId rate;                        // invalid with fixedRate
  NodeId step;                        // the number of the step, from 1; invalid if no operator reads it
  uint32_t numForwardHeads = 0;
};

/// The table of the result names the states, and the parameter that each head updates. UnsupportedOption for a graph
/// that is not a first-order gradient graph, an x that is not a variable, a parameter that is a head, an attribute that
/// the optimizer lacks, and a fixed rate if the step depends on its number or MXNet has no operator for a 16-bit
/// parameter; BadAttribute for a multiplier that is not a number. Linear.
llvm::Expected<TrainingGraph> appendOptimizer(Context &context, const Graph &gradients,
                                              const OptimizerOptions &options);

/// Adam's bias correction, part of the learning rate of step `t`, which counts from 1; 1 for other optimizers.
double rateCorrection(const OptimizerOptions &options, uint64_t t);

}  // namespace gradc
