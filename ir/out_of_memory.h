// Want of memory as an error: what every entry of the library does with std::bad_alloc. docs/embedding.md lists the entries.
// Tested by tests/allocation_test.cc
#pragma once

#include "ir/error.h"

#include <new>
#include <stdexcept>

namespace gradc {

/// TooLarge, "no memory " and `what` ("to read the graph"). Where even that text finds no memory, "out of memory".
llvm::Error outOfMemory(const char *what);

/// What `work` returns, an Error or an Expected; outOfMemory(what) for std::bad_alloc, and for the std::length_error of a
/// container that no address space can hold.
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
