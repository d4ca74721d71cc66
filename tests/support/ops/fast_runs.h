// Runs on fast kernels, compared with runs on the reference kernels. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "passes/order/requests.h"
#include "runtime/executor/executor.h"
#include "tests/support/ops/conformance.h"
#include "tests/support/ops/naive.h"

#include <set>
#include <string>
#include <vector>

namespace gradc::testing {

/// Nodes of operators in the table that nevertheless run on the reference kernel: those whose line matches, such as
/// "Pooling {kernel=(2,2) pool_type=max } float32(1,2,5,5) -> float32(1,2,4,4) int32(1,2,4,4)". All others must have a
/// fast kernel.
struct OnReference {
  const char *pattern, *reason;
};
llvm::ArrayRef<OnReference> listOnReference();

/// Heads of a run on fast kernels, and what ran.
struct FastResult {
  std::vector<Array> heads;
  std::set<std::string> operators;  // that had a fast kernel
  std::set<size_t> onReference;     // rows of listOnReference
  std::string surprises;            // nodes that ran on the other kernel than expected
  uint32_t numChannelsLast = 0;
  size_t numTapes = 0;
};

struct FastOptions {
  NaiveOptions run;
  unsigned threads = 2;
  std::vector<Request> requests = {};
  bool allowInplace = true;
  bool keepsTapes = true;
  FusionOptions fusion = FusionOptions::none();
};

FastResult runFast(const Graph &graph, const Bindings &bindings, const FastOptions &options);

/// How far fast and reference kernels may be apart. Both round sums of the same terms in some order.
Tolerance fastTolerance(DType type);
/// The first element of a head that differs by more than the tolerance.
std::string difference(const std::vector<Array> &found, const NaiveRun &expected, const Graph &graph,
                       Tolerance tolerance);

/// What ran, over several graphs and types.
struct Ran {
  std::set<std::string> operators;  // that had a fast kernel
  std::set<size_t> onReference;     // rows of listOnReference

  void add(const Ran &more) {
    operators.insert(more.operators.begin(), more.operators.end());
    onReference.insert(more.onReference.begin(), more.onReference.end());
  }
};

/// Runs the graph both ways in both precisions; reports differences and surprises.
Ran compareFast(const Graph &graph, const Bindings &bindings, NaiveOptions naive, unsigned threads = 2);
/// The sample and its gradient graphs up to order two, compared one after the other.
Ran compareOrders(Context &context, const SampleGraph &sample, uint32_t number);

/// Samples of the operators that have a fast kernel.
std::vector<Sample> tableSamples();
/// Random values for every variable of known shape; divisors of batch normalisation are positive.
Bindings drawBindings(const Graph &graph, llvm::ArrayRef<std::pair<llvm::StringRef, DimsBuffer>> shapes);

}  // namespace gradc::testing
