// Two panels over one axis of steps. Tested by tests/tools/train_cli_test.cc
#include "drawing/loss_chart.h"
#include "drawing/svg.h"

#include "ir/base/error.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Format.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

constexpr double kWidth = 760, kLeft = 66, kRight = 24, kTop = 86, kLossHeight = 270, kGap = 46, kMetricHeight = 170,
                 kBottom = 44;
constexpr double kLogSpan = 20;       // largest over smallest loss beyond which the axis is logarithmic
constexpr size_t kMostPoints = 1500;  // of a line: more than there are pixels

struct Dot {
  double x, y;
};
using Line = std::vector<Dot>;

/// 1, 2 or 5 times a power of ten, so that about `count` steps cover `span`.
double niceStep(double span, double count) {
  const double raw = span / count, power = std::pow(10, std::floor(std::log10(raw)));
  for (double factor : {1.0, 2.0, 5.0})
    if (raw <= factor * power) return factor * power;
  return 10 * power;
}

std::string tickText(double value) {
  std::string text;
  raw_string_ostream(text) << format("%.6g", std::abs(value) < 1e-12 ? 0.0 : value);
  return text;
}

/// One value axis over the steps.
class Panel {
 public:
  Panel(double top, double height, double lastStep) : top(top), height(height), lastStep(std::max(lastStep, 1.0)) {}

  void setRange(double low, double high, bool isLogarithmic) {
    isLog = isLogarithmic;
    from = scale(low);
    to = std::max(scale(high), from + 1e-9);
  }
  double x(double step) const { return kLeft + step / lastStep * (kWidth - kLeft - kRight); }
  double y(double value) const {
    return top + height - std::clamp((scale(value) - from) / (to - from), 0.0, 1.0) * height;
  }

  void drawAxes(raw_ostream &os, StringRef label, bool hasSteps) const {
    for (double value : valueTicks()) {
      line(os, "grid", kLeft, y(value), kWidth - kRight, y(value));
      text(os, "t3 end", kLeft - 7, y(value) + 3.5, tickText(value * factor) + unit.str());
    }
    const double every = niceStep(lastStep, 7);
    for (double step = 0; step <= lastStep * 1.0001; step += every) {
      line(os, "axis", x(step), top + height, x(step), top + height + 4);
      if (hasSteps) text(os, "t3 mid", x(step), top + height + 17, svg::grouped(static_cast<int64_t>(step)));
    }
    line(os, "axis", kLeft, top, kLeft, top + height);
    line(os, "axis", kLeft, top + height, kWidth - kRight, top + height);
    text(os, "t2", kLeft, top - 8, label);
  }

  void draw(raw_ostream &os, StringRef classes, const Line &points) const {
    if (points.empty()) return;
    os << "<polyline class=\"e " << classes << "\" points=\"";
    const size_t stride = points.size() / kMostPoints + 1;
    for (size_t i = 0; i < points.size(); i += stride) {
      const Dot &dot = i + stride < points.size() ? points[i] : points.back();
      os << (i ? " " : "") << svg::number(x(dot.x)) << ',' << svg::number(y(dot.y));
    }
    os << "\"/>\n";
  }
  void drawDots(raw_ostream &os, StringRef classes, const Line &points) const {
    for (const Dot &dot : points)
      os << "<circle class=\"" << classes << "\" r=\"2.6\" cx=\"" << svg::number(x(dot.x)) << "\" cy=\""
         << svg::number(y(dot.y)) << "\"/>\n";
  }

  static void line(raw_ostream &os, StringRef classes, double x1, double y1, double x2, double y2) {
    os << "<line class=\"" << classes << "\" x1=\"" << svg::number(x1) << "\" y1=\"" << svg::number(y1) << "\" x2=\""
       << svg::number(x2) << "\" y2=\"" << svg::number(y2) << "\"/>\n";
  }
  static void text(raw_ostream &os, StringRef classes, double x, double y, StringRef content) {
    os << "<text class=\"" << classes << "\" x=\"" << svg::number(x) << "\" y=\"" << svg::number(y) << "\">"
       << svg::escaped(content) << "</text>\n";
  }

  double factor = 1;  // of the numbers at the axis
  StringRef unit;

 private:
  double scale(double value) const { return isLog ? std::log10(std::max(value, 1e-300)) : value; }

  std::vector<double> valueTicks() const {
    std::vector<double> ticks;
    if (!isLog) {
      const double every = niceStep(to - from, height / 33);
      for (double tick = std::ceil(from / every - 1e-9) * every; tick <= to + every * 1e-6; tick += every)
        ticks.push_back(tick);
      return ticks;
    }
    const bool isDense = to - from < 3;  // decades
    for (double decade = std::floor(from); decade <= to; ++decade)
      for (double digit : {1.0, 2.0, 5.0}) {
        const double tick = digit * std::pow(10, decade);
        if ((digit == 1 || isDense) && scale(tick) >= from - 1e-9 && scale(tick) <= to + 1e-9) ticks.push_back(tick);
      }
    return ticks;
  }

  double top, height, lastStep;
  double from = 0, to = 1;
  bool isLog = false;
};

/// The mean of each point and the ones before it, `window` in all. The points must be finite.
Line runningMean(const Line &points, size_t window) {
  Line means;
  double sum = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    sum += points[i].y;
    if (i >= window) sum -= points[i - window].y;
    means.push_back({points[i].x, sum / static_cast<double>(std::min(i + 1, window))});
  }
  return means;
}

Line lineOf(ArrayRef<TrainCurves::Point> points, double TrainCurves::Point::*member) {
  Line line;
  for (const TrainCurves::Point &point : points)
    if (std::isfinite(point.*member)) line.push_back({static_cast<double>(point.step), point.*member});
  return line;
}

struct Range {
  double low = HUGE_VAL, high = -HUGE_VAL;
  void cover(const Line &line) {
    for (const Dot &dot : line) {
      low = std::min(low, dot.y);
      high = std::max(high, dot.y);
    }
  }
};

/// The lines of one quantity.
struct Series {
  Line steps, means, heldOut;

  Series(const TrainCurves &curves, double TrainCurves::Point::*member, size_t window)
      : steps(lineOf(curves.steps, member)), means(runningMean(steps, window)),
        heldOut(lineOf(curves.evaluations, member)) {}
  Range range() const {
    Range range;
    range.cover(means);
    range.cover(heldOut);
    return range;
  }
  void draw(raw_ostream &os, const Panel &panel) const {
    os << "<g opacity=\"0.55\">\n";
    panel.draw(os, "saved", steps);
    os << "</g>\n";
    panel.draw(os, "forward", means);
    panel.draw(os, "gradient", heldOut);
    panel.drawDots(os, "mg", heldOut);
  }
};

void drawLegend(raw_ostream &os, bool hasHeldOut, size_t window) {
  double x = kLeft;
  auto entry = [&](StringRef classes, const std::string &name) {
    os << "<path class=\"e " << classes << "\" d=\"M" << svg::number(x) << " 45h18\"/>\n";
    Panel::text(os, "t3", x + 23, 48.5, name);
    x += 23 + svg::textWidth(name, 10.5) + 22;
  };
  entry("saved", "each step");
  entry("forward", "mean of " + countOf(window, "step"));
  if (hasHeldOut) entry("gradient", "held out");
}

}  // namespace

void writeLossChart(raw_ostream &os, const TrainCurves &curves, StringRef title) {
  const bool hasMetric = curves.metric != Metric::None;
  const double height = kTop + kLossHeight + (hasMetric ? kGap + kMetricHeight : 0) + kBottom;
  const double lastStep = curves.steps.empty() ? 1 : static_cast<double>(curves.steps.back().step);
  const size_t window = std::max<size_t>(curves.steps.size() / 40, 1);
  svg::open(os, kWidth, height, title);
  Panel::text(os, "t1", kLeft, 24, svg::shortened(title, 90));
  drawLegend(os, !curves.evaluations.empty(), window);

  const Series loss(curves, &TrainCurves::Point::loss, window);
  const Range range = loss.range();
  Panel lossPanel(kTop, kLossHeight, lastStep);
  const bool isLog = range.low > 0 && range.high > kLogSpan * range.low;
  if (isLog) lossPanel.setRange(range.low * 0.9, range.high * 1.1, true);
  else {
    const double top = range.high + 0.05 * std::abs(range.high);
    lossPanel.setRange(std::min(0.0, range.low), std::max(top, range.low + 1e-6), false);
  }
  lossPanel.drawAxes(os, isLog ? "loss, logarithmic" : "loss", !hasMetric);
  loss.draw(os, lossPanel);

  if (hasMetric) {
    const Series metric(curves, &TrainCurves::Point::metric, window);
    Panel panel(kTop + kLossHeight + kGap, kMetricHeight, lastStep);
    const bool isAccuracy = curves.metric == Metric::Accuracy;
    panel.setRange(0, isAccuracy ? 1 : metric.range().high * 1.05, false);
    panel.factor = isAccuracy ? 100 : 1;
    panel.unit = isAccuracy ? " %" : "";
    panel.drawAxes(os, metricName(curves.metric), true);
    metric.draw(os, panel);
  }
  Panel::text(os, "t2 mid", (kLeft + kWidth - kRight) / 2, height - 9, "step");
  svg::close(os);
}

}  // namespace gradc
