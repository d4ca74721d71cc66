// The naive interpreter. Tested by tests/passes/gradient/gradient_test.cc and every test of values.
#include "tests/support/ops/naive.h"

#include "ir/base/error.h"
#include "ir/base/number.h"
#include "ir/graph/body_flow.h"
#include "ir/rules/inference.h"
#include "ops/kit/kernel_dispatch.h"
#include "tests/support/test_graph.h"
#include "passes/gradient/higher_order/higher_order.h"
#include "ir/rules/run_flow.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/Support/ErrorHandling.h"

#include <cmath>
#include <cstring>

using namespace llvm;

namespace gradc::testing {

void storeArray(const TensorRef &to, ArrayRef<double> values) {
  dispatchNumeric(to.dtype, [&](auto zero) {
    for (size_t i = 0; i < values.size(); ++i) to.as<decltype(zero)>()[i] = convertNumber<decltype(zero)>(values[i]);
  });
}

Array loadArray(const TensorRef &from) {
  Array array(from.shape, std::vector<double>(static_cast<size_t>(from.size())));
  dispatchNumeric(from.dtype, [&](auto zero) {
    for (size_t i = 0; i < array.values.size(); ++i)
      array.values[i] = static_cast<double>(from.as<decltype(zero)>()[i]);
  });
  return array;
}

InferRequest hintsOf(const Graph &graph, const Bindings &bindings) {
  InferRequest request;
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    if (!graph.isVariable(NodeId(n))) continue;
    auto bound = bindings.find(graph.name(NodeId(n)).str());
    if (bound != bindings.end()) request.shapes.push_back({NodeId(n), bound->second.shape});
  }
  return request;
}

Expected<NaiveRun> NaiveRun::run(const Graph &graph, const Bindings &bindings, const NaiveOptions &options) {
  NaiveRun run(graph);
  run.options = options;
  InferOptions inferOptions;
  if (options.keepsTypes) inferOptions.defaultFloat = options.floatAs;
  else inferOptions.floatAs = options.floatAs;
  InferRequest hints = hintsOf(graph, bindings);
  for (uint32_t n = 0; n < graph.numNodes() && !options.types.empty(); ++n)
    if (auto type = options.types.find(graph.name(NodeId(n)).str());
        graph.isVariable(NodeId(n)) && type != options.types.end())
      hints.dtypes.push_back({NodeId(n), type->second});
  Expected<Inference> inference = infer(testContext(), graph, hints, inferOptions);
  if (!inference) return inference.takeError();
  run.inferred = std::move(*inference);
  if (Error error = run.bind(bindings)) return error;
  if (Error error = run.execute()) return error;
  return run;
}

TensorRef NaiveRun::tensor(EntryId e) {
  return {buffers[e.value].data(), inferred.dtype[e], inferred.shapeOf(e).dims()};
}

Array NaiveRun::read(EntryId e) const { return loadArray(const_cast<NaiveRun *>(this)->tensor(e)); }

std::vector<Array> NaiveRun::heads() const {
  std::vector<Array> list;
  for (Value head : graph.heads()) list.push_back(value(head));
  return list;
}

double NaiveRun::magnitudeBehind(Value v) const {
  constexpr double kStandsForInfinity =
      1e28;  // as the logarithm of 0 does in sums: nothing is rounded to its precision
  double largest = 0;
  auto take = [&](const Array &array) {
    for (double value : array.values)
      if (std::abs(value) < kStandsForInfinity) largest = std::max(largest, std::abs(value));
  };
  take(value(v));
  BitVector isBehind(graph.numNodes());
  isBehind.set(v.node.value);
  for (uint32_t n = v.node.value + 1; n-- > 0;) {
    if (!isBehind[n]) continue;
    for (Value input : graph.inputs(NodeId(n))) {
      take(value(input));
      isBehind.set(input.node.value);
    }
  }
  return largest;
}

Error NaiveRun::bind(const Bindings &bindings, bool isWhole) {
  buffers.resize(graph.numEntries());
  workspaces.resize(graph.numNodes());
  for (uint32_t e = 0; e < graph.numEntries(); ++e) buffers[e].assign(tensor(EntryId(e)).bytes() / 8 + 1, ~uint64_t{0});
  for (uint32_t n = 0; n < graph.numNodes() && isWhole; ++n) {
    if (!graph.isVariable(NodeId(n))) continue;
    auto bound = bindings.find(graph.name(NodeId(n)).str());
    if (bound == bindings.end())
      return Failure(ErrorKind::BindingMissing, "nothing bound to '" + graph.name(NodeId(n)) + "'");
    TensorRef to = tensor(graph.firstEntry(NodeId(n)));
    if (static_cast<size_t>(to.size()) != bound->second.values.size())
      return Failure(ErrorKind::BindingMismatch,
                     "'" + graph.name(NodeId(n)) + "' is bound to " + Twine(bound->second.values.size()) + " values");
    storeArray(to, bound->second.values);
  }
  return Error::success();
}

void NaiveRun::prepare(NodeId n, Call &c) {
  c = Call();
  for (Value v : graph.inputs(n)) c.in.push_back(tensor(graph.entry(v)));
  for (uint32_t o = 0; o < graph.numOutputs(n); ++o) c.out.push_back(tensor(EntryId(graph.firstEntry(n).value + o)));
  c.requests.assign(c.out.size(), Request::Write);
  c.call.kind = &graph.kind(n);
  c.call.in = c.in;
  c.call.out = c.out;
  c.call.requests = c.requests;
  c.call.isTraining = options.isTraining;
  c.call.random = {options.seed, 0, ordinals[n]};
  if (graph.op(n)->workspace) {
    workspaces[n.value].assign(graph.op(n)->workspace(graph.kind(n), c.in, c.out) / 8 + 1, 0);
    c.call.workspace = workspaces[n.value].data();
  }
  if (graph.kind(n).flow) prepareBodies(n, c);
}

// No kernel is reached with operands that its operator refuses, in tests as in the executor.
Error NaiveRun::checkShapes(NodeId n) const {
  SmallVector<ShapeId, 8> in, out;
  for (Value v : graph.inputs(n)) in.push_back(inferred.shape[graph.entry(v)]);
  for (uint32_t o = 0; o < graph.numOutputs(n); ++o)
    out.push_back(inferred.shape[EntryId(graph.firstEntry(n).value + o)]);
  ShapeTable shapes(*inferred.shapes);
  const std::string refusal = refusalOf(shapes, graph.kind(n), in, out);
  if (refusal.empty()) return Error::success();
  return Failure(ErrorKind::Internal, graph.describe(n) + " is inferred, and refuses its operands: " + refusal).at(n);
}

// A body that is interpreted like any graph; what is bound is copied in and out.
class NaiveBody final : public BodyRunner {
 public:
  NaiveBody(const Graph &body, const Inference &inference, const NaiveOptions &options)
      : run_(body), inputs(bodyInputs(body)), given(inputs.size()), heads(body.heads().size()) {
    run_.options = options;
    run_.inferred = inference;
    cantFail(run_.bind({}, false));
  }

  TensorRef input(size_t i) const override {
    TensorRef tensor = variable(i);
    tensor.data = given[i];
    return tensor;
  }
  TensorRef head(size_t h) const override {
    TensorRef tensor = value(h);
    tensor.data = heads[h];
    return tensor;
  }
  void bindInput(size_t i, void *data) override { given[i] = data; }
  void bindHead(size_t h, void *data) override { heads[h] = data; }
  void run(const RandomKey &key) override {
    run_.options.seed = key.seed;
    for (size_t i = 0; i < inputs.size(); ++i) copy(variable(i).data, given[i], variable(i).bytes());
    if (Error error = run_.execute()) throw KernelError{toString(std::move(error)), ErrorKind::Internal};
    for (size_t h = 0; h < heads.size(); ++h) copy(heads[h], value(h).data, value(h).bytes());
  }

 private:
  TensorRef variable(size_t i) const { return const_cast<NaiveRun &>(run_).tensor(run_.graph.firstEntry(inputs[i])); }
  TensorRef value(size_t h) const {
    return const_cast<NaiveRun &>(run_).tensor(run_.graph.entry(run_.graph.heads()[h]));
  }
  static void copy(void *to, const void *from, size_t bytes) {
    if (to && from && bytes) std::memcpy(to, from, bytes);
  }

  NaiveRun run_;
  const std::vector<NodeId> inputs;
  std::vector<void *> given, heads;
};

void NaiveRun::prepareBodies(NodeId n, Call &c) {
  const NodeKind &kind = graph.kind(n);
  // Whichever states are wanted.
  const std::vector<Request> none(c.out.size(), Request::Null);
  workspaces[n.value].assign(static_cast<size_t>(flowWorkspace(kind, c.in, none).nearest()) / 8 + 1, 0);
  c.call.workspace = workspaces[n.value].data();
  for (size_t o = 0; o < c.out.size(); ++o)
    if (c.out[o].size() == 0) c.requests[o] = Request::Null;  // as in the executor
  for (uint32_t b = 0; b < kind.bodies.size(); ++b) {
    c.bodies.push_back(std::make_shared<NaiveBody>(kind.bodies[b], *inferred.body(n, b), options));
    c.runners.push_back(c.bodies.back().get());
  }
  c.call.bodies = c.runners;
}

Error NaiveRun::execute() {
  uint64_t ordinal = 0;
  for (uint32_t n = 0; n < graph.numNodes(); ++n) {
    const OpDef *op = graph.op(NodeId(n));
    if (!op) continue;
    if (!op->kernel) return Failure(ErrorKind::UnknownOp, "operator '" + op->name + "' has no kernel").at(NodeId(n));
    if (graph.kind(NodeId(n)).draws && !op->flags.isBackward) ordinals[NodeId(n)] = ordinal++;
    // What draws again draws what its forward node drew.
    if (op->flags.isBackward && !graph.controlDeps(NodeId(n)).empty())
      ordinals[NodeId(n)] = ordinals[graph.controlDeps(NodeId(n))[0]];
    if (Error error = checkShapes(NodeId(n))) return error;
    Call call;
    prepare(NodeId(n), call);
    try {
      op->kernel(call.call);
    } catch (const KernelError &error) {
      return Failure(error.kind, error.message).at(NodeId(n));
    }
  }
  return Error::success();
}

std::vector<Array> evaluate(const Graph &graph, const Bindings &bindings) {
  Expected<NaiveRun> run = NaiveRun::run(graph, bindings, NaiveOptions());
  if (!run) report_fatal_error(StringRef("evaluate: " + describeError(run.takeError()) + "\n" + dump(graph)));
  return run->heads();
}

GradientRequest wrt(const Graph &graph, ArrayRef<StringRef> names) {
  GradientRequest request;
  for (StringRef name : names) request.wrt.push_back({TestGraph::findValue(graph, name), Request::Write});
  return request;
}

GradientResult gradientOf(Context &context, const Graph &graph, ArrayRef<StringRef> names, uint32_t order) {
  Expected<GradientResult> result = buildGradientOfOrder(context, graph, wrt(graph, names), GradientOptions(), order);
  if (!result) report_fatal_error(StringRef("gradientOf: " + describeError(result.takeError()) + "\n" + dump(graph)));
  return std::move(*result);
}

std::vector<Array> gradientValues(Context &context, const Graph &graph, ArrayRef<StringRef> names,
                                  const Bindings &bindings, uint32_t order) {
  GradientResult result = gradientOf(context, graph, names, order);
  std::vector<Array> all = evaluate(result.graph, bindings);
  return std::vector<Array>(all.end() - static_cast<ptrdiff_t>(names.size()), all.end());
}

}  // namespace gradc::testing
