// Where the host made a call: messages about a recorded call name it besides operator and number.
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
