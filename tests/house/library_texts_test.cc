// What the texts of the library's sources show. It does not know the command line: no text of it names a flag; what to
// do about an error is a Remedy (ir/base/error.h), and tools/gradc/common/render.cc has the flags. And it has no
// objects that die when the process exits, while threads of the host may still compile or run graphs.
#include "tests/support/tool.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Regex.h"

#include "gtest/gtest.h"

using namespace llvm;

namespace gradc::testing {
namespace {

/// Skips the character or string that begins with `quote`.
StringRef takeQuoted(StringRef &rest, char quote) {
  size_t end = 1;
  while (end < rest.size() && rest[end] != quote) end += rest[end] == '\\' ? 2 : 1;
  StringRef text = rest.slice(1, end);
  rest = rest.drop_front(std::min(end + 1, rest.size()));
  return text;
}

/// The string literals of a source file.
std::vector<StringRef> literalsOf(StringRef rest) {
  std::vector<StringRef> literals;
  char before = ' ';
  while (!rest.empty()) {
    if (rest.starts_with("//")) {
      rest = rest.drop_until([](char c) { return c == '\n'; });
    } else if (rest.starts_with("/*")) {
      rest = rest.split("*/").second;
    } else if (rest.consume_front("R\"(")) {
      const auto [text, after] = rest.split(")\"");
      literals.push_back(text);
      rest = after;
    } else if (rest.front() == '"') {
      literals.push_back(takeQuoted(rest, '"'));
    } else if (rest.front() == '\'' && !isAlnum(before)) {  // 1'000 is a number
      takeQuoted(rest, '\'');
    } else {
      before = rest.front();
      rest = rest.drop_front();
      continue;
    }
    before = ' ';
  }
  return literals;
}

bool namesFlag(StringRef text) {
  for (size_t at = text.find("--"); at != StringRef::npos; at = text.find("--", at + 1))
    if (!text.drop_front(at + 2).empty() && isAlpha(text[at + 2])) return true;
  return false;
}

TEST(LibraryTexts, TheScannerSeesLiteralsAlone) {
  EXPECT_TRUE(namesFlag("give --seed"));
  EXPECT_FALSE(namesFlag("a -- b --"));
  const std::vector<StringRef> expected = {"a\\\"b", "c", "--d"};
  EXPECT_EQ(literalsOf("x = \"a\\\"b\"; // \"no\"\ny(1'000, '\"', \"c\") /* \"no\" */ R\"(--d)\" --first"), expected);
}

/// Calls visit(path, text) for every source file in the folders.
template <class F> void forSources(ArrayRef<StringRef> folders, F visit) {
  for (StringRef folder : folders) {
    std::error_code code;
    for (sys::fs::recursive_directory_iterator at(folder, code), end; at != end && !code; at.increment(code))
      if (StringRef(at->path()).ends_with(".cc")) visit(at->path(), readText(at->path()));
  }
}

TEST(LibraryTexts, NoneNamesAFlag) {
  size_t numLiterals = 0;
  forSources({"formats", "ir", "ops", "passes", "runtime"}, [&](const std::string &path, const std::string &source) {
    for (StringRef literal : literalsOf(source)) {
      ++numLiterals;
      EXPECT_FALSE(namesFlag(literal)) << path << ": \"" << literal.str() << '"';
    }
  });
  EXPECT_GE(numLiterals, 3000u);
}

/// Whether the line defines an object whose destructor runs when the process exits, as far as its text shows: a
/// variable with static storage that is neither constant-initialized nor a reference to what nothing destroys, and not
/// of a type without destructor.
bool diesAtExit(StringRef line) {
  static const Regex local(
      "^ +(\\[\\[maybe_unused\\]\\] )?static (const )?[A-Za-z_][A-Za-z_0-9:<>, *]* [a-z][A-Za-z_0-9]*(\\[\\])?"
      "( = |\\{|;|\\([^()& ]+(, [^()& ]+)*\\);)");
  static const Regex global(
      "^(static |inline |const )*(llvm::)?(std::(vector|string|map|set|unordered_map|unordered_set|"
      "function|unique_ptr|shared_ptr|deque|list)|StringMap|StringSet|DenseMap|DenseSet|SmallVector)"
      "(<.*>)? [A-Za-z_0-9]+( = |\\{|;)");
  static const Regex harmless("constexpr|constinit|thread_local|static (const )?(bool|InstructionSet|Block|RowTable) ");
  return !harmless.match(line) && (local.match(line) || global.match(line));
}

TEST(LibraryTexts, NothingDiesAtExit) {
  for (StringRef line :
       {"  static const StringMap<OpSlots> all = [] {", "  static StringMap<StringRef> forms;",
        "  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);", "    static std::string text = {};",
        "  static const std::vector<int> all{1, 2};", "std::vector<int> all;", "const StringMap<int> kTable = make();",
        "static std::map<int, int> cache;"})
    EXPECT_TRUE(diesAtExit(line)) << line.str();
  for (StringRef line :
       {"  static const StringMap<OpSlots> &all = *[] {", "  static constexpr CellLoops<T> loops[] = {",
        "  static const InstructionSet best = bestOfMachine();", "  static bool isInputRead = false;",
        "  static constinit thread_local Mark *doomed = nullptr;", "  static const void *thisThread();",
        "  static std::vector<uint32_t> inOrder(size_t count) {", "std::vector<int> allOf(int x) {",
        "  static const HookList &hooksOf(const Mark &mark) {", "  std::vector<int> all;"})
    EXPECT_FALSE(diesAtExit(line)) << line.str();
  size_t numLines = 0;
  forSources({"formats", "imperative", "ir", "ops", "passes", "runtime"},
             [&](const std::string &path, const std::string &source) {
               SmallVector<StringRef, 0> lines;
               StringRef(source).split(lines, '\n');
               numLines += lines.size();
               for (StringRef line : lines) EXPECT_FALSE(diesAtExit(line)) << path << ": " << line.str();
             });
  EXPECT_GE(numLines, 30000u);
}

}  // namespace
}  // namespace gradc::testing
