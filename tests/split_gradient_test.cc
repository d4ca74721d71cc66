// The backward part of a gradient graph, run by itself on what it says must be kept, computes what the whole graph computes.
#include "passes/split_gradient.h"

#include "formats/json/reader.h"
#include "ir/verify.h"
#include "passes/gradient/gradient.h"
#include "runtime/session.h"
#include "tests/conformance_samples/samples.h"
#include "tests/support/conformance.h"
#include "tests/support/requests.h"
#include "tests/support/small_ops.h"
#include "tests/support/tensors.h"

#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc::testing {
namespace {

using Bytes = std::vector<char>;

Bytes bytesOf(const TensorRef &tensor) {
  Bytes bytes(tensor.bytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), tensor.data, bytes.size());
  return bytes;
}

/// A gradient graph and how much of it comes first.
struct Combined {
  Graph graph;
  uint32_t numForwardNodes;
  size_t numForwardHeads;
};

// Every head but those of lower orders is differentiated toward `names`, with head gradients that are variables.
Expected<Combined> differentiate(Context &context, const Graph &graph, ArrayRef<std::string> names, size_t firstHead) {
  GradientRequest request;
  for (const std::string &name : names) request.wrt.push_back({Value{nodeNamed(graph, name)}, Request::Write});
  for (Value head : graph.heads().drop_front(firstHead)) request.heads.push_back({head, std::nullopt, ""});
  GradientOptions options;
  options.headPolicy = HeadPolicy::Input;
  options.unused = UnusedPolicy::Zeros;
  Expected<GradientResult> result = buildGradient(context, graph, request, options);
  if (!result) return result.takeError();
  return Combined{result->graph, result->stats.numForwardNodes, graph.heads().size()};
}

/// All values of a run of the combined graph, as they are when it ends.
struct Record {
  const Graph &graph;
  std::vector<Bytes> values;  // by entry

  static void take(void *user, NodeId n, ArrayRef<TensorRef> outputs) {
    Record &record = *static_cast<Record *>(user);
    for (const auto &[o, output] : enumerate(outputs))
      if (output.data) record.values[record.graph.firstEntry(n).value + o] = bytesOf(output);
  }
};

struct RunSetup {
  std::vector<NamedArray> bindings;
  DType type = DType::Float64;
  bool isTraining = true;
};

struct Outcome {
  size_t numSaved = 0, numShapesOnly = 0, numHeads = 0;
};

// Runs the whole, then the backward part on copies of the saved values alone; everything else it is given is NaN bytes.
void checkSplit(Context &context, const Combined &combined, const RunSetup &setup, Outcome &outcome) {
  const Graph &graph = combined.graph;
  Record record{graph, std::vector<Bytes>(graph.numEntries())};
  SessionOptions options;
  options.initSeed = 3;
  options.infer.floatAs = setup.type;
  options.exec.backend = Backend::Reference;
  options.exec.isTraining = setup.isTraining;
  options.exec.seed = 11;
  options.exec.monitor = Record::take;
  options.exec.monitorUser = &record;
  Expected<Session> session = Session::create(context, graph, setup.bindings, options);
  ASSERT_TRUE(bool(session)) << describeError(session.takeError());
  ASSERT_EQ(describeError(session->run(0)), "success");
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (graph.isVariable(NodeId(n)))
      record.values[graph.firstEntry(NodeId(n)).value] = bytesOf(session->variable(NodeId(n)));

  SplitGradient split = cantFail(splitGradient(context, graph, combined.numForwardNodes, combined.numForwardHeads));
  const Graph &backward = split.backward;
  const Inference inference = backwardInference(split, graph, session->inference());
  EXPECT_EQ(inference.numUnknownShapes + inference.numUnknownDTypes, 0u);
  const RequestTable requests = countRequests(backward, {});
  const MemoryPlan plan = cantFail(planMemory(context, backward, inference, requests, {}));
  ExecOptions exec = options.exec;
  exec.monitor = nullptr;
  Expected<Executor> executor = Executor::create(backward, inference, requests, plan, exec);
  ASSERT_TRUE(bool(executor)) << describeError(executor.takeError());

  std::vector<Bytes> memory(backward.numNodes());
  auto bind = [&](NodeId variable, bool isKept) {
    const EntryId e = backward.firstEntry(variable);
    const Value from = split.source[variable.value];
    Bytes &bytes = memory[variable.value];
    if (isKept) bytes = record.values[graph.entry(from).value];
    else bytes.assign(static_cast<size_t>(inference.elements(e)) * dtypeBytes(inference.dtype[e]), '\xff');
    bytes.reserve(1);  // empty tensors have an address too
    const TensorRef tensor{bytes.data(), inference.dtype[e], inference.shapeOf(e).dims()};
    ASSERT_EQ(bytes.size(), tensor.bytes()) << backward.describe(variable);
    ASSERT_EQ(describeError(executor->bind(variable, tensor)), "success");
  };
  for (const CrossingValue &value : split.saved) bind(value.variable, true);
  for (const CrossingValue &value : split.shapesOnly) bind(value.variable, false);
  for (uint32_t n = 0; n < backward.numNodes(); ++n)
    if (backward.isVariable(NodeId(n)) && split.source[n].node.value >= combined.numForwardNodes) bind(NodeId(n), true);
  ASSERT_EQ(describeError(executor->run(0)), "success");

  ASSERT_EQ(backward.heads().size() + combined.numForwardHeads, graph.heads().size());
  for (size_t i = 0; i < backward.heads().size(); ++i)
    EXPECT_EQ(bytesOf(executor->head(i)), bytesOf(session->head(combined.numForwardHeads + i))) << "gradient " << i;
  outcome.numSaved += split.saved.size();
  outcome.numShapesOnly += split.shapesOnly.size();
  outcome.numHeads += backward.heads().size();
}

std::vector<NamedArray> arraysOf(const Bindings &bindings) {
  std::vector<NamedArray> arrays;
  for (const auto &[name, array] : bindings)
    arrays.push_back({name, doubles({array.shape.begin(), array.shape.end()}, array.values)});
  return arrays;
}

TEST(SplitGradient, RC_04_EverySampleComputesTheSameInTwoParts) {
  Outcome outcome;
  size_t numSplits[2] = {};
  for (const Sample &sample : allSamples()) {
    SCOPED_TRACE((Twine(sample.op) + " " + sample.attrs).str());
    TestContext context;
    const SampleGraph start(context, sample);
    if (start.variables.empty()) continue;
    Graph graph = start.graph;
    size_t firstHead = 0;
    for (uint32_t order = 1; order <= std::min(sample.orders, 2u); ++order) {
      SCOPED_TRACE("order " + std::to_string(order));
      Expected<Combined> combined = differentiate(context, graph, start.variables, firstHead);
      if (!combined) {
        consumeError(combined.takeError());  // what has no gradient: tests/conformance_test.cc knows which
        break;
      }
      checkSplit(context, *combined, {arraysOf(start.bindings), DType::Float64, sample.isTraining}, outcome);
      if (HasFatalFailure()) return;
      ++numSplits[order - 1];
      firstHead = combined->numForwardHeads;
      graph = combined->graph;
    }
  }
  outs() << numSplits[0] << " " << numSplits[1] << " " << outcome.numSaved << " " << outcome.numShapesOnly << "\n";
}

struct Network {
  const char *name;
  std::vector<int64_t> data;
};
constexpr const char *kFolder = "testdata/demo/";

TEST(SplitGradient, RC_04_NetworksComputeTheSameInTwoParts) {
  for (const Network &network :
       {Network{"digits", {2, 1, 8, 8}}, Network{"lenet", {2, 1, 28, 28}}, Network{"resnet18", {2, 3, 32, 32}}}) {
    SCOPED_TRACE(network.name);
    TestContext context;
    const std::string text = readTestFile(std::string(kFolder) + network.name + ".json");
    Graph graph = cantFail(readJson(context, text, {})).graph;
    std::vector<std::string> names;
    for (const GradientTarget &target : allTargets(graph, nullptr).targets)
      names.push_back(graph.name(target.x.node).str());
    int64_t elements = 1;
    for (int64_t size : network.data) elements *= size;
    std::vector<float> data;
    for (int64_t i = 0; i < elements; ++i) data.push_back(static_cast<float>(drawNumber(1, static_cast<uint64_t>(i))));
    RunSetup setup{{{"data", floats(network.data, data)}}, DType::Float32};
    Outcome outcome;
    size_t firstHead = 0;
    for (uint32_t order = 1; order <= 2; ++order) {
      Combined combined = cantFail(differentiate(context, graph, names, firstHead));
      checkSplit(context, combined, setup, outcome);
      firstHead = combined.numForwardHeads;
      graph = combined.graph;
    }
    EXPECT_EQ(outcome.numHeads, 2 * names.size());
    outs() << network.name << " " << outcome.numSaved << " " << outcome.numShapesOnly << "\n";
  }
}

}  // namespace
}  // namespace gradc::testing
