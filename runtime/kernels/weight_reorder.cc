// A tile is 16 filters by 16 channels with all taps. Blocked, each (tap, channel) has 16 filters in a stretch; in row-major
// order each filter has 16·taps numbers in a stretch: the transpose. Tested by tests/weight_reorder_test.cc
#include "runtime/kernels/weight_reorder.h"

#include "runtime/kernels/threads.h"

#include <cstring>

using dnnl::memory;

namespace gradc {
namespace {

constexpr int64_t kTile = 16;
constexpr int64_t kQuad = 4;
constexpr int64_t kGrain = 8;  // tiles that are not worth a second thread

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

std::optional<WeightReorder> WeightReorder::create(const memory::desc &blocked, const memory::desc &plain) {
  const memory::dims dims = plain.dims();
  if (dims.size() != 4 || dims[0] % kTile || dims[1] % kTile) return std::nullopt;
  constexpr memory::data_type kType = memory::data_type::f32;
  if (plain != memory::desc(dims, kType, memory::format_tag::abcd)) return std::nullopt;
  if (blocked != memory::desc(dims, kType, memory::format_tag::ABcd16b16a)) return std::nullopt;
  WeightReorder made;
  made.filters = dims[0], made.channels = dims[1], made.taps = dims[2] * dims[3];
  for (int64_t c = 0; c < kTile; ++c)
    for (int64_t t = 0; t < made.taps; ++t) made.rowOffset.push_back((t * kTile + c) * kTile);
  return made;
}

void WeightReorder::runTile(const float *from, float *to, int64_t filterBlock, int64_t channelBlock) const {
  const int64_t stride = channels * taps, size = kTile * taps;
  from += (filterBlock * (channels / kTile) + channelBlock) * size * kTile;
  to += filterBlock * kTile * stride + channelBlock * size;
  Quad q[4];
  for (int64_t row = 0; row < size; row += kQuad)
    for (int64_t f = 0; f < kTile; f += kQuad) {
      for (int64_t i = 0; i < kQuad; ++i) q[i] = load(from + rowOffset[static_cast<size_t>(row + i)] + f);
      transpose(q);
      for (int64_t i = 0; i < kQuad; ++i) store(to + (f + i) * stride + row, q[i]);
    }
}

void WeightReorder::run(const float *from, float *to) const {
  const int64_t rows = filters / kTile, columns = channels / kTile;
  parallelFor(scopeThreads(), rows * columns, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) runTile(from, to, tile / columns, tile % columns);
  });
}

}  // namespace gradc
