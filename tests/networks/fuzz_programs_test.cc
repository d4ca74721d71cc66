// Programs of blocks after seeded edits: an error, or everything holds. `./dev fuzz --level programs` searches on.
#include "ops/registry.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/programs/program_edits.h"
#include "tests/fuzz/programs/programs.h"

#include <gtest/gtest.h>

namespace gradc::fuzz {
namespace {

struct FuzzPrograms : ::testing::Test {
  FuzzPrograms() { registerBuiltinOps(ops); }
  std::string finding(llvm::StringRef text) { return exerciseProgram(ops, text, ExerciseOptions(), tally); }

  OpRegistry ops;
  Tally tally;
  const std::vector<std::string> seeds = programSeeds();
};

TEST_F(FuzzPrograms, A_19_TheSeedsAreSound) {
  for (const std::string &seed : seeds) EXPECT_EQ(finding(seed), "") << seed;
}

// What searches found.
TEST_F(FuzzPrograms, A_19_CF_19_IR_14_ProgramsThatWereFound) {
  const std::vector<CorpusFile> files = readCorpus("testdata/fuzz/programs");
  EXPECT_GE(files.size(), 15u);
  for (const CorpusFile &file : files) EXPECT_EQ(finding(file.text), "") << file.origin;
}

TEST_F(FuzzPrograms, A_19_EditedPrograms) {
  constexpr uint64_t kPrograms = 2000;
  for (uint64_t seed = 0; seed < kPrograms; ++seed) {
    testing::Dice dice(seed);
    const std::string text = editedProgram(dice.one(llvm::ArrayRef(seeds)), seeds, dice);
    ASSERT_EQ(finding(text), "") << "seed " << seed << ": " << text;
  }
}

}  // namespace
}  // namespace gradc::fuzz
