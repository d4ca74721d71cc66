// A reverse-mode tape over a GraphBuilder.
#include "tests/support/ops/op_harness.h"

#include "tests/support/ops/derivative.h"
#include "tests/support/ops/op_table.h"

#include "gtest/gtest.h"

#include <cmath>
#include <set>

using namespace llvm;

namespace gradc::testing {

OpHarness::OpHarness() : builder(ctx) {}

Value OpHarness::variable(std::vector<int64_t> shape, std::vector<double> data) {
  const std::string name = "v" + std::to_string(builder.numNodes());
  EXPECT_EQ(numElements(shape), static_cast<int64_t>(data.size()));
  bindings[name] = Array(shape, std::move(data));
  return builder.addVariable(name, Attrs());
}

Value OpHarness::variable(std::vector<int64_t> shape, uint64_t seed) {
  const RandomKey key{seed, 0, 0};
  std::vector<double> data(static_cast<size_t>(*numElements(shape)));
  for (size_t i = 0; i < data.size(); ++i) data[i] = 2 * key.uniform(i) - 1;
  return variable(std::move(shape), std::move(data));
}

Value OpHarness::apply(StringRef name, ArrayRef<Value> inputs, ArrayRef<AttrText> attrs) {
  const OpDef *op = ctx.ops.find(name);
  EXPECT_NE(op, nullptr) << name.str();
  Expected<NodeId> node = builder.add(*op, inputs, {"", ctx.attrs(attrs), NodeId()});
  if (node) return Value{*node};
  ADD_FAILURE() << toString(node.takeError());
  return inputs[0];
}

NaiveRun OpHarness::run() {
  // With every node as a head nothing is dropped and no id changes.
  std::vector<Value> heads;
  for (uint32_t n = 0; n < builder.numNodes(); ++n) heads.push_back(Value{NodeId(n)});
  const Graph graph = cantFail(std::move(builder).freeze(heads, {})).graph;
  builder = GraphBuilder(ctx, graph);
  NaiveOptions options;
  options.isTraining = isTraining;
  options.seed = 7;
  Expected<NaiveRun> done = NaiveRun::run(graph, bindings, options);
  if (!done) report_fatal_error(StringRef(describeError(done.takeError()) + "\n" + dump(graph)));
  // In place: central differences hold on to the memory.
  for (auto &[name, array] : bindings)
    llvm::copy(done->value(Value{nodeNamed(graph, name)}).values, array.values.begin());
  return std::move(*done);
}

std::vector<double> OpHarness::values(Value v) { return run().value(v).values; }

std::vector<int64_t> OpHarness::shape(Value v) {
  const Array array = run().value(v);
  return {array.shape.begin(), array.shape.end()};
}

std::vector<double> OpHarness::pieceValues(Value v, ArrayRef<Value> base) {
  NaiveRun done = run();
  NaiveRun::Call call;
  done.prepare(v.node, call);
  std::vector<Array> kept;
  for (Value input : base) kept.push_back(done.value(input));
  SmallVector<TensorRef, 4> at;
  for (Array &array : kept) at.push_back({array.values.data(), DType::Float64, array.shape});
  PieceCall piece;
  static_cast<KernelCall &>(piece) = call.call;
  piece.base = at;
  piece.kind->op->piece(piece);
  return done.value(v).values;
}

Value OpHarness::decomposed(Value v) {
  DecomposeRule rule(builder, v.node, NodeId());
  builder.kind(v.node).op->decompose(rule);
  const bool hasRefused = rule.hasRefused();
  if (rule.hasFailed() && !hasRefused) ADD_FAILURE() << toString(rule.takeFailure());
  return hasRefused ? Value() : rule.output(v.index);
}

namespace {

// Adjoints by entry, visited from the newest node to the oldest. A decomposed node's adjoints move to nodes that are
// newer than everything left, so one ordered set suffices.
class Tape {
 public:
  Tape(Context &ctx, GraphBuilder &builder) : ctx(ctx), builder(builder) {}

  void add(Value v, Value adjoint) {
    Value &sum = adjoints[{v.node.value, v.index}];
    const OpDef &plus = *ctx.ops.find("elemwise_add");
    sum = sum.isValid() ? Value{cantFail(builder.add(plus, {sum, adjoint}, {}))} : adjoint;
    pending.insert(v.node.value);
  }

  void drain() {
    while (!pending.empty()) {
      const NodeId n(*pending.rbegin());
      pending.erase(std::prev(pending.end()));
      if (!builder.kind(n).isVariable()) visit(n);
    }
  }

  Value of(Value v) { return adjoints[{v.node.value, v.index}]; }

 private:
  void visit(NodeId n) {
    const NodeKind &kind = builder.kind(n);
    if (kind.op->flags.hasNoGradient || kind.op->flags.isZero) return;
    SmallVector<Value, 4> heads;
    for (uint16_t o = 0; o < kind.numOutputs; ++o) heads.push_back(of(Value{n, o, 0}));
    if (kind.op->gradient) return differentiate(n, heads);
    ASSERT_NE(kind.op->decompose, nullptr) << kind.op->name.str() << " has no gradient";
    DecomposeRule rule(builder, n, NodeId());
    kind.op->decompose(rule);
    ASSERT_FALSE(rule.hasFailed()) << toString(rule.takeFailure());
    for (size_t o = 0; o < heads.size(); ++o)
      if (heads[o].isValid()) add(rule.output(o), heads[o]);
  }

  void differentiate(NodeId n, ArrayRef<Value> heads) {
    const NodeKind &kind = builder.kind(n);
    SmallVector<Value, 8> inputs(builder.inputs(n));
    SmallVector<bool, 8> wanted(inputs.size(), true);
    struct Maker {
      Context &ctx;
      GraphBuilder &builder;
    } maker{ctx, builder};
    HeadGradients given{heads,
                        [](void *self, size_t) {
                          Maker &m = *static_cast<Maker *>(self);
                          return Value{cantFail(m.builder.add(*m.ctx.ops.wellKnown.zerosPlaceholder, {}, {}))};
                        },
                        &maker};
    GradRule rule(builder, n, NodeId(), given, wanted);
    kind.op->gradient(rule);
    ASSERT_FALSE(rule.hasFailed()) << toString(rule.takeFailure());
    for (size_t i = 0; i < inputs.size(); ++i) {
      ASSERT_NE(rule.slot(i), GradRule::Slot::Unanswered) << kind.op->name.str() << " input " << i;
      if (rule.slot(i) == GradRule::Slot::Gradient && !kind.isStopped(i)) add(inputs[i], rule.gradient(i));
    }
  }

  Context &ctx;
  GraphBuilder &builder;
  std::map<std::pair<uint32_t, uint16_t>, Value> adjoints;
  std::set<uint32_t> pending;
};

}  // namespace

std::vector<Value> OpHarness::gradients(ArrayRef<Value> ys, ArrayRef<Value> seeds, ArrayRef<Value> xs) {
  Tape tape(ctx, builder);
  for (size_t i = 0; i < ys.size(); ++i) tape.add(ys[i], seeds[i]);
  tape.drain();
  std::vector<Value> result;
  for (Value x : xs) result.push_back(tape.of(x));
  return result;
}

double OpHarness::project(ArrayRef<Value> ys, ArrayRef<Value> seeds) {
  const NaiveRun done = run();
  double sum = 0;
  for (size_t k = 0; k < ys.size(); ++k) {
    const std::vector<double> values = done.value(ys[k]).values, weights = storage(seeds[k]);
    for (size_t i = 0; i < values.size(); ++i) sum += values[i] * weights[i];
  }
  return sum;
}

void OpHarness::checkGradients(ArrayRef<Value> ys, ArrayRef<Value> xs, unsigned order) {
  constexpr double kStep = 1e-5;
  std::vector<Value> heads(ys.begin(), ys.end());
  for (unsigned k = 1; k <= order; ++k) {
    std::vector<Value> seeds;
    for (size_t i = 0; i < heads.size(); ++i) seeds.push_back(variable(shape(heads[i]), 100 * k + i));
    const std::vector<Value> found = gradients(heads, seeds, xs);
    for (size_t x = 0; x < xs.size(); ++x) {
      const std::vector<double> analytic =
          found[x].isValid() ? values(found[x]) : std::vector<double>(storage(xs[x]).size(), 0.0);
      const std::vector<double> numeric = differences(storage(xs[x]), kStep, [&] { return project(heads, seeds); });
      SCOPED_TRACE("order " + std::to_string(k) + ", variable " + std::to_string(x));
      expectClose(analytic, numeric, 2e-8);
    }
    heads.clear();
    for (Value v : found)
      if (v.isValid()) heads.push_back(v);
  }
}

}  // namespace gradc::testing
