// A naive interpreter and reverse-mode tape over a GraphBuilder.
#include "tests/support/op_harness.h"

#include "ir/inference.h"
#include "ops/registry.h"

#include "gtest/gtest.h"

#include <cmath>
#include <set>

using namespace llvm;

namespace gradc::testing {

OpHarness::OpHarness() : builder(ctx) { registerBuiltinOps(ctx.ops); }

Value OpHarness::variable(std::vector<int64_t> shape, std::vector<double> data) {
  Value v = builder.addVariable("", Attrs());
  EXPECT_EQ(TensorRef({nullptr, DType::Float64, shape}).size(), static_cast<int64_t>(data.size()));
  tensors[v.node.value].push_back({std::move(shape), DType::Float64, std::move(data)});
  return v;
}

Value OpHarness::variable(std::vector<int64_t> shape, uint64_t seed) {
  const RandomKey key{seed, 0, 0};
  std::vector<double> data(static_cast<size_t>(TensorRef({nullptr, DType::Float64, shape}).size()));
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

void OpHarness::runNode(NodeId n) {
  const NodeKind &kind = builder.kind(n);
  ArrayRef<Value> inputs = builder.inputs(n);
  ShapeTable table;
  SmallVector<ShapeId, 8> in, out(kind.numOutputs, kUnknownShape);
  SmallVector<DType, 8> inTypes, outTypes(kind.numOutputs, DType::Unknown);
  SmallVector<TensorRef, 8> operands;
  for (size_t i = 0; i < inputs.size(); ++i) {
    HarnessTensor &t = tensors[inputs[i].node.value][inputs[i].index];
    in.push_back(t.dtype == DType::Unknown ? kUnknownShape : *table.intern(t.shape));
    inTypes.push_back(t.dtype);
    operands.push_back(t.ref());
    if (kind.isIgnored(i)) operands.back().data = nullptr;
  }
  for (uint16_t o = 0; o < kind.numOutputs; ++o)  // INF-08: a gradient has the shape of what it is the gradient of
    if (auto like = shapedLike.find({n.value, o}); like != shapedLike.end())
      out[o] = *table.intern(tensors[like->second.node.value][like->second.index].shape);
  ShapeInference shapes(table, kind, in, out, false);
  if (kind.op->shape) kind.op->shape(shapes);
  EXPECT_FALSE(shapes.hasFailed()) << shapes.failureText().str();
  DTypeInference types(kind, inTypes, outTypes);
  kind.op->dtype ? kind.op->dtype(types) : types.sameAll();
  EXPECT_FALSE(types.hasFailed()) << types.failureText().str();
  std::vector<HarnessTensor> &results = tensors[n.value];
  results.resize(kind.numOutputs);
  SmallVector<TensorRef, 4> outputs;
  for (size_t o = 0; o < results.size(); ++o) {
    if (out[o] == kUnknownShape) {  // a placeholder: nobody may look at it
      results[o].dtype = DType::Unknown;
      continue;
    }
    ASSERT_TRUE(table.isFullyKnown(out[o])) << kind.op->name.str() << " output " << o;
    results[o].shape = table[out[o]].dims().vec();
    results[o].dtype = outTypes[o];
    results[o].data.assign(static_cast<size_t>(results[o].ref().size()), std::nan(""));
  }
  for (HarnessTensor &t : results) outputs.push_back(t.ref());
  if (outputs.empty() || results[0].dtype == DType::Unknown) return;
  SmallVector<Request, 4> requests(outputs.size(), Request::Write);
  KernelCall call;
  call.kind = &kind;
  call.in = operands;
  call.out = outputs;
  call.requests = requests;
  call.isTraining = isTraining;
  call.random = random;
  std::vector<char> scratch(kind.op->workspace ? kind.op->workspace(kind, operands, outputs) : 0);
  call.workspace = scratch.data();
  ASSERT_NE(kind.op->kernel, nullptr) << kind.op->name.str();
  kind.op->kernel(call);
}

void OpHarness::run() {
  for (uint32_t n = 0; n < builder.numNodes(); ++n)
    if (!builder.kind(NodeId(n)).isVariable()) runNode(NodeId(n));
}

std::vector<double> OpHarness::values(Value v) {
  run();
  return tensors[v.node.value][v.index].data;
}

std::vector<int64_t> OpHarness::shape(Value v) {
  run();
  return tensors[v.node.value][v.index].shape;
}

std::vector<double> OpHarness::pieceValues(Value v, ArrayRef<Value> base) {
  run();
  SmallVector<TensorRef, 4> in, out, at;
  for (Value input : builder.inputs(v.node)) in.push_back(tensors[input.node.value][input.index].ref());
  for (HarnessTensor &t : tensors[v.node.value]) out.push_back(t.ref());
  for (Value input : base) at.push_back(tensors[input.node.value][input.index].ref());
  const SmallVector<Request, 4> requests(out.size(), Request::Write);
  PieceCall call;
  call.kind = &builder.kind(v.node);
  call.in = in;
  call.out = out;
  call.requests = requests;
  call.isTraining = isTraining;
  call.base = at;
  call.kind->op->piece(call);
  return tensors[v.node.value][v.index].data;
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
  Tape(Context &ctx, GraphBuilder &builder, std::map<std::pair<uint32_t, uint16_t>, Value> &shapedLike)
      : ctx(ctx), builder(builder), shapedLike(shapedLike) {}

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
    HeadGradients given{heads, [](void *self, size_t) {
                          Maker &m = *static_cast<Maker *>(self);
                          return Value{cantFail(m.builder.add(*m.ctx.ops.wellKnown.zerosPlaceholder, {}, {}))};
                        }, &maker};
    GradRule rule(builder, n, NodeId(), given, wanted);
    kind.op->gradient(rule);
    ASSERT_FALSE(rule.hasFailed()) << toString(rule.takeFailure());
    for (size_t i = 0; i < inputs.size(); ++i) {
      ASSERT_NE(rule.slot(i), GradRule::Slot::Unanswered) << kind.op->name.str() << " input " << i;
      if (rule.slot(i) == GradRule::Slot::Gradient)
        shapedLike.insert({{rule.gradient(i).node.value, rule.gradient(i).index}, inputs[i]});
      if (rule.slot(i) == GradRule::Slot::Gradient && !kind.isStopped(i)) add(inputs[i], rule.gradient(i));
    }
  }

  Context &ctx;
  GraphBuilder &builder;
  std::map<std::pair<uint32_t, uint16_t>, Value> &shapedLike;
  std::map<std::pair<uint32_t, uint16_t>, Value> adjoints;
  std::set<uint32_t> pending;
};

}  // namespace

std::vector<Value> OpHarness::gradients(ArrayRef<Value> ys, ArrayRef<Value> seeds, ArrayRef<Value> xs) {
  Tape tape(ctx, builder, shapedLike);
  for (size_t i = 0; i < ys.size(); ++i) tape.add(ys[i], seeds[i]);
  tape.drain();
  std::vector<Value> result;
  for (Value x : xs) result.push_back(tape.of(x));
  return result;
}

double OpHarness::project(ArrayRef<Value> ys, ArrayRef<Value> seeds) {
  run();
  double sum = 0;
  for (size_t k = 0; k < ys.size(); ++k)
    for (size_t i = 0; i < tensors[ys[k].node.value][ys[k].index].data.size(); ++i)
      sum += tensors[ys[k].node.value][ys[k].index].data[i] * tensors[seeds[k].node.value][0].data[i];
  return sum;
}

namespace {

void expectNear(ArrayRef<double> found, ArrayRef<double> expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  double scale = 0;
  for (double value : expected) scale = std::max(scale, std::abs(value));
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], tolerance * scale) << "element " << i;
}

}  // namespace

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
      std::vector<double> numeric;
      for (double &element : storage(xs[x])) {
        const double base = element;
        element = base + kStep;
        const double above = project(heads, seeds);
        element = base - kStep;
        numeric.push_back((above - project(heads, seeds)) / (2 * kStep));
        element = base;
      }
      SCOPED_TRACE("order " + std::to_string(k) + ", variable " + std::to_string(x));
      expectNear(analytic, numeric, 2e-8);
    }
    heads.clear();
    for (Value v : found)
      if (v.isValid()) heads.push_back(v);
  }
}

}  // namespace gradc::testing
