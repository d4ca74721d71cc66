// Shared by the reference and fast kernels of attention on interleaved projections.
//
// A projection is (length, batch, heads · parts · d): for each head its part of the queries, the keys and the values
// side by side, or of the keys and the values, or of one of them alone. Scores are (batch · heads, queries, keys):
//   …_qk      scores = Q · Kᵀ / √d
//   …_valatt  y = scores · V, a projection of one part
// In …_selfatt_… one projection has all three parts; in …_encdec_… queries are separate from keys and values.
// Tested by tests/ops/network_ops_test.cc
#pragma once

#include "ir/rules/kernel.h"
#include "ops/linear/matrix.h"

#include <algorithm>
#include <cmath>

namespace gradc {

struct AttentionParams {
  int64_t heads = 1;
};

/// One part of every head of a projection, an input of the forward operator.
struct AttentionPart {
  size_t input;
  int64_t index, parts;
};

/// What the operators multiply: queries and keys, or scores (input 1) and values.
struct AttentionLayout {
  bool isSelf;
  AttentionPart queries, keys, values;
};
inline constexpr AttentionLayout kSelfAttention = {true, {0, 0, 3}, {0, 1, 3}, {0, 2, 3}};
inline constexpr AttentionLayout kCrossAttention = {false, {0, 0, 1}, {1, 0, 2}, {0, 1, 2}};

/// The only part of the result of …_valatt.
inline constexpr AttentionPart kWholeProjection = {0, 0, 1};

/// The matrices of one part of a projection, or of the scores, numbered batch · heads.
template <class T> struct AttentionMatrices {
  T *data;
  int64_t step;  // from one matrix to the next
  int64_t rowStride;

  static AttentionMatrices ofPart(const TensorRef &tensor, AttentionPart part, int64_t heads) {
    const int64_t size = tensor.shape[2] / (heads * part.parts);
    T *const data = tensor.as<T>();  // null if only outputs that are not requested depend on it
    return {data ? data + part.index * size : nullptr, part.parts * size, tensor.shape[1] * tensor.shape[2]};
  }
  static AttentionMatrices ofScores(const TensorRef &tensor) {
    return {tensor.as<T>(), tensor.shape[1] * tensor.shape[2], tensor.shape[2]};
  }
  MatrixView<T> at(int64_t i) const { return {data + i * step, rowStride, 1}; }
};

/// Extents of all products of a call.
struct Attention {
  int64_t heads, count, queries, keys, size;
  double scale;  // of the scores

  Attention(const KernelCall &call, const TensorRef &scores, const TensorRef &projection, int64_t parts)
      : heads(call.params<AttentionParams>().heads), count(scores.shape[0]), queries(scores.shape[1]),
        keys(scores.shape[2]), size(projection.shape[2] / (heads * parts)),
        scale(size == 0 ? 1 : 1 / std::sqrt(static_cast<double>(size))) {}
};

/// The operators as matrix products: each calls multiply(products) for every requested output.
template <class T, AttentionLayout layout, class F> void queryKeyProducts(const KernelCall &call, F multiply) {
  using In = AttentionMatrices<const T>;
  const Attention is(call, call.out[0], call.in[0], layout.queries.parts);
  const In q = In::ofPart(call.in[0], layout.queries, is.heads);
  const In k = In::ofPart(call.in[layout.keys.input], layout.keys, is.heads);
  const DotExtents extents = {is.queries, is.keys, is.size};
  if (call.wants(0))
    multiply(
        MatrixProducts{AttentionMatrices<T>::ofScores(call.out[0]), q, k, false, true, extents, is.count, is.scale});
}

/// dQ = dscores · K / √d, dK = dscoresᵀ · Q / √d; all other parts get zeros.
template <class T, AttentionLayout layout, class F> void queryKeyGradients(const KernelCall &call, F multiply) {
  using In = AttentionMatrices<const T>;
  using Out = AttentionMatrices<T>;
  const Attention is(call, call.in[0], call.in[1], layout.queries.parts);
  const size_t keyInput = layout.keys.input;
  for (size_t o = 0; o < call.out.size(); ++o)
    if (call.wants(o)) std::fill_n(call.out[o].as<T>(), call.out[o].size(), T{0});
  const In dy = In::ofScores(call.in[0]);
  const In q = In::ofPart(call.in[1], layout.queries, is.heads);
  const In k = In::ofPart(call.in[1 + keyInput], layout.keys, is.heads);
  if (call.wants(0))
    multiply(MatrixProducts{Out::ofPart(call.out[0], layout.queries, is.heads), dy, k, false, false,
                            DotExtents{is.queries, is.size, is.keys}, is.count, is.scale});
  if (call.wants(keyInput))
    multiply(MatrixProducts{Out::ofPart(call.out[keyInput], layout.keys, is.heads), dy, q, true, false,
                            DotExtents{is.keys, is.size, is.queries}, is.count, is.scale});
}

template <class T, AttentionLayout layout, class F> void valueProducts(const KernelCall &call, F multiply) {
  using In = AttentionMatrices<const T>;
  const Attention is(call, call.in[1], call.in[0], layout.values.parts);
  const In v = In::ofPart(call.in[0], layout.values, is.heads), scores = In::ofScores(call.in[1]);
  const DotExtents extents = {is.queries, is.size, is.keys};
  if (call.wants(0))
    multiply(MatrixProducts{AttentionMatrices<T>::ofPart(call.out[0], kWholeProjection, is.heads), scores, v, false,
                            false, extents, is.count});
}

/// dV = scoresᵀ · dy, dscores = dy · Vᵀ
template <class T, AttentionLayout layout, class F> void valueGradients(const KernelCall &call, F multiply) {
  using In = AttentionMatrices<const T>;
  using Out = AttentionMatrices<T>;
  const Attention is(call, call.in[2], call.in[1], layout.values.parts);
  const In dy = In::ofPart(call.in[0], kWholeProjection, is.heads);
  const In v = In::ofPart(call.in[1], layout.values, is.heads), scores = In::ofScores(call.in[2]);
  if (call.wants(0)) {
    std::fill_n(call.out[0].as<T>(), call.out[0].size(), T{0});
    multiply(MatrixProducts{Out::ofPart(call.out[0], layout.values, is.heads), scores, dy, true, false,
                            DotExtents{is.keys, is.size, is.queries}, is.count});
  }
  if (call.wants(1))
    multiply(MatrixProducts{Out::ofScores(call.out[1]), dy, v, false, true, DotExtents{is.queries, is.keys, is.size},
                            is.count});
}

}  // namespace gradc
