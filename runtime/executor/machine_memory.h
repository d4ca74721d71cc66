// How much memory this process can have. Tested by tests/runtime/machine_memory_test.cc
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"

#include <optional>

namespace gradc {

struct MemoryLimit {
  uint64_t bytes;
  llvm::StringRef of;  // "the machine", …
};

/// The least of: memory and swap of the machine, what the process's control groups allow (versions 1 and 2), RLIMIT_AS.
MemoryLimit memoryLimit();

/// TooLarge, naming `what` ("the session") and the bytes, if the process can never have that many. Where the system
/// promises more memory than there is, an allocation succeeds and the process is killed when it uses the memory.
llvm::Error checkMachineHas(uint64_t bytes, const llvm::Twine &what);

/// The number in a control group's `memory.max`; none for "max" (unlimited) and for other text.
std::optional<uint64_t> bytesOfGroup(llvm::StringRef text);

}  // namespace gradc
