// Tested by tests/tools/train_cli_test.cc
#include "tools/gradc/train/train_report.h"

#include "ir/base/error.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

#include <cmath>
#include <unistd.h>

using namespace llvm;

namespace gradc {
namespace {

constexpr std::chrono::milliseconds kBetweenLines(100);
constexpr unsigned kBarWidth = 24;

std::string formatted(const char *form, double value) {
  std::string text;
  raw_string_ostream(text) << format(form, value);
  return text;
}

std::string describe(Metric metric, const Score &score) {
  std::string text = "loss " + formatted("%.4f", score.loss());
  if (metric != Metric::None) text += ", " + metricName(metric).str() + " " + formatMetric(metric, score.metric());
  return text;
}

std::string bar(double done) {
  const unsigned full = static_cast<unsigned>(done * kBarWidth);
  return "[" + std::string(full, '#') + std::string(kBarWidth - full, '.') + "]";
}

std::string timeLeft(double seconds) {
  if (seconds < 60) return formatted("%.0f s left", seconds);
  return seconds < 3600 ? formatted("%.1f min left", seconds / 60) : formatted("%.1f h left", seconds / 3600);
}

/// The shortest text that reads back as the same number; JSON has no infinities.
void attribute(json::OStream &out, StringRef key, double value) {
  std::string text = "null";
  if (std::isfinite(value)) {
    text.clear();
    raw_string_ostream os(text);
    printAttr(os, value);
  }
  out.attributeBegin(key);
  out.rawValue(text);
  out.attributeEnd();
}

}  // namespace

std::string formatMetric(Metric metric, double value) {
  return metric == Metric::Accuracy ? formatted("%.2f %%", value * 100) : formatted("%.4g", value);
}

TrainReport::TrainReport(raw_ostream *os, Metric metric, uint64_t totalSteps)
    : os(os), metric(metric), totalSteps(totalSteps), isTerminal(isatty(STDERR_FILENO)) {
  history.metric = metric;
}

TrainReport::~TrainReport() {
  wipeProgress();
  if (!logFile) return;
  logFile->flush();
  logFile->clear_error();
}

Error TrainReport::openLog(StringRef path, bool isAppended) {
  std::error_code code;
  logPath = path.str();
  logFile = std::make_unique<raw_fd_ostream>(path, code, isAppended ? sys::fs::OF_Append : sys::fs::OF_None);
  if (!code) return Error::success();
  logFile.reset();
  return Failure(ErrorKind::Io, "cannot write '" + path + "': " + code.message());
}

void TrainReport::log(StringRef kind, uint64_t step, const Score &score, const Trainer::Report *report) {
  if (!logFile) return;
  json::OStream out(*logFile);
  out.object([&] {
    out.attribute("kind", kind);
    out.attribute("step", static_cast<int64_t>(step));
    if (report) {
      out.attribute("epoch", static_cast<int64_t>(report->epoch));
      attribute(out, "rate", report->rate);
    }
    attribute(out, "loss", score.loss());
    if (metric != Metric::None) attribute(out, metricName(metric), score.metric());
    attribute(out, "seconds", seconds());
    if (report) attribute(out, "samples_per_second", samples / seconds());
  });
  *logFile << '\n';
  logFile->flush();
}

void TrainReport::step(const Trainer::Report &report) {
  if (firstStep > report.step) firstStep = report.step - 1;
  samples += report.score.rows;
  running.add(report.score);
  history.steps.push_back({report.step, report.score.loss(), metric == Metric::None ? 0 : report.score.metric()});
  log("step", report.step, report.score, &report);
  if (isTerminal && Clock::now() - lastShown >= kBetweenLines) showProgress(report);
}

void TrainReport::evaluation(uint64_t step, const Score &score) {
  evaluated = score;
  history.evaluations.push_back({step, score.loss(), metric == Metric::None ? 0 : score.metric()});
  log("evaluation", step, score, nullptr);
}

void TrainReport::epoch(uint64_t number) {
  wipeProgress();
  if (os && running.rows > 0) {
    *os << "epoch " << number << ": " << describe(metric, running);
    if (evaluated) *os << "; held out: " << describe(metric, *evaluated);
    *os << '\n';
    os->flush();
  }
  running = Score();
  evaluated.reset();
}

void TrainReport::showProgress(const Trainer::Report &report) {
  lastShown = Clock::now();
  isShown = true;
  const double done = static_cast<double>(report.step) / static_cast<double>(totalSteps);
  const double perStep = seconds() / static_cast<double>(report.step - firstStep);
  errs() << "\r\x1b[K" << bar(std::min(done, 1.0)) << " step " << report.step << '/' << totalSteps << "  "
         << describe(metric, running) << "  " << formatted("%.0f samples/s", samples / seconds()) << "  "
         << timeLeft(perStep * static_cast<double>(totalSteps - report.step));
}

void TrainReport::wipeProgress() {
  if (isShown) errs() << "\r\x1b[K";
  isShown = false;
}

Error TrainReport::close() {
  wipeProgress();
  if (!logFile) return Error::success();
  logFile->close();
  if (!logFile->has_error()) return Error::success();
  const std::string reason = logFile->error().message();
  logFile->clear_error();
  return Failure(ErrorKind::Io, "cannot write '" + logPath + "': " + reason);
}

}  // namespace gradc
