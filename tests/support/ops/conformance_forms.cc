// What operators declare of the form they run in, and of the head gradient. Tested by tests/ops/conformance_test.cc
#include "tests/support/ops/conformance.h"

#include "tests/support/test_graph.h"

#include "ir/base/error.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>

using namespace llvm;

namespace gradc::testing {
namespace {

/// All that a call computes in one form, given these contents of its inputs: the outputs, and what it leaves in the
/// inputs.
std::vector<Array> valuesIn(bool isTraining, NaiveRun &run, NodeId n, const OpDef &op,
                            ArrayRef<std::vector<char>> inputs) {
  NaiveRun::Call call;
  run.prepare(n, call);
  call.call.isTraining = isTraining;
  for (auto [to, from] : zip_equal(call.in, inputs)) std::memcpy(to.data, from.data(), from.size());
  op.kernel(call.call);
  std::vector<Array> values;
  for (const TensorRef &output : call.out) values.push_back(loadArray(output));
  for (const TensorRef &input : call.in) values.push_back(loadArray(input));
  return values;
}

}  // namespace

Findings checkForms(const Graph &graph, const Bindings &bindings, const NaiveOptions &options, NodeId exact,
                    std::map<StringRef, bool> &readers) {
  Findings found;
  Expected<NaiveRun> run = NaiveRun::run(graph, bindings, options);
  if (!run) return {{describeError(run.takeError())}};
  for (uint32_t id = 0; id < graph.numNodes(); ++id) {
    const NodeId n(id);
    const OpDef *op = graph.op(n);
    if (!op || graph.kind(n).flow) continue;
    NaiveRun::Call call;
    run->prepare(n, call);
    std::vector<std::vector<char>> inputs;
    for (const TensorRef &input : call.in) inputs.emplace_back(input.as<char>(), input.as<char>() + input.bytes());
    const std::vector<Array> training = valuesIn(true, *run, n, *op, inputs);
    const std::vector<Array> inference = valuesIn(false, *run, n, *op, inputs);
    bool differs = false;
    size_t count = 0;
    for (auto [a, b] : zip_equal(training, inference)) {
      count += a.values.size();
      differs |= !agree(a, b, 0);
    }
    found.numChecked += count;
    if (differs && !graph.kind(n).readsForm)
      found.problems.push_back(graph.describe(n) + " depends on the form and does not declare it");
    constexpr size_t kFew = 2;  // of which each may be on a piece without a drawn slope
    if (!differs && count > kFew && graph.kind(n).readsForm && n == exact)
      found.problems.push_back(graph.describe(n) + " declares that it depends on the form and does not");
    if (graph.kind(n).readsForm) readers[op->name] |= differs;
  }
  return found;
}

Findings checkHeads(const SampleGraph &sample, const Orders &orders) {
  Findings found;
  if (orders.graphs.size() < 2) return found;
  const Graph &gradients = orders.graphs[1];
  Bindings doubled = orders.bindings;
  for (auto &[name, array] : doubled)
    if (StringRef(name).starts_with("p1_"))
      for (double &value : array.values) value *= 2;
  Expected<NaiveRun> once = NaiveRun::run(gradients, orders.bindings, sample.options);
  Expected<NaiveRun> twice = NaiveRun::run(gradients, doubled, sample.options);
  if (!once || !twice) return {{describeError(joinErrors(once.takeError(), twice.takeError()))}};
  const NodeKind &kind = sample.graph.kind(sample.node);
  const double factor = kind.op->ignoresHead(kind) ? 1 : 2;
  for (Value head : gradients.heads()) {
    Array expected = once->value(head);
    for (double &value : expected.values) {
      found.numChecked += value != 0;
      value *= factor;
    }
    const Array values = twice->value(head);
    if (!agree(expected, values, kRounding(*twice, head)))
      found.problems.push_back(gradients.describe(head.node) + ": " + std::to_string(factor) +
                               " times the gradient is " + print(expected) + ", twice the head gradient makes " +
                               print(values));
  }
  return found;
}

}  // namespace gradc::testing
