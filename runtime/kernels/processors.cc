// Tested by tests/threads_test.cc
#include "runtime/kernels/processors.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>

#include <sched.h>

using namespace llvm;

namespace gradc {
namespace {

constexpr unsigned kMaxThreads = 1024;

std::string contentOf(const Twine &path) {
  // The kernel's files report no size, so they are read as streams.
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer = MemoryBuffer::getFileAsStream(path);
  return buffer ? (*buffer)->getBuffer().trim().str() : std::string();
}

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

std::optional<unsigned> quotaOf(const std::string &root, StringRef group, bool isFirstVersion) {
  const std::string folder = root + group.str();
  if (!isFirstVersion) return processorsOfQuota(contentOf(folder + "/cpu.max"));
  return processorsOfQuota(contentOf(folder + "/cpu.cfs_quota_us") + " " + contentOf(folder + "/cpu.cfs_period_us"));
}

/// The smallest quota of the group and its ancestors: each limits what is inside it.
unsigned processorsOfGroups() {
  unsigned least = kMaxThreads;
  const std::string lines = contentOf("/proc/self/cgroup");  // "0::/a/b", or "4:cpu,cpuacct:/a/b" in version 1
  SmallVector<StringRef, 16> rows;
  StringRef(lines).split(rows, '\n', -1, false);
  for (StringRef row : rows) {
    auto [number, rest] = row.split(':');
    auto [controllers, group] = rest.split(':');
    SmallVector<StringRef, 4> names;
    controllers.split(names, ',');
    const bool isFirstVersion = !controllers.empty();
    if (isFirstVersion && !is_contained(names, "cpu")) continue;
    const std::string root = isFirstVersion ? "/sys/fs/cgroup/" + controllers.str() : "/sys/fs/cgroup";
    for (group = group.rtrim('/');; group = group.take_front(group.rfind('/'))) {
      if (std::optional<unsigned> count = quotaOf(root, group, isFirstVersion)) least = std::min(least, *count);
      if (group.empty()) break;
    }
  }
  return least;
}

}  // namespace

std::optional<unsigned> processorsOfQuota(StringRef text) {
  auto [quota, period] = text.split(' ');
  uint64_t part, whole;
  if (quota.getAsInteger(10, part) || period.getAsInteger(10, whole) || part == 0 || whole == 0) return std::nullopt;
  return static_cast<unsigned>(std::min<uint64_t>(part / whole + (part % whole != 0), kMaxThreads));
}

unsigned availableThreads() {
  unsigned asked = 0;
  const char *variable = std::getenv("GRADC_NUM_THREADS");
  if (variable && !StringRef(variable).getAsInteger(10, asked) && asked >= 1 && asked <= kMaxThreads) return asked;
  return std::max(1u, std::min(processorsOfAffinity(), processorsOfGroups()));
}

}  // namespace gradc
