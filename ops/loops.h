// Loops over the elements of a kernel's operands. Tested by tests/fast_kernels_test.cc
#pragma once

// An output may be exactly the memory of an input and never overlaps one otherwise, so iterations are independent.
#if defined(__clang__)
#define GRADC_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define GRADC_INDEPENDENT _Pragma("GCC ivdep")
#endif
