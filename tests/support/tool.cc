// Subprocesses and scratch folders of the tests.
#include "tests/support/tool.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <cassert>

using namespace llvm;

namespace gradc::testing {
namespace {

std::string binaryPath() {
  SmallString<256> path("tools/gradc/gradc");
  std::error_code code = sys::fs::make_absolute(path);
  assert(!code && "the working folder is gone");
  static_cast<void>(code);
  return path.str().str();
}

}  // namespace

ToolResult runShell(StringRef folder, StringRef command) {
  ScratchFolder streams;
  std::string out = streams.path() + "/out", err = streams.path() + "/err";
  std::string script = ("cd '" + folder + "' || exit; GRADC='" + binaryPath() + "'; " + command).str();
  std::optional<StringRef> redirects[] = {StringRef("/dev/null"), StringRef(out), StringRef(err)};
  StringRef args[] = {"sh", "-c", script};
  ToolResult result;
  result.code = sys::ExecuteAndWait("/bin/sh", args, std::nullopt, redirects);
  result.out = readText(out);
  result.err = readText(err);
  return result;
}

ToolResult runTool(StringRef folder, StringRef arguments) {
  return runShell(folder, ("\"$GRADC\" " + arguments).str());
}

ScratchFolder::ScratchFolder() {
  SmallString<128> path;
  std::error_code code = sys::fs::createUniqueDirectory("gradc-test", path);
  assert(!code && "cannot make a temporary folder");
  static_cast<void>(code);
  folder = path.str().str();
}

ScratchFolder::~ScratchFolder() { sys::fs::remove_directories(folder); }

void ScratchFolder::write(StringRef name, StringRef text) const { writeText(folder + "/" + name.str(), text); }
std::string ScratchFolder::read(StringRef name) const { return readText(folder + "/" + name.str()); }
bool ScratchFolder::has(StringRef name) const { return sys::fs::exists(folder + "/" + name.str()); }

size_t ScratchFolder::numFiles() const {
  std::error_code code;
  size_t count = 0;
  for (sys::fs::directory_iterator at(folder, code), end; at != end && !code; at.increment(code)) ++count;
  return count;
}

std::string readText(StringRef path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer = MemoryBuffer::getFile(path);
  return buffer ? (*buffer)->getBuffer().str() : std::string();
}

void writeText(StringRef path, StringRef text) {
  std::error_code code;
  raw_fd_ostream os(path, code);
  if (!code) os << text;
}

}  // namespace gradc::testing
