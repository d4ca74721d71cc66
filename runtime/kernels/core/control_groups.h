// The limits that control groups set for this process, in both versions of the system's interface.
// Tested by tests/runtime/threads_test.cc
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"

#include <string>

namespace gradc {

/// Visits the folder of this process's group under `controller` ("cpu", "memory"), then those of the group's ancestors:
/// each limits what is inside it.
void forEachGroup(llvm::StringRef controller,
                  llvm::function_ref<void(const std::string &folder, bool isFirstVersion)> visit);

/// The trimmed contents of one of the kernel's files; empty if it cannot be read.
std::string contentOf(const llvm::Twine &path);

}  // namespace gradc
