// The subject of a gradient check: a function graph with its outputs y, and a graph with the claimed gradients.
#pragma once

#include "runtime/gradcheck/gradcheck.h"

namespace gradc {

struct CheckProblem {
  struct Output {
    size_t head;     // in `function`
    NodeId seed;     // variable of `gradients` with the head gradient; invalid: ones
    bool isOwnSeed;  // made for this check, so its values are drawn
  };
  struct Target {
    Value x;  // the same id in both graphs
    std::string name;
    int64_t head = -1;  // in `gradients`; -1: no gradient, which is a claim that it is zero
    bool isStructuralZero = false;
  };
  Graph function;  // a prefix of `gradients`, ids included
  Graph gradients;
  std::vector<Output> outputs;
  std::vector<NodeId> lowerSeeds;  // head gradients of lower orders, variables of `function` made for this check
  std::vector<Target> targets;
  InferRequest hints;       // the session's, in ids of these graphs
  std::vector<Value> held;  // entries that are constants by request (no_grad, stop)
};

/// For a forward model: the order K-1 graph and its gradient, with a variable as head gradient of every y. For an
/// emitted graph: its heads of the highest order and the graph of the others; `options.gradient.heads` lists the y that
/// were differentiated if those were not all.
llvm::Expected<CheckProblem> makeCheckProblem(Context &context, const Graph &graph, const GradcheckOptions &options);

}  // namespace gradc
