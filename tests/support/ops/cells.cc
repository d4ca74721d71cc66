// Counting cells. Tested by tests/ops/conformance_test.cc
#include "tests/support/ops/cells.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc::testing {

void Cells::conclude(const Findings &findings, const char *reason) {
  std::string problems;
  for (const std::string &problem : findings.problems) problems += "  " + problem + "\n";
  EXPECT_EQ(problems, "");
  const bool isReal = findings.numChecked || !findings.problems.empty();
  // REQ_03_Outputs/relu_3
  count(StringRef(::testing::UnitTest::GetInstance()->current_test_info()->name()).split('/').first, isReal);
  if (!isReal) GTEST_SKIP() << reason;
}

void Cells::count(StringRef check, bool isReal) {
  Counts &row = counts[check.str()];
  ++(isReal ? row.numReal : row.numEmpty);
}

void Cells::print(size_t numRows, ArrayRef<Floor> floors) const {
  for (const auto &[check, count] : counts) {
    outs() << left_justify(check, 42)
           << format("%5zu real cells of %zu\n", count.numReal, count.numReal + count.numEmpty);
    if (count.numReal + count.numEmpty != numRows) continue;  // chosen by a filter
    const Floor *floor = llvm::find_if(floors, [&, &name = check](const Floor &row) { return name == row.check; });
    if (floor == floors.end()) ADD_FAILURE() << check << " has no floor";
    else EXPECT_GE(count.numReal, floor->numReal) << check;
  }
  outs().flush();
}

std::string cellName(StringRef op, size_t index) {
  std::string name = (op + "_" + Twine(index)).str();
  llvm::erase_if(name, [](char c) { return !isAlnum(c) && c != '_'; });
  return name[0] == '_' ? "own" + name : name;
}

}  // namespace gradc::testing
