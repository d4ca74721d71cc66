// Values for variables from --input and --inputs. Tested by tests/tools/cli_test.cc
#pragma once

#include "tools/gradc/common/tool.h"

#include "runtime/session/session.h"

namespace gradc {

/// The arrays of a file, NPZ or MXNet's parameters; prints notes about them.
llvm::Expected<std::vector<NamedArray>> readArchive(Tool &tool, llvm::StringRef path);
/// Reads the files; a name given by --input shadows the same name in an archive, an earlier archive a later one.
llvm::Expected<std::vector<NamedArray>> readBindings(Tool &tool);

/// Hints, seed, mode and backend of the flags, for a session over `graph`.
llvm::Expected<SessionOptions> sessionOptions(const Tool &tool, const Graph &graph);

}  // namespace gradc
