// Tested by tests/runtime/kernels/kernel_test.cc
#include "ir/tensor/random_stream.h"

namespace gradc {

uint64_t RandomKey::bits(uint64_t counter) const { return RandomStream(*this).bits(counter); }

}  // namespace gradc
