// One thread's double precision product, for each instruction set that is built. Call only those that the machine has.
#pragma once

#include "runtime/kernels/matrix/gemm.h"

namespace gradc {

void multiply_baseline(const Gemm<double> &g);
void multiply_avx2(const Gemm<double> &g);
void multiply_avx512(const Gemm<double> &g);

}  // namespace gradc
