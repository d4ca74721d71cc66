// Tested by tests/runtime/session_test.cc
#include "runtime/executor/buffer.h"

#include "ir/base/error.h"
#include "passes/memory/plan_memory.h"
#include "runtime/executor/machine_memory.h"

#include "llvm/Support/MathExtras.h"

#include <cstdlib>
#include <cstdint>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

using namespace llvm;

namespace gradc {

static_assert(kPlanAlignment <= 127, "the distance is kept in a char");

Expected<Buffer> allocateBuffer(size_t bytes, const Twine &what) {
  if (Error error = checkMachineHas(bytes, what)) return error;
  const size_t rounded = alignTo(std::max<size_t>(bytes, 1), kPlanAlignment);
  // calloc, because fresh pages are zero already and are placed near the thread that first writes to them.
  char *const memory = static_cast<char *>(std::calloc(1, rounded + kPlanAlignment));
  if (!memory) return Failure(ErrorKind::TooLarge, "no memory for the " + Twine(rounded) + " bytes of " + what);
  char *const aligned = reinterpret_cast<char *>(alignTo(reinterpret_cast<uintptr_t>(memory) + 1, kPlanAlignment));
  aligned[-1] = static_cast<char>(aligned - memory);  // distance back to the allocation
  return Buffer(aligned, [](char *at) { std::free(at - at[-1]); });
}

Expected<Buffer> allocateBuffer(size_t bytes, size_t spare, const Twine &what) {
  Expected<Buffer> whole = allocateBuffer(bytes, what);
  if (whole || spare == 0) return whole;
  // The system refuses more memory than the machine can provide. Only the bytes that are certain to be needed are
  // reserved; the others are mapped without a reservation.
  Expected<Buffer> certain = allocateBuffer(bytes - std::min(bytes, spare), what);
  if (!certain) {
    consumeError(certain.takeError());
    return whole;
  }
  const size_t page = static_cast<size_t>(getpagesize());
  const size_t mapped = alignTo(bytes, page) + page;
  void *const memory =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return whole;
  consumeError(whole.takeError());
  char *const at = static_cast<char *>(memory) + page;  // the size is in the page before
  std::memcpy(memory, &mapped, sizeof(mapped));
  return Buffer(at, [](char *buffer) {
    char *const begin = buffer - getpagesize();
    size_t size;
    std::memcpy(&size, begin, sizeof(size));
    munmap(begin, size);
  });
}

void copyBytes(const TensorRef &from, const TensorRef &to) {
  if (to.bytes() != 0) std::memcpy(to.data, from.data, to.bytes());
}

}  // namespace gradc
