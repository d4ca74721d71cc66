// The rules of the house, R1 to R5 (docs/architecture.md): where what a header declares is defined, how large a room
// is, what passes know of operators, which folder includes which, how long a line is.
//
// tests/house/*.txt list what breaks a rule today. What is found and what is listed must be equal, so that a list only
// gets shorter: a new breach fails, and so does an entry that is none any more. After moving files,
// `bazel test //tests:house_test --test_env=GRADC_UPDATE_HOUSE=$PWD/tests/house` writes the lists anew, and
// tests/house/draw.py the picture; read the differences, which have no breach more.
#include "tests/house/arrows.h"
#include "tests/house/declarations.h"
#include "tests/house/doors.h"
#include "tests/house/lists.h"
#include "tests/house/literals.h"
#include "tests/house/sizes.h"
#include "tests/support/tool.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

#include "gtest/gtest.h"

#include <cstdlib>
#include <set>

using namespace llvm;

namespace gradc::house {
namespace {

using Strings = std::vector<std::string>;

template <class... Texts> Strings list(Texts... texts) { return {texts...}; }

const Tree &tree() {
  static const Tree sources = readTree();
  return sources;
}

/// What is found is what tests/house/NAME.txt lists.
void expectListed(StringRef name, ArrayRef<std::string> found, bool needsReasons = false) {
  const BreachList listed(testing::readText(("tests/house/" + name + ".txt").str()));
  if (const char *folder = std::getenv("GRADC_UPDATE_HOUSE"))
    return testing::writeText((folder + ("/" + name) + ".txt").str(), listed.rewritten(found));
  const Strings differences = listed.compare(found, needsReasons);
  EXPECT_TRUE(differences.empty()) << "tests/house/" << name.str() << ".txt\n" << join(differences, "\n");
}

// ---- the tree

TEST(House, R1_WhatAHeaderDeclaresIsDefinedBesideIt) { expectListed("doors", findDetachedDefinitions(tree())); }

TEST(House, R2_AFolderIsARoom) { expectListed("rooms", findCrowdedFolders(tree())); }

TEST(House, R2_EveryFolderHasItsLine) {
  EXPECT_EQ(findUndescribedFolders(tree(), testing::readText("docs/architecture.md")), list());
}

TEST(House, R3_PassesKnowNoOperatorByName) {
  const Vocabulary names = Vocabulary::ofRegistry();
  EXPECT_GE(names.operators.size(), 590u);
  EXPECT_GE(names.keys.size(), 200u);
  expectListed("names", findNames(tree(), names), true);
  expectListed("foreign_operators", findForeignOperators(tree(), names));
}

TEST(House, R4_TheArrowsAreThese) {
  const Strings arrows = findArrows(tree());
  EXPECT_EQ(findLostIncludes(tree()), list());
  expectListed("arrows", arrows);
  expectListed("circles", findCircles(arrows));
}

TEST(House, R5_LinesHave120Columns) { expectListed("lines", findLongLines(tree())); }

TEST(House, R5_AHeaderIsWorthAFile) { expectListed("short_headers", findShortHeaders(tree()), true); }

TEST(House, ThePictureIsOfThisTree) {
  const testing::ToolResult drawn = testing::runShell(".", "python3 tests/house/draw.py -");
  ASSERT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_EQ(drawn.out, testing::readText("docs/house.svg")) << "`python3 tests/house/draw.py` draws it";
}

// The test reads what its BUILD file hands it. Where that refers to the sources themselves, there are no others.
TEST(House, EveryFolderWithCodeIsSeen) {
  SmallString<256> source, here;
  ASSERT_FALSE(sys::fs::real_path("tests/house/house_test.cc", source));
  ASSERT_TRUE(StringRef(source).ends_with("/tests/house/house_test.cc"));
  std::set<std::string> seen;
  for (const auto &[path, text] : tree()) seen.insert(folderOf(path).str());
  for (const std::string &folder : foldersWithCode(StringRef(source).drop_back(strlen("/tests/house/house_test.cc"))))
    EXPECT_TRUE(seen.count(folder))
        << folder << ": a filegroup `sources` of its BUILD file belongs to READS in tests/BUILD.bazel";
  EXPECT_GE(tree().size(), 1200u);
}

// ---- the lints, on small trees

TEST(House, TokensAreWordsSignsAndLiterals) {
  Strings texts;
  for (const Token &token :
       tokensOf("#define A \\\n  b\nx::y->z // no\n/* no */ [[a]] 1'000 'c' \"s\\\"t\" R\"(raw \")\"\n#if 1\nend"))
    texts.push_back(token.text.str());
  EXPECT_EQ(texts, list("x", "::", "y", "->", "z", "[[", "a", "]", "]", "1'000", "c", "s\\\"t", "raw \"", "end"));
}

/// "f(int,)!" for what is defined, "f(int,)" for what is declared.
Strings declaredIn(StringRef source) {
  Strings texts;
  for (const Declared &one : declarationsOf(source)) {
    std::string text = one.fullName();
    if (one.kind == Declared::Kind::Function) text += "(" + one.parameters + ")";
    texts.push_back(text + (one.isDefinition ? "!" : "") + (one.isInternal ? " internal" : ""));
  }
  return texts;
}

TEST(House, DeclarationsAreRead) {
  EXPECT_EQ(declaredIn("namespace a { int f(int x, const llvm::Twine &t = {\"\"}); extern const B kB; class C; }"),
            list("a::f(int,const Twine&,)", "a::kB"));
  EXPECT_EQ(declaredIn("extern const std::map<A, B> kA, kB, *kC;"), list("kA", "kB", "kC"));
  EXPECT_EQ(declaredIn("template <class T, int N = 1> T f(std::array<T, 2> x) noexcept { if (x) { } return {}; }"),
            list("f(array< T, 2>,)!"));
  EXPECT_EQ(declaredIn("namespace { void f() {} } static int g() { return 1; } const T kRows[] = {{1}, {2}};"),
            list("f()! internal", "g()! internal", "kRows!"));
  EXPECT_EQ(
      declaredIn("A::A(int n) : b(n), c{n} { run(); } A::~A() = default; bool A::operator==(A a) const { return x; }"),
      list("A::A(int,)!", "A::~A()", "A::operator==(A,)!"));
  EXPECT_EQ(
      declaredIn(
          "struct S final : Base<int> { int n = 0; S() : n{1} {} void f(); struct T { void g(); }; } s;\nint h();"),
      list("S!", "S::n!", "S::f()", "S::T!", "S::T::g()", "h()"));
  EXPECT_EQ(
      declaredIn("enum class E : int { A, B }; using X = int; [[nodiscard]] Expected<X> f(X); TEST(A, B) { g(); }"),
      list("f(X,)"));
  EXPECT_EQ(declaredIn("template void f<int>(int); template <> void f<int>(int x) {} extern \"C\" { int c(void *p); }"),
            list("f(int,)!", "c(void*,)"));
}

TEST(House, R1_FiresForWhatIsDefinedElsewhere) {
  const Tree good = {
      {"passes/a.h", "int f(int);\nstruct A { void g(); };\ninline int h() { return 1; }"},
      {"passes/a.cc", "#include \"passes/a.h\"\nint f(int x) { return x; }\nvoid A::g() {}"},
      {"tools/gradc/main.cc", "int main() {}"},
      {"passes/b.h", "int f(double);\nint h(int);"},
      {"passes/b.cc", "#include \"passes/a.h\"\n#include \"passes/b.h\"\nint f(double x) { return 1; }\n"
                      "int h(int) { return 2; }\nnamespace { int f(int) { return 3; } }"},
      {"ops/shape/pad.cc", "#include \"ops/kit/families.h\"\nstatic void f() {}\nconstinit const Family kPad = kOps;"},
      {"ops/kit/families.h", "extern const Family kPad;"}};
  EXPECT_EQ(findDetachedDefinitions(good), list());
  Tree bad = good;
  bad["passes/a.cc"] = "#include \"passes/a.h\"";
  bad["passes/b.cc"] += "int f(int x) { return x; }\nvoid A::g() {}";
  EXPECT_EQ(findDetachedDefinitions(bad), list("passes/a.h A::g passes/b.cc", "passes/a.h f passes/b.cc"));
  bad = good;
  bad["passes/c.cc"] = "int g() { return 1; }";
  bad["ops/shape/pad.cc"] += "\nvoid h(int) {}";
  EXPECT_EQ(findDetachedDefinitions(bad), list("ops/kit/families.h kPad ops/shape/pad.cc",
                                               "ops/shape/pad.cc has no header", "passes/c.cc has no header"));
  bad = good;
  bad["ops/shape/pad.cc"] =
      "static void f() {}\nconst int kPad = 1;\n#include \"ops/kit/families.h\"\nstatic const int kLast = 2;";
  EXPECT_EQ(findDetachedDefinitions(bad),
            list("ops/kit/families.h kPad ops/shape/pad.cc", "ops/shape/pad.cc has no header"));
  bad = good;
  bad["ops/kit/families.h"] = "namespace gradc { void f(int); }";
  bad["passes/b.cc"] += "namespace gradc::host { void f(int) {} }";
  EXPECT_EQ(findDetachedDefinitions(bad), list());  // another f
}

TEST(House, R1_TheListOfOperatorsNamesTheirFiles) {
  Tree small = {{"ops/kit/primitives.h", "// Operators.\n// shape/pad.cc: of images\nextern const OpDef kPad, kCrop;\n"
                                         "// shape/tile.cc\nextern const OpDef kTile;"},
                {"ops/shape/pad.cc",
                 "#include \"ops/kit/primitives.h\"\nconst OpDef kPad = {};\nconst OpDef kCrop = {};\n"
                 "const Family kPads = kOps;"},
                {"ops/shape/tile.cc", "#include \"ops/kit/primitives.h\"\nconst OpDef kTile = {};\n"
                                      "const Family kTiles = kOps;"}};
  EXPECT_EQ(findDetachedDefinitions(small), list());
  std::swap(small["ops/shape/pad.cc"], small["ops/shape/tile.cc"]);
  EXPECT_EQ(findDetachedDefinitions(small),
            list("ops/kit/primitives.h kCrop ops/shape/tile.cc", "ops/kit/primitives.h kPad ops/shape/tile.cc",
                 "ops/kit/primitives.h kTile ops/shape/pad.cc"));
}

TEST(House, R2_FiresForCrowdsAndMissingLines) {
  Tree small;
  for (size_t i = 0; i < kMostFiles; ++i) small["ir/" + std::to_string(i) + ".h"] = "";
  EXPECT_EQ(findCrowdedFolders(small), list());
  small["ir/one.cc"] = "";
  EXPECT_EQ(findCrowdedFolders(small), list("ir 26"));
  EXPECT_EQ(findUndescribedFolders(small, "| `ir/` | graphs |\n| `testdata/` | files |"), list());
  EXPECT_EQ(findUndescribedFolders(small, "`ir/`\n| `ops/` | operators |"),
            list("ir has no line", "ops has a line, but no code"));
}

TEST(House, R3_FiresForNames) {
  const Vocabulary names{{"exp", "sgd_update", "mp_sgd_update", "_foreach"}, {"axis", "data"}};
  auto inPass = [&](StringRef text) { return findNames({{"passes/a.cc", text.str()}}, names); };
  EXPECT_EQ(inPass("find(\"exp \"); // \"exp\"\n f(\"sgd\", \"update\"); g(\"_\") + \"expand\""), list());
  EXPECT_EQ(inPass("find(\"exp\"), \"axis\", \"__any_key__\""),
            list("passes/a.cc \"__any_key__\"", "passes/a.cc \"axis\"", "passes/a.cc \"exp\""));
  EXPECT_EQ(inPass("\"sgd\" \"_update\""), list("passes/a.cc \"sgd_update\""));
  EXPECT_EQ(inPass("(Twine(\"sgd\") + \"_up\" + \"date\")"), list("passes/a.cc \"sgd_update\""));
  EXPECT_EQ(inPass("std::string(\"sgd\") + '_' + \"update\""), list("passes/a.cc \"sgd_update\""));
  EXPECT_EQ(inPass("\"mp_\" + name"), list("passes/a.cc \"mp_\""));
  EXPECT_EQ(inPass("b.setName(n, f(m) + \"exp\"); Failure bad(k, Twine(\"axis\") + \"data\")"), list());
  EXPECT_EQ(inPass("b.setName(n, m); find(\"exp\")"), list("passes/a.cc \"exp\""));
  const Tree moved = {
      {"ir/table.h", "{\"exp\", \"axis\"}"}, {"passes/targets/host/a.cc", "\"exp\""}, {"runtime/a.cc", "\"exp\""}};
  EXPECT_EQ(findNames(moved, names), list("ir/table.h \"exp\""));
}

TEST(House, R3_FiresForOperatorsThatKnowEachOther) {
  const Vocabulary names{{"exp", "_foreach"}, {}};
  auto inFamily = [&](StringRef text) { return findForeignOperators({{"ops/control/a.cc", text.str()}}, names); };
  EXPECT_EQ(
      inFamily(
          "const OpDef kScan = {.name = \"_foreach\"};\nbool f() { return op == &kScan || name == \"_foreach\"; }"),
      list());
  EXPECT_EQ(inFamily("bool f() { return mode == \"exp\" || name == \"mine\" || g.emit(kExp); }"), list());
  EXPECT_EQ(inFamily("bool f() { return kind.op != &kScan || kind.spelling == \"_foreach\"; }"),
            list("ops/control/a.cc \"_foreach\"", "ops/control/a.cc kScan"));
}

TEST(House, R4_FiresForNewArrowsAndCircles) {
  Tree small = {{"ir/a.h", ""},
                {"ops/a.h", "#include \"ir/a.h\"\n#include \"llvm/ADT/Twine.h\""},
                {"ops/shape/a.cc", "#include \"ops/a.h\"\n#include \"beside.h\""},
                {"ops/shape/beside.h", ""}};
  EXPECT_EQ(findArrows(small), list("ops -> ir", "ops/shape -> ops"));
  EXPECT_EQ(findCircles(findArrows(small)), list());
  EXPECT_EQ(findLostIncludes(small), list());
  small["ir/a.h"] = "#include \"ops/shape/beside.h\"\n#include \"nowhere/a.h\"";
  EXPECT_EQ(findArrows(small), list("ir -> ops/shape", "ops -> ir", "ops/shape -> ops"));
  EXPECT_EQ(findCircles(findArrows(small)), list("ir ops ops/shape"));
  EXPECT_EQ(findLostIncludes(small), list("ir/a.h includes nowhere/a.h"));
}

TEST(House, R5_FiresForLongLinesAndShortHeaders) {
  const std::string fits(kMostColumns, 'x'), wide = fits.substr(2) + "\u00e9\u2212", lines(kLeastLines, '\n');
  EXPECT_EQ(findLongLines({{"ir/a.cc", fits + "\n" + wide + "\n"}}), list());
  EXPECT_EQ(findLongLines({{"ir/a.cc", fits + "x\n// " + fits + "\n" + fits}}), list("ir/a.cc 2"));
  EXPECT_EQ(findShortHeaders({{"ir/a.h", lines}, {"ir/b.cc", ""}}), list());
  EXPECT_EQ(findShortHeaders({{"ir/a.h", lines.substr(1)}}), list("ir/a.h"));
}

TEST(House, ListsOnlyGetShorter) {
  const BreachList shown("# For people\na 2\nb 1  # stays\n");
  EXPECT_EQ(shown.compare({"a 2", "b 1"}), list());
  EXPECT_EQ(shown.compare({"a 2", "b 1"}, true), list("without a reason: a 2"));
  EXPECT_EQ(shown.compare({"a 1", "b 1"}), list("not on the list: a 1", "on the list, but no longer so: a 2"));
  EXPECT_EQ(BreachList("b\na\na\n").compare({"a", "b"}),
            list("twice, or out of order: a", "twice, or out of order: a"));
  EXPECT_EQ(shown.rewritten({"c", "b 1"}), "# For people\nb 1  # stays\nc\n");
}

}  // namespace
}  // namespace gradc::house
