// Lets each allocation of an operation fail, one at a time, and checks what must hold then.
#pragma once

#include "tests/support/runs/failing_heap.h"
#include "tests/support/tensors.h"

#include "llvm/Support/ErrorHandling.h"

#include <gtest/gtest.h>

namespace gradc::testing {

[[noreturn]] inline void throwBadAlloc(void *, const char *, bool) { throw std::bad_alloc(); }
/// LLVM's containers throw, as in the tool and as docs/embedding.md requires of a host.
inline const bool isInstalled = (llvm::install_bad_alloc_error_handler(throwBadAlloc, nullptr), true);

/// cantFail that reports the error even in a build without assertions.
template <class T> T must(llvm::Expected<T> value) {
  if (!value) llvm::report_fatal_error(llvm::Twine(llvm::toString(value.takeError())));
  return std::move(*value);
}

inline constexpr uint64_t kAllOfFirst = 2000, kSampledBehind = 400;

/// The number of the allocation to fail after the k-th: every one of the first, then at a stride that is not a multiple
/// of a loop's.
inline uint64_t nextFailure(uint64_t k, uint64_t count) {
  if (k < kAllOfFirst) return k + 1;
  uint64_t stride = std::max<uint64_t>(1, (count - kAllOfFirst) / kSampledBehind) | 1;
  while (stride > 1 && (stride % 3 == 0 || stride % 5 == 0 || stride % 7 == 0)) stride += 2;
  return k + stride;
}

/// `operation` returns its result as bytes, and runs the part that is to fail by `failingHeap.during`.
template <class Operation> void failEach(Operation operation) {
  ASSERT_TRUE(isInstalled);
  FailingHeap &heap = failingHeap;
  auto run = [&](uint64_t failsAt, Failing failing) {
    heap.count = 0;
    heap.failsAt = failsAt;
    heap.failing = failing;
    heap.wasWithinOneDnn = false;
    return operation();
  };
  const std::string expected = must(run(FailingHeap::kNever, Failing::Once));
  ASSERT_EQ(must(run(FailingHeap::kNever, Failing::Once)), expected);
  const uint64_t count = heap.count;
  ASSERT_GT(count, 0u);
  consumeError(run(1, Failing::Once).takeError());  // the first exception of a program allocates tables of the unwinder
  for (Failing failing : {Failing::Once, Failing::Onward}) {
    uint64_t numErrors = 0, numTried = 0;
    for (uint64_t k = 1; k <= count; k = nextFailure(k, count)) {
      SCOPED_TRACE("allocation " + std::to_string(k) + " of " + std::to_string(count) +
                   (failing == Failing::Once ? "" : " and all that follow"));
      const int64_t before = heap.live;
      ++numTried;
      {
        llvm::Expected<std::string> result = run(k, failing);
        if (result) {
          ASSERT_EQ(*result, expected) << "it did without";
        } else {
          ++numErrors;
          const GradcError error = errorOf(result.takeError());
          ASSERT_EQ(error.kind, ErrorKind::TooLarge) << error.message;
          ASSERT_NE(error.message.find(" memory"), std::string::npos) << error.message;
        }
      }
      if (!heap.wasWithinOneDnn) {  // which then leaks its blocks
        ASSERT_EQ(heap.live, before) << "blocks are left behind";
      }
    }
    EXPECT_GT(2 * numErrors, numTried);
  }
  EXPECT_EQ(must(run(FailingHeap::kNever, Failing::Once)), expected);
}

}  // namespace gradc::testing
