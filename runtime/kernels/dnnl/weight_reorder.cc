// A tile has 16 filters by 16 channels, with all taps. Inside it the 16 filters of a (tap, channel) are contiguous; in
// row-major order the 16·taps numbers of a filter are: the transpose. Tested by
// tests/runtime/kernels/weight_reorder_test.cc
#include "runtime/kernels/dnnl/weight_reorder.h"

#include "runtime/kernels/core/threads.h"

#include <algorithm>
#include <cstring>

namespace gradc {
namespace {

constexpr int64_t kQuad = 4;
constexpr int64_t kGrain = 8;  // fewer tiles are not worth a second thread

using Quad = float __attribute__((vector_size(16)));

Quad load(const float *from) {
  Quad q;
  std::memcpy(&q, from, sizeof q);
  return q;
}
void store(float *to, const Quad &q) { std::memcpy(to, &q, sizeof q); }

/// Transposes four rows of four.
inline void transpose(Quad (&q)[4]) {
  const Quad a = __builtin_shufflevector(q[0], q[1], 0, 4, 1, 5), b = __builtin_shufflevector(q[2], q[3], 0, 4, 1, 5);
  const Quad c = __builtin_shufflevector(q[0], q[1], 2, 6, 3, 7), d = __builtin_shufflevector(q[2], q[3], 2, 6, 3, 7);
  q[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
  q[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
  q[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5);
  q[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
}

}  // namespace

std::optional<WeightReorder> WeightReorder::create(Dims shape) {
  if (!hasTiles(shape)) return std::nullopt;
  WeightReorder made;
  made.filters = shape[0], made.channels = shape[1], made.taps = shape[2] * shape[3];
  for (int64_t c = 0; c < kTile; ++c)
    for (int64_t t = 0; t < made.taps; ++t) made.rowOffset.push_back((t * kTile + c) * kTile);
  return made;
}

/// Calls visit(plain, tile, stride, rows) for blocks of four filters by four numbers. In row-major order a block starts
/// at `plain`, with filters `stride` apart; in tiles it is at `tile` plus rows[0], …, rows[3], with filters contiguous.
template <class F> void WeightReorder::forQuads(F visit) const {
  const int64_t rows = filters / kTile, columns = channels / kTile, stride = channels * taps, size = kTile * taps;
  parallelFor(scopeThreads(), rows * columns, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t plain = at / columns * kTile * stride + at % columns * size, tile = at * size * kTile;
      for (int64_t row = 0; row < size; row += kQuad)
        for (int64_t f = 0; f < kTile; f += kQuad) visit(plain + f * stride + row, tile + f, stride, &rowOffset[row]);
    }
  });
}

void WeightReorder::toPlain(const float *tiles, float *plain) const {
  forQuads([=](int64_t to, int64_t from, int64_t stride, const int64_t *rows) {
    Quad q[kQuad];
    for (int64_t i = 0; i < kQuad; ++i) q[i] = load(tiles + from + rows[i]);
    transpose(q);
    for (int64_t i = 0; i < kQuad; ++i) store(plain + to + i * stride, q[i]);
  });
}

void WeightReorder::toTiles(const float *plain, float *tiles) const {
  forQuads([=](int64_t from, int64_t to, int64_t stride, const int64_t *rows) {
    Quad q[kQuad];
    for (int64_t i = 0; i < kQuad; ++i) q[i] = load(plain + from + i * stride);
    transpose(q);
    for (int64_t i = 0; i < kQuad; ++i) store(tiles + to + rows[i], q[i]);
  });
}

void WeightReorder::toAdjoint(const float *tiles, int64_t block, float *adjoint) const {
  const int64_t rows = filters / kTile, columns = channels / kTile, groupSize = taps * filters * block;
  parallelFor(scopeThreads(), rows * columns, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t filter = at / columns * kTile, channel = at % columns * kTile;
      float *group = adjoint + channel / block * groupSize + filter * block + channel % block;
      for (int64_t t = 0; t < taps; ++t)
        for (int64_t c = 0; c < kTile; c += kQuad)
          for (int64_t f = 0; f < kTile; f += kQuad) {
            Quad q[kQuad];
            for (int64_t i = 0; i < kQuad; ++i) q[i] = load(tiles + ((at * taps + t) * kTile + c + i) * kTile + f);
            transpose(q);
            float *to = group + ((taps - 1 - t) * filters + f) * block + c;
            for (int64_t i = 0; i < kQuad; ++i) store(to + i * block, q[i]);
          }
    }
  });
  const int64_t filled = channels % block;
  if (filled == 0) return;
  float *last = adjoint + channels / block * groupSize;
  for (int64_t row = 0; row < taps * filters; ++row)
    std::fill(last + row * block + filled, last + (row + 1) * block, 0.0f);
}

}  // namespace gradc
