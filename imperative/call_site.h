// Where the host called: what messages about a recorded call say beside its operator and number.
#pragma once

#include <cstdint>

namespace gradc {

struct CallSite {
  const char *file = nullptr;  // outlives the tape, as a literal does; null: unknown
  uint32_t line = 0;

  /// As a default argument: the caller's own.
  static constexpr CallSite here(const char *file = __builtin_FILE(), uint32_t line = __builtin_LINE()) {
    return {file, line};
  }
};

}  // namespace gradc
