// A console reporter that also collects times and prints the ratios that performance limits apply to.
#pragma once

#include "benchmark/benchmark.h"

#include <map>
#include <string>

namespace gradc::bench {

class RatioTable : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run> &reports) override;
  /// Prints stage time over the yardstick per family and size, scaling from 10^5 to 10^6, and bytes a node; false when
  /// a limit that applies (10^6 nodes) is exceeded.
  bool printRatios();

 private:
  struct Key {
    std::string family, stage;
    size_t nodes;
    auto operator<=>(const Key &) const = default;
  };
  std::map<Key, double> nanoseconds;               // per iteration; the median if runs are repeated
  std::map<Key, benchmark::Counter> bytesPerNode;  // of the emitted graph, under its gradient stage
};

}  // namespace gradc::bench
