// Sums and maps per channel, in either precision and either layout.
//
// Each thread takes whole channels, or, where there are few, blocks of their elements. The blocks depend only on the
// sizes, so no result depends on the number of threads. Partial sums of a block have the type of the data, in
// independent lanes that the compiler vectorises; blocks are added up in double precision. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ir/rules/inference.h"
#include "runtime/kernels/core/prepared_kernel.h"
#include "runtime/kernels/core/vector_loops.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <type_traits>

namespace gradc::fast {

inline constexpr int64_t kChannelGrain = 32768;  // fewer elements are not worth a second thread
inline constexpr int64_t kLanes = 16;            // elements per step of a sum
inline constexpr int64_t kRunBlock = 4096;       // elements of a run that are added up in the type of the data
inline constexpr int64_t kTermBlock = 256;       // terms in an array
inline constexpr int64_t kBlockRows = 256;       // as kRunBlock, in rows, where channels are contiguous
inline constexpr int64_t kRowsAtOnce = 4;        // rows added between a load and a store of the sums
inline constexpr int64_t kSliceChannels = 16;
inline constexpr int64_t kPieces = 16;  // with fewer slices, their elements are divided among threads too
/// With more elements, rows are divided whatever the number of slices: threads that read parts of the same rows get
/// less out of memory than those that read different rows.
inline constexpr int64_t kWholeRows = int64_t{1} << 18;

/// The data as (outer, channels, inner).
struct ChannelView {
  int64_t outer = 1, channels = 1, inner = 1;

  int64_t count() const { return outer * inner; }
  bool isRows() const { return inner == 1; }
  int64_t sliceChannels() const { return isRows() ? kSliceChannels : 1; }
  int64_t numSlices() const { return (channels + sliceChannels() - 1) / sliceChannels(); }
};

inline std::optional<ChannelView> channelView(Dims shape, int64_t axis, Layout layout) {
  const size_t at = static_cast<size_t>(*normalizeAxis(axis, shape.size()));
  ChannelView view;
  if (layout == Layout::ChannelsLast) {
    if (at != 1) return std::nullopt;
    view.channels = shape[1];
    view.outer = shape[0] * numPixels(shape);
    return view;
  }
  for (size_t i = 0; i < shape.size(); ++i) (i < at ? view.outer : i == at ? view.channels : view.inner) *= shape[i];
  return view;
}

struct Slice {
  int64_t begin, end;                                             // channels
  int64_t first = 0, last = std::numeric_limits<int64_t>::max();  // elements of each of them
};

/// Blocks of the elements of each channel.
struct ElementBlocks {
  int64_t count = 1, length;

  static ElementBlocks one(const ChannelView &view) { return ElementBlocks(view.count()); }
  explicit ElementBlocks(const ChannelView &view) : length(view.count()) {
    const int64_t size = view.count() * view.channels, worth = size / kChannelGrain;
    const int64_t slices = view.isRows() && size > kWholeRows ? 1 : std::max<int64_t>(view.numSlices(), 1);
    const int64_t wanted = std::min(worth, kPieces / slices);
    if (wanted <= 1) return;
    const int64_t unit = view.isRows() ? kBlockRows : kRunBlock;
    length = (view.count() + wanted * unit - 1) / (wanted * unit) * unit;
    count = (view.count() + length - 1) / length;
  }

 private:
  explicit ElementBlocks(int64_t length) : length(length) {}
};

/// A second pass over memory that starts at the end finds in the cache what the first pass read last.
enum class Order { Forwards, Backwards };

/// Calls body(slice, block) for every block of slices of the channels, divided among threads. Slices are as wide as
/// possible with two per thread, so that neighbouring channels are visited together. No result depends on their width.
template <Order order = Order::Forwards, class F>
void forBlocks(const ChannelView &view, const ElementBlocks &blocks, unsigned threads, F body) {
  const int64_t units = view.numSlices();
  if (units == 0) return;
  const int64_t wanted = blocks.count == 1 ? units : (2 * int64_t{threads} + blocks.count - 1) / blocks.count;
  const int64_t width = (units + wanted - 1) / wanted, perBlock = (units + width - 1) / width;
  const int64_t pieces = perBlock * blocks.count, unit = width * view.sliceChannels();
  const int64_t grain = view.count() * view.channels <= kChannelGrain ? pieces : 1;
  vectorFor(threads, pieces, grain, [=](int64_t begin, int64_t end) {
    const int64_t atOnce = blocks.count == 1 ? end - begin : 1;
    for (int64_t next = begin; next < end; next += atOnce) {
      const int64_t piece = order == Order::Forwards ? next : begin + end - atOnce - next;
      const int64_t at = piece % perBlock * unit, block = piece / perBlock;
      body(Slice{at, std::min(at + atOnce * unit, view.channels), block * blocks.length, (block + 1) * blocks.length},
           block);
    }
  });
}

/// Calls body(slice) for slices of the channels, divided among threads.
template <class F> void forSlices(const ChannelView &view, unsigned threads, F body) {
  forBlocks(view, ElementBlocks::one(view), threads, [=](Slice slice, int64_t) { body(slice); });
}

/// Calls body(row) for rows of `length` elements, divided among threads.
template <class F> void forRows(int64_t rows, int64_t length, unsigned threads, F body) {
  vectorFor(threads, rows, std::max<int64_t>(kChannelGrain / length, 1), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) body(row);
  });
}

/// Term i goes to lane i % kLanes, terms after the last full step to lane 0.
template <class T> void addToLanes(const T *terms, int64_t size, T (&lanes)[kLanes]) {
  T sums[kLanes];
  std::copy(lanes, lanes + kLanes, sums);
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes)
    for (int64_t l = 0; l < kLanes; ++l) sums[l] += terms[i + l];
  for (; i < size; ++i) sums[0] += terms[i];
  std::copy(sums, sums + kLanes, lanes);
}

/// N sums over one run of a channel: term(i, v) sets v to what element i contributes.
template <class T, size_t N, class Term> void addRun(int64_t begin, int64_t size, Term term, double *totals) {
  for (; size > 0; begin += kRunBlock, size -= kRunBlock) {
    const int64_t end = begin + std::min(size, kRunBlock);
    T lanes[N][kLanes] = {}, terms[N][kTermBlock];
    for (int64_t at = begin; at < end; at += kTermBlock) {
      const int64_t count = std::min(kTermBlock, end - at);
      GRADC_INDEPENDENT
      for (int64_t i = 0; i < count; ++i) {
        T v[N];
        term(at + i, v);
        for (size_t k = 0; k < N; ++k) terms[k][i] = v[k];
      }
      for (size_t k = 0; k < N; ++k) addToLanes(terms[k], count, lanes[k]);
    }
    for (size_t k = 0; k < N; ++k)
      for (const T lane : lanes[k]) totals[k] += static_cast<double>(lane);
  }
}

/// The sum of one run of `x`, in the order of addRun.
template <class T> void addElements(const T *x, int64_t size, double *total) {
  for (; size > 0; x += kRunBlock, size -= kRunBlock) {
    T lanes[kLanes] = {};
    addToLanes(x, std::min(size, kRunBlock), lanes);
    for (const T lane : lanes) *total += static_cast<double>(lane);
  }
}

/// Terms that are plain elements of memory.
template <class T> struct Elements {
  const T *x;
  void operator()(int64_t i, int64_t, T *v) const { v[0] = x[i]; }
};

/// Calls body(begin, size) for each contiguous run of the slice's elements of channel c.
template <class F> void forRuns(const ChannelView &view, Slice slice, int64_t c, F body) {
  const int64_t inner = view.inner, last = std::min(slice.last, view.count());
  for (int64_t element = slice.first; element < last;) {
    const int64_t o = element / inner, end = std::min((o + 1) * inner, last);
    body((o * view.channels + c) * inner + (element - o * inner), end - element);
    element = end;
  }
}

/// Columns over the channels, one per sum, and as many for partial sums.
template <class T> struct ChannelSums {
  double *totals;
  T *partial;
};

/// Adds the terms of rows r to r + R, one after the other, to the partial sums of the slice's channels.
template <size_t N, int64_t R, class T, class Term>
void addRows(const ChannelView &view, Slice slice, int64_t r, T *partial, Term term) {
  const int64_t channels = view.channels;
  GRADC_INDEPENDENT
  for (int64_t c = slice.begin; c < slice.end; ++c) {
    T sums[N], v[N];
    for (size_t k = 0; k < N; ++k) sums[k] = partial[k * channels + c];
    for (int64_t i = 0; i < R; ++i) {
      term((r + i) * channels + c, c, v);
      for (size_t k = 0; k < N; ++k) sums[k] += v[k];
    }
    for (size_t k = 0; k < N; ++k) partial[k * channels + c] = sums[k];
  }
}

/// N sums per channel of the slice, into `totals`; term(i, c, v) sets v to what element i of channel c contributes.
template <size_t N, class T, class Term>
void sumChannels(const ChannelView &view, Slice slice, const ChannelSums<T> &columns, Term term) {
  const int64_t channels = view.channels, last = std::min(slice.last, view.count());
  for (size_t k = 0; k < N; ++k)
    std::fill(columns.totals + k * channels + slice.begin, columns.totals + k * channels + slice.end, 0.0);
  if (!view.isRows()) {
    for (int64_t c = slice.begin; c < slice.end; ++c) {
      double totals[N] = {};
      forRuns(view, slice, c, [&](int64_t begin, int64_t size) {
        if constexpr (std::is_same_v<Term, Elements<T>>) addElements(term.x + begin, size, totals);
        else addRun<T, N>(begin, size, [&](int64_t i, T *v) { term(i, c, v); }, totals);
      });
      for (size_t k = 0; k < N; ++k) columns.totals[k * channels + c] = totals[k];
    }
    return;
  }
  for (int64_t row = slice.first; row < last; row += kBlockRows) {
    for (size_t k = 0; k < N; ++k)
      std::fill(columns.partial + k * channels + slice.begin, columns.partial + k * channels + slice.end, T{0});
    const int64_t end = std::min(row + kBlockRows, last);
    int64_t r = row;
    for (; r + kRowsAtOnce <= end; r += kRowsAtOnce) addRows<N, kRowsAtOnce>(view, slice, r, columns.partial, term);
    for (; r < end; ++r) addRows<N, 1>(view, slice, r, columns.partial, term);
    for (size_t k = 0; k < N; ++k)
      for (int64_t c = slice.begin; c < slice.end; ++c)
        columns.totals[k * channels + c] += static_cast<double>(columns.partial[k * channels + c]);
  }
}

/// Scratch of sumBlocks.
template <size_t N, class T> size_t sumBlocksBytes(const ChannelView &view) {
  return static_cast<size_t>(ElementBlocks(view).count * view.channels) * N * (sizeof(double) + sizeof(T));
}

/// N sums per channel, each in a column at the beginning of `workspace`: block by block, divided among threads.
template <size_t N, class T, class Term>
void sumBlocks(const ChannelView &view, unsigned threads, void *workspace, Term term) {
  const ElementBlocks blocks(view);
  const int64_t width = static_cast<int64_t>(N) * view.channels;
  double *totals = static_cast<double *>(workspace);
  T *partial = reinterpret_cast<T *>(totals + blocks.count * width);
  forBlocks(view, blocks, threads, [&](Slice slice, int64_t block) {
    sumChannels<N>(view, slice, ChannelSums<T>{totals + block * width, partial + block * width}, term);
  });
  for (int64_t block = 1; block < blocks.count; ++block)
    for (int64_t i = 0; i < width; ++i) totals[i] += totals[block * width + i];
}

/// Calls visit(i, c) for the elements of the slice; calls must be independent, as the loops are vectorised.
template <class F> void mapChannels(const ChannelView &view, Slice slice, F visit) {
  if (view.isRows()) {
    for (int64_t r = slice.first; r < std::min(slice.last, view.outer); ++r) {
      GRADC_INDEPENDENT
      for (int64_t c = slice.begin; c < slice.end; ++c) visit(r * view.channels + c, c);
    }
    return;
  }
  for (int64_t c = slice.begin; c < slice.end; ++c)
    forRuns(view, slice, c, [&](int64_t begin, int64_t size) {
      GRADC_INDEPENDENT
      for (int64_t i = begin; i < begin + size; ++i) visit(i, c);
    });
}

}  // namespace gradc::fast
