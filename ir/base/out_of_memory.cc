// The error that needs no memory. Tested by tests/ir/allocation_test.cc
#include "ir/base/out_of_memory.h"

#include <atomic>

using namespace llvm;

namespace gradc {
namespace {

/// Created in a static reserve when the heap is exhausted; occupies its slot until it is handled.
struct ReservedError : GradcError {
  ReservedError() : GradcError(ErrorKind::TooLarge, "out of memory") {}  // short enough to be within the std::string
  static void *operator new(size_t size);
  static void operator delete(void *memory);
};

// One for each thread that may run out of memory at the same time.
struct Slot {
  alignas(ReservedError) char bytes[sizeof(ReservedError)] = {};
  std::atomic<bool> isUsed = false;
};
constinit Slot reserve[64];

void *ReservedError::operator new(size_t) {
  for (Slot &slot : reserve)
    if (!slot.isUsed.exchange(true)) return slot.bytes;
  throw std::bad_alloc();
}

void ReservedError::operator delete(void *memory) {
  for (Slot &slot : reserve)
    if (memory == slot.bytes) slot.isUsed = false;
}

}  // namespace

Error onlyTooLarge(Error error) {
  return handleErrors(std::move(error), [](std::unique_ptr<GradcError> info) -> Error {
    return info->kind == ErrorKind::TooLarge ? Error(std::move(info)) : Error::success();
  });
}

Error outOfMemory(const char *what) {
  try {
    return Failure(ErrorKind::TooLarge, Twine("no memory ") + what);
  } catch (const std::bad_alloc &) {
    return Error(std::make_unique<ReservedError>());
  }
}

}  // namespace gradc
