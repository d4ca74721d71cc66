// A tensor (the whole) and another that broadcasts to it (the part), as loops over channels see them: every element of
// the part is a channel, and the elements of the whole that it is repeated over are the channel's elements. If the part
// has an axis before a repeated one, there is a batch of such views. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "runtime/kernels/core/channel_loops.h"

namespace gradc::fast {

struct PartView {
  int64_t batch = 1;
  ChannelView view;  // of one element of the batch

  int64_t wholeSize() const { return view.count() * view.channels; }
};

/// `part` must broadcast to `whole`. Empty if repeated axes alternate with others more often than a view can express,
/// or if channels-last order would reorder the elements of the part.
std::optional<PartView> partView(Dims whole, Dims part, Layout layout);

/// Calls visit(i, c) for element i of the whole and c of the part; calls must be independent, as the loops are
/// vectorised.
template <class F> void mapParts(const PartView &parts, unsigned threads, F visit) {
  const ChannelView &view = parts.view;
  const ElementBlocks blocks(view);
  for (int64_t b = 0; b < parts.batch; ++b) {
    const int64_t first = b * parts.wholeSize(), channel = b * view.channels;
    forBlocks(view, blocks, threads, [=](Slice slice, int64_t) {
      mapChannels(view, slice, [=](int64_t i, int64_t c) { visit(first + i, channel + c); });
    });
  }
}

/// Scratch of sumParts.
template <class T> size_t sumPartsBytes(const PartView &parts) { return sumBlocksBytes<1, T>(parts.view); }

/// The terms of one element of the batch, in the form that sums over channels take.
template <class T, class Term> auto termsFrom(Term term, int64_t first, int64_t channel) {
  if constexpr (std::is_same_v<Term, Elements<T>>) return Elements<T>{term.x + first};
  else return [=](int64_t i, int64_t c, T *v) { v[0] = term(first + i, channel + c); };
}

/// Calls store(c, Σ of term(i, c)) for every element c of the part; `term` may be Elements.
template <class T, class Term, class Store>
void sumParts(const PartView &parts, unsigned threads, void *workspace, Term term, Store store) {
  const ChannelView &view = parts.view;
  double *totals = static_cast<double *>(workspace);
  const ChannelSums<T> columns{totals, reinterpret_cast<T *>(totals + view.channels)};
  const ElementBlocks blocks(view);
  for (int64_t b = 0; b < parts.batch; ++b) {
    const int64_t first = b * parts.wholeSize(), channel = b * view.channels;
    const auto add = termsFrom<T>(term, first, channel);
    if (blocks.count > 1) {
      sumBlocks<1, T>(view, threads, workspace, add);
      for (int64_t c = 0; c < view.channels; ++c) store(channel + c, totals[c]);
      continue;
    }
    forSlices(view, threads, [&](Slice slice) {
      sumChannels<1>(view, slice, columns, add);
      for (int64_t c = slice.begin; c < slice.end; ++c) store(channel + c, totals[c]);
    });
  }
}

}  // namespace gradc::fast
