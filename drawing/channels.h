// Tracks in channels: spans that overlap in one channel get different tracks, spans of one net share one. Tested by
// tests/tools/drawing_test.cc
#pragma once

#include "llvm/ADT/STLExtras.h"

#include <tuple>

#include <cstdint>
#include <vector>

namespace gradc {

class Channels {
 public:
  explicit Channels(uint32_t numChannels) : counts(numChannels, 0) {}

  /// Net `net` needs [low, high] of the channel; several calls for one net request the hull.
  void add(uint32_t channel, uint32_t net, double low, double high) {
    spans.push_back({channel, net, std::min(low, high), std::max(low, high), 0});
  }

  /// Call once, after the last `add`. Spans of one track are more than `clearance` apart.
  void assign(double clearance) {
    mergeNets();
    std::vector<size_t> order(spans.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    llvm::sort(order, [&](size_t a, size_t b) {
      const Span &s = spans[a], &t = spans[b];
      return std::tie(s.channel, s.low, s.high, s.net) < std::tie(t.channel, t.low, t.high, t.net);
    });
    std::vector<double> ends;  // by track
    uint32_t channel = 0;
    for (size_t i : order) {
      Span &span = spans[i];
      if (span.channel != channel) ends.clear();
      channel = span.channel;
      while (span.track < ends.size() && ends[span.track] + clearance >= span.low) ++span.track;
      ends.resize(std::max<size_t>(ends.size(), span.track + 1));
      ends[span.track] = span.high;
      counts[channel] = static_cast<uint32_t>(ends.size());
    }
  }

  uint32_t count(uint32_t channel) const { return counts[channel]; }
  /// The track of a net that was added to the channel.
  uint32_t track(uint32_t channel, uint32_t net) const {
    auto span = llvm::lower_bound(spans, std::pair(channel, net), [](const Span &s, std::pair<uint32_t, uint32_t> key) {
      return std::pair(s.channel, s.net) < key;
    });
    return span->track;
  }

 private:
  struct Span {
    uint32_t channel, net;
    double low, high;
    uint32_t track;
  };

  void mergeNets() {
    llvm::stable_sort(
        spans, [](const Span &a, const Span &b) { return std::pair(a.channel, a.net) < std::pair(b.channel, b.net); });
    size_t kept = 0;
    for (const Span &span : spans) {
      Span *last = kept > 0 ? &spans[kept - 1] : nullptr;
      if (last && last->channel == span.channel && last->net == span.net) {
        last->low = std::min(last->low, span.low);
        last->high = std::max(last->high, span.high);
      } else {
        spans[kept++] = span;
      }
    }
    spans.resize(kept);
  }

  std::vector<Span> spans;  // after `assign` by channel and net
  std::vector<uint32_t> counts;
};

}  // namespace gradc
