// Turns std::bad_alloc into an error, as every entry point of the library does; docs/embedding.md lists them.
// Tested by tests/ir/allocation_test.cc
#pragma once

#include "ir/base/error.h"

#include <new>
#include <stdexcept>

namespace gradc {

/// TooLarge: "no memory " followed by `what` ("to read the graph"), or "out of memory" if that text cannot be
/// allocated.
llvm::Error outOfMemory(const char *what);

/// For code that can continue without a result: passes TooLarge on and drops any other error. Otherwise its decisions
/// would depend on how much memory there is.
llvm::Error onlyTooLarge(llvm::Error error);

/// Returns the result of `work`, an Error or an Expected; outOfMemory(what) for std::bad_alloc, and for the
/// std::length_error of a container that no address space can hold.
template <class Work> auto catchingBadAlloc(const char *what, Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc &) {
    return outOfMemory(what);
  } catch (const std::length_error &) {
    return outOfMemory(what);
  }
}

}  // namespace gradc
