#include "runtime/kernels/core/control_groups.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;

namespace gradc {

std::string contentOf(const Twine &path) {
  // The kernel's files report no size, so they are read as streams.
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer = MemoryBuffer::getFileAsStream(path);
  return buffer ? (*buffer)->getBuffer().trim().str() : std::string();
}

void forEachGroup(StringRef controller, function_ref<void(const std::string &, bool)> visit) {
  const std::string lines = contentOf("/proc/self/cgroup");  // "0::/a/b", or "4:cpu,cpuacct:/a/b" in version 1
  SmallVector<StringRef, 16> rows;
  StringRef(lines).split(rows, '\n', -1, false);
  for (StringRef row : rows) {
    auto [number, rest] = row.split(':');
    auto [controllers, group] = rest.split(':');
    SmallVector<StringRef, 4> names;
    controllers.split(names, ',');
    const bool isFirstVersion = !controllers.empty();
    if (isFirstVersion && !is_contained(names, controller)) continue;
    const std::string root = isFirstVersion ? "/sys/fs/cgroup/" + controllers.str() : "/sys/fs/cgroup";
    for (group = group.rtrim('/');; group = group.take_front(group.rfind('/'))) {
      visit(root + group.str(), isFirstVersion);
      if (group.empty()) break;
    }
  }
}

}  // namespace gradc
