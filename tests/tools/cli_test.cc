// The command line as a user meets it: names, heads, what is emitted (§22 CLI-01 … CLI-06, the command line contract).
// Texts of single messages are goldens under testdata/cli; here are the rules that hold for all of them.
#include "tests/support/cli.h"
#include "tests/support/tensors.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace gradc::testing {
namespace {

// ---- names

TEST_F(Cli, CLI_01_EntriesByNameIndexListedNameAndPosition) {
  ASSERT_EQ(folder.run("grad m.json --of z --wrt x -o name.json").code, 0);
  for (StringRef entry : {"z:0", "z_output", "@0", "#3", "z#1", "z:0"}) {
    ToolResult result = folder.run(("grad m.json --wrt x -o other.json --of '" + entry + "'").str());
    ASSERT_EQ(result.code, 0) << entry.str() << "\n" << result.err;
    EXPECT_EQ(folder.read("other.json"), folder.read("name.json")) << entry.str();
  }
}

TEST_F(Cli, CLI_01_CloseMatches) {
  ToolResult result = folder.run("grad m.json --of z_ouput");
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.err, "[unknown_name]")) << result.err;
  EXPECT_TRUE(contains(result.err, "'z_output'")) << result.err;
}

TEST_F(Cli, CLI_01_IndexBeyondTheOutputs) {
  ToolResult result = folder.run("grad m.json --of z:1");
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.err, "[bad_entry]")) << result.err;
  result = folder.run("grad m.json --of @2");
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.err, "[bad_entry]")) << result.err;
}

TEST_F(Cli, E_34_IR_17_ASK_18_AmbiguousNameListsTheNodes) {
  folder.write("twice.json", R"({"nodes": [
{"op": "null", "name": "x", "inputs": []}, {"op": "null", "name": "x", "inputs": []},
{"op": "elemwise_sub", "name": "y", "inputs": [[0, 0, 0], [1, 0, 0]]}],
"arg_nodes": [0, 1], "heads": [[2, 0, 0]]})");
  ToolResult result = folder.run("grad twice.json --wrt x");
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.err, "[ambiguous_name]") && contains(result.err, "#0, #1")) << result.err;
  ASSERT_EQ(folder.run("grad twice.json --wrt '#1' -o id.json").code, 0);
  ASSERT_EQ(folder.run("grad twice.json --wrt 'x#2' -o nth.json").code, 0);
  EXPECT_EQ(folder.read("id.json"), folder.read("nth.json"));
  EXPECT_EQ(graphAttr("id.json", "grad_of_node"), "[-1, 1]");
}

// r reads the moving mean before batch norm overwrites it.
constexpr StringRef kOverwrites = R"({"nodes": [
{"op": "null", "name": "x", "inputs": []}, {"op": "null", "name": "g", "inputs": []},
{"op": "null", "name": "b", "inputs": []},
{"op": "null", "name": "mean", "attrs": {"__init__": "[\"one\", {}]"}, "inputs": []},
{"op": "null", "name": "var", "inputs": []},
{"op": "BatchNorm", "name": "bn", "inputs": [[0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 1], [4, 0, 1]]},
{"op": "broadcast_mul", "name": "r", "inputs": [[0, 0, 0], [3, 0, 0]]},
{"op": "elemwise_mul", "name": "y", "inputs": [[5, 0, 0], [6, 0, 0]]}],
"arg_nodes": [0, 1, 2, 3, 4], "heads": [[7, 0, 0]]})";

TEST_F(Cli, IR_09_MUT_03_VersionsAreKeptFromFileToRun) {
  folder.write("s.json", kOverwrites);
  ToolResult result = folder.run("grad s.json --wrt x -o g.json");
  ASSERT_EQ(result.code, 0) << result.err;
  std::string emitted = folder.read("g.json");
  EXPECT_TRUE(contains(emitted, R"("op": "_copy", "name": "mean_version0")")) << emitted;
  EXPECT_EQ(folder.run("verify g.json").code, 0);
  result = folder.run("gradcheck s.json --wrt x --shape x=4,3 --init 1");
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  result = folder.run("gradcheck g.json --shape x=4,3 --init 1");
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_EQ(folder.run("run s.json --train --shape x=4,3 --init 1").code, 0);
  EXPECT_EQ(folder.run("plan s.json --shape x=4,3 -o p.json").code, 0);
}

TEST_F(Cli, E_12_XS_04_ZerosForWhatIsRefused) {
  ToolResult result = folder.run("grad m.json --wrt x --unused error --unused zeros");
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.err, "[option_conflict]") && contains(result.err, "'--unused error'") &&
              contains(result.err, "'--unused zeros'"))
      << result.err;
  EXPECT_EQ(folder.run("grad m.json --wrt x --unused none --unused zeros -o z.json").code, 0);
}

TEST_F(Cli, CLI_01_NamesMayContainSeparators) {
  folder.write("odd.json", R"({"nodes": [
{"op": "null", "name": "a,b", "inputs": []}, {"op": "null", "name": "c:0=d", "inputs": []},
{"op": "elemwise_mul", "name": "y", "inputs": [[0, 0, 0], [1, 0, 0]]}],
"arg_nodes": [0, 1], "heads": [[2, 0, 0]]})");
  ToolResult result = folder.run("grad odd.json --wrt a,b --wrt c:0=d --req c:0=d=add --shape c:0=d=2,3 -o g.json");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(graphAttr("g.json", "grad_of"), R"(["", "a,b", "c:0=d"])");
  EXPECT_EQ(graphAttr("g.json", "grad_req"), R"(["write", "write", "add"])");
}

// ---- what is emitted

TEST_F(Cli, CLI_02_ForwardHeadsThenGradients) {
  ASSERT_EQ(folder.run("grad m.json --wrt w,x --retain y -o g.json").code, 0);
  EXPECT_EQ(graphAttr("g.json", "head_kind"), R"(["forward", "forward", "grad", "grad", "retained"])");
  EXPECT_EQ(graphAttr("g.json", "grad_of"), R"(["", "", "w", "x", "y:0"])");
  ASSERT_EQ(folder.run("grad m.json --wrt w,x --emit gradient -o only.json").code, 0);
  EXPECT_EQ(graphAttr("only.json", "grad_of"), R"(["w", "x"])");
}

TEST_F(Cli, CLI_02_SeedsBecomeVariablesOrExistingEntries) {
  ASSERT_EQ(folder.run("grad m.json --of z --wrt w --seed z=dz -o new.json").code, 0);
  EXPECT_TRUE(contains(folder.read("new.json"), R"("op": "null", "name": "dz")"));
  EXPECT_FALSE(contains(folder.read("new.json"), "ones_like"));
  ASSERT_EQ(folder.run("grad m.json --of z --wrt w --seed z=s -o old.json").code, 0);
  EXPECT_FALSE(contains(folder.read("old.json"), "_identity_with_attr_like_rhs"));  // no variable was made
  ToolResult result = folder.run("grad m.json --of z --wrt w --seed s=dz");
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.err, "[head_count]")) << result.err;
}

TEST_F(Cli, CLI_03_SideTableSurvivesARoundTrip) {
  ASSERT_EQ(folder.run("grad m.json --wrt x,w --of z -o g.json").code, 0);
  ASSERT_EQ(folder.run("convert g.json -o again.json").code, 0);
  EXPECT_EQ(folder.read("again.json"), folder.read("g.json"));
}

TEST_F(Cli, CLI_04_HintsAnnotate) {
  ASSERT_EQ(folder.run("grad m.json --wrt w -o plain.json").code, 0);
  EXPECT_FALSE(contains(folder.read("plain.json"), "\"shape\""));
  ASSERT_EQ(folder.run("grad m.json --wrt w --shape x=2,3 --dtype x=float64 -o g.json").code, 0);
  StringRef shapes = "[[2, 3], [2, 3], [2, 3]";
  EXPECT_TRUE(StringRef(graphAttr("g.json", "shape")).starts_with(shapes)) << graphAttr("g.json", "shape");
  EXPECT_TRUE(StringRef(graphAttr("g.json", "dtype")).starts_with("[1, 1, 1")) << graphAttr("g.json", "dtype");
}

// What the file says is known, whatever else is bound: nothing relates the shape of w to that of x.
TEST_F(Cli, CLI_04_RUN_04_AnnotatedFileRunsWithOneArrayBound) {
  folder.write("apart.json",
               R"({"nodes": [{"op": "null", "name": "x", "inputs": []}, {"op": "null", "name": "w", "inputs": []},
{"op": "exp", "name": "a", "inputs": [[0, 0, 0]]}, {"op": "exp", "name": "b", "inputs": [[1, 0, 0]]}],
"arg_nodes": [0, 1], "heads": [[2, 0, 0], [3, 0, 0]]})");
  ASSERT_EQ(folder.run("grad apart.json --shape x=2,3 --shape w=4 --dtype w=float64 -o g.json").code, 0);
  std::string bytes;
  raw_string_ostream stream(bytes);
  cantFail(writeNpy(stream, floats({2, 3}, {0, 1, 2, 3, 4, 5}).view()));
  folder.write("x.npy", bytes);
  ToolResult result = folder.run("run g.json --input x=x.npy --init 1");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "w_grad    (4,)   float64")) << result.out;
}

// Of a body: the path to it, and its own line and column, whether the reader finds the fault or a check of the graph.
TEST_F(Cli, A_15_ErrorsInBodies) {
  auto file = [&](StringRef inner) {
    folder.write("loop.json", (R"({"nodes": [{"op": "null", "name": "x", "inputs": []},
{"op": "for_each", "name": "loop", "inputs": [[0, 0, 0]], "subgraphs": [{"nodes": [],
 "arg_nodes": [], "heads": []}, {"nodes": [{"op": "null", "name": "h", "inputs": []},
   )" + inner + R"(], "arg_nodes": [0], "heads": [[1, 0, 0]]}]}],
"arg_nodes": [0], "heads": [[1, 0, 0]]})")
                                  .str());
    return folder.run("verify loop.json").err;
  };
  const std::string arity = file(R"({"op": "tanh", "name": "h2h", "inputs": [[0, 0, 0], [0, 0, 0]]})");
  EXPECT_EQ(StringRef(arity).split('\n').first,
            "loop.json:4:4: error: node 'loop' > body 1 > node 'h2h': operator 'tanh' takes 1 input, got 2 [arity]");
  const std::string version =
      file(R"({"op": "tanh", "name": "h2h", "inputs": [[0, 0, 0]], "control_deps": [0]}, {"op": "exp", "name": "e", )"
           R"("inputs": [[1, 0, 3]]})"
           R"(], "arg_nodes": [0], "heads": [[2, 0, 0]]}, {"nodes": [{"op": "null", "name": "z", "inputs": []}, )"
           R"({"op": "exp", "name": "q", "inputs": [[0, 0, 0]]})");
  EXPECT_EQ(StringRef(version).split('\n').first,
            "loop.json:4:79: error: node 'loop' > body 1 > input 0 of node 'e' (exp) reads version 3 "
            "of node 'h2h' (tanh), but only variables have versions [bad_mutation]");
}

TEST_F(Cli, CLI_05_OutputFedBackIn) {
  ASSERT_EQ(folder.run("grad m.json --of z --wrt x -o g.json").code, 0);
  ToolResult result = folder.run("grad g.json --of @2 --wrt x,w -o gg.json");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(folder.run("run gg.json --shape x=2 --init 3").code, 0);
}

// Call by call or `--order K`: the same file, and so the same order of sums, whatever they are made of.
TEST_F(Cli, CLI_05_RUN_02_OrderByOrderIsTheSameFile) {
  const std::string sums =
      R"({"nodes": [{"op": "null", "name": "u", "inputs": []}, {"op": "null", "name": "v", "inputs": []},
{"op": "exp", "name": "e", "inputs": [[0, 0, 0]]}, {"op": "elemwise_div", "name": "d", "inputs": [[0, 0, 0], [1, )"
      R"(0, 0]]},
{"op": "elemwise_add", "name": "a", "inputs": [[3, 0, 0], [0, 0, 0]]},
{"op": "elemwise_div", "name": "y", "inputs": [[4, 0, 0], [2, 0, 0]]}], "arg_nodes": [0, 1], "heads": [[5, 0, 0]]})";
  folder.write("sums.json", sums);
  for (const char *flags : {"", "--sum-cap 2", "--unused none", "--naming nnvm", "--naming fluid"}) {
    const std::string common = std::string(" --wrt u,v ") + flags;
    ASSERT_EQ(folder.run("grad sums.json -o one.json" + common).code, 0);
    ASSERT_EQ(folder.run("grad one.json --of @1,@2 -o two.json" + common).code, 0);
    ASSERT_EQ(folder.run("grad two.json --of @3,@4 -o three.json" + common).code, 0);
    ASSERT_EQ(folder.run("grad sums.json --order 2 -o order2.json" + common).code, 0);
    ASSERT_EQ(folder.run("grad sums.json --order 3 -o order3.json" + common).code, 0);
    EXPECT_EQ(folder.read("two.json"), folder.read("order2.json")) << flags;
    EXPECT_EQ(folder.read("three.json"), folder.read("order3.json")) << flags;
  }
}

TEST_F(Cli, CLI_06_DegenerateAndLargeGraphs) {
  folder.write("empty.json", R"({"nodes": [], "arg_nodes": [], "heads": []})");
  EXPECT_EQ(folder.run("verify empty.json").code, 0);
  folder.write("one.json", R"({"nodes": [{"op": "null", "name": "x", "inputs": []}],
"arg_nodes": [0], "heads": [[0, 0, 0]]})");
  EXPECT_EQ(folder.run("grad one.json -o one-grad.json").code, 0);
  EXPECT_EQ(graphAttr("one-grad.json", "grad_of"), R"(["", "x"])");

  std::string chain = R"({"nodes": [{"op": "null", "name": "x", "inputs": []})";
  std::string fan = chain;
  std::string operands;
  constexpr int kLength = 100000, kConsumers = 10000;
  for (int i = 0; i < kLength; ++i)
    chain += ",\n{\"op\": \"tanh\", \"name\": \"t" + utostr(i) + "\", \"inputs\": [[" + utostr(i) + ", 0, 0]]}";
  for (int i = 0; i < kConsumers; ++i) {
    fan += ",\n{\"op\": \"tanh\", \"name\": \"t" + utostr(i) + "\", \"inputs\": [[0, 0, 0]]}";
    operands += (i ? ", [" : "[") + utostr(i + 1) + ", 0, 0]";
  }
  folder.write("chain.json", chain + "], \"arg_nodes\": [0], \"heads\": [[" + utostr(kLength) + ", 0, 0]]}");
  folder.write("fan.json", fan + ",\n{\"op\": \"add_n\", \"name\": \"s\", \"attrs\": {\"num_args\": \"" +
                               utostr(kConsumers) + "\"}, \"inputs\": [" + operands +
                               "]}], \"arg_nodes\": [0], \"heads\": [[" + utostr(kConsumers + 1) + ", 0, 0]]}");
  for (StringRef file : {"chain.json", "fan.json"}) {
    ToolResult result = folder.run(("grad " + file + " --shape x=2 -o big.json").str());
    ASSERT_EQ(result.code, 0) << file.str() << "\n" << result.err;
    EXPECT_EQ(folder.run("plan big.json --shape x=2 --report").code, 0) << file.str();
  }
}

TEST_F(Cli, CON_04_SameBytesTwice) {
  ToolResult first = folder.run("grad m.json --shape x=2,3"), second = folder.run("grad m.json --shape x=2,3");
  EXPECT_EQ(first.out, second.out);
  EXPECT_FALSE(first.out.empty());
}

TEST_F(Cli, GradientsAloneCannotBeChecked) {
  ASSERT_EQ(folder.run("grad m.json --emit gradient -o gradient.json").code, 0);
  ToolResult result = folder.run("gradcheck gradient.json --shape x=2 --shape w=2 --init 1");
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.err, "note: emit it with --emit combined\n")) << result.err;
}

TEST_F(Cli, OrderTwoKeepsBothOrders) {
  ASSERT_EQ(folder.run("grad m.json --of z --wrt x --order 2 -o g.json").code, 0);
  EXPECT_EQ(graphAttr("g.json", "grad_order"), "[0, 0, 1, 2]");
  ASSERT_EQ(folder.run("grad m.json --of z --wrt x --order 2 --emit gradient -o only.json").code, 0);
  EXPECT_EQ(folder.run("verify only.json").code, 0);
}

}  // namespace
}  // namespace gradc::testing
