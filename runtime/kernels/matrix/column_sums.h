// Sums over the rows of a matrix, and over the images and pixels of each channel, by the block sums of channel_loops.h:
// the blocks depend only on the sizes, so no result depends on the number of threads. Without scratch. Tested by
// tests/runtime/kernels/long_sums_test.cc, tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ops/spatial/spatial.h"
#include "runtime/kernels/core/channel_loops.h"

#include <algorithm>

namespace gradc::fast {

/// sums[c] = Σ matrix[r, c]. Rows are `stride` elements apart.
template <class T> void sumColumns(const T *matrix, int64_t stride, int64_t rows, int64_t columns, T *sums) {
  constexpr int64_t kWidth = 256;  // columns that stay together
  const int64_t chunks = (columns + kWidth - 1) / kWidth;
  if (chunks == 0) return;
  // Where chunks are few, their rows are divided too.
  const int64_t wanted = std::clamp<int64_t>(std::min(rows * columns / kChannelGrain, kPieces) / chunks, 1, kPieces);
  const int64_t length = (rows + wanted * kBlockRows - 1) / (wanted * kBlockRows) * kBlockRows;
  const int64_t blocks = wanted == 1 || rows == 0 ? 1 : (rows + length - 1) / length;
  const ChannelView view{rows, stride, 1};
  auto sumPiece = [=](int64_t chunk, int64_t block, double *totals) {
    T partial[kWidth];
    const int64_t first = chunk * kWidth, width = std::min(kWidth, columns - first), begin = block * length;
    const Slice slice{0, width, begin, blocks == 1 ? rows : begin + length};
    sumChannels<1>(view, slice, ChannelSums<T>{totals, partial}, Elements<T>{matrix + first});
  };
  auto write = [=](int64_t chunk, const double *totals) {
    const int64_t first = chunk * kWidth, width = std::min(kWidth, columns - first);
    for (int64_t c = 0; c < width; ++c) sums[first + c] = static_cast<T>(totals[c]);
  };
  const int64_t grain = std::max<int64_t>(kChannelGrain * chunks * blocks / std::max<int64_t>(rows * columns, 1), 1);
  if (blocks == 1)
    return vectorFor(scopeThreads(), chunks, grain, [=](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        double totals[kWidth];
        sumPiece(chunk, 0, totals);
        write(chunk, totals);
      }
    });
  double partial[kPieces * kWidth], *const totals = partial;
  vectorFor(scopeThreads(), chunks * blocks, grain, [=](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) sumPiece(piece / blocks, piece % blocks, totals + piece * kWidth);
  });
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    double *total = totals + chunk * blocks * kWidth;
    for (int64_t block = 1, width = std::min(kWidth, columns - chunk * kWidth); block < blocks; ++block)
      for (int64_t c = 0; c < width; ++c) total[c] += total[block * kWidth + c];
    write(chunk, total);
  }
}
template <class T> void sumColumns(const T *matrix, int64_t rows, int64_t columns, T *sums) {
  sumColumns(matrix, columns, rows, columns, sums);
}

/// sums[c] = Σ of the elements of channel c.
template <class T> void sumPerChannel(const ChannelView &view, const T *x, T *sums) {
  if (view.isRows()) return sumColumns(x, view.count(), view.channels, sums);
  const ElementBlocks blocks(view);
  double partial[kPieces] = {}, *const totals = partial;  // of all blocks, where there is more than one
  forBlocks(view, blocks, scopeThreads(), [=, &view](Slice slice, int64_t block) {
    for (int64_t c = slice.begin; c < slice.end; ++c) {
      double total = 0;
      forRuns(view, slice, c, [&](int64_t begin, int64_t size) { addElements(x + begin, size, &total); });
      if (blocks.count == 1) sums[c] = static_cast<T>(total);
      else totals[block * view.channels + c] = total;
    }
  });
  for (int64_t c = 0; blocks.count > 1 && c < view.channels; ++c) {
    double total = 0;
    for (int64_t block = 0; block < blocks.count; ++block) total += totals[block * view.channels + c];
    sums[c] = static_cast<T>(total);
  }
}

/// The elements of images (n, c, …), whose channels may be last.
inline ChannelView channelsOf(const ImageView &images, bool isLast) {
  if (isLast) return {images.batch * images.pixels(), images.channels, 1};
  return {images.batch, images.channels, images.pixels()};
}

}  // namespace gradc::fast
