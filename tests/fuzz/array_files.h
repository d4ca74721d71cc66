// Malformed files of arrays: NPY, NPZ and checkpoints. docs/fuzzing.md
#pragma once

#include "tests/support/drawn/dice.h"

#include "llvm/ADT/StringRef.h"

#include <set>
#include <string>
#include <vector>

namespace gradc::fuzz {

/// Valid files: arrays in both orders of bytes and of elements, archives stored and deflated, a checkpoint.
std::vector<std::string> arraySeeds();

/// What files were accepted as, and why others were refused.
struct ArrayTally {
  size_t numArrays = 0, numArchives = 0, numCheckpoints = 0;
  std::set<std::string> refusals;  // without quoted text and numbers
};

/// Reads the file as an array, as an archive and as a checkpoint, and writes back what was read. Returns what is wrong,
/// or nothing: each reading is refused, or gives arrays that are complete and the same when they are read back; a
/// refused checkpoint leaves the run unchanged.
std::string exerciseArrays(llvm::StringRef bytes, ArrayTally &tally);

/// One of the files, edited in a few places: bits, lengths, counts, digits, pieces removed, repeated or taken from
/// another file.
std::string editedArrayFile(llvm::ArrayRef<std::string> seeds, testing::Dice &dice);

}  // namespace gradc::fuzz
