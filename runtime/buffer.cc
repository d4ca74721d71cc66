// Tested by tests/session_test.cc
#include "runtime/buffer.h"

#include "ir/error.h"
#include "passes/memory/plan_memory.h"

#include "llvm/Support/MathExtras.h"

#include <cstdlib>
#include <cstdint>

using namespace llvm;

namespace gradc {

static_assert(kPlanAlignment <= 127, "the distance is kept in a char");

Expected<Buffer> allocateBuffer(size_t bytes, const Twine &what) {
  const size_t rounded = alignTo(std::max<size_t>(bytes, 1), kPlanAlignment);
  // calloc, because fresh pages are zero already and are placed near the thread that first writes to them.
  char *const memory = static_cast<char *>(std::calloc(1, rounded + kPlanAlignment));
  if (!memory) return Failure(ErrorKind::TooLarge, "no memory for the " + Twine(rounded) + " bytes of " + what);
  char *const aligned = reinterpret_cast<char *>(alignTo(reinterpret_cast<uintptr_t>(memory) + 1, kPlanAlignment));
  aligned[-1] = static_cast<char>(aligned - memory);  // distance back to the allocation
  return Buffer(aligned, [](char *at) { std::free(at - at[-1]); });
}

}  // namespace gradc
