// Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "tests/support/ops/fast_runs.h"

#include "runtime/executor/executor.h"
#include "runtime/fusion/form_groups.h"
#include "runtime/kernels/kernel_set.h"
#include "runtime/kernels/table.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include "llvm/Support/Alignment.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/GlobPattern.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

using namespace llvm;

namespace gradc::testing {
namespace {

constexpr OnReference kOnReference[] = {
    {"*Dropout {axes=*", "a mask of another shape"},
    {"LeakyReLU {*act_type=rrelu*", "drawn slopes"},
    {"*Pooling {kernel=(?,?,?)*} float64*", "three dimensions in double precision"},
    {"*Pooling {*layout=NHWC*} float64*", "channels last by attribute in double precision"},
    {"*Pooling {*pool_type=lp*", "a norm, not an extremum or a mean"},
    {"*Pooling {*pool_type=sum*", "a sum, not a mean"},
    {"*Pooling {kernel=(2147483647*", "windows mostly of padding"},
    {"*LRN {*nsize=71 *", "a window wider than is worth adding up"},
    {"_channel_window_sum {nsize=71 *", "a window wider than is worth adding up"},
    {"*prod {axis=(0,2) *", "products over axes apart from each other"},
    {"prod {axis=1 exclude=True*", "products over axes apart from each other"},
    {"_backward_prod {axis=1 exclude=True*", "products over axes apart from each other"},
    {"broadcast_* *(3,1) *(1,4) -> *", "both operands are repeated"},
    {"broadcast_* *(2,1,3) *(*4,1) -> *", "both operands are repeated"},
    {"_backward_broadcast_* -> *(3,1) *(1,4)", "both operands are repeated"},
    {"_backward_broadcast_* -> *(2,1,3) *(*4,1)", "both operands are repeated"},
    {"*softmax {*use_length=True*", "rows of different lengths"},
    {"topk {*ret_typ=mask*", "ones at positions"},
    {"*where {*(3,) *(3,?)*", "a condition per row"},
};

/// "Pooling {kernel=(2,2) pool_type=max } float32(1,2,5,5) -> float32(1,2,4,4) int32(1,2,4,4)"
std::string describe(const Graph &graph, const Inference &inference, NodeId n) {
  std::string text = graph.opName(n).str() + " {";
  for (const AttrText &pair : graph.attrs(n).pairs()) text += (pair.key + "=" + pair.value + " ").str();
  text += "}";
  auto add = [&](EntryId e) { text += " " + dtypeName(inference.dtype[e]).str() + toString(inference.shapeOf(e)); };
  for (Value v : graph.inputs(n)) add(graph.entry(v));
  text += " ->";
  for (uint32_t o = 0; o < graph.numOutputs(n); ++o) add(EntryId(graph.firstEntry(n).value + o));
  return text;
}

/// Whether the table has a kernel for the operator, a result is requested, and there is an element to compute.
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
  const OnReference *row = llvm::find_if(
      kOnReference, [&](const OnReference &r) { return cantFail(GlobPattern::create(r.pattern)).match(line); });
  const bool isListed = row != std::end(kOnReference);
  if (isListed == isFast) result.surprises += line + (isFast ? ": has a fast kernel\n" : ": has no fast kernel\n");
  if (isListed) result.onReference.insert(static_cast<size_t>(row - kOnReference));
}

bool isInTable(const Sample &sample) { return findFastKernel(*testContext().ops.find(sample.op)) != nullptr; }

}  // namespace

ArrayRef<OnReference> listOnReference() { return kOnReference; }

FastResult runFast(const Graph &graph, const Bindings &bindings, const FastOptions &options) {
  InferOptions inferOptions;
  inferOptions.floatAs = options.run.floatAs;
  const Inference inference = cantFail(infer(testContext(), graph, hintsOf(graph, bindings), inferOptions));
  const RequestTable requests = countRequests(graph, options.requests);
  KernelSetOptions setOptions;
  setOptions.isTraining = options.run.isTraining;
  setOptions.threads = options.threads;
  setOptions.keepsTapes = options.keepsTapes;
  KernelSet kernels = KernelSet::create(graph, inference, requests, setOptions);
  kernels.fuse(formGroups({graph, inference, requests, kernels, setOptions, Schedule(), options.fusion}));
  FastResult result;
  result.numTapes = kernels.tapes().size();
  result.numChannelsLast = kernels.numEntries(Layout::ChannelsLast);
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    const bool isFast = kernels.kernel(NodeId(n)) != nullptr;
    if (isFast) result.operators.insert(graph.opName(NodeId(n)).str());
    if (mayBeFast(graph, inference, requests, NodeId(n))) notePath(graph, inference, NodeId(n), isFast, result);
  }
  PlanOptions planOptions;
  planOptions.allowInplace = options.allowInplace;
  planOptions.workspaceOf = KernelSet::planWorkspace;
  planOptions.workspaceReader = KernelSet::planReader;
  planOptions.user = &kernels;
  planOptions.groups = &kernels.fusion().memory;
  const MemoryPlan plan = cantFail(planMemory(testContext(), graph, inference, requests, planOptions));
  ExecOptions exec;
  exec.threads = options.threads;
  exec.isTraining = options.run.isTraining;
  exec.seed = options.run.seed;
  exec.headRequests = options.requests;
  exec.kernels = &kernels;
  // Memory that a kernel has to write holds NaN before: what it forgets is noticed.
  std::vector<char> arena(static_cast<size_t>(plan.plannedBytes) + kPlanAlignment, char(0xff));
  exec.arena = reinterpret_cast<char *>(alignAddr(arena.data(), Align(kPlanAlignment)));
  Executor executor = cantFail(Executor::create(graph, inference, requests, plan, exec));
  for (size_t i = 0; i < graph.heads().size(); ++i)
    if (const TensorRef head = executor.head(i);
        head.data && (options.requests.empty() || options.requests[i] != Request::Add))
      std::memset(head.data, 0xff, head.bytes());
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
    result.heads.push_back(isWanted ? loadArray(executor.head(i)) : Array());
  }
  return result;
}

Tolerance fastTolerance(DType type) { return type == DType::Float64 ? Tolerance{1e-12, 1e-14} : Tolerance{1e-5, 1e-6}; }

std::string difference(const std::vector<Array> &found, const NaiveRun &expected, const Graph &graph,
                       Tolerance tolerance) {
  for (size_t h = 0; h < found.size(); ++h) {
    const Value head = graph.heads()[h];
    const Array values = expected.value(head);
    if (found[h].shape != values.shape) return "head " + std::to_string(h) + " has another shape";
    const double allowed = tolerance(expected, head);
    for (size_t i = 0; i < values.values.size(); ++i)
      if (!(std::abs(found[h].values[i] - values.values[i]) <= allowed))
        return formatv("head {0} element {1}: {2}, expected {3} up to {4}", h, i, found[h].values[i], values.values[i],
                       allowed);
  }
  return "";
}

Ran compareFast(const Graph &graph, const Bindings &bindings, NaiveOptions naive, unsigned threads) {
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
      EXPECT_EQ(difference(found.heads, *expected, graph, fastTolerance(type)), "") << dump(graph);
      EXPECT_EQ(found.surprises, "");
      ran.add({found.operators, found.onReference});
    }
  }
  return ran;
}

Ran compareOrders(Context &context, const SampleGraph &sample, uint32_t number) {
  const Orders orders(context, sample, std::min(3u, number + 1));
  EXPECT_EQ(orders.failure, "");
  Ran ran;
  for (const Graph &graph : orders.graphs) ran.add(compareFast(graph, orders.bindings, sample.options));
  return ran;
}

std::vector<Sample> tableSamples() {
  std::vector<Sample> samples = allSamples();
  llvm::erase_if(samples, [](const Sample &sample) { return !isInTable(sample); });
  return samples;
}

Bindings drawBindings(const Graph &graph, ArrayRef<std::pair<StringRef, DimsBuffer>> shapes) {
  InferRequest request;
  for (const auto &[name, dims] : shapes) request.shapes.push_back({nodeNamed(graph, name), dims});
  const Inference inference = cantFail(infer(testContext(), graph, request, InferOptions()));
  Bindings bindings;
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    if (!graph.isVariable(NodeId(n))) continue;
    Array array(inference.shapeOf(graph.firstEntry(NodeId(n))).dims(), {});
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

}  // namespace gradc::testing
