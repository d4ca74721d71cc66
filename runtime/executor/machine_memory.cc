#include "runtime/executor/machine_memory.h"

#include "ir/base/error.h"
#include "runtime/kernels/core/control_groups.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <limits>

#include <sys/resource.h>
#include <sys/sysinfo.h>

using namespace llvm;

namespace gradc {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kAlwaysThere = uint64_t{64} << 20;  // not worth asking

struct MachineBytes {
  uint64_t memory = kUnlimited, swap = 0;
};

MachineBytes bytesOfMachine() {
  struct sysinfo info;
  if (sysinfo(&info) != 0) return {};
  return {SaturatingMultiply<uint64_t>(info.totalram, info.mem_unit),
          SaturatingMultiply<uint64_t>(info.totalswap, info.mem_unit)};
}

/// Of one group: memory and swap.
uint64_t bytesIn(const std::string &folder, bool isFirstVersion, uint64_t machineSwap) {
  auto limit = [&](StringRef file) { return bytesOfGroup(contentOf(folder + "/" + file)); };
  if (isFirstVersion) {
    const uint64_t memory = limit("memory.limit_in_bytes").value_or(kUnlimited);
    return std::min(limit("memory.memsw.limit_in_bytes").value_or(kUnlimited), SaturatingAdd(memory, machineSwap));
  }
  const uint64_t memory = limit("memory.max").value_or(kUnlimited);
  return SaturatingAdd(memory, std::min(limit("memory.swap.max").value_or(kUnlimited), machineSwap));
}

}  // namespace

std::optional<uint64_t> bytesOfGroup(StringRef text) {
  uint64_t bytes;
  if (text.trim().getAsInteger(10, bytes)) return std::nullopt;
  return bytes;
}

MemoryLimit memoryLimit() {
  const MachineBytes machine = bytesOfMachine();
  MemoryLimit least{SaturatingAdd(machine.memory, machine.swap), "memory and swap of the machine are"};
  forEachGroup("memory", [&](const std::string &folder, bool isFirstVersion) {
    const uint64_t bytes = bytesIn(folder, isFirstVersion, machine.swap);
    if (bytes < least.bytes) least = {bytes, "its control group allows"};
  });
  struct rlimit space;
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY && space.rlim_cur < least.bytes)
    least = {space.rlim_cur, "the limit of its address space is"};
  return least;
}

Error checkMachineHas(uint64_t bytes, const Twine &what) {
  if (bytes <= kAlwaysThere) return Error::success();
  const MemoryLimit limit = memoryLimit();
  if (bytes <= limit.bytes) return Error::success();
  return Failure(ErrorKind::TooLarge, what + " needs " + Twine(bytes) +
                                          " bytes of memory, more than this process can have: " + limit.of + " " +
                                          Twine(limit.bytes));
}

}  // namespace gradc
