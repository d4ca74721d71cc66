// The mean of each channel and the sum of its squared deviations, in one pass over memory.
//
// Elements are read in blocks that fit the cache, so that the mean of a block is known when its deviations are squared.
// Blocks are combined in double precision by the formula of Chan, Golub and LeVeque, "Updating Formulae and a Pairwise
// Algorithm for Computing Sample Variances" (1979), which is as exact as two passes. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "runtime/kernels/core/channel_loops.h"

namespace gradc::fast {

inline constexpr int64_t kMomentBlock = 32768;  // elements of all channels together, where channels are contiguous

/// Columns over the channels.
template <class T> struct MomentColumns {
  double *mean, *squares;  // of the elements so far
  T *centre, *partial;     // of the current block
};

/// Adds `count` elements with mean `blockMean` to `n` others. The caller adds their squared deviations from
/// `blockMean`.
inline void addMean(double blockMean, double count, double n, double &mean, double &squares) {
  const double delta = blockMean - mean, share = count / (n + count);
  mean += delta * share;
  squares += delta * delta * n * share;
}

/// Adds rows `begin` to `end` to the slice's columns, after `n` others.
template <class T>
void addRowMoments(const ChannelView &view, Slice slice, int64_t begin, int64_t end, double n,
                   const MomentColumns<T> &columns, const T *x) {
  const double count = static_cast<double>(end - begin);
  auto sumInto = [&](auto term) {
    std::fill(columns.partial + slice.begin, columns.partial + slice.end, T{0});
    int64_t r = begin;
    for (; r + kRowsAtOnce <= end; r += kRowsAtOnce) addRows<1, kRowsAtOnce>(view, slice, r, columns.partial, term);
    for (; r < end; ++r) addRows<1, 1>(view, slice, r, columns.partial, term);
  };
  sumInto(Elements<T>{x});
  for (int64_t c = slice.begin; c < slice.end; ++c) {
    const double mean = static_cast<double>(columns.partial[c]) / count;
    columns.centre[c] = static_cast<T>(mean);
    addMean(mean, count, n, columns.mean[c], columns.squares[c]);
  }
  const T *centre = columns.centre;
  sumInto([=](int64_t i, int64_t c, T *v) { v[0] = (x[i] - centre[c]) * (x[i] - centre[c]); });
  for (int64_t c = slice.begin; c < slice.end; ++c) columns.squares[c] += static_cast<double>(columns.partial[c]);
}

/// Moments of the slice's elements.
template <class T>
void channelMoments(const ChannelView &view, Slice slice, const MomentColumns<T> &columns, const T *x) {
  const int64_t last = std::min(slice.last, view.count());
  std::fill(columns.mean + slice.begin, columns.mean + slice.end, 0.0);
  std::fill(columns.squares + slice.begin, columns.squares + slice.end, 0.0);
  if (view.isRows()) {
    const int64_t atOnce = std::clamp(kMomentBlock / view.channels, 4 * kRowsAtOnce, kBlockRows);
    for (int64_t row = slice.first; row < last; row += atOnce)
      addRowMoments(view, slice, row, std::min(row + atOnce, last), static_cast<double>(row - slice.first), columns, x);
    return;
  }
  for (int64_t c = slice.begin; c < slice.end; ++c) {
    double n = 0, mean = 0, squares = 0;
    forRuns(view, slice, c, [&](int64_t begin, int64_t size) {
      for (const int64_t end = begin + size; begin < end; begin += kRunBlock) {
        const int64_t length = std::min(kRunBlock, end - begin);
        const double count = static_cast<double>(length);
        double sum = 0;
        addElements(x + begin, length, &sum);
        const T centre = static_cast<T>(sum / count);
        addRun<T, 1>(begin, length, [=](int64_t i, T *v) { v[0] = (x[i] - centre) * (x[i] - centre); }, &squares);
        addMean(sum / count, count, n, mean, squares);
        n += count;
      }
    });
    columns.mean[c] = mean;
    columns.squares[c] = squares;
  }
}

/// Moments of all elements, block by block, divided among threads. `workspace` has sumBlocksBytes<2, T>(view); the
/// means and squares are its first columns.
template <class T> void blockMoments(const ChannelView &view, unsigned threads, void *workspace, const T *x) {
  const ElementBlocks blocks(view);
  const int64_t channels = view.channels;
  double *totals = static_cast<double *>(workspace);
  T *partial = reinterpret_cast<T *>(totals + blocks.count * 2 * channels);
  forBlocks(view, blocks, threads, [&](Slice slice, int64_t block) {
    double *mean = totals + block * 2 * channels;
    T *centre = partial + block * 2 * channels;
    channelMoments(view, slice, MomentColumns<T>{mean, mean + channels, centre, centre + channels}, x);
  });
  for (int64_t block = 1; block < blocks.count; ++block) {
    const int64_t before = block * blocks.length, count = std::min(blocks.length, view.count() - before);
    const double *mean = totals + block * 2 * channels, *squares = mean + channels;
    for (int64_t c = 0; c < channels; ++c) {
      addMean(mean[c], static_cast<double>(count), static_cast<double>(before), totals[c], totals[channels + c]);
      totals[channels + c] += squares[c];
    }
  }
}

}  // namespace gradc::fast
