// Attention on interleaved projections: MXNet's interleaved_matmul operators, and the division of its scores.
//
// Tested by tests/ops/network_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/tensor/dim.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/linear/interleaved_matmul.h"

#include <algorithm>

using namespace llvm;

namespace gradc {
namespace {

using Layout = AttentionLayout;

constexpr AttrSpec kAttrs[] = {
    required<&AttentionParams::heads>("heads", "the number of heads").atLeast(1).atMost(0x7fffffff)};

// Which input or output is a projection, and what it consists of.
struct Projection {
  size_t index;
  bool isOutput;
  int64_t parts;
  bool hasQueries, hasKeys;  // whose length its first axis has
};

class AttentionShapes {
 public:
  explicit AttentionShapes(ShapeInference &s) : s(s), heads(s.params<AttentionParams>().heads) {}

  void relate(ArrayRef<Projection> projections, size_t scores, bool isScoresOutput, bool isSelf) {
    const DimsBuffer unknown(3, kUnknownDim);
    state(scores, isScoresOutput, unknown);
    for (const Projection &p : projections) state(p.index, p.isOutput, unknown);
    if (s.hasFailed()) return;
    const ShapeRef att = isScoresOutput ? s.out(scores) : s.in(scores);
    read(att[0], heads, "scores", "first", att, batch);
    learn(queries, att[1]);
    learn(keys, att[2]);
    for (const Projection &p : projections) readProjection(p);
    if (isSelf) queries = keys = std::max(queries, keys);
    if (s.hasFailed()) return;
    for (const Projection &p : projections)
      state(p.index, p.isOutput, {p.hasQueries ? queries : keys, batch, times(width, Dim(heads) * p.parts)});
    state(scores, isScoresOutput, {times(batch, heads), queries, keys});
  }

 private:
  static void learn(int64_t &known, int64_t dim) { known = std::max(known, dim); }
  static int64_t times(int64_t dim, Dim factor) { return dim == kUnknownDim ? dim : (factor * dim).inShape(); }

  // Infers `known` from `whole`, which must be `factor` times as much.
  void read(int64_t whole, Dim factor, StringRef name, StringRef axis, ShapeRef shape, int64_t &known) {
    if (whole == kUnknownDim || s.hasFailed()) return;
    if (factor > whole ? whole != 0 : whole % factor.nearest() != 0)
      return s.fail(name + " has shape " + toString(shape) + ", expected a multiple of " + Twine(factor.nearest()) +
                    " on the " + axis + " axis");
    learn(known, whole / factor.nearest());
  }

  void readProjection(const Projection &p) {
    const ShapeRef shape = p.isOutput ? s.out(p.index) : s.in(p.index);
    if (p.hasQueries) learn(queries, shape[0]);
    if (p.hasKeys) learn(keys, shape[0]);
    learn(batch, shape[1]);
    read(shape[2], Dim(heads) * p.parts, "projection", "last", shape, width);
  }

  void state(size_t index, bool isOutput, Dims dims) { isOutput ? s.setOut(index, dims) : s.setIn(index, dims); }

  ShapeInference &s;
  const int64_t heads;
  int64_t batch = kUnknownDim, queries = kUnknownDim, keys = kUnknownDim, width = kUnknownDim;
};

// `first` is the index of the forward operator's first input; a gradient operator has dy before it.
template <Layout layout> void relateQueryKey(ShapeInference &s, bool isForward) {
  const size_t first = isForward ? 0 : 1;
  const Projection both[] = {
      {first, false, layout.queries.parts, true, layout.isSelf},
      {first + layout.keys.input, false, layout.keys.parts, layout.isSelf, true},
  };
  AttentionShapes(s).relate(both, 0, isForward, layout.isSelf);
}

template <Layout layout> void relateValues(ShapeInference &s, bool isForward) {
  const size_t first = isForward ? 0 : 1;
  const Projection both[] = {
      {first, false, layout.values.parts, layout.isSelf, true},
      {0, isForward, 1, true, layout.isSelf},
  };
  AttentionShapes(s).relate(both, first + 1, false, layout.isSelf);
}

template <void relate(ShapeInference &, bool isForward)> void backwardShape(ShapeInference &s) {
  for (int pass = 0; pass < 2 && !s.hasFailed(); ++pass) {
    for (size_t o = 0; o < s.numOutputs(); ++o) s.sameInOut(o + 1, o);
    if (pass == 0 && !s.hasFailed()) relate(s, false);
  }
}

constexpr auto kCompute = [](const auto &products) { products.compute(); };

template <Layout layout> void queryKeyKernel(const KernelCall &call) {
  dispatchFloating(call.in[0].dtype, [&](auto zero) { queryKeyProducts<decltype(zero), layout>(call, kCompute); });
}
template <Layout layout> void queryKeyBackward(const KernelCall &call) {
  dispatchFloating(call.in[0].dtype, [&](auto zero) { queryKeyGradients<decltype(zero), layout>(call, kCompute); });
}
template <Layout layout> void valuesKernel(const KernelCall &call) {
  dispatchFloating(call.in[0].dtype, [&](auto zero) { valueProducts<decltype(zero), layout>(call, kCompute); });
}
template <Layout layout> void valuesBackward(const KernelCall &call) {
  dispatchFloating(call.in[0].dtype, [&](auto zero) { valueGradients<decltype(zero), layout>(call, kCompute); });
}

// The same in operators on matrices (batch · heads, length, d), emitted for one node.
class Heads {
 public:
  explicit Heads(DecomposeRule &d) : d(d), heads(std::to_string(d.params<AttentionParams>().heads)) {}

  Value part(Value projection, AttentionPart part) {
    Value v = reshaped(projection, "(0,0,-4," + heads + ",-1)");
    if (part.parts > 1) {
      v = reshaped(v, "(0,0,0,-4," + std::to_string(part.parts) + ",-1)");
      v = d.emit(kSliceAxis, {v}, {{"axis", "3"}, {"begin", d.number(part.index)}, {"end", d.number(part.index + 1)}});
      v = reshaped(v, "(0,0,0,-3)");
    }
    return reshaped(d.emit(kTranspose, {v}, {{"axes", "(1,2,0,3)"}}), "(-3,-2)");
  }

  /// A projection made of these matrices, in order of the parts; zeros where a part is missing.
  Value projection(ArrayRef<Value> parts) {
    SmallVector<Value, 3> list;
    const Value any = *llvm::find_if(parts, [](Value v) { return v.isValid(); });
    const Value zeros = llvm::all_of(parts, [](Value v) { return v.isValid(); }) ? any : d.emit(kZerosLike, {any});
    for (Value v : parts) {
      v = reshaped(v.isValid() ? v : zeros, "(-4,-1," + heads + ",0,0)");
      v = d.emit(kTranspose, {v}, {{"axes", "(2,0,1,3)"}});
      list.push_back(parts.size() > 1 ? d.emit(kExpandDims, {v}, {{"axis", "3"}}) : v);
    }
    if (list.size() == 1) return reshaped(list[0], "(0,0,-3)");
    const AttrText attrs[] = {{"num_args", d.number(static_cast<int64_t>(list.size()))}, {"dim", "3"}};
    const Value joined = d.emit(kConcat, list, d.context().attrs(ArrayRef<AttrText>(attrs)));
    return reshaped(reshaped(joined, "(0,0,-3,0)"), "(0,0,-3)");
  }

  Value product(Value a, Value b, bool transposesA, bool transposesB) {
    return emitProduct(d, kBatchDot, a, b, transposesA, transposesB);
  }
  Value scaled(Value v) { return d.emit(kDivSqrtDim, {v}); }

 private:
  Value reshaped(Value v, const std::string &shape) { return d.emit(kReshape, {v}, {{"shape", shape}}); }

  DecomposeRule &d;
  const std::string heads;
};

template <Layout layout> void decomposeQueryKey(DecomposeRule &d) {
  Heads heads(d);
  const Value q = heads.part(d.x(0), layout.queries), k = heads.part(d.x(layout.keys.input), layout.keys);
  d.y(0, heads.product(heads.scaled(q), k, false, true));
}

template <Layout layout> void decomposeQueryKeyBackward(DecomposeRule &d) {
  Heads heads(d);
  const Value dy = d.x(0);
  const size_t keyInput = layout.keys.input;
  Value dq, dk;
  if (d.wants(0)) dq = heads.scaled(heads.product(dy, heads.part(d.x(1 + keyInput), layout.keys), false, false));
  if (d.wants(keyInput)) dk = heads.scaled(heads.product(dy, heads.part(d.x(1), layout.queries), true, false));
  if (layout.isSelf) return d.y(0, heads.projection({dq, dk, Value()}));
  if (d.wants(0)) d.y(0, heads.projection(dq));
  if (d.wants(1)) d.y(1, heads.projection({dk, Value()}));
}

template <Layout layout> void decomposeValues(DecomposeRule &d) {
  Heads heads(d);
  d.y(0, heads.projection(heads.product(d.x(1), heads.part(d.x(0), layout.values), false, false)));
}

template <Layout layout> void decomposeValuesBackward(DecomposeRule &d) {
  Heads heads(d);
  const Value dy = heads.part(d.x(0), kWholeProjection);
  if (d.wants(0)) {
    SmallVector<Value, 3> parts(static_cast<size_t>(layout.values.parts));
    parts.back() = heads.product(d.x(2), dy, true, false);
    d.y(0, heads.projection(parts));
  }
  if (d.wants(1)) d.y(1, heads.product(dy, heads.part(d.x(1), layout.values), false, true));
}

struct Names {
  StringRef name, backward;
  NameList inputs, gradients;
};

template <Layout layout> constexpr OpDef queryKeyOp(const Names &names, void (*gradient)(GradRule &)) {
  OpDef op =
      named({names.name}, "scores of attention, y = Q·Kᵀ/√d per batch element and head, from interleaved projections");
  op.inputs = names.inputs;
  op.attrs = kAttrs;
  op.params = paramsOf<AttentionParams>();
  op.shape = [](ShapeInference &s) { relateQueryKey<layout>(s, true); };
  op.gradient = gradient;
  op.decompose = decomposeQueryKey<layout>;
  op.kernel = queryKeyKernel<layout>;
  return op;
}

template <Layout layout> constexpr OpDef valuesOp(const Names &names, void (*gradient)(GradRule &)) {
  OpDef op =
      named({names.name},
            "values weighted by attention, y = scores·V per batch element and head, V in an interleaved projection");
  op.inputs = names.inputs;
  op.attrs = kAttrs;
  op.params = paramsOf<AttentionParams>();
  op.shape = [](ShapeInference &s) { relateValues<layout>(s, true); };
  op.gradient = gradient;
  op.decompose = decomposeValues<layout>;
  op.kernel = valuesKernel<layout>;
  return op;
}

constexpr OpDef backwardOp(const Names &names, StringRef summary) {
  OpDef op = named({names.backward}, summary);
  op.inputs = names.gradients;
  op.attrs = kAttrs;
  op.params = paramsOf<AttentionParams>();
  op.flags.isBackward = true;
  return op;
}

template <Layout layout> constexpr OpDef queryKeyBackwardOp(const Names &names) {
  OpDef op = backwardOp(names, "gradient of the scores: dQ = dy·K/√d, dK = dyᵀ·Q/√d, zeros for values");
  op.outputs = layout.isSelf ? Ports{"dqueries_keys_values"} : Ports{"dqueries", "dkeys_values"};
  op.shape = backwardShape<relateQueryKey<layout>>;
  op.decompose = decomposeQueryKeyBackward<layout>;
  op.kernel = queryKeyBackward<layout>;
  return op;
}

template <Layout layout> constexpr OpDef valuesBackwardOp(const Names &names) {
  OpDef op = backwardOp(names, "gradients of values weighted by attention: dV = scoresᵀ·dy, zeros for the other parts, "
                               "dscores = dy·Vᵀ");
  op.outputs = layout.isSelf ? Ports{"dqueries_keys_values", "dattention"} : Ports{"dkeys_values", "dattention"};
  op.shape = backwardShape<relateValues<layout>>;
  op.decompose = decomposeValuesBackward<layout>;
  op.kernel = valuesBackward<layout>;
  return op;
}

template <const OpDef &Backward> void byFused(GradRule &g) {
  SmallVector<Value, 3> operands = {g.dy(0)};
  for (size_t i = 0; i < g.numInputs(); ++i) operands.push_back(g.x(i));
  g.fused(Backward, operands);
}

constexpr Names kSelfQkNames = {"_contrib_interleaved_matmul_selfatt_qk",
                                "_backward_interleaved_matmul_selfatt_qk",
                                {"queries_keys_values"},
                                {"dy", "queries_keys_values"}};
constexpr Names kSelfValuesNames = {"_contrib_interleaved_matmul_selfatt_valatt",
                                    "_backward_interleaved_matmul_selfatt_valatt",
                                    {"queries_keys_values", "attention"},
                                    {"dy", "queries_keys_values", "attention"}};
constexpr Names kEncDecQkNames = {"_contrib_interleaved_matmul_encdec_qk",
                                  "_backward_interleaved_matmul_encdec_qk",
                                  {"queries", "keys_values"},
                                  {"dy", "queries", "keys_values"}};
constexpr Names kEncDecValuesNames = {"_contrib_interleaved_matmul_encdec_valatt",
                                      "_backward_interleaved_matmul_encdec_valatt",
                                      {"keys_values", "attention"},
                                      {"dy", "keys_values", "attention"}};

constinit const OpDef kBackwardSelfQk = queryKeyBackwardOp<kSelfAttention>(kSelfQkNames);
constinit const OpDef kBackwardSelfValues = valuesBackwardOp<kSelfAttention>(kSelfValuesNames);
constinit const OpDef kBackwardEncDecQk = queryKeyBackwardOp<kCrossAttention>(kEncDecQkNames);
constinit const OpDef kBackwardEncDecValues = valuesBackwardOp<kCrossAttention>(kEncDecValuesNames);
constinit const OpDef kSelfQk = queryKeyOp<kSelfAttention>(kSelfQkNames, byFused<kBackwardSelfQk>);
constinit const OpDef kSelfValues = valuesOp<kSelfAttention>(kSelfValuesNames, byFused<kBackwardSelfValues>);
constinit const OpDef kEncDecQk = queryKeyOp<kCrossAttention>(kEncDecQkNames, byFused<kBackwardEncDecQk>);
constinit const OpDef kEncDecValues = valuesOp<kCrossAttention>(kEncDecValuesNames, byFused<kBackwardEncDecValues>);

void divideBySqrtDim(const KernelCall &call) {
  if (!call.wants(0)) return;
  const Dims dims = call.out[0].shape;
  const double root = std::sqrt(static_cast<double>(dims.empty() ? 1 : dims.back()));
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.in[0].as<const T>();
    T *y = call.out[0].as<T>();
    for (int64_t i = 0, size = call.out[0].size(); i < size; ++i) y[i] = x[i] / static_cast<T>(root);
  });
}

}  // namespace

// A multiple of its input: the gradient is the same operator.
constinit const OpDef kDivSqrtDim = {
    .name = "_contrib_div_sqrt_dim",
    .summary = "y = x/√d, d the length of the last axis",
    .inputs = {"data"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kDivSqrtDim, {g.dy(0)})); },
    .decompose =
        [](DecomposeRule &d) {
          if (d.rank(d.x(0)) == 0) return d.y(0, d.emit(kCopy, {d.x(0)}));
          const Value length = d.emit(kSum, {d.emit(kOnesLike, {d.x(0)})}, {{"axis", "-1"}, {"keepdims", "True"}});
          d.y(0, d.emit(kBroadcastDiv, {d.x(0), d.emit(kSqrt, {length})}));
        },
    .kernel = divideBySqrtDim,
};

constinit const OpFamily kInterleavedMatmulFamily =
    kOps<kSelfQk, kSelfValues, kEncDecQk, kEncDecValues, kBackwardSelfQk, kBackwardSelfValues, kBackwardEncDecQk,
         kBackwardEncDecValues, kDivSqrtDim>;

}  // namespace gradc
