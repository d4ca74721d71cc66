// Files of arrays that nobody would write: NPY, NPZ and checkpoints. docs/fuzzing.md
#pragma once

#include "tests/support/dice.h"

#include "llvm/ADT/StringRef.h"

#include <set>
#include <string>
#include <vector>

namespace gradc::fuzz {

/// Sound files: arrays in both orders of bytes and of elements, archives stored and deflated, a checkpoint.
std::vector<std::string> arraySeeds();

/// What files were taken for, and why not.
struct ArrayTally {
  size_t numArrays = 0, numArchives = 0, numCheckpoints = 0;
  std::set<std::string> refusals;  // without what is quoted, and without numbers
};

/// Reads the file as an array, as an archive and as a checkpoint, and writes again what was read. What is wrong, or nothing:
/// a file is refused as one, or gives arrays that are whole and the same when they are read back; a checkpoint that is
/// refused leaves the run as it was.
std::string exerciseArrays(llvm::StringRef bytes, ArrayTally &tally);

/// One of the files, edited in a few places: bits, lengths, counts, digits, pieces left out, repeated or of another file.
std::string editedArrayFile(llvm::ArrayRef<std::string> seeds, testing::Dice &dice);

}  // namespace gradc::fuzz
