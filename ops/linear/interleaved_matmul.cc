// Attention on interleaved projections: MXNet's interleaved_matmul operators.
//
// A projection is (length, batch, heads · parts · d): for each head its part of the queries, the keys and the values
// side by side, or of the keys and the values, or of one of them alone. Scores are (batch · heads, queries, keys):
//   …_qk      scores = Q · Kᵀ / √d
//   …_valatt  y = scores · V, a projection of one part
// In …_selfatt_… one projection has all three parts; in …_encdec_… queries come apart from keys and values.
// Tested by tests/network_ops_test.cc
#include "ir/dim.h"
#include "ir/grad_rule.h"
#include "ir/inference.h"
#include "ops/elementwise/elementwise.h"
#include "ops/families.h"
#include "ops/linear/matrix.h"
#include "ops/primitives.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

struct AttentionParams {
  int64_t heads = 1;
};
constexpr AttrSpec kAttrs[] = {
    required<&AttentionParams::heads>("heads", "the number of heads").atLeast(1).atMost(0x7fffffff)};

/// One part of every head of a projection, an input of the forward operator.
struct Part {
  size_t input;
  int64_t index, parts;
};

/// What the operators multiply: queries and keys, or scores (input 1) and values.
struct Layout {
  bool isSelf;
  Part queries, keys, values;
};
constexpr Layout kSelf = {true, {0, 0, 3}, {0, 1, 3}, {0, 2, 3}};
constexpr Layout kEncDec = {false, {0, 0, 1}, {1, 0, 2}, {0, 1, 2}};

// Which input or output is a projection, and what it consists of.
struct Projection {
  size_t index;
  bool isOutput;
  int64_t parts;
  bool hasQueries, hasKeys;  // whose length its first axis is
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

  // What `whole` is a multiple of `factor` of.
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

// `first` is where the inputs of the forward operator begin; before them a gradient operator has dy.
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

// The matrices of one part of a projection, or of the scores, numbered batch · heads.
template <class T> struct Matrices {
  T *data;
  int64_t step;  // from one matrix to the next
  int64_t rowStride;

  static Matrices ofPart(const TensorRef &tensor, Part part, int64_t heads) {
    const int64_t size = tensor.shape[2] / (heads * part.parts);
    return {tensor.as<T>() + part.index * size, part.parts * size, tensor.shape[1] * tensor.shape[2]};
  }
  static Matrices ofScores(const TensorRef &tensor) {
    return {tensor.as<T>(), tensor.shape[1] * tensor.shape[2], tensor.shape[2]};
  }
  MatrixView<T> at(int64_t i) const { return {data + i * step, rowStride, 1}; }
};

// Extents of all products of a call.
struct Attention {
  int64_t heads, count, queries, keys, size;
  double scale;  // of the scores

  Attention(const KernelCall &call, const TensorRef &scores, const TensorRef &projection, int64_t parts)
      : heads(call.params<AttentionParams>().heads), count(scores.shape[0]), queries(scores.shape[1]),
        keys(scores.shape[2]), size(projection.shape[2] / (heads * parts)),
        scale(size == 0 ? 1 : 1 / std::sqrt(static_cast<double>(size))) {}
};

template <Layout layout> void queryKeyKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const Attention is(call, call.out[0], call.in[0], layout.queries.parts);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto q = Matrices<const T>::ofPart(call.in[0], layout.queries, is.heads);
    const auto k = Matrices<const T>::ofPart(call.in[layout.keys.input], layout.keys, is.heads);
    const auto scores = Matrices<T>::ofScores(call.out[0]);
    for (int64_t i = 0; i < is.count; ++i)
      multiply<T>(scores.at(i), q.at(i), transposed(k.at(i)), {is.queries, is.keys, is.size}, is.scale);
  });
}

// dQ = dscores · K / √d, dK = dscoresᵀ · Q / √d; what is neither has no gradient.
template <Layout layout> void queryKeyBackward(const KernelCall &call) {
  const Attention is(call, call.in[0], call.in[1], layout.queries.parts);
  const size_t keyInput = layout.keys.input;
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    for (size_t o = 0; o < call.out.size(); ++o)
      if (call.wants(o)) std::fill_n(call.out[o].as<T>(), call.out[o].size(), T{0});
    const auto dy = Matrices<const T>::ofScores(call.in[0]);
    const auto q = Matrices<const T>::ofPart(call.in[1], layout.queries, is.heads);
    const auto k = Matrices<const T>::ofPart(call.in[1 + keyInput], layout.keys, is.heads);
    for (int64_t i = 0; i < is.count && call.wants(0); ++i)
      multiply<T>(Matrices<T>::ofPart(call.out[0], layout.queries, is.heads).at(i), dy.at(i), k.at(i),
                  {is.queries, is.size, is.keys}, is.scale);
    for (int64_t i = 0; i < is.count && call.wants(keyInput); ++i)
      multiply<T>(Matrices<T>::ofPart(call.out[keyInput], layout.keys, is.heads).at(i), transposed(dy.at(i)), q.at(i),
                  {is.keys, is.size, is.queries}, is.scale);
  });
}

constexpr Part kWhole = {0, 0, 1};  // of the result of …_valatt

template <Layout layout> void valuesKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const Attention is(call, call.in[1], call.in[0], layout.values.parts);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto v = Matrices<const T>::ofPart(call.in[0], layout.values, is.heads);
    const auto scores = Matrices<const T>::ofScores(call.in[1]);
    const auto y = Matrices<T>::ofPart(call.out[0], kWhole, is.heads);
    for (int64_t i = 0; i < is.count; ++i) multiply<T>(y.at(i), scores.at(i), v.at(i), {is.queries, is.size, is.keys});
  });
}

// dV = scoresᵀ · dy, dscores = dy · Vᵀ
template <Layout layout> void valuesBackward(const KernelCall &call) {
  const Attention is(call, call.in[2], call.in[1], layout.values.parts);
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto dy = Matrices<const T>::ofPart(call.in[0], kWhole, is.heads);
    const auto v = Matrices<const T>::ofPart(call.in[1], layout.values, is.heads);
    const auto scores = Matrices<const T>::ofScores(call.in[2]);
    if (call.wants(0)) std::fill_n(call.out[0].as<T>(), call.out[0].size(), T{0});
    for (int64_t i = 0; i < is.count && call.wants(0); ++i)
      multiply<T>(Matrices<T>::ofPart(call.out[0], layout.values, is.heads).at(i), transposed(scores.at(i)), dy.at(i),
                  {is.keys, is.size, is.queries});
    for (int64_t i = 0; i < is.count && call.wants(1); ++i)
      multiply<T>(Matrices<T>::ofScores(call.out[1]).at(i), dy.at(i), transposed(v.at(i)),
                  {is.queries, is.keys, is.size});
  });
}

// The same in operators on matrices (batch · heads, length, d), on behalf of one node.
class Heads {
 public:
  explicit Heads(DecomposeRule &d) : d(d), heads(std::to_string(d.params<AttentionParams>().heads)) {}

  Value part(Value projection, Part part) {
    Value v = reshaped(projection, "(0,0,-4," + heads + ",-1)");
    if (part.parts > 1) {
      v = reshaped(v, "(0,0,0,-4," + std::to_string(part.parts) + ",-1)");
      v = d.emit(kSliceAxis, {v}, {{"axis", "3"}, {"begin", d.number(part.index)}, {"end", d.number(part.index + 1)}});
      v = reshaped(v, "(0,0,0,-3)");
    }
    return reshaped(d.emit(kTranspose, {v}, {{"axes", "(1,2,0,3)"}}), "(-3,-2)");
  }

  /// A projection of these matrices, in order of their parts; where there is none, zeros.
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
  const Value dy = heads.part(d.x(0), kWhole);
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
  OpDef op;
  op.name = names.name;
  op.summary = "scores of attention, y = Q·Kᵀ/√d per batch element and head, from interleaved projections";
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
  OpDef op;
  op.name = names.name;
  op.summary = "values weighted by attention, y = scores·V per batch element and head, V in an interleaved projection";
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
  OpDef op;
  op.name = names.backward;
  op.summary = summary;
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

constinit const OpDef kBackwardSelfQk = queryKeyBackwardOp<kSelf>(kSelfQkNames);
constinit const OpDef kBackwardSelfValues = valuesBackwardOp<kSelf>(kSelfValuesNames);
constinit const OpDef kBackwardEncDecQk = queryKeyBackwardOp<kEncDec>(kEncDecQkNames);
constinit const OpDef kBackwardEncDecValues = valuesBackwardOp<kEncDec>(kEncDecValuesNames);
constinit const OpDef kSelfQk = queryKeyOp<kSelf>(kSelfQkNames, byFused<kBackwardSelfQk>);
constinit const OpDef kSelfValues = valuesOp<kSelf>(kSelfValuesNames, byFused<kBackwardSelfValues>);
constinit const OpDef kEncDecQk = queryKeyOp<kEncDec>(kEncDecQkNames, byFused<kBackwardEncDecQk>);
constinit const OpDef kEncDecValues = valuesOp<kEncDec>(kEncDecValuesNames, byFused<kBackwardEncDecValues>);

constexpr const OpDef *kOps[] = {&kSelfQk,         &kSelfValues,         &kEncDecQk,         &kEncDecValues,
                                 &kBackwardSelfQk, &kBackwardSelfValues, &kBackwardEncDecQk, &kBackwardEncDecValues};

}  // namespace

constinit const OpFamily kInterleavedMatmulFamily = kOps;

}  // namespace gradc
