// Collects medians and prints ratios.
#include "bench/ratio_table.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace gradc::bench {
namespace {

struct Limit {
  StringRef stage;
  double ratio;
};
constexpr Limit kLimits[] = {{"gradient", 0.2}, {"infer", 0.2}, {"plan", 0.5}, {"save", 0.5}, {"load", 1.6}};
constexpr double kBytesPerNode = 60;
constexpr size_t kLarge = 1000000, kMedium = 100000;

}  // namespace

void RatioTable::ReportRuns(const std::vector<Run> &reports) {
  ConsoleReporter::ReportRuns(reports);
  for (const Run &run : reports) {
    bool isMedian = run.run_type == Run::RT_Aggregate && run.aggregate_name == "median";
    if (run.run_type == Run::RT_Aggregate ? !isMedian : run.repetitions > 1) continue;
    SmallVector<StringRef, 4> parts;
    StringRef(run.run_name.function_name).split(parts, '/');
    size_t nodes = 0;
    if (parts.size() < 3 || parts[2].getAsInteger(10, nodes)) continue;
    // Aggregates of repeated runs carry accumulated time in the reported unit; both cases give time per iteration.
    nanoseconds[{parts[1].str(), parts[0].str(), nodes}] =
        run.GetAdjustedCPUTime() * 1e9 / benchmark::GetTimeUnitMultiplier(run.time_unit);
    if (auto bytes = run.counters.find("B/node"); parts[0] == "gradient" && bytes != run.counters.end())
      bytesPerNode[{parts[1].str(), parts[0].str(), nodes}] = bytes->second;
  }
}

bool RatioTable::printRatios() {
  bool isWithin = true;
  raw_ostream &os = outs();
  os << "\nratios to the SAX yardstick over the same graph (limits apply at 10^6 nodes)\n";
  for (const auto &[key, time] : nanoseconds) {
    auto sax = nanoseconds.find({key.family, "sax", key.nodes});
    if (key.stage == "sax" || sax == nanoseconds.end()) continue;
    os << format("%-12s %8zu %-9s %6.3f", key.family.c_str(), key.nodes, key.stage.c_str(), time / sax->second);
    for (const Limit &limit : kLimits)
      if (limit.stage == key.stage && key.nodes == kLarge && key.family != "zigzag") {
        bool isOver = time / sax->second > limit.ratio;
        isWithin &= !isOver;
        os << format("  limit %.1f%s", limit.ratio, isOver ? "  EXCEEDED" : "");
      }
    auto smaller = nanoseconds.find({key.family, key.stage, kMedium});
    if (key.nodes == kLarge && smaller != nanoseconds.end()) {
      double scaling = time / smaller->second / (double(kLarge) / kMedium);
      double limit = key.family == "zigzag" ? 4.0 : 1.5;
      isWithin &= scaling <= limit;
      os << format("  scaling %.2f (limit %.1f%s)", scaling, limit, scaling > limit ? ", EXCEEDED" : "");
    }
    auto bytes = bytesPerNode.find(key);
    if (key.nodes == kLarge && key.family != "zigzag" && bytes != bytesPerNode.end()) {
      const bool isOver = bytes->second > kBytesPerNode;
      isWithin &= !isOver;
      os << format("  %.1f bytes a node (limit %.0f%s)", bytes->second.value, kBytesPerNode,
                   isOver ? ", EXCEEDED" : "");
    }
    os << '\n';
  }
  os.flush();
  return isWithin;
}

}  // namespace gradc::bench
