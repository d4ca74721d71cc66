// Tested by tests/runtime/threads_test.cc
#include "runtime/kernels/core/processors.h"

#include "ir/base/error.h"
#include "runtime/kernels/core/control_groups.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>

#include <sched.h>

using namespace llvm;

namespace gradc {
namespace {

constexpr unsigned kMaxThreads = 1024;
constexpr const char *kVariable = "GRADC_NUM_THREADS";

unsigned processorsOfAffinity() {
  cpu_set_t few;
  if (sched_getaffinity(0, sizeof few, &few) == 0) return static_cast<unsigned>(CPU_COUNT(&few));
  for (int size = 2 * CPU_SETSIZE; size <= 64 * CPU_SETSIZE; size *= 2) {  // a machine of more than 1024 processors
    cpu_set_t *many = CPU_ALLOC(size);
    if (!many) break;
    const bool isKnown = sched_getaffinity(0, CPU_ALLOC_SIZE(size), many) == 0;
    const int count = isKnown ? CPU_COUNT_S(CPU_ALLOC_SIZE(size), many) : 0;
    CPU_FREE(many);
    if (isKnown) return static_cast<unsigned>(count);
  }
  return std::thread::hardware_concurrency();
}

std::optional<unsigned> quotaOf(const std::string &folder, bool isFirstVersion) {
  if (!isFirstVersion) return processorsOfQuota(contentOf(folder + "/cpu.max"));
  return processorsOfQuota(contentOf(folder + "/cpu.cfs_quota_us") + " " + contentOf(folder + "/cpu.cfs_period_us"));
}

/// The smallest quota of the process's groups.
unsigned processorsOfGroups() {
  unsigned least = kMaxThreads;
  forEachGroup("cpu", [&](const std::string &folder, bool isFirstVersion) {
    if (std::optional<unsigned> count = quotaOf(folder, isFirstVersion)) least = std::min(least, *count);
  });
  return least;
}

}  // namespace

std::optional<unsigned> processorsOfQuota(StringRef text) {
  auto [quota, period] = text.split(' ');
  uint64_t part, whole;
  if (quota.getAsInteger(10, part) || period.getAsInteger(10, whole) || part == 0 || whole == 0) return std::nullopt;
  return static_cast<unsigned>(std::min<uint64_t>(part / whole + (part % whole != 0), kMaxThreads));
}

Expected<unsigned> availableThreads() {
  const char *const variable = std::getenv(kVariable);
  if (!variable) return std::max(1u, std::min(processorsOfAffinity(), processorsOfGroups()));
  unsigned threads = 0;
  if (StringRef(variable).getAsInteger(10, threads) || threads < 1 || threads > kMaxThreads)
    return Failure(ErrorKind::Usage, "the environment variable " + Twine(kVariable) + " is '" + variable +
                                         "', expected a number of threads from 1 to " + Twine(kMaxThreads));
  return threads;
}

}  // namespace gradc
