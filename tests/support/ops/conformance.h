// The contract of every operator, checked on one sample at a time by tests/ops/conformance_test.cc.
//
// Each check returns what is wrong, and how much it checked. If it checked nothing, the sample has nothing of the kind
// (no decomposition, no in-place pair, no element), and the check must not count as passed.
#pragma once

#include "tests/conformance_samples/samples.h"
#include "tests/support/ops/derivative.h"

#include <map>
#include <set>

namespace gradc {
struct Target;
}

namespace gradc::testing {

/// A sample as a graph of one node, with values for its inputs.
struct SampleGraph {
  SampleGraph(Context &context, const Sample &sample);

  Graph graph;
  NodeId node;
  Bindings bindings;
  std::vector<std::string> variables;  // inputs with a gradient request: no class numbers, stop inputs, aux states
  NaiveOptions options;
};

/// The sample and its gradient graphs, with values for every variable: head gradients are bound to fixed numbers.
struct Orders {
  /// `number` graphs, fewer when no variable is left. Gradients that cannot be built or run are a `failure`.
  Orders(Context &context, const SampleGraph &sample, uint32_t number);

  std::vector<Graph> graphs;
  std::vector<std::vector<std::string>> variables;  // of each graph but the last: what the next has the gradients of
  Bindings bindings;
  std::string failure;
};

/// Outputs are fully known from inputs; with any of the known shapes blurred, inference still infers nothing wrong.
Findings checkInference(const SampleGraph &sample);
/// Gradients of the sample, and of its gradient graphs, against central differences.
Findings checkGradients(Context &context, const SampleGraph &sample, uint32_t orders);
/// Every node of `graph` that has a decomposition computes what the decomposition computes.
Findings checkDecompositions(Context &context, const Graph &graph, const Bindings &bindings,
                             const NaiveOptions &options);
/// Kernels leave unrequested outputs alone, and the others do not depend on what is requested.
Findings checkRequests(const Graph &graph, const Bindings &bindings, const NaiveOptions &options);
/// Kernels compute the same when an output takes over the input of a declared in-place pair.
Findings checkInplace(const Graph &graph, const Bindings &bindings, const NaiveOptions &options);
/// At the base point a `piece` kernel computes what the kernel computes.
Findings checkPieces(const Graph &graph, const Bindings &bindings, const NaiveOptions &options);
/// Kernels compute other values in training than in inference only where their operator declares it; node `exact`, if
/// valid, then does. Of the operators that declare it, `readers` gets whether some node of the graph did.
Findings checkForms(const Graph &graph, const Bindings &bindings, const NaiveOptions &options, NodeId exact,
                    std::map<llvm::StringRef, bool> &readers);
/// Gradients are in proportion to the head gradients, and do not depend on them where the operator declares that.
Findings checkHeads(const SampleGraph &sample, const Orders &orders);
/// A graph with operators of our own computes the same when lowered to MXNet's, whose decompositions agree with them.
/// An operator that cannot be lowered goes to `refusal`, which is empty otherwise.
Findings checkLowering(Context &context, const Graph &graph, const Bindings &bindings, const NaiveOptions &options,
                       llvm::StringRef &refusal);
/// A graph computes the same when lowered to primitives only, given the shapes of the bindings, or these without the
/// first axis of every variable. Operators for which that cannot be done go to `missing`, each with the reason.
Findings checkPrimitives(Context &context, const Graph &graph, const Bindings &bindings, const NaiveOptions &options,
                         bool knowsFirstAxis, std::map<const OpDef *, std::string> &missing);
/// What the lowered forms of samples had instead of the samples' gradients, by operator.
struct LoweredGradients {
  std::set<std::string> refused;   // an error that names the operator
  std::set<std::string> singular;  // other derivatives at points where those of the operator are infinite
};
/// Lowering and differentiating commute: a graph and what it is lowered to have equal values, and equal gradients when
/// the lowered form is differentiated, a forward graph twice, at points where functions have kinks and ties and where
/// they overflow, in every floating type.
Findings checkLoweredGradients(Context &context, const SampleGraph &sample, const Orders &orders, uint32_t order,
                               const Target &target, LoweredGradients &seen);
/// Kernels in float32 agree with those in float64.
Findings checkPrecision(const Graph &graph, const Bindings &bindings, const NaiveOptions &options);

/// How far two computations of one tensor may be apart: in proportion to its largest element, and to the largest number
/// that may have cancelled in it. There is no absolute term, so that small tensors are compared as sharply as large
/// ones.
struct Tolerance {
  double ofLargest;  // of the tensor's largest element
  double ofTerms;    // of NaiveRun::magnitudeBehind

  double operator()(const NaiveRun &run, Value v) const;
};

/// Rounding alone, for two orders of the same terms: a few hundred units in the last place of the terms.
inline constexpr Tolerance kRounding{1e-12, 1e-14};

/// Equal, both NaN, or at most `allowed` apart, element by element.
bool agree(const Array &expected, const Array &found, double allowed);

/// The first elements, for messages.
std::string print(const Array &array);

}  // namespace gradc::testing
