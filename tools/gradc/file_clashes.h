// Files that one command would read and overwrite, or write twice. Tested by tests/tools/cli_files_test.cc
#pragma once

#include "tools/gradc/verbs/verbs.h"

namespace gradc {

/// Usage if a file that the verb writes is one that it reads or also writes under another name: links are followed, and
/// files are compared as the system does. Exceptions: a verb may replace the graph that it read by one made of it, a
/// run the checkpoint it resumes. Devices and pipes may be used several times.
llvm::Error checkFiles(const Verb &verb, const Options &options);

}  // namespace gradc
