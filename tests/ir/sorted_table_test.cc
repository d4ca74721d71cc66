#include "ir/base/sorted_table.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

struct Row {
  std::string_view key;
  int number;
};
constexpr Row kRows[] = {{"tanh", 1}, {"", 2}, {"abs", 3}, {"tanh", 4}, {"tan", 5}};
constexpr SortedTable kTable(kRows, [](const Row &row) { return row.key; });

int numberOf(StringRef key) {
  const Row *row = kTable.find(key);
  return row ? row->number : 0;
}

TEST(SortedTable, FindsARowByItsWholeKey) {
  EXPECT_EQ(numberOf("abs"), 3);
  EXPECT_EQ(numberOf("tan"), 5);
  for (StringRef other : {"aaa", "ab", "abss", "ta", "tang", "tanhh", "z"})
    EXPECT_EQ(numberOf(other), 0) << other.str();
}

TEST(SortedTable, OfEqualKeysTheLastRowCounts) { EXPECT_EQ(numberOf("tanh"), 4); }

TEST(SortedTable, NoRowHasAnEmptyKey) { EXPECT_EQ(numberOf(""), 0); }

}  // namespace
}  // namespace gradc
