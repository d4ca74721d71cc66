// Tested by tests/session_test.cc
#include "runtime/buffer.h"

#include "ir/error.h"
#include "passes/memory/plan_memory.h"

#include "llvm/Support/MathExtras.h"

#include <cstdlib>
#include <cstring>

using namespace llvm;

namespace gradc {

Expected<Buffer> allocateBuffer(size_t bytes, const Twine &what) {
  const size_t rounded = alignTo(std::max<size_t>(bytes, 1), kPlanAlignment);
  char *memory = static_cast<char *>(std::aligned_alloc(kPlanAlignment, rounded));
  if (!memory)
    return Failure(ErrorKind::TooLarge, "no memory for the " + Twine(rounded) + " bytes of " + what);
  std::memset(memory, 0, rounded);
  return Buffer(memory, [](char *at) { std::free(at); });
}

}  // namespace gradc
