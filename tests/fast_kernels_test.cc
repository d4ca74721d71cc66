// Fast kernels against the reference kernels: every operator of the table over its conformance samples and their
// gradients, whole stretches of channels-last layers, requests, in-place pairs, threads.
#include "runtime/kernels/table.h"

#include "runtime/executor.h"
#include "runtime/kernels/gemm.h"
#include "runtime/kernels/gemm_convolution.h"
#include "runtime/kernels/kernel_set.h"
#include "runtime/kernels/threads.h"
#include "tests/support/cells.h"
#include "tests/support/conformance.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/GlobPattern.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;
using Values = gradc::testing::Array;

/// Nodes of operators of the table that run on the reference kernel all the same: those whose line (`describe`) matches.
/// Every other one has to have a fast kernel.
struct OnReference {
  const char *pattern, *reason;
};
constexpr OnReference kOnReference[] = {
    {"*Deconvolution {*layout=NHWC*", "channels last by attribute"},
    {"_deconvolution_*_grad {*layout=NHWC*", "channels last by attribute"},
    {"*Dropout {axes=*", "a mask of another shape"},
    {"*LayerNorm {*axis=[01] *", "rows that are not contiguous"},
    {"LeakyReLU {*act_type=rrelu*", "drawn slopes"},
    {"*Pooling {kernel=(2,2,1)*", "three dimensions"},
    {"*Pooling {kernel=(3,)*", "one dimension"},
    {"*Pooling {*layout=NHWC*", "channels last by attribute"},
    {"*Pooling {*pool_type=lp*", "a norm, not an extremum or a mean"},
    {"*Pooling {*pool_type=sum*", "a sum, not a mean"},
    {"*Pooling {*pool_type=avg *pooling_convention=full*", "windows that leave the image"},
    {"*Pooling {kernel=(2147483647*", "windows mostly of padding"},
    {"*LRN {*nsize=71 *", "a window wider than is worth adding up"},
    {"_channel_window_sum {nsize=71 *", "a window wider than is worth adding up"},
    {"broadcast_* *(3,1) *(1,4) -> *", "both operands are repeated"},
    {"broadcast_* *(2,1,3) *(*4,1) -> *", "both operands are repeated"},
    {"_backward_broadcast_* -> *(3,1) *(1,4)", "both operands are repeated"},
    {"_backward_broadcast_* -> *(2,1,3) *(*4,1)", "both operands are repeated"},
    {"*softmax {*use_length=True*", "rows of different lengths"},
    {"*where {*(3,)*", "a condition per row"},
};

/// Heads of a run on fast kernels, and what ran.
struct FastResult {
  std::vector<Values> heads;
  std::set<std::string> operators;  // that had a fast kernel
  std::set<size_t> onReference;     // rows of kOnReference
  std::string surprises;            // nodes that ran on the other kernel than expected
  uint32_t numChannelsLast = 0;
};

struct FastOptions {
  NaiveOptions run;
  unsigned threads = 2;
  std::vector<Request> requests = {};
  bool allowInplace = true;
};

/// "Pooling {kernel=(2,2) pool_type=max } float32(1,2,5,5) -> float32(1,2,4,4) int32(1,2,4,4)"
std::string describe(const Graph &graph, const Inference &inference, NodeId n) {
  Context &ctx = testContext();
  std::string text = graph.opName(n).str() + " {";
  for (AttrPair pair : ctx.attrs(graph.attrs(n))) text += (ctx.text(pair.key) + "=" + ctx.text(pair.value) + " ").str();
  text += "}";
  auto add = [&](EntryId e) { text += " " + dtypeName(inference.dtype[e]).str() + toString(inference.shapeOf(e)); };
  for (Value v : graph.inputs(n)) add(graph.entry(v));
  text += " ->";
  for (uint32_t o = 0; o < graph.numOutputs(n); ++o) add(EntryId(graph.firstEntry(n).value + o));
  return text;
}

/// Whether the table has a kernel for the operator, somebody wants a result, and there is an element to compute.
bool mayBeFast(const Graph &graph, const Inference &inference, const RequestTable &requests, NodeId n) {
  if (graph.isVariable(n) || !findFastKernel(*graph.op(n))) return false;
  auto isEmpty = [&](EntryId e) { return numElements(inference.shapeOf(e).dims()) == 0; };
  bool isWanted = false;
  for (uint32_t o = 0; o < graph.numOutputs(n); ++o) {
    const EntryId e(graph.firstEntry(n).value + o);
    if (isEmpty(e)) return false;
    isWanted |= requests.request[e] != Request::Null;
  }
  return isWanted && llvm::none_of(graph.inputs(n), [&](Value v) { return isEmpty(graph.entry(v)); });
}

void notePath(const Graph &graph, const Inference &inference, NodeId n, bool isFast, FastResult &result) {
  const std::string line = describe(graph, inference, n);
  const OnReference *row = llvm::find_if(kOnReference, [&](const OnReference &r) {
    return cantFail(GlobPattern::create(r.pattern)).match(line);
  });
  const bool isListed = row != std::end(kOnReference);
  if (isListed == isFast) result.surprises += line + (isFast ? ": has a fast kernel\n" : ": has no fast kernel\n");
  if (isListed) result.onReference.insert(static_cast<size_t>(row - kOnReference));
}

FastResult runFast(const Graph &graph, const Bindings &bindings, const FastOptions &options) {
  InferOptions inferOptions;
  inferOptions.floatAs = options.run.floatAs;
  const Inference inference = cantFail(infer(testContext(), graph, hintsOf(graph, bindings), inferOptions));
  const RequestTable requests = countRequests(graph, options.requests);
  KernelSetOptions wishes;
  wishes.isTraining = options.run.isTraining;
  wishes.threads = options.threads;
  KernelSet kernels = KernelSet::create(graph, inference, requests, wishes);
  FastResult result;
  result.numChannelsLast = kernels.numEntries(Layout::ChannelsLast);
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    const bool isFast = kernels.kernel(NodeId(n)) != nullptr;
    if (isFast) result.operators.insert(graph.opName(NodeId(n)).str());
    if (mayBeFast(graph, inference, requests, NodeId(n))) notePath(graph, inference, NodeId(n), isFast, result);
  }
  PlanOptions planOptions;
  planOptions.allowInplace = options.allowInplace;
  planOptions.workspaceOf = KernelSet::planWorkspace;
  planOptions.user = &kernels;
  const MemoryPlan plan = cantFail(planMemory(testContext(), graph, inference, requests, planOptions));
  ExecOptions exec;
  exec.threads = options.threads;
  exec.isTraining = options.run.isTraining;
  exec.seed = options.run.seed;
  exec.headRequests = options.requests;
  exec.kernels = &kernels;
  Executor executor = cantFail(Executor::create(graph, inference, requests, plan, exec));
  std::vector<std::vector<uint64_t>> memory(graph.numNodes());
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    if (!graph.isVariable(NodeId(n))) continue;
    const EntryId e = graph.firstEntry(NodeId(n));
    TensorRef tensor{nullptr, inference.dtype[e], inference.shapeOf(e).dims()};
    memory[n].assign(tensor.bytes() / 8 + 1, 0);
    tensor.data = memory[n].data();
    storeArray(tensor, bindings.at(graph.name(NodeId(n)).str()).values);
    cantFail(executor.bind(NodeId(n), tensor));
  }
  cantFail(executor.run(0));
  for (size_t i = 0; i < graph.heads().size(); ++i) {
    const bool isWanted = options.requests.empty() || options.requests[i] != Request::Null;
    result.heads.push_back(isWanted ? loadArray(executor.head(i)) : Values());
  }
  return result;
}

/// How far fast and reference kernels may be apart. Both round sums of the same terms in some order.
Tolerance toleranceOf(DType type) { return type == DType::Float64 ? Tolerance{1e-12, 1e-14} : Tolerance{1e-5, 1e-6}; }

/// The first element of a head that differs by more than that.
std::string difference(const std::vector<Values> &found, const NaiveRun &expected, const Graph &graph, Tolerance tolerance) {
  for (size_t h = 0; h < found.size(); ++h) {
    const Value head = graph.heads()[h];
    const Values values = expected.value(head);
    if (found[h].shape != values.shape) return "head " + std::to_string(h) + " has another shape";
    const double allowed = tolerance(expected, head);
    for (size_t i = 0; i < values.values.size(); ++i)
      if (!(std::abs(found[h].values[i] - values.values[i]) <= allowed))
        return formatv("head {0} element {1}: {2}, expected {3} up to {4}", h, i, found[h].values[i], values.values[i], allowed);
  }
  return "";
}

/// What ran, over several graphs and types.
struct Ran {
  std::set<std::string> operators;  // that had a fast kernel
  std::set<size_t> onReference;     // rows of kOnReference

  void add(const Ran &more) {
    operators.insert(more.operators.begin(), more.operators.end());
    onReference.insert(more.onReference.begin(), more.onReference.end());
  }
};

/// Runs the graph both ways in both precisions.
Ran compare(const Graph &graph, const Bindings &bindings, NaiveOptions naive, unsigned threads = 2) {
  Ran ran;
  for (DType type : {DType::Float64, DType::Float32}) {
    naive.floatAs = type;
    Expected<NaiveRun> expected = NaiveRun::run(graph, bindings, naive);
    if (!expected) {
      ADD_FAILURE() << describeError(expected.takeError()) << "\n" << dump(graph);
      return ran;
    }
    FastOptions options;
    options.run = naive;
    options.threads = threads;
    for (bool allowInplace : {true, false}) {
      options.allowInplace = allowInplace;
      const FastResult found = runFast(graph, bindings, options);
      EXPECT_EQ(difference(found.heads, *expected, graph, toleranceOf(type)), "") << dump(graph);
      EXPECT_EQ(found.surprises, "");
      ran.add({found.operators, found.onReference});
    }
  }
  return ran;
}

/// The sample and its gradient graphs up to order two, compared one after the other.
Ran compareOrders(Context &context, const SampleGraph &sample, uint32_t number) {
  const Orders orders(context, sample, std::min(3u, number + 1));
  EXPECT_EQ(orders.failure, "");
  Ran ran;
  for (const Graph &graph : orders.graphs) ran.add(compare(graph, orders.bindings, sample.options));
  return ran;
}

Cells cells;
constexpr Cells::Floor kFloors[] = {{"RUN_02_AgreeWithReference", 400}};

bool isInTable(const Sample &sample) {
  return llvm::any_of(fastKernelTable(), [&](const FastKernelRow &row) { return row.name == sample.op; });
}

std::vector<Sample> tableSamples() {
  std::vector<Sample> samples = allSamples();
  llvm::erase_if(samples, [](const Sample &sample) { return !isInTable(sample); });
  return samples;
}

class FastKernels : public ::testing::TestWithParam<Sample> {
 protected:
  static void TearDownTestSuite() { cells.print(tableSamples().size(), kFloors); }
};

TEST_P(FastKernels, RUN_02_AgreeWithReference) {
  TestContext context;
  SampleGraph sample(context, GetParam());
  const Ran ran = compareOrders(context, sample, GetParam().orders);
  cells.conclude({{}, ran.operators.size()}, "nothing of it has a fast kernel, or no element");
}

INSTANTIATE_TEST_SUITE_P(Samples, FastKernels, ::testing::ValuesIn(tableSamples()),
                         [](const ::testing::TestParamInfo<Sample> &info) { return cellName(info.param.op, info.index); });

/// Random values for every variable of known shape; what batch normalisation divides by is positive.
Bindings drawBindings(const Graph &graph, ArrayRef<std::pair<StringRef, DimsBuffer>> shapes) {
  InferRequest request;
  for (const auto &[name, dims] : shapes) request.shapes.push_back({nodeNamed(graph, name), dims});
  const Inference inference = cantFail(infer(testContext(), graph, request, InferOptions()));
  Bindings bindings;
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    if (!graph.isVariable(NodeId(n))) continue;
    Values array(inference.shapeOf(graph.firstEntry(NodeId(n))).dims(), {});
    const int64_t size = *numElements(array.shape);
    const double scale = array.shape.size() > 1 ? 0.3 : 1;
    for (int64_t i = 0; i < size; ++i) {
      const double value = scale * drawNumber(n, static_cast<uint64_t>(i));
      array.values.push_back(graph.name(NodeId(n)).contains("var") ? std::abs(value) : value);
    }
    bindings[graph.name(NodeId(n)).str()] = array;
  }
  return bindings;
}

// A block of a residual network: its middle can lie channels-last, its ends cannot.
constexpr char kBlock[] =
    "c1 = Convolution(data, w1, b1) {kernel=(3,3), pad=(1,1), num_filter=16};"
    "n1 = BatchNorm(c1, gamma1, beta1, mean1, var1) {fix_gamma=False};"
    "r1 = Activation(n1) {act_type=relu};"
    "c2 = Convolution(r1, w2) {kernel=(3,3), pad=(1,1), num_filter=16, no_bias=True};"
    "n2 = BatchNorm(c2, gamma2, beta2, mean2, var2) {fix_gamma=True};"
    "s = elemwise_add(n2, r1);"
    "p = Pooling(s) {kernel=(2,2), stride=(2,2), pool_type=max};"
    "k = Concat(p, p) {num_args=2, dim=1};"
    "c3 = Convolution(k, w3, b3) {kernel=(1,1), stride=(2,2), num_filter=16};"
    "a = Pooling(c3) {kernel=(2,2), pool_type=avg, global_pool=True};"
    "f = FullyConnected(a, w4, b4) {num_hidden=5};"
    "y = Activation(f) {act_type=tanh}; heads y";

struct Block {
  TestContext context;
  Graph graph = cantFail(parseGraph(context, kBlock));
  std::vector<std::string> variables = {"data", "w1", "b1", "gamma1", "beta1", "w2", "gamma2",
                                        "beta2", "w3", "b3", "w4", "b4"};
  Bindings bindings = drawBindings(graph, {{"data", DimsBuffer{3, 4, 8, 8}}});

  Graph gradient() {
    std::vector<Values> values = cantFail(NaiveRun::run(graph, bindings, NaiveOptions())).heads();
    for (size_t i = 0; i < values[0].values.size(); ++i) values[0].values[i] = drawNumber(1, i);
    bindings["p1_0"] = values[0];
    return cantFail(derivativeGraph(context, graph, variables, 1));
  }
};

TEST(FastKernels, RUN_02_ChannelsLastStretchAgreesWithReference) {
  Block block;
  const Graph gradient = block.gradient();
  NaiveOptions naive;
  naive.floatAs = DType::Float32;
  FastOptions options;
  options.run = naive;
  const FastResult found = runFast(gradient, block.bindings, options);
  EXPECT_GT(found.numChannelsLast, 15u);
  const NaiveRun expected = cantFail(NaiveRun::run(gradient, block.bindings, naive));
  EXPECT_EQ(difference(found.heads, expected, gradient, toleranceOf(DType::Float32)), "");
  EXPECT_GE(compare(gradient, block.bindings, NaiveOptions()).operators.size(), 12u);
}

TEST(FastKernels, RUN_02_InferenceFormAgreesWithReference) {
  Block block;
  NaiveOptions naive;
  naive.isTraining = false;
  compare(block.graph, block.bindings, naive);
  compare(block.gradient(), block.bindings, naive);
}

// Every gradient alone, so that each kernel is asked for each subset of its outputs.
TEST(FastKernels, REQ_03_SubsetsOfGradientsAgree) {
  Block block;
  const Graph gradient = block.gradient();
  NaiveOptions naive;
  naive.floatAs = DType::Float32;
  const NaiveRun expected = cantFail(NaiveRun::run(gradient, block.bindings, naive));
  for (size_t head = 0; head < gradient.heads().size(); ++head) {
    FastOptions options;
    options.run = naive;
    options.requests.assign(gradient.heads().size(), Request::Null);
    options.requests[head] = Request::Write;
    FastResult found = runFast(gradient, block.bindings, options);
    // The others are not computed; theirs are taken as right.
    for (size_t other = 0; other < found.heads.size(); ++other)
      if (other != head) found.heads[other] = expected.value(gradient.heads()[other]);
    EXPECT_EQ(difference(found.heads, expected, gradient, toleranceOf(DType::Float32)), "") << head;
  }
}

TEST(FastKernels, RUN_02_EqualBitsInEveryRun) {
  Block block;
  const Graph gradient = block.gradient();
  for (unsigned threads : {1u, 2u, 3u}) {
    FastOptions options;
    options.threads = threads;
    options.run.floatAs = DType::Float32;
    const FastResult first = runFast(gradient, block.bindings, options);
    for (int repeat = 0; repeat < 3; ++repeat) {
      const FastResult again = runFast(gradient, block.bindings, options);
      for (size_t h = 0; h < first.heads.size(); ++h) EXPECT_EQ(first.heads[h].values, again.heads[h].values);
    }
  }
}

// Normalisation, scaling by channel and functions of one element between two convolutions.
constexpr char kExcitation[] =
    "c = Convolution(data, w1) {kernel=(3,3), pad=(1,1), num_filter=32, no_bias=True};"
    "n = LRN(c) {nsize=5, alpha=0.3};"
    "t = clip(n) {a_min=-0.4, a_max=0.5};"
    "m = mean(t) {axis=(2,3), keepdims=True};"
    "g = sigmoid(m);"
    "e = broadcast_mul(t, g);"
    "b = broadcast_add(e, bias);"
    "h = _div_scalar(b) {scalar=3};"
    "p = _maximum(h, n);"
    "y = Convolution(p, w2) {kernel=(1,1), num_filter=16, no_bias=True}; heads y";

TEST(FastKernels, RUN_02_ChannelsLastScalingAgreesWithReference) {
  TestContext context;
  const Graph graph = cantFail(parseGraph(context, kExcitation));
  Bindings bindings = drawBindings(graph, {{"data", DimsBuffer{3, 16, 9, 7}}, {"bias", DimsBuffer{1, 32, 1, 1}}});
  Values head = cantFail(NaiveRun::run(graph, bindings, NaiveOptions())).heads()[0];
  for (size_t i = 0; i < head.values.size(); ++i) head.values[i] = drawNumber(1, i);
  bindings["p1_0"] = head;
  std::vector<std::string> variables = {"data", "w1", "bias", "w2"};
  const Graph gradient = cantFail(derivativeGraph(context, graph, variables, 1));
  FastOptions options;
  options.run.floatAs = DType::Float32;
  const FastResult found = runFast(gradient, bindings, options);
  EXPECT_GT(found.numChannelsLast, 5u);
  EXPECT_TRUE(found.operators.contains("_backward_broadcast_mul"));
  compare(gradient, bindings, NaiveOptions());
}

/// Operands beyond the blocks and shares the loops work in, with remainders.
struct LargeCase {
  const char *graph;
  std::vector<std::pair<StringRef, DimsBuffer>> shapes;
};

const LargeCase kLargeCases[] = {
    {"y = broadcast_add(a, b); heads y", {{"a", {5, 70, 33, 3}}, {"b", {70, 1, 1}}}},
    {"y = broadcast_mul(a, b); heads y", {{"a", {4, 35, 17, 19}}, {"b", {4, 35, 1, 1}}}},
    {"y = broadcast_sub(b, a); heads y", {{"a", {600, 37}}, {"b", {37}}}},
    {"y = broadcast_mul(a, b); heads y", {{"a", {6, 80, 41}}, {"b", {6, 1, 41}}}},
    {"y = broadcast_add(a, b); heads y", {{"a", {300, 173}}, {"b", {1}}}},
    {"y = sum(a) {axis=(0,2)}; heads y", {{"a", {9, 21, 300}}}},
    {"y = mean(a) {axis=1, keepdims=True}; heads y", {{"a", {5, 90, 77}}}},
    {"y = sum(a); heads y", {{"a", {200, 301}}}},
    {"y = softmax(a); heads y", {{"a", {101, 53}}}},
    {"y = softmax(a) {axis=1, temperature=0.5}; heads y", {{"a", {3, 29, 9, 17}}}},
    {"y = log_softmax(a) {axis=0}; heads y", {{"a", {41, 131}}}},
    {"y = softmin(a); heads y", {{"a", {7, 1009}}}},
    {"y = SoftmaxActivation(a) {mode=channel}; heads y", {{"a", {3, 21, 11, 13}}}},
    {"y = LRN(a) {nsize=5, alpha=0.1}; heads y", {{"a", {3, 23, 13, 9}}}},
    {"y = LRN(a) {nsize=3, alpha=0.5, beta=0.6, knorm=1}; heads y", {{"a", {40, 67}}}},
    {"y = Dropout(a) {p=0.4}; heads y", {{"a", {61, 97}}}},
    {"y = LayerNorm(a, b, c); heads y", {{"a", {301, 83}}}},
    {"y = dot(a, b); heads y", {{"a", {70, 33}}, {"b", {33, 91}}}},
    {"y = dot(a, b) {transpose_a=True}; heads y", {{"a", {33, 5, 14}}, {"b", {33, 7, 13}}}},
    {"y = dot(a, b) {transpose_b=True}; heads y", {{"a", {70, 33}}, {"b", {91, 33}}}},
    {"y = dot(a, b) {transpose_a=True, transpose_b=True}; heads y", {{"a", {33, 70}}, {"b", {91, 33}}}},
    {"y = dot(a, b); heads y", {{"a", {70, 33}}, {"b", {33}}}},
    {"y = dot(a, b); heads y", {{"a", {330}}, {"b", {330}}}},
    {"y = batch_dot(a, b) {transpose_b=True}; heads y", {{"a", {7, 31, 45}}, {"b", {7, 38, 45}}}},
    {"y = Deconvolution(a, b) {kernel=(4,4), stride=(2,2), pad=(1,1), num_filter=16}; heads y", {{"a", {2, 32, 7, 9}}}},
    {"y = Deconvolution(a, b, c) {kernel=(3,3), stride=(2,2), pad=(1,1), adj=(1,0), num_filter=12, num_group=4,"
     " no_bias=False}; heads y",
     {{"a", {2, 8, 6, 5}}}},
    {"y = Deconvolution(a, b) {kernel=(3,3), num_filter=6, dilate=(2,1), target_shape=(11,7)}; heads y",
     {{"a", {1, 5, 9, 7}}}},
    {"y = clip(a) {a_min=-0.1, a_max=0.2}; heads y", {{"a", {130, 127}}}},
    {"y = _maximum(a, b); z = tanh(y); heads z", {{"a", {130, 127}}, {"b", {130, 127}}}},
    {"p = slice(a) {begin=(1,3), end=(99,120), step=(2,1)}; q = SliceChannel(p) {num_outputs=3, axis=1};"
     " y = broadcast_add(q:0, q:2); heads y",
     {{"a", {130, 127}}}},
};

TEST(FastKernels, RUN_02_OperandsOfManyBlocksAgreeWithReference) {
  for (const LargeCase &large : kLargeCases) {
    SCOPED_TRACE(large.graph);
    TestContext context;
    const Graph graph = cantFail(parseGraph(context, large.graph));
    Bindings bindings = drawBindings(graph, large.shapes);
    std::vector<std::string> variables;
    for (const auto &[name, values] : bindings) variables.push_back(name);
    for (unsigned threads : {1u, 3u, 17u}) compare(graph, bindings, NaiveOptions(), threads);
    Values head = cantFail(NaiveRun::run(graph, bindings, NaiveOptions())).heads()[0];
    for (size_t i = 0; i < head.values.size(); ++i) head.values[i] = drawNumber(1, i);
    bindings["p1_0"] = head;
    const Graph gradient = cantFail(derivativeGraph(context, graph, variables, 1));
    for (unsigned threads : {1u, 3u, 17u})
      EXPECT_FALSE(compare(gradient, bindings, NaiveOptions(), threads).operators.empty()) << threads;
  }
}

// Windows mostly of padding: neither oneDNN nor the loops skip what the reference kernel does not visit.
TEST(FastKernels, RUN_02_WindowsOfPaddingAreLeftToTheReference) {
  for (const char *type : {"max", "avg"}) {
    TestGraph g("y = Pooling(x) {kernel=(2147483647,2147483647), pad=(1073741823,1073741823), pool_type=" + std::string(type) + "}");
    EXPECT_TRUE(compare(g, {{"x", Values({1, 1, 1, 1}, {3})}}, NaiveOptions()).operators.empty()) << type;
  }
  TestGraph small("y = Pooling(x) {kernel=(3,3), pad=(1,1), pool_type=avg}");
  EXPECT_EQ(compare(small, {{"x", Values({1, 1, 1, 1}, {3})}}, NaiveOptions()).operators, std::set<std::string>{"Pooling"});
}

TEST(FastKernels, A_10_EveryRowOfTheTableIsExercised) {
  Ran ran;
  for (const Sample &row : tableSamples()) {
    TestContext context;
    SampleGraph sample(context, row);
    ran.add(compareOrders(context, sample, std::min(2u, row.orders)));
  }
  Block block;
  ran.add(compare(block.gradient(), block.bindings, NaiveOptions()));
  TestContext context;
  const Graph sums = cantFail(parseGraph(
      context, "s = add_n(a, b, c) {num_args=3}; g = _grad_add(s, a); k = _copy(g); heads k"));
  const DimsBuffer dims{70, 33};
  ran.add(compare(sums, drawBindings(sums, {{"a", dims}, {"b", dims}, {"c", dims}}), NaiveOptions()));
  std::string missing;
  for (const FastKernelRow &row : fastKernelTable())
    if (!ran.operators.contains(row.name.str())) missing += row.name.str() + " ";
  EXPECT_EQ(missing, "");
  for (size_t i = 0; i < std::size(kOnReference); ++i)
    EXPECT_TRUE(ran.onReference.contains(i)) << "no node is like " << kOnReference[i].pattern;
}

TEST(FastKernels, A_10_TableIsSortedAndKnowsOnlyBuiltinOperators) {
  TestContext context;
  for (size_t i = 0; i < fastKernelTable().size(); ++i) {
    const FastKernelRow &row = fastKernelTable()[i];
    if (i != 0) { EXPECT_LT(fastKernelTable()[i - 1].name, row.name); }
    const OpDef *op = context.ops.find(row.name);
    ASSERT_TRUE(op) << row.name.str();
    EXPECT_EQ(findFastKernel(*op), &row);
    const OpDef impostor = *op;
    EXPECT_EQ(findFastKernel(impostor), nullptr);
  }
}

TEST(FastKernels, ParallelLoopCoversEveryElementOnce) {
  for (unsigned threads : {1u, 2u, 5u})
    for (int64_t size : {0, 1, 7, 1000, 5003}) {
      std::vector<int> visits(static_cast<size_t>(size), 0);
      parallelFor(threads, size, 4, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
      });
      EXPECT_EQ(llvm::count(visits, 1), size) << threads;
    }
}

// oneDNN counts in int: windows that leave it are left to other kernels, which agree with the reference.
TEST(FastKernels, RUN_02_WindowsBeyondInt) {
  const std::string far = "kernel=(2, 1), stride=(2147483647, 1), pad=(2147483647, 0), dilate=(2147483647, 1)";
  for (const char *text :
       {"y = Convolution(x, w) {num_filter=16, no_bias=True, %s}", "y = Deconvolution(x, w) {num_filter=16, adj=(7, 0), %s}"}) {
    std::string graph = text;
    graph.replace(graph.find("%s"), 2, far);
    TestGraph g(graph);
    Bindings bindings;
    bindings["x"] = Values({1, 16, 2, 3}, std::vector<double>(96));
    bindings["w"] = Values({16, 16, 2, 1}, std::vector<double>(512));
    for (const char *name : {"x", "w"})
      for (size_t i = 0; i < bindings[name].values.size(); ++i) bindings[name].values[i] = drawNumber(3, i);
    const std::set<std::string> operators = compare(g, bindings, NaiveOptions()).operators;
    EXPECT_EQ(operators.size(), 1u) << text;
  }
}

TEST(FastKernels, A_10_ProductsBeyondIntAreLeftToTheReference) {
  const int64_t large = int64_t{1} << 31;
  EXPECT_FALSE(canMultiply(DType::Float64, {1, large, 1}));
  EXPECT_TRUE(canMultiply(DType::Float64, {1, large - 1, 1}));
  EXPECT_TRUE(canMultiply(DType::Float32, {1, large, 1}));
  ConvGeometry g;
  const int64_t in[] = {1, 1, large, 4}, out[] = {1, 1, 2 * large, 4};
  g.in = imageView(in, false);
  g.out = imageView(out, false);
  EXPECT_TRUE(GemmConvolution<float>(g).isPossible());
  EXPECT_FALSE(GemmConvolution<double>(g).isPossible());
  g.kernel[1] = int64_t{1} << 40;
  EXPECT_FALSE(GemmConvolution<float>(g).isPossible()) << "the matrix would have 2^74 elements";
}

}  // namespace
}  // namespace gradc
