// The backward part of a gradient graph, run alone on the values that it requires to be kept, computes what the whole
// graph computes.
#include "passes/order/split_gradient.h"

#include "formats/json/reader.h"
#include "ir/graph/graph_builder.h"
#include "passes/gradient/gradient.h"
#include "runtime/session/session.h"
#include "tests/conformance_samples/samples.h"
#include "tests/support/ops/conformance.h"
#include "tests/support/runs/requests.h"
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
        consumeError(combined.takeError());  // what has no gradient: tests/ops/conformance_test.cc knows which
        break;
      }
      checkSplit(context, *combined, {arraysOf(start.bindings), DType::Float64, sample.isTraining}, outcome);
      if (HasFatalFailure()) return;
      ++numSplits[order - 1];
      firstHead = combined->numForwardHeads;
      graph = combined->graph;
    }
  }
  EXPECT_GE(numSplits[0], 1500u);
  EXPECT_GE(numSplits[1], 1450u);
  EXPECT_GE(outcome.numSaved, 2700u);
  EXPECT_GE(outcome.numShapesOnly, 3600u);
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
    EXPECT_GE(outcome.numSaved, names.size());
  }
}

// ---- what is kept

std::string listed(const Graph &graph, ArrayRef<CrossingValue> values) {
  std::string text;
  for (const CrossingValue &value : values) {
    if (!text.empty()) text += " ";
    text += graph.listedName(value.entry);
    if (value.entry.version) text += "@" + utostr(value.entry.version);
  }
  return text;
}

struct Kept {
  const char *text, *wrt, *saved, *shapesOnly;
};

// Head gradients are variables that take the shape of y.
constexpr Kept kKept[] = {
    {"y = elemwise_mul(x, w)", "w", "x", "y_output"},
    {"y = elemwise_mul(x, w)", "x", "w", "y_output"},
    {"y = elemwise_mul(x, w)", "x w", "x w", "y_output"},
    {"y = elemwise_div(x, w)", "x", "w", "y_output"},
    {"y = elemwise_div(x, w)", "w", "x w", "y_output"},
    {"y = elemwise_add(x, w)", "x w", "", "y_output"},
    {"y = exp(x)", "x", "y_output", ""},
    {"y = log(x)", "x", "x", "y_output"},
    {"y = FullyConnected(x, w, b) {num_hidden=2}", "x w b", "x w", "y_output"},
    {"y = BatchNorm(x, g, b, m, v)", "x g b", "y_mean y_var x", "y_output g b m v"},
    {"y = BatchNorm(x, g, b, m, v) {fix_gamma=False}", "x g b", "y_mean y_var x g", "y_output b m v"},
    {"y = Dropout(x)", "x", "y_mask", "y_output"},
    {"a = exp(x); b = elemwise_mul(a, w); y = elemwise_mul(b, u)", "x w u", "b_output u a_output w", "y_output"},
};

TEST(SplitGradient, RC_04_SavedIsWhatAGeneratedNodeReads) {
  for (const Kept &row : kKept) {
    SCOPED_TRACE(row.text);
    TestGraph g(row.text);
    SmallVector<StringRef, 4> names;
    StringRef(row.wrt).split(names, ' ');
    GradientOptions options;
    options.headPolicy = HeadPolicy::Input;
    const GradientResult result = built(g, wrt(g, names), options);
    const SplitGradient split = cantFail(splitGradient(g.context, result.graph, result.stats.numForwardNodes, 1));
    EXPECT_EQ(listed(result.graph, split.saved), row.saved);
    EXPECT_EQ(listed(result.graph, split.shapesOnly), row.shapesOnly);
  }
}

TEST(SplitGradient, TheBackwardGraphKeepsNamesOrderAndItsWayBack) {
  TestGraph g("x = var {__lr_mult__=2}; s = test_split3(x); a = exp(s:1); y = elemwise_mul(a, x)");
  GradientOptions options;
  options.headPolicy = HeadPolicy::Input;
  const GradientResult result = built(g, wrt(g, {"x"}), options);
  const SplitGradient split = cantFail(splitGradient(g.context, result.graph, result.stats.numForwardNodes, 1));
  const Graph &backward = split.backward;
  EXPECT_EQ(backward.attrs(nodeNamed(backward, "x")), result.graph.attrs(nodeNamed(result.graph, "x")));
  uint32_t last = 0;
  for (uint32_t n = 0; n < result.graph.numNodes(); ++n) {
    const NodeId to = split.newId[n];
    ASSERT_EQ(to.isValid(), n >= result.stats.numForwardNodes) << n;
    if (!to.isValid()) continue;
    EXPECT_EQ(backward.name(to), result.graph.name(NodeId(n)));
    EXPECT_EQ(split.source[to.value], Value{NodeId(n)});
    EXPECT_FALSE(backward.origin(to).isValid());
    EXPECT_GE(to.value, last) << "generated nodes keep their order";
    last = to.value;
  }
  for (const CrossingValue &value : split.saved) {
    EXPECT_TRUE(backward.isVariable(value.variable));
    EXPECT_EQ(split.source[value.variable.value], value.entry);
    EXPECT_EQ(backward.name(value.variable), result.graph.listedName(value.entry));
  }
  EXPECT_EQ(backward.heads().size(), 1u);
  EXPECT_FALSE(backward.table().gradient);
}

// Node 3 and what follows is the backward part.
TEST(SplitGradient, AHeadOfTheForwardPartIsSaved) {
  TestGraph g("y = elemwise_mul(x, w); z = exp(x); heads y, w, z");
  const SplitGradient split = cantFail(splitGradient(g.context, g, 3, 1));
  EXPECT_EQ(listed(g, split.saved), "x w");
  EXPECT_EQ(split.backward.heads()[0], Value{split.saved[1].variable});
}

TEST(SplitGradient, MUT_03_ReadsOfAnOverwrittenVersionAreRefused) {
  // Ids: x 0, s 1, a 2.
  TestGraph latest("x = var; s = var; a = test_accumulate(x, s@1); b = elemwise_mul(a, s@1); heads a, b");
  SplitGradient split = cantFail(splitGradient(latest.context, latest, 3, 1));
  EXPECT_EQ(listed(latest, split.saved), "a_output s@1");

  TestGraph stale("x = var; s = var; a = test_accumulate(x, s@1); b = elemwise_mul(a, s); heads a, b");
  EXPECT_EQ(
      describeError(splitGradient(stale.context, stale, 3, 1)),
      "[stale_version] node 'b' (elemwise_mul) reads version 0 of 's', but the forward part already makes version 1");
  TestGraph staleHead("x = var; s = var; a = test_accumulate(x, s@1); heads a, s");
  EXPECT_EQ(describeError(splitGradient(staleHead.context, staleHead, 3, 1)),
            "[stale_version] head 's' reads version 0 of 's', but the forward part already makes version 1");
  // Its shape is what it was.
  TestGraph shape("x = var; s = var; a = test_accumulate(x, s@1); b = zeros_like(s); heads a, b");
  split = cantFail(splitGradient(shape.context, shape, 3, 1));
  EXPECT_EQ(listed(shape, split.shapesOnly), "s");
}

TEST(SplitGradient, MUT_03_TheBackwardPartOverwritesNothingOfTheForwardPart) {
  TestGraph g("a = elemwise_add(x, s); b = test_accumulate(a, s@1); heads a, b");
  EXPECT_EQ(describeError(splitGradient(g.context, g, 3, 1)),
            "[bad_mutation] node 'b' (test_accumulate) overwrites input 1, 's', which belongs to the forward part");
}

// A fused backward operator's first dependency is taken for its forward node.
TEST(SplitGradient, IR_19_NoOtherNodeTakesThePlaceOfTheForwardNode) {
  TestGraph g("y = relu(x); z = exp(x); d = elemwise_mul(z, x); b = _backward_relu(d, z) ^y ^d; heads y, z, b");
  const uint32_t numForward = 3;
  const SplitGradient split = cantFail(splitGradient(g.context, g, numForward, 2));
  const Graph &backward = split.backward;
  ArrayRef<NodeId> deps = backward.controlDeps(nodeNamed(backward, "b"));
  ASSERT_EQ(deps.size(), 2u);
  EXPECT_EQ(split.source[deps[0].value], g.at("y"));
  EXPECT_TRUE(backward.isVariable(deps[0]));
  EXPECT_EQ(backward.name(deps[1]), "d");
  EXPECT_EQ(listed(g, split.shapesOnly), "y_output");
}

// Nor where a forward node comes last.
TEST(SplitGradient, IR_19_NoOtherNodeBetweenForwardOnesDoes) {
  TestGraph g("y = relu(x); z = exp(x); d = elemwise_mul(z, x); b = _backward_relu(d, z) ^y ^d ^z; heads y, z, b");
  const SplitGradient split = cantFail(splitGradient(g.context, g, 3, 2));
  ArrayRef<NodeId> deps = split.backward.controlDeps(nodeNamed(split.backward, "b"));
  ASSERT_GE(deps.size(), 2u);
  EXPECT_EQ(split.source[deps[0].value], g.at("y"));
  EXPECT_EQ(split.backward.name(deps[1]), "d");
}

TEST(SplitGradient, A_10_LinearInNodes) {
  // A chain of 100,000 nodes takes no stack.
  Context &context = testContext();
  GraphBuilder builder(context);
  Value x = builder.addVariable("x", Attrs());
  const OpDef &tanh = *context.ops.find("tanh");
  for (int i = 0; i < 100'000; ++i) x = Value{builder.addKind(tanh, {x}, NodeId())};
  const Graph graph = cantFail(std::move(builder).freeze({x}, {})).graph;
  GradientRequest request;
  request.wrt = {{Value{NodeId(0)}, Request::Write}};
  const GradientResult result = cantFail(buildGradient(context, graph, request, {}));
  const SplitGradient split = cantFail(splitGradient(context, result.graph, result.stats.numForwardNodes, 1));
  EXPECT_EQ(split.saved.size(), 100'000u);
}

}  // namespace
}  // namespace gradc::testing
