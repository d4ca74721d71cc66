// The progress line: a thread that wakes once a second.
#include "tools/gradc/train/progress.h"

#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <system_error>
#include <unistd.h>

using namespace llvm;

namespace gradc {

Progress::Progress(std::string text) : what(std::move(text)) {
  if (!isatty(STDERR_FILENO)) return;
  try {
    thread = std::thread([this] { show(); });
  } catch (const std::system_error &) {  // the work goes on without the line
  }
}

Progress::~Progress() {
  if (!thread.joinable()) return;
  {
    std::lock_guard<std::mutex> lock(mutex);
    isFinished = true;
  }
  finished.notify_one();
  thread.join();
}

void Progress::show() {
  std::unique_lock<std::mutex> lock(mutex);
  unsigned seconds = 0;
  while (!finished.wait_for(lock, std::chrono::seconds(1), [this] { return isFinished; }))
    errs() << "\r\x1b[K" << what << ": " << ++seconds << " s";
  if (seconds > 0) errs() << "\r\x1b[K";
}

}  // namespace gradc
