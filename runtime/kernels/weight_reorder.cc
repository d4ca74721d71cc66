// Tested by tests/fast_kernels_test.cc
#include "runtime/kernels/weight_reorder.h"

#include "runtime/kernels/threads.h"

#include <algorithm>

using dnnl::memory;

namespace gradc {
namespace {

constexpr int64_t kTile = 16;

/// What index 0, 1, … of one axis adds to the offset.
std::vector<int64_t> contributions(const dnnl_memory_desc_t &desc, int axis) {
  const dnnl_blocking_desc_t &blocking = desc.format_desc.blocking;
  std::vector<int64_t> offsets(static_cast<size_t>(desc.dims[axis]), 0);
  for (size_t i = 0; i < offsets.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i), stride = 1;
    for (int b = blocking.inner_nblks - 1; b >= 0; stride *= blocking.inner_blks[b--]) {
      if (blocking.inner_idxs[b] != axis) continue;
      offsets[i] += rest % blocking.inner_blks[b] * stride;
      rest /= blocking.inner_blks[b];
    }
    offsets[i] += rest * blocking.strides[axis];
  }
  return offsets;
}

}  // namespace

std::optional<WeightReorder> WeightReorder::create(const memory::desc &plain, const memory::desc &blocked,
                                                   unsigned threads) {
  const dnnl_memory_desc_t &desc = blocked.data;
  if (desc.ndims != 4 || desc.format_kind != dnnl_blocked || desc.extra.flags != 0 || desc.offset0 != 0)
    return std::nullopt;
  if (blocked.get_size() != plain.get_size()) return std::nullopt;
  WeightReorder reorder;
  reorder.threads = threads;
  reorder.filter = contributions(desc, 0);
  reorder.channel = contributions(desc, 1);
  for (int64_t row : contributions(desc, 2))
    for (int64_t column : contributions(desc, 3)) reorder.tap.push_back(row + column);
  return reorder;
}

template <class F> void WeightReorder::forTiles(F move) const {
  const int64_t filters = static_cast<int64_t>(filter.size()), channels = static_cast<int64_t>(channel.size());
  const int64_t taps = static_cast<int64_t>(tap.size()), numTiles = (filters + kTile - 1) / kTile;
  auto moveTile = [&](int64_t firstFilter, int64_t firstChannel) {
    const int64_t endChannel = std::min(firstChannel + kTile, channels);
    for (int64_t f = firstFilter, end = std::min(f + kTile, filters); f < end; ++f)
      for (int64_t c = firstChannel; c < endChannel; ++c) {
        const int64_t from = (f * channels + c) * taps, to = filter[f] + channel[c];
        for (int64_t t = 0; t < taps; ++t) move(from + t, to + tap[t]);
      }
  };
  parallelFor(threads, numTiles, filters * channels * taps < (1 << 15) ? numTiles : 1, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile)
      for (int64_t c = 0; c < channels; c += kTile) moveTile(tile * kTile, c);
  });
}

void WeightReorder::toBlocked(const float *plain, float *blocked) const {
  forTiles([=](int64_t at, int64_t to) { blocked[to] = plain[at]; });
}

void WeightReorder::toPlain(const float *blocked, float *plain) const {
  forTiles([=](int64_t at, int64_t from) { plain[at] = blocked[from]; });
}

}  // namespace gradc
