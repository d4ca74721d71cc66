// Golden files: runs gradc as recorded under testdata/ and compares every byte of what it says.
//
// A case is a folder testdata/<area>/<row>_<case>/ with
//   args       line 1: the arguments of gradc, run in that folder; line 2, optional: `exit N`, the exit code (0
//   without) out.json   standard output (out.txt when it is not JSON); without either, nothing may come out err.txt
//   standard error; without it, nothing may come out
// and the inputs that `args` names, usually in.json. `./dev golden` rewrites out.* and err.txt from what gradc does
// now: GRADC_UPDATE_GOLDEN names the testdata folder of the source tree. Exit codes are never rewritten.
// docs/primitives.md and docs/operators.md are compared and rewritten in the same way.
#include "tests/support/tool.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include "gtest/gtest.h"

#include <cstdlib>

using namespace llvm;

namespace gradc::testing {
namespace {

std::string root() {
  const char *folder = std::getenv("GRADC_UPDATE_GOLDEN");
  return folder ? folder : "testdata";
}

bool isUpdating() { return std::getenv("GRADC_UPDATE_GOLDEN") != nullptr; }

/// Folders that hold a file `args`, relative to the root, sorted.
std::vector<std::string> listCases() {
  std::vector<std::string> cases;
  std::error_code code;
  std::string base = root();
  for (sys::fs::recursive_directory_iterator at(base, code), end; at != end && !code; at.increment(code))
    if (sys::path::filename(at->path()) == "args")
      cases.push_back(sys::path::parent_path(at->path()).drop_front(base.size() + 1).str());
  llvm::sort(cases);
  return cases;
}

struct Golden {
  std::string folder, arguments;
  int code = 0;

  explicit Golden(StringRef name) : folder(root() + "/" + name.str()) {
    SmallVector<StringRef, 2> lines;
    std::string text = readText(folder + "/args");
    StringRef(text).split(lines, '\n', -1, false);
    if (!lines.empty()) arguments = lines[0].str();
    StringRef exitLine = lines.size() > 1 ? lines[1] : StringRef();
    if (exitLine.consume_front("exit ") && exitLine.getAsInteger(10, code)) arguments.clear();
  }

  std::string outName() const { return sys::fs::exists(folder + "/out.json") ? "/out.json" : "/out.txt"; }
};

void update(const Golden &golden, const ToolResult &result) {
  for (StringRef name : {"/out.json", "/out.txt", "/err.txt"}) sys::fs::remove(golden.folder + name.str());
  if (!result.out.empty())
    writeText(golden.folder + (StringRef(result.out).starts_with("{") ? "/out.json" : "/out.txt"), result.out);
  if (!result.err.empty()) writeText(golden.folder + "/err.txt", result.err);
}

class GoldenTest : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, SaysTheSameBytes) {
  Golden golden(GetParam());
  ASSERT_FALSE(golden.arguments.empty()) << golden.folder << "/args: expected arguments and, perhaps, 'exit N'";
  ToolResult result = runTool(golden.folder, golden.arguments);
  EXPECT_EQ(result.code, golden.code) << "gradc " << golden.arguments << "\n" << result.err;
  if (isUpdating()) return update(golden, result);
  EXPECT_EQ(result.out, readText(golden.folder + golden.outName())) << "gradc " << golden.arguments;
  EXPECT_EQ(result.err, readText(golden.folder + "/err.txt")) << "gradc " << golden.arguments;
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenTest, ::testing::ValuesIn(listCases()),
                         [](const ::testing::TestParamInfo<std::string> &info) {
                           std::string name = info.param;
                           for (char &c : name)
                             if (!isAlnum(c)) c = '_';
                           return name;
                         });

TEST(Golden, A_17_ThePageOfPrimitivesIsWhatTheToolPrints) {
  const ToolResult result = runTool(".", "ops --primitives");
  ASSERT_EQ(result.code, 0) << result.err;
  if (isUpdating()) return writeText(root() + "/../docs/primitives.md", result.out);
  EXPECT_EQ(result.out, readText("docs/primitives.md")) << "`./dev golden` writes it";
}

TEST(Golden, A_17_ThePageOfOperatorsIsWhatTheToolPrints) {
  const ToolResult result = runTool(".", "ops --reference");
  ASSERT_EQ(result.code, 0) << result.err;
  if (isUpdating()) return writeText(root() + "/../docs/operators.md", result.out);
  EXPECT_EQ(result.out, readText("docs/operators.md")) << "`./dev golden` writes it";
  EXPECT_FALSE(StringRef(result.out).contains("` |  |\n"))
      << "an input without a meaning: tools/gradc/reference/input_facts.cc";
}

TEST(Golden, CasesAreFound) { EXPECT_GE(listCases().size(), 10u); }

}  // namespace
}  // namespace gradc::testing
