// A line on the terminal for work that takes more than a second; nothing when standard error is not a terminal.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace gradc {

/// Shows "`what`: 12 s" from construction to destruction and wipes it at the end.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress &) = delete;

 private:
  void show();

  std::string what;
  std::mutex mutex;
  std::condition_variable finished;
  bool isFinished = false;
  std::thread thread;
};

}  // namespace gradc
