// The forms people read.
#include "ir/graph/text.h"

#include "tests/support/small_ops.h"

#include "gtest/gtest.h"

using namespace llvm;

namespace gradc::testing {
namespace {

template <class Print> std::string printed(StringRef file, Print print) {
  SmallContext context;
  LoadedGraph loaded = read(context, file);
  std::string text;
  raw_string_ostream os(text);
  print(os, loaded.graph);
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

TEST(Text, BodiesFollowOnce) {
  const std::string body =
      fileOf(R"({"op": "null", "name": "i", "inputs": []}, {"op": "inner", "name": "j", "inputs": [[0, 0, 0]],
      "subgraphs": [)" +
                 fileOf(R"({"op": "null", "name": "deep", "inputs": []})", "[[0, 0, 0]]") + "]}",
             "[[1, 0, 0]]");
  const std::string nodes =
      R"({"op": "null", "name": "x", "inputs": []}, {"op": "for_each", "name": "f", "inputs": [[0, 0, 0]],
      "control_deps": [0], "subgraphs": [)" +
      body + R"(]}, {"op": "guard", "name": "g", "inputs": [[1, 0, 0]], "subgraphs": [)" + body + ", " +
      fileOf("", "[]") + "]}";
  EXPECT_EQ(printed(fileOf(nodes, "[[2, 0, 0]]"), printText), R"(%0 = variable "x"
%1 = for_each(%0) "f"   ; after %0; body @1
%2 = guard(%1) "g"   ; bodies @1, @2
heads %2
@1: body of %1
  %0 = variable "i"
  %1 = inner(%0) "j"   ; body @3
  heads %1
@2: body 1 of %2
  heads 
@3: body of %1 in @1
  %0 = variable "deep"
  heads %0
)");
}

}  // namespace
}  // namespace gradc::testing
