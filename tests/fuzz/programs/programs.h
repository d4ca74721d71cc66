// Programs of blocks: sound ones, and everything done with one. docs/fuzzing.md
#pragma once

#include "tests/fuzz/exercise.h"

#include <string>
#include <vector>

namespace gradc::fuzz {

/// Sound programs as files: each operator type that has a gradient, straight lines, branches, loops, steps, arrays,
/// programs that have their gradient.
std::vector<std::string> programSeeds();

/// Returns what does not hold, in one line; empty when all is well. The call is that of the file, else the gradient of
/// what the root writes last. Options are defaults, or drawn from the number `fuzz_choice` of the file.
///
///   read      verify, write, read back
///   graph     the forward graph and the gradient of the call: verify, infer, plan, lower; run
///   emitted   the program with its gradient: verify, write, read back, read as a graph: the same
///   both      gradients of graph and program are equal in values, which is how `gradc run` finds them
std::string exerciseProgram(const OpRegistry &ops, llvm::StringRef text, const ExerciseOptions &options, Tally &tally);

}  // namespace gradc::fuzz
