// Sums and maps per channel, in either precision and either layout.
//
// Each thread takes whole channels, so nothing is shared and no result depends on the number of threads. Partial sums of a
// block are in the type of the data, in independent lanes that the compiler vectorises; blocks are added up in double
// precision. Tested by tests/fast_kernels_test.cc
#pragma once

#include "ir/inference.h"
#include "ops/loops.h"
#include "runtime/kernels/prepared_kernel.h"
#include "runtime/kernels/threads.h"

#include <algorithm>
#include <optional>

namespace gradc::fast {

inline constexpr int64_t kChannelGrain = 32768;  // elements that are not worth a second thread
inline constexpr int64_t kLanes = 16;            // elements of one step of a sum
inline constexpr int64_t kRunBlock = 4096;       // elements of a run added up in the type of the data
inline constexpr int64_t kBlockRows = 256;       // the same where channels are next to each other
inline constexpr int64_t kSliceChannels = 16;

/// The data as (outer, channels, inner).
struct ChannelView {
  int64_t outer = 1, channels = 1, inner = 1;

  int64_t count() const { return outer * inner; }
  bool isRows() const { return inner == 1; }
};

inline std::optional<ChannelView> channelView(Dims shape, int64_t axis, Layout layout) {
  const size_t at = static_cast<size_t>(*normalizeAxis(axis, shape.size()));
  ChannelView view;
  if (layout == Layout::ChannelsLast) {
    if (at != 1) return std::nullopt;
    view.channels = shape[1];
    view.outer = shape[0] * shape[2] * shape[3];
    return view;
  }
  for (size_t i = 0; i < shape.size(); ++i) (i < at ? view.outer : i == at ? view.channels : view.inner) *= shape[i];
  return view;
}

struct Slice {
  int64_t begin, end;  // channels
};

/// Calls body(slice) for slices of the channels, shared among threads.
template <class F> void forSlices(const ChannelView &view, unsigned threads, F body) {
  const int64_t unit = view.isRows() ? kSliceChannels : 1;
  const int64_t units = (view.channels + unit - 1) / unit;
  const int64_t grain = view.count() * view.channels <= kChannelGrain ? units : 1;
  parallelFor(threads, units, grain,
              [&](int64_t begin, int64_t end) { body(Slice{begin * unit, std::min(end * unit, view.channels)}); });
}

/// N sums over one run of a channel: term(i, v) adds to v what element i contributes.
template <class T, size_t N, class Term> void addRun(int64_t begin, int64_t size, Term term, double *totals) {
  for (; size > 0; begin += kRunBlock, size -= kRunBlock) {
    const int64_t end = begin + std::min(size, kRunBlock);
    T lanes[N][kLanes] = {};
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes)
      for (int64_t l = 0; l < kLanes; ++l) {
        T v[N];
        term(i + l, v);
        for (size_t k = 0; k < N; ++k) lanes[k][l] += v[k];
      }
    for (; i < end; ++i) {
      T v[N];
      term(i, v);
      for (size_t k = 0; k < N; ++k) lanes[k][0] += v[k];
    }
    for (size_t k = 0; k < N; ++k)
      for (const T lane : lanes[k]) totals[k] += static_cast<double>(lane);
  }
}

/// Two columns over the channels for sums, and as many for their parts.
template <class T> struct ChannelSums {
  double *totals;
  T *partial;
};

/// N sums per channel of the slice, into `totals`; term(i, c, v) sets v to what element i of channel c adds.
template <size_t N, class T, class Term>
void sumChannels(const ChannelView &view, Slice slice, const ChannelSums<T> &columns, Term term) {
  const int64_t channels = view.channels;
  for (size_t k = 0; k < N; ++k)
    std::fill(columns.totals + k * channels + slice.begin, columns.totals + k * channels + slice.end, 0.0);
  if (!view.isRows()) {
    for (int64_t c = slice.begin; c < slice.end; ++c) {
      double totals[N] = {};
      for (int64_t o = 0; o < view.outer; ++o)
        addRun<T, N>((o * channels + c) * view.inner, view.inner, [&](int64_t i, T *v) { term(i, c, v); }, totals);
      for (size_t k = 0; k < N; ++k) columns.totals[k * channels + c] = totals[k];
    }
    return;
  }
  for (int64_t row = 0; row < view.outer; row += kBlockRows) {
    for (size_t k = 0; k < N; ++k)
      std::fill(columns.partial + k * channels + slice.begin, columns.partial + k * channels + slice.end, T{0});
    for (int64_t r = row; r < std::min(row + kBlockRows, view.outer); ++r) {
      T *partial = columns.partial;
      GRADC_INDEPENDENT
      for (int64_t c = slice.begin; c < slice.end; ++c) {
        T v[N];
        term(r * channels + c, c, v);
        for (size_t k = 0; k < N; ++k) partial[k * channels + c] += v[k];
      }
    }
    for (size_t k = 0; k < N; ++k)
      for (int64_t c = slice.begin; c < slice.end; ++c)
        columns.totals[k * channels + c] += static_cast<double>(columns.partial[k * channels + c]);
  }
}

/// Calls visit(i, c) for the elements of the slice; elements may be visited side by side.
template <class F> void mapChannels(const ChannelView &view, Slice slice, F visit) {
  const int64_t channels = view.channels, inner = view.inner;
  if (view.isRows()) {
    for (int64_t r = 0; r < view.outer; ++r) {
      GRADC_INDEPENDENT
      for (int64_t c = slice.begin; c < slice.end; ++c) visit(r * channels + c, c);
    }
    return;
  }
  for (int64_t c = slice.begin; c < slice.end; ++c)
    for (int64_t o = 0; o < view.outer; ++o) {
      const int64_t begin = (o * channels + c) * inner;
      GRADC_INDEPENDENT
      for (int64_t i = begin; i < begin + inner; ++i) visit(i, c);
    }
}

}  // namespace gradc::fast
