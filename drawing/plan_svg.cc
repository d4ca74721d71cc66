// The picture of a memory plan. Tested by tests/tools/drawing_test.cc
#include "drawing/plan_svg.h"

#include "drawing/graph_layout.h"
#include "drawing/svg.h"
#include "drawing/table.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

constexpr double kLeft = 96, kTop = 100, kRight = 170, kBottom = 52, kHeight = 560;

/// 1, 2 or 5 times a power of ten; powers of two for bytes.
double niceStep(double span, bool isBytes) {
  const double wanted = span / 8;
  if (isBytes) return std::max(64.0, std::exp2(std::ceil(std::log2(std::max(wanted, 1.0)))));
  const double power = std::pow(10, std::floor(std::log10(std::max(wanted, 1.0))));
  for (double factor : {1.0, 2.0, 5.0})
    if (factor * power >= wanted) return factor * power;
  return 10 * power;
}

std::string bytesText(double bytes) {
  constexpr double kKibi = 1024;
  if (bytes >= kKibi * kKibi * kKibi) return svg::number(bytes / kKibi / kKibi / kKibi) + " GiB";
  if (bytes >= kKibi * kKibi) return svg::number(bytes / kKibi / kKibi) + " MiB";
  return bytes >= kKibi ? svg::number(bytes / kKibi) + " KiB" : svg::number(bytes) + " B";
}

class PlanPrinter {
 public:
  PlanPrinter(raw_ostream &os, const Graph &graph, const Lifetimes &lifetimes, const MemoryPlan &plan)
      : os(os), graph(graph), lifetimes(lifetimes), plan(plan), layout(layoutGraph(graph)),
        members(lifetimes.intervals.size()) {}

  void print() {
    steps = std::max<uint32_t>(graph.numNodes(), 1);
    width = std::clamp(steps * 9.0, 640.0, 1500.0);
    topBytes = std::max<double>(static_cast<double>(std::max(plan.plannedBytes, plan.boundBytes)), 64) * 1.03;
    svg::open(os, kLeft + width + kRight, kTop + kHeight + kBottom, "memory plan");
    printHeader();
    printAxes();
    listMembers();
    for (size_t i = 0; i < lifetimes.intervals.size(); ++i) printInterval(i);
    for (const Interval &interval : lifetimes.scratch) printScratch(interval);
    printLive();
    printLines();
    svg::close(os);
  }

 private:
  double x(double step) const { return kLeft + width * step / steps; }
  double y(double bytes) const { return kTop + kHeight * (1 - bytes / topBytes); }

  void text(double px, double py, StringRef style, StringRef words) {
    os << "<text class=\"" << style << "\" x=\"" << svg::number(px) << "\" y=\"" << svg::number(py) << "\">"
       << svg::escaped(words) << "</text>\n";
  }
  void line(double x1, double y1, double x2, double y2, StringRef style) {
    os << "<path class=\"" << style << "\" d=\"M" << svg::number(x1) << ' ' << svg::number(y1) << 'L' << svg::number(x2)
       << ' ' << svg::number(y2) << "\"/>\n";
  }
  void rect(double left, double top, double w, double h, StringRef style) {
    os << "<rect class=\"" << style << "\" x=\"" << svg::number(left) << "\" y=\"" << svg::number(top) << "\" width=\""
       << svg::number(w) << "\" height=\"" << svg::number(h) << "\"/>";
  }

  void printHeader() {
    std::string title = "Memory plan: " + bytesText(static_cast<double>(plan.plannedBytes)) + " planned";
    if (plan.boundBytes > 0)
      title += ", " +
               svg::number(100.0 * static_cast<double>(plan.plannedBytes) / static_cast<double>(plan.boundBytes)) +
               " % of the bound";
    text(kLeft, 34, "h1", title);
    text(kLeft, 54, "t3",
         svg::grouped(plan.externalBytes) + " bytes of variables and heads are the caller's and not shown");
    constexpr std::pair<StringRef, StringRef> kAreas[] = {{"operator", "forward value"},
                                                          {"backward", "gradient"},
                                                          {"update", "after the gradient"},
                                                          {"scratch", "scratch of an operator"}};
    double at = kLeft;
    for (auto [style, words] : kAreas) {
      rect(at, 70, 22, 14, style);
      text(at + 29, 81, "t3", words);
      at += 29 + svg::textWidth(words, 10.5) + 18;
    }
    line(at, 77, at + 26, 77, "live");
    text(at + 33, 81, "t3", "live bytes");
  }

  void printAxes() {
    rect(kLeft, kTop, width, kHeight, "lane");
    os << '\n';
    const double bytesStep = niceStep(topBytes, true);
    for (double at = 0; at <= topBytes; at += bytesStep) {
      line(kLeft, y(at), kLeft + width, y(at), "grid");
      text(kLeft - 8, y(at) + 4, "t3 end", bytesText(at));
    }
    const double step = niceStep(steps, false);
    for (double at = 0; at < steps; at += step) {
      line(x(at + 0.5), kTop + kHeight, x(at + 0.5), kTop + kHeight + 5, "axis");
      text(x(at + 0.5), kTop + kHeight + 18, "t3 mid", svg::number(at));
    }
    text(kLeft + width / 2, kTop + kHeight + 38, "t2 mid", "step: the node that runs");
    os << "<text class=\"t2 mid\" transform=\"translate(18 " << svg::number(kTop + kHeight / 2)
       << ") rotate(-90)\">address in the arena, bytes</text>\n";
    for (uint32_t n = 0; n < graph.numNodes(); ++n) {
      if (layout.lane[NodeId(n)] == Lane::Forward) continue;
      line(x(n), kTop, x(n), kTop + kHeight, "axis");
      text(x(n) + 5, kTop + 13, "t3", "gradient \u2192");
      break;
    }
  }

  // Entries of each block, in the order in which they take it over.
  void listMembers() {
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      for (uint32_t o = 0; o < graph.numOutputs(NodeId(n)); ++o) {
        const Value value{NodeId(n), static_cast<uint16_t>(o)};
        const uint32_t block = lifetimes.intervalOf[graph.entry(value)];
        if (block != Lifetimes::kNoInterval) members[block].push_back(value);
      }
  }

  std::string nameOf(Value value) const {
    std::string name = graph.name(value.node).str();
    if (name.empty()) name = "%" + std::to_string(value.node.value);
    return graph.numOutputs(value.node) > 1 ? name + ":" + std::to_string(value.index) : name;
  }

  StringRef styleOf(NodeId n) const {
    constexpr StringRef kStyles[] = {"operator", "backward", "update"};
    return kStyles[static_cast<size_t>(layout.lane[n])];
  }

  void printArea(const Interval &interval, int64_t offset, double first, double last, StringRef style,
                 StringRef title) {
    os << "<g><title>" << svg::escaped(title) << "</title>";
    const double top = y(static_cast<double>(offset + interval.bytes)), height = y(static_cast<double>(offset)) - top;
    rect(x(first), top, x(last) - x(first), height, ("block " + style).str());
    const StringRef name = title.take_until([](char c) { return c == ' ' || c == '\n'; });
    if (style != "scratch" && height >= 13 && svg::textWidth(name, 10.5) + 14 < x(last) - x(first))
      text(x(first) + 10, top + height / 2 + 4, "t3", name);
    os << "</g>\n";
  }

  std::string placeText(const Interval &interval, int64_t offset) const {
    return svg::grouped(interval.bytes) + " bytes at " + svg::grouped(offset) + ", steps " +
           std::to_string(interval.begin) + " to " + std::to_string(interval.end);
  }

  void printInterval(size_t i) {
    const Interval &interval = lifetimes.intervals[i];
    const int64_t offset = plan.offset[interval.root];
    ArrayRef<Value> list = members[i];
    for (size_t k = 0; k < list.size(); ++k) {
      const double last =
          k + 1 < list.size() ? std::max(list[k + 1].node.value, list[k].node.value) : interval.end + 1.0;
      std::string title =
          nameOf(list[k]) + " (" + graph.opName(list[k].node).str() + ")\n" + placeText(interval, offset);
      if (const EntryId from = plan.inplaceOf[graph.entry(list[k])]; from.isValid() && k > 0)
        title += "\ntakes over the bytes of " + sourceName(list, from);
      printArea(interval, offset, list[k].node.value, last, styleOf(list[k].node), title);
      if (k > 0) markTakeover(interval, offset, list[k].node.value);
    }
  }

  void printScratch(const Interval &interval) {
    const NodeId n(interval.begin);
    std::string title = "scratch of " + graph.describe(n) + "\n" + placeText(interval, plan.workspace[n]);
    printArea(interval, plan.workspace[n], interval.begin, interval.end + 1, "scratch", title);
  }

  std::string sourceName(ArrayRef<Value> list, EntryId from) const {
    for (Value value : list)
      if (graph.entry(value) == from) return nameOf(value);
    return nameOf(list[0]);
  }

  // A notch on the border from one value to the next.
  void markTakeover(const Interval &interval, int64_t offset, uint32_t step) {
    const double low = y(static_cast<double>(offset)), high = y(static_cast<double>(offset + interval.bytes));
    const double half = std::min({3.5, (low - high) / 2, width / steps / 2}), middle = (low + high) / 2;
    os << "<path class=\"takeover axis\" d=\"M" << svg::number(x(step) - half) << ' ' << svg::number(middle - half)
       << 'L' << svg::number(x(step) + half) << ' ' << svg::number(middle) << 'L' << svg::number(x(step) - half) << ' '
       << svg::number(middle + half) << "z\"/>\n";
  }

  // The sum of live bytes, step by step: it touches the bound, and the arena cannot be lower.
  void printLive() {
    os << "<path class=\"live\" d=\"M" << svg::number(x(0)) << ' ' << svg::number(y(0));
    int64_t last = 0;
    for (uint32_t step = 0; step < plan.liveBytes.size(); ++step) {
      const int64_t live = plan.liveBytes[step];
      if (live != last) os << 'H' << svg::number(x(step)) << 'V' << svg::number(y(static_cast<double>(live)));
      last = live;
    }
    os << 'H' << svg::number(x(steps)) << "\"/>\n";
  }

  void printLines() {
    const double right = kLeft + width, planned = y(static_cast<double>(plan.plannedBytes));
    double bound = y(static_cast<double>(plan.boundBytes));
    line(kLeft, planned, right, planned, "axis");
    line(kLeft, bound, right, bound, "bound");
    if (plan.valueBytes < plan.plannedBytes) {
      const double values = y(static_cast<double>(plan.valueBytes));
      line(kLeft, values, right, values, "axis");
      text(right + 8, std::max(values, bound + 48) + 12, "t3",
           "values alone " + bytesText(static_cast<double>(plan.valueBytes)));
    }
    // The two labels stay apart even where the lines coincide.
    text(right + 8, planned - 4, "t3", "planned " + bytesText(static_cast<double>(plan.plannedBytes)));
    bound = std::max(bound, planned);
    text(right + 8, bound + 12, "t3 boundtext", "bound " + bytesText(static_cast<double>(plan.boundBytes)));
    if (!plan.peakNode.isValid() || plan.boundBytes == 0) return;
    text(right + 8, bound + 26, "t3 boundtext", "peak at step " + std::to_string(plan.peakNode.value));
    text(right + 8, bound + 40, "t3", svg::shortened(graph.name(plan.peakNode), 22));
  }

  raw_ostream &os;
  const Graph &graph;
  const Lifetimes &lifetimes;
  const MemoryPlan &plan;
  GraphLayout layout;
  std::vector<SmallVector<Value, 2>> members;
  uint32_t steps = 1;
  double width = 0, topBytes = 0;
};

}  // namespace

void drawPlan(raw_ostream &os, const Graph &graph, const Lifetimes &lifetimes, const MemoryPlan &plan) {
  PlanPrinter(os, graph, lifetimes, plan).print();
}

}  // namespace gradc
