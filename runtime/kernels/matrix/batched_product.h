// Many small matrix products. Tested by tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "runtime/kernels/core/threads.h"
#include "runtime/kernels/matrix/gemm.h"

namespace gradc::fast {

/// Calls multiply(i) for the products 0 to count − 1, of `work` multiplications each. With at least as many products as
/// threads, each product is computed by one thread.
template <class F> void forProducts(unsigned threads, int64_t count, int64_t work, F multiply) {
  constexpr int64_t kSharedWork = int64_t{1} << 16;  // multiplications worth a second thread
  const bool isShared = count >= static_cast<int64_t>(threads) && work * count > kSharedWork;
  parallelFor(isShared ? threads : 1, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) multiply(i);
  });
}

}  // namespace gradc::fast
