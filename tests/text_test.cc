// The forms people read.
#include "ir/text.h"

#include "tests/support/small_ops.h"

#include "gtest/gtest.h"

using namespace llvm;

namespace gradc::testing {
namespace {

template <class Print> std::string printed(StringRef file, Print print) {
  SmallContext context;
  LoadedProgram loaded = read(context, file);
  std::string text;
  raw_string_ostream os(text);
  print(os, loaded.program.rootGraph());
  return text;
}

constexpr StringLiteral kNodes = R"j({"op": "null", "name": "x", "attrs": {"__shape__": "(2, 3)"}, "inputs": []},
    {"op": "null", "name": "s", "inputs": []},
    {"op": "split3", "name": "a \"b\"", "inputs": [[0, 0, 0]]},
    {"op": "bump", "name": "", "inputs": [[2, 1, 0], [1, 0, 1]], "control_deps": [2, 0]},
    {"op": "relu", "name": "g", "attrs": {"__origin__": "3", "e": "", "k": "a, b", "n": "3"}, "inputs": [[3, 0, 0]]})j";

TEST(Text, OneLinePerNode) {
  EXPECT_EQ(printed(fileOf(kNodes, "[[4, 0, 0], [2, 2, 0]]"), printText),
            R"(%0 = variable {__shape__=(2, 3)} "x"
%1 = split3(%0) "a \"b\""
%2 = variable "s"
%3 = bump(%1:1, %2@1)   ; after %1, %0
%4 = relu(%3) {e="", k="a, b", n=3} "g"
heads %4, %1:2
)");
}

TEST(Text, SubgraphsAreNamedByNumber) {
  std::string text = printed(readTestFile("testdata/json/everything.json"), printText);
  EXPECT_NE(text.find("%5 = _foreach(%4:1) \"loop\"   ; graphs 0, 2\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace gradc::testing
