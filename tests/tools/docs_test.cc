// Every code block of README.md and docs/*.md is true, or it is listed here with the reason why it is not tried.
//
// The fence says what a block is:
//   ```console     a transcript: lines that begin with `$ ` are run by the shell, in one folder for the whole page, in
//                  order; what follows each is all it prints, on either stream
//   ```c++ PATH    (or another language) part of that file, which Bazel builds and a test or a transcript runs
//   others         have a row in kNotRun
// A line `…` stands for one or more lines that are left out. Of the folder, `docs`, `testdata` and `out/bin` are those
// of gradc's own; `gradc` is the tool.
#include "tests/support/tool.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include "gtest/gtest.h"

#include <map>

using namespace llvm;

namespace gradc::testing {
namespace {

struct NotRun {
  StringRef page, firstLine;
  const char *reason;
};
constexpr NotRun kNotRun[] = {
    {"README.md", "./dev demo     # builds gradc, walks through it on two small networks and trains a third",
     "builds everything, and runs this test"},
    {"docs/architecture.md", "bytes ─ readJson ─► RawFile ─ assembleFile ─► GraphBuilder ─ freeze ─► Graph",
     "a picture"},
    {"docs/architecture.md", "Expected<Result> pass(Context &, const Graph &, const Request &, const Options &)",
     "the form of all passes, none in particular"},
    {"docs/blocks.md", "{\"program\": {", "a sketch of a file"},
    {"docs/differential.md",
     "./dev test differential                                                     # 3,000 problems, some seconds",
     "another test, and longer runs of it"},
    {"docs/differential.md", "./dev test block_backward --test_env=GRADC_BLOCK_PROGRAMS=2500 --test_timeout=3600",
     "another test, and longer runs of it"},
    {"docs/differential.md",
     "PYTHON tests/oracles/make_tape_programs.py --first 101 --count 3000 --length 45 > programs.txt", "needs PyTorch"},
    {"docs/embedding.md",
     "g++ -std=c++20 -O2 -fno-rtti -I$G -isystem /usr/lib/llvm-19/include $G/docs/examples/embed.cc "
     "$G/out/bin/libgradc.a \\",
     "run by tests/host:plain_flags_test, which has the archive"},
    {"docs/fuzzing.md", "./dev fuzz 600                          # ten minutes, one process per processor",
     "takes ten minutes"},
    {"docs/gradcheck.md", "S = Σ ⟨p_y, y⟩ + Σ loss", "a formula"},
    {"docs/gradcheck.md", "|claimed − measured| ≤ atol + rtol · max(|claimed|, |measured|)        rtol 1e-6, atol 1e-8",
     "a formula"},
    {"docs/gradient.md", "for each x:  Σ over y  ⟨head gradient of y, ∂y/∂x⟩", "a formula"},
    {"docs/hostile.md",
     "./dev test hostile                                        # all of it, more than three thousand graphs",
     "another test, and parts of it"},
    {"docs/mutation.md", "./dev mutate                      # all of them", "builds the tests anew and takes an hour"},
    {"docs/performance.md",
     "./dev bench                                                    # every family at every size",
     "takes minutes, and its output is times"},
    {"docs/performance.md", "gradc grad FILE --wrt all --shape data=64,1,28,28 -o train.json",
     "a scheme; needs MXNet and PyTorch, and its output is times"},
    {"docs/walkthrough.md", "dw[h,k] = Σ over n  dy[n,h] · x[n,k]", "a formula"},
};

/// Pages whose transcripts go on where another page's end.
const std::map<StringRef, StringRef> kContinues = {{"docs/cli.md", "README.md"}};
/// Pages whose reader has changed gradc by then.
const std::map<StringRef, StringRef> kTools = {{"docs/extending.md", "docs/examples/gradc"}};

using Lines = std::vector<StringRef>;

struct Block {
  StringRef page;
  size_t line = 0;           // of the fence, from 1
  StringRef language, file;  // what the fence says
  Lines lines;

  std::string place() const { return (page + ":" + Twine(line)).str(); }
};
void PrintTo(const Block &block, std::ostream *os) { *os << block.place(); }

struct Page {
  std::string path, text;
  std::vector<Block> blocks;
  std::string problem;  // a block that is none
};

/// Fences may be indented, in lists; their blocks then are as well.
void findBlocks(Page &page) {
  Block *open = nullptr;
  size_t number = 0, indent = 0;
  StringRef before;
  for (StringRef line : llvm::split(page.text, '\n')) {
    ++number;
    const StringRef content = line.ltrim(' ');
    if (open && content == "```") {
      open = nullptr;
    } else if (open) {
      open->lines.push_back(line.drop_front(std::min(indent, line.size() - content.size())));
    } else if (content.starts_with("```")) {
      indent = line.size() - content.size();
      const auto [language, file] = content.drop_front(3).split(' ');
      open = &page.blocks.emplace_back(Block{page.path, number, language, file, {}});
    } else if (line.starts_with("    ") && before.empty()) {
      page.problem = "line " + std::to_string(number) + " begins a block without a fence";
    }
    before = line;
  }
  if (open) page.problem = "the last block does not end";
}

const std::vector<Page> &allPages() {
  static const std::vector<Page> pages = [] {
    std::vector<Page> found{{"README.md", readText("README.md"), {}, ""}};
    std::error_code code;
    for (sys::fs::directory_iterator at("docs", code), end; at != end && !code; at.increment(code))
      if (StringRef(at->path()).ends_with(".md")) found.push_back({at->path(), readText(at->path()), {}, ""});
    llvm::sort(found, [](const Page &a, const Page &b) { return a.path < b.path; });
    for (Page &page : found) findBlocks(page);  // their lines refer to the text, which stays where it is now
    return found;
  }();
  return pages;
}

std::vector<Block> allBlocks() {
  std::vector<Block> blocks;
  for (const Page &page : allPages()) llvm::append_range(blocks, page.blocks);
  return blocks;
}

// ---- comparing

Lines linesOf(StringRef text) {
  Lines lines;
  for (StringRef line : llvm::split(text, '\n')) lines.push_back(line);
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

bool isGap(StringRef line) { return line.trim(' ') == "…"; }

/// Whether `piece` is what `lines` has from `at` on. In a file it may be indented further, all lines alike.
bool isAt(ArrayRef<StringRef> lines, size_t at, ArrayRef<StringRef> piece, bool mayBeIndented) {
  if (at + piece.size() > lines.size()) return false;
  if (piece.empty()) return true;
  StringRef indent;
  if (mayBeIndented && lines[at].ends_with(piece[0])) indent = lines[at].drop_back(piece[0].size());
  if (!indent.trim(' ').empty()) return false;
  for (size_t i = 0; i < piece.size(); ++i) {
    StringRef line = lines[at + i];
    if (!piece[i].empty() && !line.consume_front(indent)) return false;
    if (line != piece[i]) return false;
  }
  return true;
}

enum class Whole : bool { No, Yes };

/// What of `expected` is not in `lines`; empty when all is. `whole`: both begin and end alike.
std::string missing(ArrayRef<StringRef> expected, ArrayRef<StringRef> lines, Whole whole) {
  size_t at = 0;
  for (size_t begin = 0; begin <= expected.size();) {
    const size_t end = llvm::find_if(expected.drop_front(begin), isGap) - expected.begin();
    const ArrayRef<StringRef> piece = expected.slice(begin, end - begin);
    const bool isFirst = begin == 0, isLast = end == expected.size();
    size_t from = isFirst ? 0 : at + 1;  // a gap is a line or more
    size_t to = lines.size();
    if (whole == Whole::Yes && isFirst) to = 0;
    if (whole == Whole::Yes && isLast) from = std::max(from, lines.size() - std::min(piece.size(), lines.size()));
    while (from <= to && !isAt(lines, from, piece, whole == Whole::No)) ++from;
    if (from > to) return piece.empty() ? "an end of it" : join(piece, "\n");
    at = from + piece.size();
    begin = end + 1;
  }
  return whole == Whole::Yes && at != lines.size() ? "an end there" : "";
}

// ---- transcripts

struct Step {
  std::string command;
  Lines expected;
};

std::vector<Step> stepsOf(const Block &block) {
  std::vector<Step> steps;
  bool isContinued = false;
  for (StringRef line : block.lines) {
    const bool isCommand = isContinued || line.consume_front("$ ");
    if (!isCommand && steps.empty()) return {};
    if (!isCommand) {
      steps.back().expected.push_back(line);
      continue;
    }
    if (!isContinued) steps.emplace_back();
    steps.back().command += line.str() + "\n";
    isContinued = line.ends_with("\\");
  }
  return steps;
}

std::string absolute(StringRef path) {
  SmallString<256> whole(path);
  sys::fs::make_absolute(whole);
  return whole.str().str();
}

/// Runs the transcripts of a page, once, and keeps what each step of each block printed.
class Replay {
 public:
  explicit Replay(StringRef page) : tool("tools/gradc/gradc") {
    sys::fs::create_directory(folder.path() + "/out");
    for (StringRef name : {"docs", "testdata"}) sys::fs::create_link(absolute(name), folder.path() + "/" + name.str());
    sys::fs::create_link(absolute("."), folder.path() + "/out/bin");
    if (const auto at = kContinues.find(page); at != kContinues.end()) run(at->second);
    if (const auto at = kTools.find(page); at != kTools.end()) tool = at->second;
    run(page);
  }

  static const std::vector<std::string> &of(const Block &block) {
    static std::map<StringRef, std::unique_ptr<Replay>> replays;
    std::unique_ptr<Replay> &replay = replays[block.page];
    if (!replay) replay = std::make_unique<Replay>(block.page);
    return replay->printed[block.place()];
  }

 private:
  void run(StringRef page) {
    for (const Block &block : allBlocks())
      if (block.page == page && block.language == "console")
        for (const Step &step : stepsOf(block)) printed[block.place()].push_back(output(step.command));
  }
  std::string output(StringRef command) {
    return runShell(folder.path(), ("exec 2>&1; gradc() { '" + absolute(tool) + "' \"$@\"; }; " + command).str()).out;
  }

  ScratchFolder folder;
  StringRef tool;
  std::map<std::string, std::vector<std::string>> printed;  // by block
};

class Docs : public ::testing::TestWithParam<Block> {
 protected:
  const Block &block = GetParam();

  void checkTranscript() {
    const std::vector<Step> steps = stepsOf(block);
    ASSERT_FALSE(steps.empty()) << block.place() << " does not begin with `$ ` and a command";
    const std::vector<std::string> &printed = Replay::of(block);
    ASSERT_EQ(printed.size(), steps.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      const std::string lack = missing(steps[i].expected, linesOf(printed[i]), Whole::Yes);
      EXPECT_EQ(lack, "") << block.place() << ": $ " << steps[i].command << "prints\n" << printed[i];
    }
  }

  void checkExcerpt() {
    const std::string text = readText(block.file);
    ASSERT_FALSE(text.empty()) << block.place() << ": cannot read '" << block.file.str() << "'";
    EXPECT_EQ(missing(block.lines, linesOf(text), Whole::No), "")
        << block.place() << " differs from " << block.file.str();
  }
};

bool isRowOf(const NotRun &row, const Block &block) {
  return row.page == block.page && !block.lines.empty() && row.firstLine == block.lines.front();
}

TEST_P(Docs, IsTrue) {
  if (block.language == "console") return checkTranscript();
  if (!block.file.empty()) return checkExcerpt();
  const NotRun *row = llvm::find_if(kNotRun, [&](const NotRun &each) { return isRowOf(each, block); });
  if (row == std::end(kNotRun))
    FAIL() << block.place() << ": neither a transcript (```console) nor part of a file (```c++ PATH), nor in kNotRun";
  GTEST_SKIP() << row->reason;
}

INSTANTIATE_TEST_SUITE_P(Blocks, Docs, ::testing::ValuesIn(allBlocks()),
                         [](const ::testing::TestParamInfo<Block> &info) {
                           const std::string page = sys::path::stem(info.param.page).str();
                           return page + "_line_" + std::to_string(info.param.line);
                         });

TEST(DocsPages, EveryBlockHasAFence) {
  for (const Page &page : allPages()) EXPECT_EQ(page.problem, "") << page.path;
  EXPECT_GE(allPages().size(), 16u);
  EXPECT_GE(allBlocks().size(), 50u);
}

TEST(DocsPages, EveryRowIsOfABlock) {
  const std::vector<Block> blocks = allBlocks();
  for (const NotRun &row : kNotRun)
    EXPECT_TRUE(llvm::any_of(blocks, [&](const Block &block) { return isRowOf(row, block); })) << row.firstLine.str();
}

TEST(DocsPages, OneCharacterIsADifference) {
  const Lines lines = {"a", "b", "  c", "  d", "e"};
  for (Lines same : {lines, Lines{"a", "…", "e"}, Lines{"…", "b", "…", "  d", "…"}, Lines{"a", "b", "…"}})
    EXPECT_EQ(missing(same, lines, Whole::Yes), "") << join(same, "\n");
  for (Lines other :
       {Lines{}, Lines{"a"}, Lines{"a", "b", "  c", "  d"}, Lines{"a", "b", "  c", "  d", "f"},
        Lines{"a", "b", " c", "  d", "e"}, Lines{"a", "…", "b", "…"}, Lines{"…", "d", "…"}, Lines{"…", "d"},
        Lines{"a", "b", "  c", "  d", "e", "…"}, Lines{"b", "…"}, Lines{"a", "…", "…", "  c", "…"}})
    EXPECT_NE(missing(other, lines, Whole::Yes), "") << join(other, "\n");
  EXPECT_EQ(missing(Lines{"c", "d"}, lines, Whole::No), "");
  EXPECT_EQ(missing(Lines{"a", "…", "d"}, lines, Whole::No), "");
  EXPECT_NE(missing(Lines{"c", "  d"}, lines, Whole::No), "");
  EXPECT_NE(missing(Lines{"d", "…", "a"}, lines, Whole::No), "");
}

}  // namespace
}  // namespace gradc::testing
