// Runs the gradc binary as a user does and keeps its output.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace gradc::testing {

struct ToolResult {
  int code = -1;
  std::string out, err;
};

/// Runs `gradc ARGUMENTS` through the shell, in `folder`, with nothing on standard input.
ToolResult runTool(llvm::StringRef folder, llvm::StringRef arguments);
/// Runs a shell command in which $GRADC is the binary.
ToolResult runShell(llvm::StringRef folder, llvm::StringRef command);

/// A separate folder for each test, removed at the end.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder &) = delete;

  const std::string &path() const { return folder; }
  void write(llvm::StringRef name, llvm::StringRef text) const;
  /// Empty when the file does not exist.
  std::string read(llvm::StringRef name) const;
  bool has(llvm::StringRef name) const;
  size_t numFiles() const;
  ToolResult run(llvm::StringRef arguments) const { return runTool(folder, arguments); }

 private:
  std::string folder;
};

/// Empty when the file cannot be read.
std::string readText(llvm::StringRef path);
void writeText(llvm::StringRef path, llvm::StringRef text);

}  // namespace gradc::testing
