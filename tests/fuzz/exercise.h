// Everything done with one graph file, and what must hold then. docs/fuzzing.md
#pragma once

#include "ir/graph/context.h"
#include "tests/fuzz/tally.h"

#include <optional>
#include <string>

namespace gradc::fuzz {

/// Read: read, verify, write, infer. Plan: also all passes, orders 1 and 2. Run: also runs of all graphs.
enum class Level : uint8_t { Read, Plan, Run };
/// "read", "plan" or "run".
std::optional<Level> parseLevel(llvm::StringRef text);

struct ExerciseOptions {
  Level level = Level::Run;
  /// Graphs whose values take more are planned, not run, which would take all the time.
  int64_t maxRunBytes = 256 << 10;
};

/// Returns what does not hold, in one line; empty when all is well. Gradient options, backends and ways to run are
/// those of the command line, or drawn from the graph attribute `fuzz_choice`. `ops` are the known operators.
std::string exercise(const OpRegistry &ops, llvm::StringRef text, const ExerciseOptions &options, Tally &tally);

}  // namespace gradc::fuzz
