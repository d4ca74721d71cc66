// Loops over the elements of a kernel's operands. Tested by tests/fast_kernels_test.cc
#pragma once

// An output may be the memory of an input, never overlap it otherwise: iterations do not depend on each other.
#if defined(__clang__)
#define GRADC_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define GRADC_INDEPENDENT _Pragma("GCC ivdep")
#endif
