// Tested by tests/imperative/imperative_hooks_test.cc
#pragma once

#include "imperative/engine.h"

#include <optional>

namespace gradc {

/// Exists while the calling thread is in code of the host.
class HostRun::Inside {
 public:
  explicit Inside(HostRun &run, bool isRecording) : run(run), outer(std::exchange(innermost, this)) {
    if (isRecording) recording.emplace(run.engine.owner, RecordOptions{modesOf(run.engine.owner).isTraining});
    else quiet.emplace(run.engine.owner);
    run.lock.unlock();
  }
  explicit Inside(HostRun &run) : Inside(run, run.isRecording) {}
  ~Inside() {
    run.lock.lock();
    innermost = outer;
  }
  Inside(const Inside &) = delete;

  HostRun &run;
  Inside *const outer;  // its backward may be of another Imperative

 private:
  std::optional<RecordScope> recording;
  std::optional<NoGradScope> quiet;
};

}  // namespace gradc
