// Graphs in float16 and bfloat16: every node gives the bits of the float32 kernel of its operands, rounded once.
#include "ir/rules/widening.h"

#include "ir/base/error.h"
#include "ir/graph/graph_builder.h"
#include "ir/rules/inference.h"
#include "passes/memory/plan_memory.h"
#include "runtime/arrays/elements.h"
#include "runtime/executor/executor.h"
#include "runtime/kernels/kernel_set.h"
#include "runtime/session/session.h"
#include "tests/support/ops/cells.h"
#include "tests/support/ops/conformance.h"
#include "tests/support/ops/half_values.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/SmallVectorExtras.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

std::vector<double> elementsOf(const TensorRef &tensor) {
  std::vector<double> values;
  for (int64_t i = 0, size = tensor.size(); i < size; ++i) values.push_back(readElement(tensor, i));
  return values;
}

/// Memory that owns its bytes.
struct Memory {
  TensorRef tensor;
  std::vector<uint64_t> words;
  DimsBuffer dims;

  Memory(DType type, Dims shape) : tensor(nullptr, type, {}), dims(shape) {
    tensor.shape = dims;
    words.assign(tensor.bytes() / 8 + 1, ~uint64_t{0});
    tensor.data = words.data();
  }
  Memory(Memory &&) = delete;
};

Graph withEveryEntry(Context &context, const Graph &graph) {
  GraphBuilder builder(context, graph);
  std::vector<Value> heads;
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    for (uint32_t o = 0; o < graph.numOutputs(NodeId(n)) && !graph.isVariable(NodeId(n)); ++o)
      heads.push_back(Value{NodeId(n), static_cast<uint16_t>(o), 0});
  return cantFail(std::move(builder).freeze(heads, {})).graph;
}

/// A run of all nodes, each of them judged right after it ran, while its operands are as it left them.
class JudgedRun {
 public:
  JudgedRun(const Graph &graph, const Bindings &bindings, DType half, const NaiveOptions &naive, Backend backend)
      : graph(graph), naive(naive), half(half), backend(backend), before(graph.numEntries()) {
    InferOptions infer;
    infer.defaultFloat = half;
    Expected<Inference> inferred = gradc::infer(testContext(), graph, hintsOf(graph, bindings), infer);
    if (!inferred) {
      found.problems.push_back(describeError(inferred.takeError()));
      return;
    }
    inference = std::move(*inferred);
    numberRandomNodes();
    for (uint32_t n = 0; n < graph.numNodes(); ++n) {
      variables.push_back(nullptr);
      if (!graph.isVariable(NodeId(n))) continue;
      const EntryId e = graph.firstEntry(NodeId(n));
      variables[n] = std::make_unique<Memory>(inference.dtype[e], inference.shapeOf(e).dims());
      const std::vector<double> &values = bindings.at(graph.name(NodeId(n)).str()).values;
      for (size_t i = 0; i < values.size(); ++i) writeElement(variables[n]->tensor, static_cast<int64_t>(i), values[i]);
    }
  }

  Findings run() {
    if (!found.problems.empty()) return found;
    const RequestTable requests = countRequests(graph, {});
    const MemoryPlan plan = cantFail(planMemory(testContext(), graph, inference, requests, PlanOptions()));
    ExecOptions options;
    options.backend = backend;
    options.isTraining = naive.isTraining;
    options.seed = naive.seed;
    options.monitor = [](void *self, NodeId n, ArrayRef<TensorRef> out) {
      static_cast<JudgedRun *>(self)->judge(n, out);
    };
    options.monitorUser = this;
    Expected<Executor> executor = Executor::create(graph, inference, requests, plan, options);
    if (!executor) return {{describeError(executor.takeError())}};
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      if (variables[n]) cantFail(executor->bind(NodeId(n), variables[n]->tensor));
    for (size_t i = 0; i < graph.heads().size(); ++i) heads[graph.entry(graph.heads()[i]).value] = executor->head(i);
    remember();
    if (Error error = executor->run(0)) found.problems.push_back(describeError(std::move(error)));
    return found;
  }

 private:
  void numberRandomNodes() {
    uint64_t ordinal = 0;
    ordinals.assign(graph.numNodes(), 0);
    for (uint32_t n = 0; n < graph.numNodes(); ++n) {
      const OpDef *op = graph.op(NodeId(n));
      if (!op || !graph.kind(NodeId(n)).draws) continue;
      if (!op->flags.isBackward) ordinals[n] = ordinal++;
      else if (!graph.controlDeps(NodeId(n)).empty()) ordinals[n] = ordinals[graph.controlDeps(NodeId(n))[0].value];
    }
  }

  /// What variables hold when the next node starts.
  void remember() {
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      if (variables[n]) before[graph.firstEntry(NodeId(n)).value] = elementsOf(variables[n]->tensor);
  }

  TensorRef stored(EntryId e, Value v) const {
    return graph.isVariable(v.node) ? variables[v.node.value]->tensor : heads.at(e.value);
  }

  /// Halves as float32, by the definition of the formats; others as they are.
  std::unique_ptr<Memory> widened(const TensorRef &given, ArrayRef<double> values) {
    auto memory = std::make_unique<Memory>(isHalf(given.dtype) ? DType::Float32 : given.dtype, given.shape);
    for (size_t i = 0; i < values.size(); ++i) writeElement(memory->tensor, static_cast<int64_t>(i), values[i]);
    return memory;
  }

  void judge(NodeId n, ArrayRef<TensorRef> out) {
    const NodeKind &kind = graph.kind(n);
    std::vector<std::unique_ptr<Memory>> memories;
    SmallVector<TensorRef, 8> in, expected;
    bool hasHalves = false;
    for (Value v : graph.inputs(n)) {
      const EntryId e = graph.entry(v);
      const TensorRef given = stored(e, v);
      hasHalves |= isHalf(given.dtype);
      memories.push_back(widened(given, graph.isVariable(v.node) ? before[e.value] : elementsOf(given)));
      in.push_back(memories.back()->tensor);
    }
    for (const TensorRef &given : out) {
      hasHalves |= isHalf(given.dtype);
      memories.push_back(widened(given, {}));
      expected.push_back(memories.back()->tensor);
    }
    // What runs graphs computes nothing itself.
    if (hasHalves && !kind.flow) {
      ShapeTable shapes;
      auto shapeOf = [&](const TensorRef &tensor) { return *shapes.intern(tensor.shape); };
      ASSERT_EQ(refusalOf(shapes, kind, map_to_vector(in, shapeOf), map_to_vector(expected, shapeOf)), "")
          << graph.describe(n);
      KernelCall call;
      call.kind = &kind;
      call.in = in;
      call.out = expected;
      SmallVector<Request, 4> requests(out.size(), Request::Write);
      call.requests = requests;
      call.isTraining = naive.isTraining;
      call.random = {naive.seed, 0, ordinals[n.value]};
      std::vector<uint64_t> workspace(kind.op->workspace ? kind.op->workspace(kind, in, expected) / 8 + 1 : 1);
      call.workspace = workspace.data();
      kind.op->kernel(call);
      for (size_t o = 0; o < out.size(); ++o) compare(n, "output " + std::to_string(o), expected[o], out[o]);
      for (size_t i = 0; i < in.size(); ++i)
        if (kind.isMutated(i))
          compare(n, "input " + std::to_string(i), in[i], stored(graph.entry(graph.inputs(n)[i]), graph.inputs(n)[i]));
    }
    remember();
  }

  void compare(NodeId n, const std::string &place, const TensorRef &wide, const TensorRef &found) {
    const std::vector<double> expected = elementsOf(wide), values = elementsOf(found);
    double largest = 0;
    for (double value : expected)
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    // Fast kernels may round a sum of float32 to the neighbour, which the last place of a half may show.
    const double ulp = std::ldexp(1, -formatOf(half).fractionBits);
    for (size_t i = 0; i < expected.size(); ++i) {
      const double value = isHalf(found.dtype) ? nearestHalf(found.dtype, expected[i]) : expected[i];
      const bool isSame = (value == values[i] && std::signbit(value) == std::signbit(values[i])) ||
                          (std::isnan(value) && std::isnan(values[i]));
      const bool isNear =
          backend == Backend::Auto && std::abs(value - values[i]) <= ulp * std::abs(value) + 1e-5 * largest;
      ++this->found.numChecked;
      if (isSame || isNear) continue;
      this->found.problems.push_back(graph.describe(n) + " (" + graph.opName(n).str() + ") " + place + " element " +
                                     std::to_string(i) + ": " + std::to_string(values[i]) + ", expected " +
                                     std::to_string(value));
      return;
    }
  }

  const Graph graph;
  const NaiveOptions naive;
  const DType half;
  const Backend backend;
  Inference inference;
  std::vector<uint64_t> ordinals;
  std::vector<std::unique_ptr<Memory>> variables;
  std::map<uint32_t, TensorRef> heads;      // by entry
  std::vector<std::vector<double>> before;  // by entry of a variable
  Findings found;
};

/// How many cells of each check have something to check, at least.
constexpr Cells::Floor kFloors[] = {
    {"E_63_Float16OnReference", 1540},
    {"E_63_BFloat16OnReference", 1540},
    {"E_63_Float16OnFastKernels", 1540},
    {"E_63_BFloat16OnFastKernels", 1540},
};
Cells cells;

class WidenedSamples : public ::testing::TestWithParam<Sample> {
 protected:
  static void TearDownTestSuite() { cells.print(allSamples().size(), kFloors); }

  /// Batch statistics as heads are float32 beside data of float16; the gradient that flows through them mixes the two,
  /// which inference refuses.
  bool hasStatisticsOfOtherType(DType half) const {
    return half == DType::Float16 && StringRef(GetParam().attrs).contains("output_mean_var=True");
  }

  /// Positive inputs alone leave cells of RNN where float32, in which the fast kernels compute, has few digits of a
  /// derivative left.
  bool hasSaturatedCells() const {
    return StringRef(GetParam().op) == "RNN" && GetParam().low >= 0 && GetParam().high > 1;
  }

  /// The sample and its gradient graph, node by node.
  void check(DType half, Backend backend) {
    if (backend == Backend::Auto && hasSaturatedCells()) GTEST_SKIP() << "saturated cells";
    Findings all;
    Orders orders(context, sample, std::min(2u, GetParam().orders + 1));
    if (!orders.failure.empty()) all.problems.push_back(orders.failure);
    if (hasStatisticsOfOtherType(half)) orders.graphs.resize(1);
    for (const Graph &graph : orders.graphs) {
      const Graph whole = withEveryEntry(context, graph);
      Findings found = JudgedRun(whole, orders.bindings, half, sample.options, backend).run();
      all.numChecked += found.numChecked;
      for (std::string &problem : found.problems) all.problems.push_back(problem + "\n" + dump(whole));
    }
    cells.conclude(all, "no operand of 16 bits");
  }

  TestContext context;
  SampleGraph sample{context, GetParam()};
};

TEST_P(WidenedSamples, E_63_Float16OnReference) { check(DType::Float16, Backend::Reference); }
TEST_P(WidenedSamples, E_63_BFloat16OnReference) { check(DType::BFloat16, Backend::Reference); }
TEST_P(WidenedSamples, E_63_Float16OnFastKernels) { check(DType::Float16, Backend::Auto); }
TEST_P(WidenedSamples, E_63_BFloat16OnFastKernels) { check(DType::BFloat16, Backend::Auto); }

INSTANTIATE_TEST_SUITE_P(Samples, WidenedSamples, ::testing::ValuesIn(allSamples()),
                         [](const ::testing::TestParamInfo<Sample> &info) {
                           return cellName(info.param.op, info.index);
                         });

}  // namespace
}  // namespace gradc
