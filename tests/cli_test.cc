// The command line as a user meets it: names, heads, files, exit codes (§22 CLI-01 … CLI-06, the command line contract).
// Texts of single messages are goldens under testdata/cli; here are the rules that hold for all of them.
#include "tests/support/tensors.h"
#include "tests/support/tool.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include "gtest/gtest.h"

using namespace llvm;

namespace gradc::testing {
namespace {

// z = tanh(x · w); two heads: z and the sum s = z + x.
constexpr StringRef kModel = R"({"nodes": [
{"op": "null", "name": "x", "inputs": []},
{"op": "null", "name": "w", "inputs": []},
{"op": "elemwise_mul", "name": "y", "inputs": [[0, 0, 0], [1, 0, 0]]},
{"op": "tanh", "name": "z", "inputs": [[2, 0, 0]]},
{"op": "elemwise_add", "name": "s", "inputs": [[3, 0, 0], [0, 0, 0]]}],
"arg_nodes": [0, 1], "heads": [[3, 0, 0], [4, 0, 0]]}
)";

bool contains(StringRef text, StringRef part) { return text.contains(part); }

class Cli : public ::testing::Test {
 protected:
  Cli() { folder.write("m.json", kModel); }

  /// The list of a graph attribute of a file, as it is written: `["", "x"]`.
  std::string graphAttr(StringRef file, StringRef key) {
    std::string text = folder.read(file);
    StringRef rest = StringRef(text).split(("\"" + key + "\": [").str()).second;
    return rest.split(", ").second.take_until([](char c) { return c == '\n'; }).rtrim(",").drop_back().str();
  }

  ScratchFolder folder;
};

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
            "loop.json:4:4: error: node 'loop' > body 1 > node 'h2h': operator 'tanh' takes 1 inputs, got 2 [arity]");
  const std::string version = file(
      R"({"op": "tanh", "name": "h2h", "inputs": [[0, 0, 0]], "control_deps": [0]}, {"op": "exp", "name": "e", "inputs": [[1, 0, 3]]})"
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
{"op": "exp", "name": "e", "inputs": [[0, 0, 0]]}, {"op": "elemwise_div", "name": "d", "inputs": [[0, 0, 0], [1, 0, 0]]},
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

// ---- files

TEST_F(Cli, OutputAppearsWholeOrNotAtAll) {
  folder.write("out.json", "precious");
  size_t before = folder.numFiles();
  EXPECT_EQ(folder.run("grad m.json --wrt nothing -o out.json").code, 1);
  EXPECT_EQ(folder.read("out.json"), "precious");
  EXPECT_EQ(folder.run("grad m.json -o out.json").code, 0);
  EXPECT_NE(folder.read("out.json"), "precious");
  EXPECT_EQ(folder.numFiles(), before) << "a temporary file is left";
}

TEST_F(Cli, OutputMayBeTheInput) {
  ToolResult result = folder.run("convert m.json -o m.json");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(folder.run("verify m.json").out, "ok: 5 nodes, 5 values, 2 heads\n");
}

TEST_F(Cli, StandardInputAndOutput) {
  std::string direct = folder.run("convert m.json").out;
  EXPECT_EQ(runShell(folder.path(), "\"$GRADC\" convert - < m.json").out, direct);
  EXPECT_EQ(runShell(folder.path(), "\"$GRADC\" convert < m.json").out, direct);
  EXPECT_EQ(folder.run("convert m.json -o -").out, direct);
  EXPECT_EQ(folder.run("convert m.json -o /dev/stdout").out, direct);
}

TEST_F(Cli, UnwritableOutputIsIo) {
  ToolResult result = folder.run("convert m.json -o no/such/folder/out.json");
  EXPECT_EQ(result.code, 2);
  EXPECT_TRUE(contains(result.err, "[io]")) << result.err;
  result = folder.run("convert m.json -o /dev/full");
  EXPECT_EQ(result.code, 2);
  EXPECT_TRUE(contains(result.err, "[io]")) << result.err;
}

TEST_F(Cli, RunWritesAllOfItsFilesOrNone) {
  ASSERT_EQ(folder.run("run m.json --shape x=2 --init 1 --outputs o.npz --profile p.json").code, 0);
  EXPECT_TRUE(folder.has("o.npz") && contains(folder.read("p.json"), "traceEvents"));
  EXPECT_EQ(folder.run("run m.json --shape x=2 --init 1 --outputs new.npz --profile no/folder.json").code, 2);
  EXPECT_FALSE(folder.has("new.npz"));
}

// ---- exit codes and usage

TEST_F(Cli, ExitCodes) {
  EXPECT_EQ(folder.run("verify m.json").code, 0);
  EXPECT_EQ(folder.run("diff m.json m.json").code, 0);
  EXPECT_EQ(folder.run("").code, 2);
  EXPECT_EQ(folder.run("verify absent.json").code, 2);
  EXPECT_EQ(folder.run("verify m.json m.json").code, 2);
  EXPECT_EQ(folder.run("grad m.json --order 0").code, 2);
  EXPECT_EQ(folder.run("grad m.json --wrt").code, 2);
  EXPECT_EQ(folder.run("grad m.json --strict=yes").code, 2);
  EXPECT_EQ(folder.run("run m.json --shape x=2").code, 1);
  EXPECT_EQ(folder.run("ops nonesuch").code, 1);
  EXPECT_EQ(folder.run("convert m.json --to cbor").code, 1);
  EXPECT_EQ(folder.run("plan m.json --shape x=2000 --report --budget 1K").code, 1);
  EXPECT_EQ(folder.run("plan m.json --shape x=2000 --report --budget 1M").code, 0);
}

TEST_F(Cli, CrashIsExitCodeSeventy) {
  ToolResult result =
      runShell(folder.path(), "{ sleep 5 | \"$GRADC\" verify & } ; sleep 0.5; kill -SEGV $!; wait $!; echo code $?");
  EXPECT_EQ(result.out, "code 70\n");
  EXPECT_TRUE(contains(result.err, "[internal]")) << result.err;
}

TEST_F(Cli, DidYouMean) {
  EXPECT_TRUE(contains(folder.run("gard m.json").err, "did you mean 'grad'?"));
  EXPECT_TRUE(contains(folder.run("grad m.json --wrtt x").err, "did you mean '--wrt'?"));
  EXPECT_TRUE(contains(folder.run("ops tanhh").err, "'tanh'"));
}

TEST_F(Cli, EveryVerbExplainsItself) {
  ToolResult list = folder.run("--help");
  ASSERT_EQ(list.code, 0);
  for (StringRef verb :
       {"grad", "infer", "plan", "run", "gradcheck", "convert", "verify", "show", "opt", "ops", "diff"}) {
    EXPECT_TRUE(contains(list.out, ("\n  " + verb + " ").str())) << verb.str();
    ToolResult help = folder.run(("help " + verb).str());
    EXPECT_EQ(help.code, 0);
    EXPECT_TRUE(contains(help.out, "usage: gradc ") && contains(help.out, "Examples:")) << help.out;
    EXPECT_EQ(folder.run((verb + " --help").str()).out, help.out);
    SmallVector<StringRef, 64> lines;
    StringRef(help.out).split(lines, '\n');
    for (StringRef line : lines) EXPECT_LE(line.size(), 100u) << line.str();
  }
}

TEST_F(Cli, WarningsAndNotesNeverChangeTheCode) {
  folder.write("dead.json", R"({"nodes": [{"op": "null", "name": "x", "inputs": []},
{"op": "null", "name": "unused", "inputs": []}, {"op": "exp", "name": "y", "inputs": [[0, 0, 0]]}],
"arg_nodes": [0, 1], "heads": [[2, 0, 0]]})");
  ToolResult result = folder.run("convert dead.json");
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(contains(result.err, "warning:") && contains(result.err, "unused")) << result.err;
  EXPECT_FALSE(contains(result.out, "warning"));
}

TEST_F(Cli, JsonDiagnosticsAreOneObjectPerLine) {
  for (StringRef arguments : {"grad m.json --of nope --diag=json", "--diag=json", "grad --wrtt x --diag json"}) {
    ToolResult result = folder.run(arguments);
    EXPECT_NE(result.code, 0);
    SmallVector<StringRef, 8> lines;
    StringRef(result.err).split(lines, '\n', -1, false);
    ASSERT_FALSE(lines.empty());
    for (StringRef line : lines) EXPECT_TRUE(line.starts_with("{\"severity\":") && line.ends_with("}")) << line.str();
  }
}

TEST_F(Cli, ExcerptsOfMinifiedFilesAreClipped) {
  std::string line = R"({"nodes":[{"op":"null","name":"x","inputs":[]})";
  for (int i = 0; i < 200; ++i)
    line += R"(,{"op":"tanh","name":"t)" + utostr(i) + R"(","inputs":[[)" + utostr(i == 150 ? 9999 : i) + ",0,0]]}";
  folder.write("min.json", line + R"(],"arg_nodes":[0],"heads":[[200,0,0]]})");
  ToolResult result = folder.run("verify min.json");
  EXPECT_EQ(result.code, 1);
  SmallVector<StringRef, 8> lines;
  StringRef(result.err).split(lines, '\n', -1, false);
  ASSERT_GE(lines.size(), 3u);
  EXPECT_LE(lines[1].size(), 74u);
  EXPECT_TRUE(lines[1].contains("t150")) << result.err;
  ASSERT_TRUE(lines[2].ends_with("^"));
  EXPECT_LT(lines[2].size(), 74u);
}

// ---- running and checking

TEST_F(Cli, RunKeysAndDTypes) {
  ASSERT_EQ(folder.run("grad m.json --of z --wrt w -o g.json").code, 0);
  ToolResult result = folder.run("run g.json --shape x=2 --init 1 --dtype float64");
  ASSERT_EQ(result.code, 0) << result.err;
  for (StringRef key : {"z_output", "s_output", "w_grad", "float64"})
    EXPECT_TRUE(contains(result.out, key)) << result.out;
}

TEST_F(Cli, RunTakesWhatItWrote) {
  ASSERT_EQ(folder.run("run m.json --shape x=3 --init 5 --outputs a.npz").code, 0);
  folder.write("z.json", R"({"nodes": [{"op": "null", "name": "z_output", "inputs": []},
{"op": "null", "name": "s_output", "inputs": []},
{"op": "elemwise_sub", "name": "d", "inputs": [[1, 0, 0], [0, 0, 0]]}], "arg_nodes": [0, 1], "heads": [[2, 0, 0]]})");
  ToolResult result = folder.run("run z.json --inputs a.npz --outputs d.npz");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "(3,)")) << result.out;
}

TEST_F(Cli, GradcheckPassesAndFails) {
  ToolResult result = folder.run("gradcheck m.json --shape x=2,3 --init 1");
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_TRUE(contains(result.out, "passed: 40 checks")) << result.out;
  // The same graph claims that the gradient of x is z itself.
  ASSERT_EQ(folder.run("grad m.json --of z --wrt x -o g.json").code, 0);
  std::string text = folder.read("g.json");
  size_t at = text.find("\"heads\": [[3, 0, 0], [4, 0, 0], [");
  ASSERT_NE(at, std::string::npos) << text;
  size_t end = text.find("]]", at);
  text.replace(at, end - at, "\"heads\": [[3, 0, 0], [4, 0, 0], [3, 0, 0");
  folder.write("wrong.json", text);
  result = folder.run("gradcheck wrong.json --shape x=2,3 --init 1");
  EXPECT_EQ(result.code, 1) << result.out << result.err;
}

TEST_F(Cli, OptRunsPassesInTheOrderGiven) {
  folder.write("cf03.json", readText("testdata/loops/cf03.json"));
  const ToolResult flat = folder.run("opt --passes inline,unroll cf03.json --shape x=3 -o flat.json");
  ASSERT_EQ(flat.code, 0) << flat.err;
  EXPECT_EQ(flat.err, "");
  const ToolResult text = folder.run("show flat.json");
  EXPECT_TRUE(contains(text.out, "\"_foreach0[2]/_plus1\"")) << text.out;
  EXPECT_FALSE(contains(text.out, "body")) << text.out;
  EXPECT_EQ(folder.run("run flat.json --init 1 --outputs out.npz").code, 0) << "the shapes of variables are kept";
  ASSERT_EQ(folder.run("infer cf03.json --shape x=3 -o known.json").code, 0);
  ASSERT_EQ(folder.run("opt --passes unroll known.json -o flat2.json").code, 0);
  EXPECT_EQ(folder.run("run flat2.json --init 1 --outputs out.npz").code, 0) << "those that the file had, too";
  const ToolResult kept = folder.run("opt --passes unroll cf03.json -o same.json");
  EXPECT_EQ(kept.code, 0);
  EXPECT_TRUE(contains(kept.err, "loop '_foreach0': the length of what it slices is not known")) << kept.err;
  EXPECT_EQ(folder.run("diff cf03.json same.json").code, 0);
  EXPECT_EQ(folder.run("opt cf03.json").code, 2);
  const ToolResult unknown = folder.run("opt --passes fuse cf03.json");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(contains(unknown.err, "there is no pass 'fuse'")) << unknown.err;
}

TEST_F(Cli, DiffNamesTheDifference) {
  std::string other = kModel.str();
  other.replace(other.find("tanh"), 4, "relu");
  folder.write("other.json", other);
  ToolResult result = folder.run("diff m.json other.json");
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "node 'z' (tanh) on the left, node 'z' (relu) on the right\n");
}

}  // namespace
}  // namespace gradc::testing
