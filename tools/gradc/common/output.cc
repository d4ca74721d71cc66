// Atomic output, and what happens to it when the process dies. Tested by tests/tools/cli_test.cc
#include "tools/gradc/common/output.h"

#include "ir/base/error.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <atomic>
#include <climits>
#include <csignal>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <unistd.h>

using namespace llvm;

namespace gradc {
namespace {

// Signal handlers may only touch memory that is always there: fixed slots, set before and cleared after use.
constexpr int kNumSlots = 8;
constinit char cleanupPaths[kNumSlots][PATH_MAX] = {};
constinit std::atomic<bool> cleanupUsed[kNumSlots] = {};

int rememberTemporary(StringRef path) {
  if (path.size() >= PATH_MAX) return -1;
  for (int slot = 0; slot < kNumSlots; ++slot) {
    if (cleanupUsed[slot]) continue;
    std::memcpy(cleanupPaths[slot], path.data(), path.size());
    cleanupPaths[slot][path.size()] = 0;
    cleanupUsed[slot] = true;
    return slot;
  }
  return -1;
}

void forgetTemporary(int slot) {
  if (slot >= 0) cleanupUsed[slot] = false;
}

void removeTemporaries() {
  for (int slot = 0; slot < kNumSlots; ++slot)
    if (cleanupUsed[slot]) unlink(cleanupPaths[slot]);
}

void say(const char *text) {
  ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
  static_cast<void>(written);
}

[[noreturn]] void dieOfBug(const char *reason) {
  removeTemporaries();
  say("gradc: error: internal error: ");
  say(reason);
  say(" [internal]\ngradc: note: this is a bug in gradc; the command line and the input file reproduce it\n");
  _exit(70);
}

void onCrash(int signal) {
  dieOfBug(signal == SIGABRT ? "an assertion failed" : signal == SIGFPE ? "arithmetic fault" : "invalid memory access");
}

void onInterrupt(int signal) {
  removeTemporaries();
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void onFatalError(void *, const char *reason, bool) { dieOfBug(reason); }
/// LLVM's containers do not throw by themselves.
[[noreturn]] void onBadAlloc(void *, const char *, bool) { throw std::bad_alloc(); }

/// Creates a file of a new name beside `target`. Its slot is taken first, so that it is removed whenever a signal
/// comes.
std::error_code createBeside(StringRef target, std::string &path, int &descriptor, int &slot) {
  constexpr int kAttempts = 128;
  constexpr size_t kMaxPrefix = 200;  // of the name: file systems allow 255 bytes
  const size_t nameSize = sys::path::filename(target).size();
  const StringRef prefix = target.drop_back(nameSize - std::min(nameSize, kMaxPrefix));
  std::error_code code;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    SmallString<16> digits;  // made apart, because `target` may contain a %
    sys::fs::createUniquePath("%%%%%%%%", digits, /*MakeAbsolute=*/false);
    path = (prefix + ".tmp-" + digits).str();
    slot = rememberTemporary(path);
    code = sys::fs::openFileForReadWrite(path, descriptor, sys::fs::CD_CreateNew, sys::fs::OF_None);
    if (!code) return code;
    forgetTemporary(slot);
    path.clear();
    if (code != std::errc::file_exists) return code;
  }
  return code;
}

// What is left in the buffer is written by the stream's destructor at the latest, which aborts if it cannot be.
void dropErrors(raw_fd_ostream &os) {
  os.flush();
  os.clear_error();
}

Error ioError(StringRef path, const Twine &reason) {
  return Failure(ErrorKind::Io, "cannot write '" + path + "': " + reason);
}

}  // namespace

void occupyStandardDescriptors() {
  for (int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest free descriptor is this one. It is opened the wrong way round, so that using it is an error.
    const int opened = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    static_cast<void>(opened);
  }
}

void installCrashHandlers() {
  install_fatal_error_handler(onFatalError, nullptr);
  install_bad_alloc_error_handler(onBadAlloc, nullptr);
  for (int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, onCrash);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU})
    if (std::signal(signal, onInterrupt) == SIG_IGN) std::signal(signal, SIG_IGN);  // as under nohup
  std::signal(SIGXFSZ, SIG_IGN);  // a file larger than the limit is an error of the write
}

void sayOutOfMemory(bool asJson) {
  say(asJson ? "{\"severity\":\"error\",\"message\":\"out of memory\",\"kind\":\"too_large\"}\n"
             : "gradc: error: out of memory [too_large]\n");
}

OutputFile::OutputFile(OutputFile &&other)
    : name(std::move(other.name)), path(std::move(other.path)), temporary(std::move(other.temporary)),
      descriptor(other.descriptor), cleanupSlot(other.cleanupSlot), os(std::move(other.os)) {
  other.temporary.clear();
  other.cleanupSlot = -1;
}

OutputFile::~OutputFile() {
  if (os) dropErrors(*os);
  if (temporary.empty()) return;
  os.reset();
  unlink(temporary.c_str());
  forgetTemporary(cleanupSlot);
}

Expected<std::string> followLinks(StringRef path) {
  constexpr int kMaxLinks = 40;  // as in Linux
  SmallString<256> place(path);
  for (int i = 0; i < kMaxLinks; ++i) {
    char target[PATH_MAX];
    const ssize_t size = readlink(place.c_str(), target, sizeof(target));
    if (size < 0) return place.str().str();
    const StringRef next(target, static_cast<size_t>(size));
    if (sys::path::is_absolute(next)) {
      place = next;
    } else {
      sys::path::remove_filename(place);
      sys::path::append(place, next);
    }
  }
  return ioError(path, std::strerror(ELOOP));
}

Expected<OutputFile> OutputFile::open(StringRef name) {
  OutputFile file;
  if (name.empty() || name == "-") {
    file.name = "<stdout>";
    file.os = std::make_unique<raw_fd_ostream>(STDOUT_FILENO, /*shouldClose=*/false);
    return file;
  }
  file.name = name.str();
  Expected<std::string> target = followLinks(name);
  if (!target) return target.takeError();
  file.path = std::move(*target);
  sys::fs::file_status status;
  bool exists = !sys::fs::status(name, status) && sys::fs::exists(status);
  if (exists && !sys::fs::is_regular_file(status)) {
    std::error_code code;
    file.os = std::make_unique<raw_fd_ostream>(name, code, sys::fs::OF_Append);
    if (code) return ioError(name, code.message());
    return file;
  }
  if (std::error_code code = createBeside(file.path, file.temporary, file.descriptor, file.cleanupSlot))
    return ioError(name, code.message());
  // A file that is replaced keeps its permissions, where that is allowed.
  if (exists) static_cast<void>(sys::fs::setPermissions(file.descriptor, status.permissions()));
  file.os = std::make_unique<raw_fd_ostream>(file.descriptor, /*shouldClose=*/true);
  return file;
}

Error OutputFile::takeStreamError() {
  if (!os->has_error()) return Error::success();
  const std::string reason = os->error().message();
  os->clear_error();
  return ioError(name, reason);
}

Error OutputFile::finish() {
  os->flush();
  if (Error error = takeStreamError()) return error;
  if (temporary.empty()) return Error::success();
  // The name must not reach the disk before the data does.
  if (fsync(descriptor) != 0 && errno != EINVAL && errno != ENOTSUP) return ioError(name, std::strerror(errno));
  os->close();
  return takeStreamError();
}

Error OutputFile::publish() {
  if (temporary.empty()) return Error::success();
  if (std::error_code code = sys::fs::rename(temporary, path)) return ioError(name, code.message());
  temporary.clear();
  forgetTemporary(cleanupSlot);
  return Error::success();
}

Error OutputFile::commit() {
  if (Error error = finish()) return error;
  return publish();
}

Error writeFile(StringRef path, function_ref<void(raw_ostream &)> write) {
  Expected<OutputFile> file = OutputFile::open(path);
  if (!file) return file.takeError();
  write(file->stream());
  return file->commit();
}

Error commitAll(ArrayRef<OutputFile *> files) {
  for (OutputFile *file : files)
    if (Error error = file->finish()) return error;
  for (OutputFile *file : files)
    if (Error error = file->publish()) return error;
  return Error::success();
}

}  // namespace gradc
