// NPY, NPZ and checkpoint files after seeded edits: an error or whole arrays. `./dev fuzz --level arrays` searches on.
#include "tests/fuzz/array_files.h"

#include <gtest/gtest.h>

namespace gradc::fuzz {
namespace {

TEST(ArrayFiles, RUN_04_TheSeedsAreSound) {
  ArrayTally tally;
  for (const std::string &seed : arraySeeds()) EXPECT_EQ(exerciseArrays(seed, tally), "");
  EXPECT_EQ(tally.numArrays, 5u);
  EXPECT_EQ(tally.numArchives, arraySeeds().size() - 5);
  EXPECT_EQ(tally.numCheckpoints, 1u);
}

TEST(ArrayFiles, RUN_04_EditedFilesAreErrorsOrArrays) {
  constexpr uint64_t kFiles = 20000;
  const std::vector<std::string> seeds = arraySeeds();
  ArrayTally tally;
  for (uint64_t seed = 0; seed < kFiles; ++seed) {
    testing::Dice dice(seed);
    ASSERT_EQ(exerciseArrays(editedArrayFile(seeds, dice), tally), "") << "seed " << seed;
  }
  // The edits get past the first checks.
  EXPECT_GT(tally.numArrays, kFiles / 100);
  EXPECT_GT(tally.numArchives, kFiles / 100);
  EXPECT_GT(tally.numCheckpoints, kFiles / 1000);
  EXPECT_GT(tally.refusals.size(), 30u);
}

}  // namespace
}  // namespace gradc::fuzz
