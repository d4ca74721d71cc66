// Which check stands for which row of the specification of gradient graphs (testdata/spec_rows.txt).
//
// A check carries the row in its name: TEST(Suite, AGG_05_What), or a golden case or vector under testdata/ called
// E_01_unused. Prints the table row → checks. Fails for a row without any, for a row that is called deferred and is
// checked all the same, and for a check that cites a row there is not. Rows of families the table does not have (RUN, MEM,
// INF, …) are somebody else's.
#include "tests/support/tool.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <gtest/gtest.h>

#include <map>

using namespace llvm;

namespace gradc::testing {
namespace {

struct Row {
  std::string id, deferred;  // AGG-05; empty: not deferred
  std::vector<std::string> checks;
};

/// "AGG-05" for the text AGG_05 at the front of `text`, which it leaves; empty when there is none.
std::string takeId(StringRef &text) {
  StringRef letters = text.take_while([](char c) { return c >= 'A' && c <= 'Z'; });
  StringRef rest = text.drop_front(letters.size());
  if (letters.empty() || !rest.consume_front("_")) return "";
  StringRef digits = rest.take_while(isDigit);
  rest = rest.drop_front(digits.size());
  if (digits.size() != 2 || (!rest.empty() && rest[0] != '_')) return "";
  text = rest;
  return (letters + "-" + digits).str();
}

/// The ids among the parts of a name: XS_03_V_16_NoneKeepsPositions has two.
std::vector<std::string> idsIn(StringRef name) {
  std::vector<std::string> ids;
  while (!name.empty()) {
    std::string id = takeId(name);
    if (!id.empty()) ids.push_back(id);
    name = name.drop_front(std::min(name.find('_'), name.size() - 1) + 1);
  }
  return ids;
}

/// Names of the tests of one source file, as Suite.Name.
std::vector<std::string> testsIn(StringRef source) {
  std::vector<std::string> names;
  SmallVector<StringRef, 0> lines;
  source.split(lines, '\n');
  for (StringRef line : lines) {
    if (!line.consume_front("TEST(") && !line.consume_front("TEST_F(") && !line.consume_front("TEST_P(")) continue;
    auto [suite, rest] = line.split(',');
    names.push_back((suite.trim() + "." + rest.take_until([](char c) { return c == ')'; }).trim()).str());
  }
  return names;
}

class SpecRows : public ::testing::Test {
 protected:
  SpecRows() {
    SmallVector<StringRef, 0> lines;
    std::string text = readText("testdata/spec_rows.txt");
    StringRef(text).split(lines, '\n', -1, false);
    for (StringRef line : lines) {
      if (line.starts_with("#")) continue;
      auto [id, rest] = line.split(' ');
      EXPECT_TRUE(rest.empty() || (rest.consume_front("deferred: ") && !rest.empty())) << line.str();
      EXPECT_TRUE(positions.try_emplace(id, rows.size()).second) << id.str() << " stands there twice";
      families.insert(id.split('-').first);
      rows.push_back({id.str(), rest.str(), {}});
    }
    for (const std::string &file : filesUnder("tests", "_test.cc"))
      for (const std::string &name : testsIn(readText(file))) cite(StringRef(name).split('.').second, name);
    for (const std::string &file : filesUnder("testdata", "args")) {
      StringRef folder = sys::path::filename(sys::path::parent_path(file));
      cite(folder, "golden " + folder.str());
    }
    for (const std::string &file : filesUnder("testdata/vectors", ".json"))
      cite(sys::path::stem(file), "vector " + sys::path::stem(file).str());
  }

  static std::vector<std::string> filesUnder(StringRef folder, StringRef ending) {
    std::vector<std::string> files;
    std::error_code code;
    for (sys::fs::recursive_directory_iterator at(folder, code), end; at != end && !code; at.increment(code))
      if (StringRef(at->path()).ends_with(ending)) files.push_back(at->path());
    llvm::sort(files);
    return files;
  }

  void cite(StringRef name, const std::string &check) {
    for (const std::string &id : idsIn(name)) {
      auto at = positions.find(id);
      if (at != positions.end())
        rows[at->second].checks.push_back(check);
      else if (families.contains(StringRef(id).split('-').first))
        unknown.push_back(id + " in " + check);
    }
  }

  std::vector<Row> rows;
  StringMap<size_t> positions;
  StringSet<> families;
  std::vector<std::string> unknown;
};

TEST_F(SpecRows, EveryRowHasItsCheck) {
  ASSERT_GT(rows.size(), 300u);
  size_t numDeferred = 0;
  std::string missing, stale, table;
  for (const Row &row : rows) {
    table += row.id + std::string(9 - row.id.size(), ' ');
    if (!row.deferred.empty()) {
      ++numDeferred;
      table += "deferred: " + row.deferred + "\n";
      if (!row.checks.empty()) stale += "  " + row.id + ": " + row.checks[0] + "\n";
      continue;
    }
    table += row.checks.empty() ? "-" : join(row.checks, ", ");
    table += "\n";
    if (row.checks.empty()) missing += " " + row.id;
  }
  outs() << table << rows.size() << " rows, " << numDeferred << " deferred\n";
  EXPECT_EQ(missing, "") << "rows without a check";
  EXPECT_EQ(stale, "") << "rows called deferred and checked all the same";
  EXPECT_EQ(join(unknown, ", "), "") << "checks that cite a row there is not";
}

TEST(SpecRowNames, IdsArePartsOfNames) {
  EXPECT_EQ(idsIn("XS_03_V_16_NoneKeepsPositions"), (std::vector<std::string>{"XS-03", "V-16"}));
  EXPECT_EQ(idsIn("AGG_05"), std::vector<std::string>{"AGG-05"});
  EXPECT_TRUE(idsIn("A_3_EqualTextLists_E_012_xE_01").empty());
}

}  // namespace
}  // namespace gradc::testing
