// The command line as a user meets it: files, exit codes, usage, runs and checks.
#include "tests/support/cli.h"
#include "tests/support/tensors.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace gradc::testing {
namespace {

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

TEST_F(Cli, StandardInputIsReadOnce) {
  for (StringRef arguments : {"run --input x=-", "run m.json --input x=- --inputs -", "diff - -"}) {
    const ToolResult result = runShell(folder.path(), ("\"$GRADC\" " + arguments + " < m.json").str());
    EXPECT_EQ(result.code, arguments.contains("m.json") ? 1 : 2) << arguments.str() << ": " << result.err;
    if (result.code == 1) continue;  // the first is not an array
    EXPECT_TRUE(contains(result.err, "standard input is requested for two files")) << result.err;
  }
}

TEST_F(Cli, AFlagGivesANameOneValue) {
  const std::pair<StringRef, StringRef> runs[] = {
      {"infer m.json --shape x=2 --shape w=2 --shape x=3", "'--shape' is given twice for 'x'"},
      {"infer m.json --dtype x=float16 --dtype x=float16", "'--dtype' is given twice for 'x'"},
      {"grad m.json --req x=add --req x=null", "'--req' is given twice for 'x'"},
      {"run m.json --input w=a.npy --input w=b.npy", "'--input' is given twice for 'w'"},
      {"train m.json --feed x=a --feed x=b", "'--feed' is given twice for 'x'"},
      {"train m.json --eval-feed x=a --eval-feed x=b", "'--eval-feed' is given twice for 'x'"},
      {"train m.json --optimizer-attr gamma1=1 --optimizer-attr gamma1=2",
       "'--optimizer-attr' is given twice for 'gamma1'"},
  };
  for (const auto &[arguments, message] : runs) {
    const ToolResult result = folder.run(arguments);
    EXPECT_EQ(result.code, 2) << arguments.str();
    EXPECT_TRUE(contains(result.err, message)) << result.err;
  }
  // A y that is listed twice has two head gradients.
  EXPECT_EQ(folder.run("grad m.json --of s,s --seed s=a --seed s=b -o two.json").code, 0);
  const ToolResult passed = folder.run("gradcheck two.json --of s,s --shape x=2 --init 1");
  EXPECT_EQ(passed.code, 0) << passed.out << passed.err;
}

TEST_F(Cli, GradcheckNamesWhatAnEmittedGraphDoesNotRecord) {
  const std::string values = " --shape x=2 --init 1";
  ASSERT_EQ(folder.run("grad m.json --loss-scale 8 -o scaled.json").code, 0);
  ToolResult result = folder.run("gradcheck scaled.json" + values);
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.err, "every gradient is 8 times its difference")) << result.err;
  ASSERT_EQ(folder.run("grad m.json --of z -o one.json").code, 0);
  result = folder.run("gradcheck one.json" + values);
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.err, "does not record which outputs were differentiated")) << result.err;
  result = folder.run("gradcheck one.json --of z" + values);
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_EQ(result.err, "");
}

// What a hostile file is called must not move the cursor, nor look like a line of the tool.
TEST_F(Cli, ControlCharactersOfNamesAreEscaped) {
  std::string text = kModel.str();
  for (StringRef plain : {"\"y\"", "\"z\""}) text.replace(text.find(plain.str()), 3, R"("z\u001b[2J\nok\u007f")");
  folder.write("bad.json", text);
  folder.write("worse.json", std::string(text).replace(text.find("tanh"), 4, "dot_"));
  const std::string name = R"(z\x1b[2J\nok\x7f)";
  const std::string shape = " --shape x=2 ";
  for (const std::string &arguments :
       {"infer bad.json --report" + shape, "plan bad.json --report" + shape, "run bad.json --init 1" + shape,
        "diff bad.json worse.json" + std::string(), "grad worse.json --wrt x" + shape}) {
    const ToolResult result = folder.run(arguments);
    const std::string all = result.out + result.err;
    EXPECT_TRUE(contains(all, name)) << arguments << ": " << all;
    EXPECT_EQ(all.find_first_of("\x1b\x7f"), std::string::npos) << arguments << ": " << all;
  }
  EXPECT_EQ(StringRef(folder.run("diff bad.json worse.json").out).count('\n'), 1u);
}

TEST_F(Cli, RunShowsWhatIsNotANumberAsSuch) {
  folder.write("mean.json", R"({"nodes": [{"op": "null", "name": "x", "inputs": []},
{"op": "mean", "name": "y", "inputs": [[0, 0, 0]]}], "arg_nodes": [0], "heads": [[1, 0, 0]]})");
  const std::string table = folder.run("run mean.json --shape x=0 --init 1").out;
  StringRef row = StringRef(table).split('\n').second.split("float32").second;
  for (StringRef cell : {"nan", "nan", "nan", "1"}) {
    row = row.ltrim();
    EXPECT_TRUE(row.consume_front(cell)) << table;
  }
}

TEST_F(Cli, TablesCountCharactersAndNotBytes) {
  std::string text = kModel.str();
  text.replace(text.find("\"x\""), 3, "\"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\"");
  folder.write("accents.json", text);
  const std::string table = folder.run("infer accents.json --report --shape '#0=2'").out;
  SmallVector<StringRef, 8> lines;
  StringRef(table).split(lines, '\n');
  // Six characters, which are twelve bytes.
  EXPECT_EQ(lines[1].find("null"), lines[2].find("null") + 6) << table;
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

TEST_F(Cli, NamesOfOutputsMayBeAnything) {
  const std::string longest(250, 'n');
  ASSERT_EQ(runShell(folder.path(), "mkdir 'a%b'").code, 0);
  for (const std::string &name : {std::string("a%b/out.json"), std::string("100%.json"), longest}) {
    const ToolResult result = folder.run("convert m.json -o '" + name + "'");
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_TRUE(folder.has(name)) << name;
  }
}

TEST_F(Cli, AReplacedFileKeepsItsPermissions) {
  const ToolResult result = runShell(
      folder.path(), "touch p.json; chmod 600 p.json; \"$GRADC\" convert m.json -o p.json && stat -c %a p.json");
  EXPECT_EQ(result.out, "600\n") << result.err;
}

// The one would replace the other.
TEST_F(Cli, TwoResultsNeedTwoFiles) {
  for (StringRef command : {"run m.json --shape x=2 --init 1 --outputs o.npz --profile ./o.npz",
                            "run m.json --shape x=2 --init 1 --outputs - --profile -",
                            "run m.json --shape x=2 --init 1 --outputs o.npz -o o.npz",
                            "plan m.json --shape x=2 --svg o.npz -o o.npz", "plan m.json --shape x=2 --svg - -o -"}) {
    const ToolResult result = folder.run(command);
    EXPECT_EQ(result.code, 2) << command.str();
    EXPECT_TRUE(contains(result.err, "both name '")) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_FALSE(folder.has("o.npz"));
  }
  EXPECT_EQ(folder.run("run m.json --shape x=2 --init 1 --outputs /dev/null --profile /dev/null").code, 0);
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
  // More than a pipe holds, so the tool has started by the time the shell has written it.
  ToolResult result = runShell(folder.path(), "mkfifo pipe; $GRADC verify <pipe & exec 3>pipe; "
                                              "head -c 1000000 /dev/zero >&3; kill -SEGV $!; wait $!; echo code $?");
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

// Its heads are forward heads and gradients; only the former are differentiated.
TEST_F(Cli, GradcheckOfSomeGradientsOfAnEmittedGraph) {
  ASSERT_EQ(folder.run("grad m.json -o g.json").code, 0);
  for (StringRef flags : {"--wrt w", "--wrt x,w,x", "--wrt all", "--wrt x --of @0,@1"}) {
    const ToolResult result = folder.run(("gradcheck g.json --shape x=2,3 --init 1 " + flags).str());
    EXPECT_EQ(result.code, 0) << flags.str() << '\n' << result.out << result.err;
  }
  for (StringRef flags : {"--order 2", "--no-grad y", "--stop y"}) {
    const ToolResult result = folder.run(("gradcheck g.json --shape x=2,3 --init 1 " + flags).str());
    EXPECT_EQ(result.code, 2) << flags.str();
    EXPECT_TRUE(contains(result.err, "this graph has its gradients already")) << result.err;
  }
}

// With an infinite tolerance every check would pass.
TEST_F(Cli, NumbersAreFinite) {
  for (StringRef flag : {"--rtol", "--atol", "--eps"})
    for (StringRef value : {"inf", "1e999", "nan", "-1"}) {
      const ToolResult result = folder.run(("gradcheck m.json --shape x=2 --init 1 " + flag + " " + value).str());
      EXPECT_EQ(result.code, 2) << flag.str() << value.str();
    }
}

// A constant of the gradient is held at its value in a body as it is in the unrolled graph.
TEST_F(Cli, GradcheckHoldsAConstantInABody) {
  folder.write("loop.json",
               R"({"nodes": [{"op": "null", "name": "x", "inputs": []}, {"op": "null", "name": "s", "inputs": []},
{"op": "_foreach", "name": "loop", "attrs": {"in_data_locs": "[0]", "in_state_locs": "[1]", "num_args": "3",
"num_out_data": "1", "num_outputs": "2", "remain_locs": "[]"}, "inputs": [[0, 0, 0], [1, 0, 0]], "subgraphs": )"
               R"([{"nodes": [
{"op": "null", "name": "d", "inputs": []}, {"op": "null", "name": "t", "inputs": []},
{"op": "elemwise_mul", "name": "m", "inputs": [[0, 0, 0], [1, 0, 0]]}, {"op": "BlockGrad", "name": "b", "inputs": )"
               R"([[2, 0, 0]]},
{"op": "elemwise_add", "name": "y", "inputs": [[2, 0, 0], [3, 0, 0]]}, {"op": "tanh", "name": "n", "inputs": [[1, )"
               R"(0, 0]]}],
"arg_nodes": [0, 1], "heads": [[4, 0, 0], [5, 0, 0]]}]}], "arg_nodes": [0, 1], "heads": [[2, 0, 0]]})");
  const std::string values = " --shape x=3,2 --shape s=2 --init 1";
  const ToolResult result = folder.run("gradcheck loop.json" + values);
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_TRUE(contains(result.out, ", 1 at their value")) << result.out;
  ASSERT_EQ(folder.run("opt --passes unroll loop.json --shape x=3,2 --shape s=2 -o flat.json").code, 0);
  EXPECT_EQ(folder.run("gradcheck flat.json" + values).code, 0);
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
  EXPECT_TRUE(contains(kept.err, "loop '_foreach0': the length of its sliced inputs is not known")) << kept.err;
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

// A verb may replace the graph that it read by one made of it. Everything else that is read stays.
TEST_F(Cli, OnlyAGraphReplacesTheGraphItIsMadeOf) {
  const std::string model = folder.read("m.json");
  ASSERT_EQ(folder.run("run m.json --shape x=2 --init 1 --outputs in.npz").code, 0);
  runShell(folder.path(), "ln m.json hard; ln -s m.json link; cp m.json n.json");
  const std::string arrays = folder.read("in.npz");
  for (StringRef command :
       {"verify m.json -o m.json", "show m.json -o link", "convert m.json --to text -o hard",
        "diff m.json n.json -o n.json", "gradcheck m.json --shape x=2 --init 1 -o m.json",
        "run m.json --shape x=2 --init 1 --outputs m.json", "run m.json --shape x=2 --init 1 --profile link",
        "plan m.json --shape x=2 --svg m.json", "ops --coverage m.json n.json -o n.json"}) {
    const ToolResult result = folder.run(command);
    EXPECT_EQ(result.code, 2) << command.str();
    EXPECT_TRUE(contains(result.err, "would overwrite '")) << result.err;
    EXPECT_EQ(folder.read("m.json"), model);
    EXPECT_EQ(folder.read("n.json"), model);
  }
  const ToolResult bound = folder.run("run m.json --inputs in.npz --outputs in.npz --shape x=2 --init 1");
  EXPECT_TRUE(contains(bound.err, "'--outputs' would overwrite 'in.npz', which '--inputs' reads")) << bound.err;
  EXPECT_EQ(folder.read("in.npz"), arrays);
  for (StringRef command : {"convert", "grad", "infer --shape x=2", "plan --shape x=2"}) {
    folder.write("m.json", model);
    EXPECT_EQ(folder.run((command + " m.json -o m.json").str()).code, 0) << command.str();
    EXPECT_EQ(folder.run("verify m.json").code, 0) << command.str();
  }
  EXPECT_EQ(folder.run("ops tanh -o tanh").code, 0) << "the name of an operator is no file";
  EXPECT_EQ(folder.run("ops tanh -o tanh").code, 0);
  // What is printed is a file, too.
  folder.write("m.json", model);
  const ToolResult printed =
      runShell(folder.path(), "\"$GRADC\" run m.json --shape x=2 --init 1 --outputs both >>both");
  EXPECT_EQ(printed.code, 2) << printed.err;
}

// The condition of this loop holds for ever, and its own bound is 2147483647.
TEST_F(Cli, StepsOfALoopOfAGraphHaveALimit) {
  folder.write("endless.json", R"js({"nodes": [{"op": "null", "name": "i", "inputs": []},
{"op": "_while_loop", "name": "spin", "attrs": {"cond_input_locs": "[0]", "func_input_locs": "[0]",
 "func_var_locs": "[0]", "max_iterations": "2147483647", "num_args": "3", "num_out_data": "0", "num_outputs": "1"},
 "inputs": [[0, 0, 0]], "subgraphs": [
 {"nodes": [{"op": "null", "name": "i", "inputs": []}, {"op": "_lesser_scalar", "name": "c", "attrs": {"scalar": )js"
                               R"js("1e30"},
  "inputs": [[0, 0, 0]]}], "arg_nodes": [0], "heads": [[1, 0, 0]]},
 {"nodes": [{"op": "null", "name": "i", "inputs": []}, {"op": "_plus_scalar", "name": "n", "attrs": {"scalar": "1"},
  "inputs": [[0, 0, 0]]}], "arg_nodes": [0], "heads": [[1, 0, 0]]}]}],
"arg_nodes": [0], "heads": [[1, 0, 0]]})js");
  for (StringRef verb : {"run", "run --backend reference", "run --train"}) {
    const ToolResult result = folder.run((verb + " endless.json --init 1 --shape i=1 --max-iterations 1000").str());
    EXPECT_EQ(result.code, 1) << result.err;
    EXPECT_TRUE(contains(result.err, "the loop goes on after 1000 steps, which is the limit")) << result.err;
    EXPECT_TRUE(contains(result.err, "node 'spin' (_while_loop)")) << result.err;
    EXPECT_TRUE(contains(result.err, "--max-iterations N, given where")) << result.err;
  }
}

TEST_F(Cli, GradcheckSaysWhatItDidNotSample) {
  const ToolResult few = folder.run("gradcheck m.json --shape x=2,3 --init 1 --samples 2");
  EXPECT_EQ(few.code, 0) << few.out;
  EXPECT_TRUE(contains(few.out, "not sampled\n")) << few.out;
  EXPECT_TRUE(contains(few.out, "passed: 2 checks; not sampled: 1 of 2 variables (--samples 3 checks each)\n"))
      << few.out;
  folder.write("sine.json", R"({"nodes": [{"op": "null", "name": "x", "inputs": []},
{"op": "_mul_scalar", "name": "m", "attrs": {"scalar": "300"}, "inputs": [[0, 0, 0]]},
{"op": "sin", "name": "y", "inputs": [[1, 0, 0]]}], "arg_nodes": [0], "heads": [[2, 0, 0]]})");
  const ToolResult sine = folder.run("gradcheck sine.json --shape x=3,4 --init 1");
  EXPECT_EQ(sine.code, 0) << sine.out;
  EXPECT_TRUE(contains(sine.out, " extrapolated\n") && contains(sine.out, " extrapolated from smaller steps\n"))
      << sine.out;
}

}  // namespace
}  // namespace gradc::testing
