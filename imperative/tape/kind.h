// An operator with its attributes, to call any number of times.
//
// A counted handle: what the Imperative knows of a kind exists at least as long as one of its handles or calls. It may
// outlive the Imperative, whose calls alone accept it (E-44). Tested by
// tests/imperative/memory/imperative_growth_test.cc
#pragma once

#include "ir/graph/context.h"

#include <atomic>
#include <cstdint>
#include <utility>

namespace gradc {

struct CallSite {
  const char *file = nullptr;  // outlives the tape, as a literal does; null: unknown
  uint32_t line = 0;

  /// As a default argument: the caller's own.
  static constexpr CallSite here(const char *file = __builtin_FILE(), uint32_t line = __builtin_LINE()) {
    return {file, line};
  }
};

class Store;
struct Signature;

/// What an Imperative knows of a kind. The table has one reference itself.
struct KindRow {
  std::atomic<uint32_t> refs{1};
  uint32_t number;  // unique among all kinds that the Imperative ever had
  Store *store;     // of the Imperative; null once that is gone
  KindRef kind;
  Signature *last = nullptr;  // the signature of the last call
};
inline void retain(KindRow *row) { row->refs.fetch_add(1, std::memory_order_relaxed); }
inline void release(KindRow *row) {
  if (row->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete row;
}

class Kind {
 public:
  Kind() = default;  // no kind
  explicit Kind(KindRow *row) : row(row) {
    if (row) retain(row);
  }
  Kind(const Kind &other) : Kind(other.row) {}
  Kind(Kind &&other) noexcept : row(std::exchange(other.row, nullptr)) {}
  Kind &operator=(Kind other) noexcept {
    std::swap(row, other.row);
    return *this;
  }
  ~Kind() {
    if (row) release(row);
  }

  explicit operator bool() const { return row != nullptr; }
  friend bool operator==(const Kind &a, const Kind &b) { return a.row == b.row; }
  KindRow *get() const { return row; }

 private:
  KindRow *row = nullptr;
};

}  // namespace gradc
