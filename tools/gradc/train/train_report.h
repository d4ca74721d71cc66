// What `train` reports while it runs: a line per epoch, a log of every step, a progress line on a terminal.
// Tested by tests/tools/train_cli_test.cc
#pragma once

#include "drawing/loss_chart.h"

#include "runtime/training/trainer.h"

#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <memory>

namespace gradc {

/// "0.0123", "96.4 %".
std::string formatMetric(Metric metric, double value);

class TrainReport {
 public:
  /// Lines per epoch go to `os`; null: nowhere.
  TrainReport(llvm::raw_ostream *os, Metric metric, uint64_t totalSteps);
  ~TrainReport();

  /// Starts a log, or continues it after the lines of another run. Io when the file cannot be written.
  llvm::Error openLog(llvm::StringRef path, bool isAppended);
  void step(const Trainer::Report &report);
  void evaluation(uint64_t step, const Score &score);
  /// Prints the line of the epoch, counted from 1.
  void epoch(uint64_t number);
  llvm::Error close();
  const TrainCurves &curves() const { return history; }

 private:
  using Clock = std::chrono::steady_clock;

  void log(llvm::StringRef kind, uint64_t step, const Score &score, const Trainer::Report *report);
  void showProgress(const Trainer::Report &report);
  void wipeProgress();
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start).count(); }

  llvm::raw_ostream *os;
  Metric metric;
  uint64_t totalSteps, firstStep = ~uint64_t{0};
  bool isTerminal, isShown = false;
  Clock::time_point start = Clock::now(), lastShown = start;
  Score running;                   // since the last line
  std::optional<Score> evaluated;  // since the last line
  double samples = 0;
  TrainCurves history;
  std::string logPath;
  std::unique_ptr<llvm::raw_fd_ostream> logFile;
};

}  // namespace gradc
