// A tensor and a part of it that broadcasts to it, as the loops over channels see them: every element of the part is a
// channel, what is repeated over it are the channel's elements. Batches of that, one behind the other, where the part has
// an axis in front of one that is repeated. Tested by tests/fast_kernels_test.cc
#pragma once

#include "runtime/kernels/channel_loops.h"

namespace gradc::fast {

struct PartView {
  int64_t batch = 1;
  ChannelView view;  // of one element of the batch

  int64_t wholeSize() const { return view.count() * view.channels; }
};

/// `part` broadcasts to `whole`. Nothing when repeated axes alternate with others more often than a view can say, or when
/// channels-last order would not keep the elements of the part in theirs.
std::optional<PartView> partView(Dims whole, Dims part, Layout layout);

/// Calls visit(i, c) for element i of the whole and c of the part; elements may be visited side by side.
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

/// The terms of one element of a batch, for sums over channels.
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
