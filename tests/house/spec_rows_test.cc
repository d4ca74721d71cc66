// The ledger of the specifications of gradient graphs (testdata/spec_rows.txt) and of the tape
// (testdata/imperative_rows.txt): which checks and mutants cover a row.
//
// A check carries the row in its name: TEST(Suite, AGG_05_What), or a golden case or vector under testdata/ called
// E_01_unused. A checked row has such a check and a mutant of tests/mutate that one of its checks judges; a row that is
// open or not applicable has no check, and no check cites a row there is not. Prints the table and the counts. Every
// operator has a mutant as well.
#include "tests/support/test_graph.h"
#include "tests/support/tool.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/GlobPattern.h"
#include "llvm/Support/Path.h"

#include <gtest/gtest.h>

#include <map>

using namespace llvm;

namespace gradc::testing {
namespace {

enum class State { Checked, WithoutMutant, Open, NotApplicable };

struct Check {
  std::string target, name;  // gradient_sum_test, GradientSum.AGG_05_What
};

struct Row {
  std::string id, reason;  // AGG-05; empty: checked
  State state;
  std::vector<Check> checks;
  bool isJudged = false;  // some mutant of this row is judged by some check of it
};

/// A mutant of a row and one of the tests that judge it; an empty filter means the tests named after the row.
struct Mutant {
  std::string row, target, filter;
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

SmallVector<StringRef, 0> linesOf(StringRef text) {
  SmallVector<StringRef, 0> lines;
  text.split(lines, '\n');
  return lines;
}

/// Names of the tests of one source file, as Suite.Name; of a suite with parameters as Suite.Name/.
std::vector<std::string> testsIn(StringRef source) {
  std::vector<std::string> names;
  for (StringRef line : linesOf(source)) {
    const bool hasParameters = line.starts_with("TEST_P(");
    if (!line.consume_front("TEST(") && !line.consume_front("TEST_F(") && !line.consume_front("TEST_P(")) continue;
    auto [suite, rest] = line.split(',');
    StringRef name = rest.take_until([](char c) { return c == ')'; });
    names.push_back((suite.trim() + "." + name.trim() + (hasParameters ? "/" : "")).str());
  }
  return names;
}

/// Whether a filter of GoogleTest chooses the test. Of a suite with parameters it may name the parameter as well, which
/// is not looked at.
bool chooses(StringRef filter, StringRef name) {
  SmallVector<StringRef, 4> patterns;
  filter.split(patterns, ':');
  return llvm::any_of(patterns, [&](StringRef pattern) {
    if (name.consume_back("/")) pattern = pattern.split('/').first;
    return cantFail(GlobPattern::create(pattern)).match(name);
  });
}

/// The mutants of one list, in the format of tests/mutate/mutants.py.
std::vector<Mutant> mutantsIn(StringRef list) {
  std::vector<Mutant> mutants;
  SmallVector<StringRef, 4> rows;
  bool hasTests = true;
  auto finish = [&] {
    for (StringRef row : hasTests ? ArrayRef<StringRef>() : rows) mutants.push_back({row.str(), "", ""});
    hasTests = true;
  };
  for (StringRef line : linesOf(list)) {
    if (line.consume_front("?")) {
      auto [target, filter] = line.trim().split(' ');
      for (StringRef row : rows) mutants.push_back({row.str(), target.str(), filter.trim().str()});
      hasTests = true;
    } else if (!line.empty() && isAlpha(line[0])) {
      finish();
      rows.clear();
      line.split(' ').first.split(rows, ',');
      hasTests = false;
    }
  }
  finish();
  return mutants;
}

/// The ids that the specification defines: "- **IR-01** …" and table rows "| E-01 | …", "| E-61, E-62 | …",
/// "| E-70..72 | …".
std::vector<std::string> idsOfSpecification(StringRef text) {
  std::vector<std::string> ids;
  auto addRange = [&](StringRef range) {
    auto [first, last] = range.split("..");
    auto [family, digits] = first.split('-');
    unsigned begin = 0, end = 0;
    if (family.empty() || !llvm::all_of(family, isUpper) || digits.size() != 2 || digits.getAsInteger(10, begin))
      return;
    if (last.getAsInteger(10, end)) end = begin;
    for (unsigned n = begin; n <= end; ++n) ids.push_back((family + "-" + (n < 10 ? "0" : "") + Twine(n)).str());
  };
  for (StringRef line : linesOf(text)) {
    SmallVector<StringRef, 4> parts;
    if (line.consume_front("- **")) parts.push_back(line.split("**").first);
    else if (line.consume_front("| ")) line.split(" |").first.split(parts, ", ");
    llvm::for_each(parts, addRange);
  }
  return ids;
}

class Ledger {
 public:
  explicit Ledger(StringRef text) {
    for (StringRef line : linesOf(text))
      if (!line.empty() && !line.starts_with("#")) addRow(line);
  }

  /// Notes the check for every row its name has.
  void cite(StringRef names, const Check &check) {
    for (const std::string &id : idsIn(names)) {
      auto at = positions.find(id);
      if (at != positions.end()) rows[at->second].checks.push_back(check);
      else if (!StringRef(id).starts_with("A-"))  // the rules of the architecture are no rows
        complain(check.name + " cites " + id + ", which is no row");
    }
  }

  void judge(const Mutant &mutant) {
    auto at = positions.find(mutant.row);
    if (at == positions.end()) return;  // op:Pooling
    Row &row = rows[at->second];
    std::string own = "*" + row.id + "*";
    std::replace(own.begin(), own.end(), '-', '_');
    row.isJudged |= llvm::any_of(row.checks, [&](const Check &check) {
      return (mutant.target.empty() || mutant.target == check.target) &&
             chooses(mutant.filter.empty() ? own : mutant.filter, check.name);
    });
    if (row.state == State::Open || row.state == State::NotApplicable)
      complain(row.id + " is not checked, and has a mutant all the same");
  }

  /// One line per row that is not in the state it claims, and per line and check that is wrong.
  std::string complaints() const {
    std::string text = problems;
    for (const Row &row : rows) {
      const bool claimsCheck = row.state == State::Checked || row.state == State::WithoutMutant;
      if (claimsCheck && row.checks.empty()) text += row.id + " has no check\n";
      if (!claimsCheck && !row.checks.empty()) text += row.id + " is not checked, but for " + row.checks[0].name + "\n";
      if (row.state == State::Checked && !row.checks.empty() && !row.isJudged)
        text += row.id + " has no mutant its checks judge\n";
      if (row.state == State::WithoutMutant && row.isJudged) text += row.id + " has a mutant after all\n";
    }
    return text;
  }

  void print(raw_ostream &os) const {
    struct Counts {
      unsigned checked = 0, open = 0, notApplicable = 0;
    };
    std::map<std::string, Counts> families;
    Counts all;
    for (const Row &row : rows) {
      os << left_justify(row.id, 9) << row.reason;
      for (const Check &check : row.checks)
        os << (&check == &row.checks[0] && row.reason.empty() ? "" : ", ") << check.name;
      os << "\n";
      for (Counts *counts : {&all, &families[row.id.substr(0, row.id.find('-'))]})
        ++(row.state == State::Open            ? counts->open
           : row.state == State::NotApplicable ? counts->notApplicable
                                               : counts->checked);
    }
    for (auto &[family, counts] : families)
      os << left_justify(family, 6)
         << format("%4u checked %4u open %4u not applicable\n", counts.checked, counts.open, counts.notApplicable);
    os << rows.size() << " rows: " << all.checked << " checked, " << all.open << " open, " << all.notApplicable
       << " not applicable\n";
  }

  std::vector<std::string> ids() const {
    std::vector<std::string> list;
    for (const Row &row : rows) list.push_back(row.id);
    return list;
  }

 private:
  void addRow(StringRef line) {
    auto [id, text] = line.split(' ');
    Row row{id.str(), text.str(), State::Checked, {}};
    if (text == "checked") row.reason.clear();
    else if (text.consume_front("checked without a mutant: ")) row.state = State::WithoutMutant;
    else if (text.consume_front("open: ")) row.state = State::Open;
    else if (text.consume_front("not applicable: ")) row.state = State::NotApplicable;
    else return complain(line + " is in no state");
    if (row.state != State::Checked && text.trim().empty()) complain(line + " lacks a reason");
    if (!positions.try_emplace(id, rows.size()).second) return complain(id + " is listed twice");
    rows.push_back(std::move(row));
  }

  void complain(const Twine &text) { problems += text.str() + "\n"; }

  std::vector<Row> rows;
  StringMap<size_t> positions;
  std::string problems;
};

std::vector<std::string> filesUnder(StringRef folder, StringRef ending) {
  std::vector<std::string> files;
  std::error_code code;
  for (sys::fs::recursive_directory_iterator at(folder, code), end; at != end && !code; at.increment(code))
    if (StringRef(at->path()).ends_with(ending)) files.push_back(at->path());
  llvm::sort(files);
  return files;
}

std::vector<Mutant> allMutants() {
  std::vector<Mutant> mutants;
  for (const std::string &file : filesUnder("tests/mutate", ".txt")) append_range(mutants, mutantsIn(readText(file)));
  return mutants;
}

/// The ledger with the checks and mutants of this tree.
Ledger readLedger() {
  Ledger ledger(readText("testdata/spec_rows.txt") + "\n" + readText("testdata/imperative_rows.txt"));
  for (const std::string &file : filesUnder("tests", "_test.cc"))
    for (const std::string &name : testsIn(readText(file)))
      ledger.cite(StringRef(name).split('.').second.rtrim('/'), {sys::path::stem(file).str(), name});
  for (const std::string &file : filesUnder("testdata", "args")) {
    const std::string folder = sys::path::filename(sys::path::parent_path(file)).str();
    ledger.cite(folder, {"golden_test", "golden " + folder});
  }
  for (const std::string &file : filesUnder("testdata/vectors", ".json"))
    ledger.cite(sys::path::stem(file), {"vectors_test", "vector " + sys::path::stem(file).str()});
  for (const Mutant &mutant : allMutants()) ledger.judge(mutant);
  return ledger;
}

TEST(SpecRows, EveryRowIsInTheStateItClaims) {
  const Ledger ledger = readLedger();
  ledger.print(outs());
  outs().flush();
  EXPECT_EQ(ledger.complaints(), "");
}

// That each of them is noticed is up to `./dev mutate`. A gradient operator may do with the mutants of its forward one.
TEST(Mutants, EveryOperatorHasOne) {
  TestContext context;
  StringSet<> broken;
  std::string missing, unknown;
  for (const Mutant &mutant : allMutants()) {
    StringRef row = mutant.row;
    if (!row.consume_front("op:")) continue;
    const OpDef *op = context.ops.find(row);
    if (!op || op->name != row) unknown += row.str() + " ";
    broken.insert(row);
  }
  for (const OpDef *op : context.ops.all())
    if (!op->flags.isBackward && !op->name.contains("test_") && !broken.contains(op->name))
      missing += op->name.str() + " ";
  EXPECT_EQ(missing, "") << "each needs a block headed op:NAME in a list of tests/mutate/";
  EXPECT_EQ(unknown, "") << "no operators, or not by their first names";
}

TEST(SpecRows, AllRowsOfTheSpecificationAreListed) {
  SmallString<256> folder;
  ASSERT_FALSE(sys::fs::real_path("testdata/spec_rows.txt", folder));
  for (int i = 0; i < 3; ++i) sys::path::remove_filename(folder);
  sys::path::append(folder, "shared", "spec");
  std::vector<std::string> ids;
  for (const char *file : {"gradient-semantics.md", "imperative-behaviours.md"}) {
    SmallString<256> path = folder;
    sys::path::append(path, file);
    const std::string text = readText(path);
    if (text.empty()) GTEST_SKIP() << "the specification is not at hand";
    llvm::append_range(ids, idsOfSpecification(text));
  }
  EXPECT_EQ(readLedger().ids(), ids);
}

TEST(SpecLedger, IdsArePartsOfNames) {
  EXPECT_EQ(idsIn("XS_03_V_16_NoneKeepsPositions"), (std::vector<std::string>{"XS-03", "V-16"}));
  EXPECT_EQ(idsIn("AGG_05"), std::vector<std::string>{"AGG-05"});
  EXPECT_TRUE(idsIn("A_3_EqualTextLists_E_012_xE_01").empty());
}

TEST(SpecLedger, IdsOfASpecification) {
  EXPECT_EQ(idsOfSpecification("## 1. IR-07\n- **IR-01** as IR-02\n| ID | what |\n|---|---|\n| E-08 | x | E-09 |\n"
                               "| E-61, E-62 | x |\n| E-70..72 | x |\n- **Bold** text\n"),
            (std::vector<std::string>{"IR-01", "E-08", "E-61", "E-62", "E-70", "E-71", "E-72"}));
}

TEST(SpecLedger, WhatIsWrongIsNamed) {
  auto complaints = [](StringRef rows, std::vector<Check> checks, StringRef mutants) {
    Ledger ledger(rows);
    for (const Check &check : checks) ledger.cite(StringRef(check.name).split('.').second.rtrim('/'), check);
    for (const Mutant &mutant : mutantsIn(mutants)) ledger.judge(mutant);
    return ledger.complaints();
  };
  const Check check{"a_test", "A.IR_01_What"};
  EXPECT_EQ(complaints("# rows\nIR-01 checked\nIR-02 open: why\n", {check}, "IR-01 ir/a.cc\n- x\n+ y\n"), "");
  EXPECT_EQ(complaints("IR-01 checked\nIR-01 open: why\n", {check}, "IR-01 ir/a.cc\n"), "IR-01 is listed twice\n");
  EXPECT_EQ(complaints("IR-01\nIR-02 deferred: why\nIR-03 open: \n", {}, ""),
            "IR-01 is in no state\nIR-02 deferred: why is in no state\nIR-03 open:  lacks a reason\n");
  EXPECT_EQ(complaints("IR-01 checked\n", {}, ""), "IR-01 has no check\n");
  EXPECT_EQ(complaints("IR-01 open: why\n", {check}, ""), "IR-01 is not checked, but for A.IR_01_What\n");
  EXPECT_EQ(complaints("IR-01 not applicable: why\n", {}, "IR-01 ir/a.cc\n? a_test *\n"),
            "IR-01 is not checked, and has a mutant all the same\n");
  EXPECT_EQ(complaints("", {check, {"a_test", "A.A_10_What"}}, ""), "A.IR_01_What cites IR-01, which is no row\n");
}

TEST(SpecLedger, AMutantCountsWhenACheckOfItsRowJudgesIt) {
  auto isJudged = [](std::vector<Check> checks, StringRef mutants) {
    Ledger ledger("IR-01 checked\n");
    for (const Check &check : checks) ledger.cite("IR_01", check);
    for (const Mutant &mutant : mutantsIn(mutants)) ledger.judge(mutant);
    return ledger.complaints().empty();
  };
  const Check plain{"a_test", "A.IR_01_What"}, parameter{"a_test", "A.IR_01_What/"},
      golden{"golden_test", "golden IR_01_b"};
  EXPECT_FALSE(isJudged({plain}, ""));
  EXPECT_FALSE(isJudged({plain}, "IR-02 ir/a.cc\n- x\n+ y\n\nop:relu ir/a.cc\n? a_test *\n"));
  EXPECT_TRUE(isJudged({plain}, "IR-02,IR-01 ir/a.cc\n- x\n+ y\n"));
  EXPECT_TRUE(isJudged({plain}, "IR-01 ir/a.cc\n? b_test\n? a_test\n"));
  EXPECT_FALSE(isJudged({plain}, "IR-01 ir/a.cc\n? b_test\n\nIR-02 ir/a.cc\n"));
  EXPECT_FALSE(isJudged({plain}, "IR-01 ir/a.cc\n? a_test *Other*\n"));
  EXPECT_TRUE(isJudged({plain}, "IR-01 ir/a.cc\n? a_test *Other*:*What\n"));
  EXPECT_TRUE(isJudged({parameter}, "IR-01 ir/a.cc\n? a_test *IR_01*/relu_*\n"));
  EXPECT_TRUE(isJudged({golden}, "IR-01 ir/a.cc\n? golden_test *IR_01*\n"));
  EXPECT_FALSE(isJudged({golden}, "IR-01 ir/a.cc\n? a_test\n"));
}

}  // namespace
}  // namespace gradc::testing
