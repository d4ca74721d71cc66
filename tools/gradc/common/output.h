// Files that appear whole or not at all: written beside their final name, renamed at the end.
//
// Several outputs of one verb are opened, written, and only then committed together, so a late failure leaves none of
// them. Temporary files are removed when the process is interrupted. Tested by tests/tools/cli_test.cc
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <memory>
#include <string>

namespace gradc {

/// Where a path leads when symbolic links are followed, the last one too if nothing is there. Io for links in a circle.
llvm::Expected<std::string> followLinks(llvm::StringRef path);

class OutputFile {
 public:
  /// `path` empty or "-" is standard output; what exists and is not a regular file (a pipe, /dev/null) is written
  /// directly, and a symbolic link stays, and its target is written. Io when the folder or file cannot be written.
  static llvm::Expected<OutputFile> open(llvm::StringRef path);
  OutputFile(OutputFile &&);
  ~OutputFile();

  llvm::raw_ostream &stream() { return *os; }
  /// Flushes, reports what could not be written, renames.
  llvm::Error commit();

 private:
  friend llvm::Error commitAll(llvm::ArrayRef<OutputFile *> files);
  OutputFile() = default;
  llvm::Error takeStreamError();
  llvm::Error finish();  // all but the renaming
  llvm::Error publish();

  std::string name, path;                 // as given; with links followed
  std::string temporary;                  // empty when `path` is written directly
  int descriptor = -1, cleanupSlot = -1;  // of the temporary
  std::unique_ptr<llvm::raw_fd_ostream> os;
};

/// Writes one such file.
llvm::Error writeFile(llvm::StringRef path, llvm::function_ref<void(llvm::raw_ostream &)> write);

/// Commits them together: none is renamed before all are on the disk.
llvm::Error commitAll(llvm::ArrayRef<OutputFile *> files);

/// Called first of all: a descriptor from 0 to 2 that is closed would be given to the next file opened, and what is
/// printed would end up there. Takes the place of one, with an error for whoever reads or writes it.
void occupyStandardDescriptors();

/// Exit code 70 and a line on standard error for crashes, failed assertions and LLVM's fatal errors. Temporary files
/// are removed then, and when a signal that can be caught ends the process.
void installCrashHandlers();

/// The message that Diagnostics prints for "out of memory", without taking memory.
void sayOutOfMemory(bool asJson);

}  // namespace gradc
