// Programs of blocks on the command line: messages about the graph name the program's operators; calls on a program
// that has its gradient already; what a call may ask for.
#include "tests/support/blocks/block_programs.h"
#include "tests/support/blocks/draw_blocks.h"
#include "tests/support/test_graph.h"
#include "tests/support/tool.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc::testing {
namespace {

std::string variable(const std::string &name, const std::string &shape, const std::string &flags = "") {
  return "\"" + name + R"(":{"kind":"LOD_TENSOR","dtype":"FP64","shape":)" + shape + flags + "}";
}
std::string op(const std::string &type, const std::string &in, const std::string &out, const std::string &attrs = "") {
  return R"({"type":")" + type + R"(","in":{)" + in + R"(},"out":{"Out":[")" + out + R"("]},"attrs":{)" + attrs + "}}";
}
const std::string kParameter = R"(,"is_parameter":true,"persistable":true)", kAll = R"("reduce_all":["BOOLEAN",true])";

/// Of x and p, parameters of these shapes: a = tanh(p), b = x · a, loss = Σ b.
std::string program(const std::string &shapeOfX, const std::string &shapeOfP, const std::string &call) {
  return R"({"program":{"blocks":[{"idx":0,"parent":-1,"forward":-1,"vars":{)" + variable("x", shapeOfX, kParameter) +
         "," + variable("p", shapeOfP, kParameter) + "," + variable("a", shapeOfP) + "," + variable("b", shapeOfX) +
         "," + variable("loss", "[]") + R"(},"ops":[)" + op("tanh", R"("X":["p"])", "a") + "," +
         op("elementwise_mul", R"("X":["x"],"Y":["a"])", "b",
            R"("op_callstack":["STRINGS",["  File \"train.py\", line 12, in main","    b = x * a"]])") +
         "," + op("reduce_sum", R"("X":["b"])", "loss", kAll) + R"(]}],"parameters":[["x",true],["p",true]]})" + call +
         "}\n";
}

bool contains(const std::string &text, StringRef part) { return StringRef(text).contains(part); }

TEST(CliBlocks, E_50_AnErrorOfTheGraphNamesTheOperatorAndItsCallSite) {
  const ScratchFolder folder;
  folder.write("p.json", program("[2]", "[3]", R"(,"call":{"api":"append_backward","loss":"loss"})"));
  for (const char *verb : {"infer p.json", "grad p.json --as graph", "run p.json --init 1", "gradcheck p.json"}) {
    const ToolResult done = folder.run(verb);
    EXPECT_EQ(done.code, 1) << verb;
    EXPECT_TRUE(contains(done.err, "note: the node is of block 0, operator 1 (elementwise_mul)\n")) << done.err;
    EXPECT_TRUE(contains(done.err, "note: created at File \"train.py\", line 12, in main: b = x * a\n")) << done.err;
    EXPECT_TRUE(contains(done.err, "{\"type\":\"elementwise_mul\"")) << "the place in the file\n" << done.err;
  }
}

TEST(CliBlocks, E_48_SlotsAreCheckedWhateverIsMadeOfTheProgram) {
  const ScratchFolder folder;
  std::string text = program("[2]", "[2]", R"(,"call":{"api":"append_backward","loss":"loss"})");
  text.replace(text.find(R"("Y":["a"])"), 9, R"("Y":["a","p"])");
  folder.write("p.json", text);
  for (const char *verb : {"grad p.json", "grad p.json --as graph", "run p.json --init 1", "gradcheck p.json",
                           "show p.json", "verify p.json", "convert p.json"}) {
    const ToolResult done = folder.run(verb);
    EXPECT_EQ(done.code, 1) << verb;
    EXPECT_TRUE(contains(done.err,
                         "block 0, operator 1 (elementwise_mul): slot 'Y' holds 2 variables, from 'a' to 'p', "
                         "expected one [bad_entry]"))
        << verb << "\n"
        << done.err;
  }
  EXPECT_EQ(folder.run("convert p.json --to blocks").code, 0) << "a copy of what is there";
}

TEST(CliBlocks, NAME_07_AProgramThatHasItsGradientIsNotDifferentiatedForTheFirstTime) {
  const ScratchFolder folder;
  folder.write("p.json", program("[2]", "[2]", ""));
  ASSERT_EQ(folder.run("grad p.json --of loss -o first.json").code, 0);
  // The loss of the second call is made of the first one's gradient.
  std::string text = folder.read("first.json");
  const StringRef first = "\"parent\":-1,\"vars\":{";
  text.replace(text.find(first), first.size(),
               first.str() + variable("q", "[2]") + "," + variable("loss2", "[]") + ",");
  const size_t end = text.find("],\"parent\":-1");
  text.insert(end,
              "," + op("square", R"("X":["p@GRAD"])", "q") + "," + op("reduce_sum", R"("X":["q"])", "loss2", kAll));
  folder.write("second.json", text);
  const ToolResult done = folder.run("grad second.json --of loss2 --wrt x,p -o both.json");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(contains(folder.read("both.json"), "\"prior_backward_calls\":1")) << folder.read("both.json");
  const ToolResult checked = folder.run("gradcheck both.json --init 1");
  EXPECT_EQ(checked.code, 0) << checked.out << checked.err;
}

TEST(CliBlocks, HOOK_02_ACallThatClipsErrors) {
  const ScratchFolder folder;
  const std::string call = R"(,"call":{"api":"append_backward","loss":"loss","error_clip":{"a":[-0.25,0.5]}})";
  folder.write("p.json", program("[2]", "[2]", call));
  ToolResult done = folder.run("grad p.json");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(contains(done.out, R"("max":["FLOAT",0.5],"min":["FLOAT",-0.25])")) << done.out;
  EXPECT_TRUE(contains(done.out, R"("error_clip":{"a":[-0.25,0.5]})")) << "the call is written as it was read";
  done = folder.run("grad p.json --as graph");
  EXPECT_EQ(done.code, 1);
  EXPECT_TRUE(contains(done.err, "the call clips the gradient of 'a' where it arrives")) << done.err;
  for (const char *clip : {"[1]", "[1,0]", "[0,1,2]", "[\"0\",1]", "3"}) {
    std::string bad = call;
    bad.replace(bad.find("[-0.25,0.5]"), 11, clip);
    folder.write("bad.json", program("[2]", "[2]", bad));
    done = folder.run("grad bad.json");
    EXPECT_EQ(done.code, 1) << clip;
    EXPECT_TRUE(contains(done.err, "two numbers, from least to largest, for 'a' of 'error_clip'")) << done.err;
  }
}

TEST(CliBlocks, CheckpointsThatDoNotCountAreTold) {
  const ScratchFolder folder;
  folder.write("p.json",
               program("[2]", "[2]", R"(,"call":{"api":"append_backward","loss":"loss","checkpoints":["a"]})"));
  const ToolResult done = folder.run("grad p.json");
  EXPECT_EQ(done.code, 0);
  EXPECT_TRUE(contains(done.err, "warning: 'checkpoints' of 'call' do not count")) << done.err;
}

/// A program with these declarations and operators; parameters are `w`, and variables that nothing writes `x` and `y`.
std::string programOf(const std::string &vars, const std::string &ops) {
  return R"({"program":{"blocks":[{"idx":0,"parent":-1,"forward":-1,"vars":{)" + vars + R"(},"ops":[)" + ops +
         R"(]}],"parameters":[["w",true]]}})";
}

/// What is wrong with an emitted program as a file: empty if it can be inferred, planned, run and checked.
std::string problemOf(const ScratchFolder &folder, const std::string &name, const std::string &flags = "") {
  std::string problem;
  for (const char *verb : {"infer", "plan", "run --init 1", "gradcheck --init 1"}) {
    const ToolResult done = folder.run(verb + (" --max-iterations 20 " + name + flags));
    if (done.code) problem += verb + (": " + done.out + done.err);
  }
  return problem;
}

TEST(CliBlocks, D_24_ALossOfOneElementMayHaveAxes) {
  const std::string one = variable("w", "[1,1]", kParameter), row = variable("w", "[1,3]", kParameter),
                    rows = variable("w", "[2,3]", kParameter), loss = "," + variable("l", "[1,1]");
  const std::string keep = R"("keep_dim":["BOOLEAN",true],)" + kAll,
                    convolution =
                        R"({"type":"conv2d","in":{"Input":["x"],"Filter":["w"]},"out":{"Output":["l"]},"attrs":{}})",
                    entropy = R"({"type":"softmax_with_cross_entropy","in":{"Logits":["w"],"Label":["x"]},"out":)"
                              R"({"Softmax":["s"],"Loss":["l"]},"attrs":{"soft_label":["BOOLEAN",true]}})";
  const std::string shape = "," + variable("xs", "[0,1,1]");
  auto shaped = [](const std::string &type, const std::string &x, const std::string &attrs) {
    return R"({"type":")" + type + R"(","in":{"X":[")" + x + R"("]},"out":{"Out":["l"],"XShape":["xs"]},"attrs":{)" +
           attrs + "}}";
  };
  const std::pair<std::string, std::string> programs[] = {
      {one + loss, op("tanh", R"("X":["w"])", "l")},
      {one + "," + variable("x", "[1,1]") + loss, op("elementwise_mul", R"("X":["x"],"Y":["w"])", "l")},
      {row + "," + variable("x", "[1,3]") + loss,
       op("matmul_v2", R"("X":["x"],"Y":["w"])", "l", R"("trans_y":["BOOLEAN",true])")},
      {rows + loss, op("reduce_sum", R"("X":["w"])", "l", keep)},
      {rows + loss, op("reduce_mean", R"("X":["w"])", "l", keep)},
      {rows + "," + variable("s", "[]") + shape + loss,
       op("reduce_sum", R"("X":["w"])", "s", kAll) + "," + shaped("reshape2", "s", R"("shape":["INTS",[1,1]])")},
      {row + loss,
       op("slice", R"("Input":["w"])", "l", R"("axes":["INTS",[1]],"starts":["INTS",[0]],"ends":["INTS",[1]])")},
      {one + shape + loss, shaped("transpose2", "w", R"("axis":["INTS",[1,0]])")},
      {row + "," + variable("x", "[1,3]") + "," + variable("s", "[1,3]") + loss, entropy},
      {variable("w", "[1,1,2,2]", kParameter) + "," + variable("x", "[1,1,2,2]") + "," + variable("l", "[1,1,1,1]"),
       convolution}};
  for (const auto &[vars, ops] : programs) {
    const ScratchFolder folder;
    folder.write("p.json", programOf(vars, ops));
    const ToolResult done = folder.run("grad p.json --of l -o g.json");
    EXPECT_EQ(done.code, 0) << ops << done.err;
    EXPECT_EQ(problemOf(folder, "g.json"), "") << ops;
    // Paddle's operators that read axes fail where the seed has one and the loss has several.
    const bool hasAxes = contains(ops, "slice") || contains(ops, "transpose2") || contains(ops, "conv2d");
    EXPECT_EQ(contains(folder.read("g.json"), R"("shape":["LONGS",[1]])"), !hasAxes) << ops;
  }
}

TEST(CliBlocks, EveryEmittedProgramCanBeReadAgain) {
  size_t numRead = 0;
  for (const char *where : {"testdata/blocks", "testdata/paddle"}) {
    std::error_code code;
    std::vector<std::string> files;
    for (sys::fs::directory_iterator at(where, code), end; at != end && !code; at.increment(code))
      files.push_back(at->path());
    for (const std::string &file : files) {
      const ScratchFolder folder;
      folder.write("p.json", readText(file));
      const ToolResult done = folder.run("grad p.json -o g.json");
      EXPECT_EQ(done.code, 0) << file << done.err;
      const bool hasBatch = contains(file, "of_any_batch");
      EXPECT_EQ(problemOf(folder, "g.json", hasBatch ? " --shape x=2,3,4" : ""), "") << file;
      ++numRead;
    }
  }
  EXPECT_GE(numRead, 30u);
}

TEST(CliBlocks, EveryEmissionOfADrawnProgramCanBeReadAgain) {
  for (uint64_t seed = 0; seed < 12; ++seed)
    for (const BlockDraw &draw : {BlockDraw{.numOps = 8, .depth = 0, .inPlacePercent = 20, .labelPercent = 20},
                                  BlockDraw{.numOps = 4, .depth = 2, .flaggedPercent = 10, .labelPercent = 20}}) {
      TestContext context;
      BlockFile file;
      file.program = drawBlocks(context, seed, draw);
      const ScratchFolder folder;
      folder.write("p.json", text(file));
      const ToolResult done = folder.run("grad p.json --of loss --wrt p0,p1,p2,x0,x1 -o g.json");
      ASSERT_EQ(done.code, 0) << seed << done.err;
      const bool hasNone = contains(folder.read("g.json"), R"("result":[null,null,null,null,null])");
      if (hasNone) continue;
      EXPECT_EQ(problemOf(folder, "g.json"), "") << "depth " << draw.depth << ", seed " << seed;
    }
}

TEST(CliBlocks, A_19_AGradientThatPaddleLeavesOutIsNamed) {
  const ScratchFolder folder;
  const std::string vars = variable("w", "[2,3]", kParameter) + "," + variable("t", "[2,3]") + "," +
                           variable("s", "[2,3]") + "," + variable("l", "[]");
  const std::string loss = R"({"type":"kldiv_loss","in":{"X":["s"],"Target":["t"]},"out":{"Loss":["l"]},"attrs":)"
                           R"({"reduction":["STRING","mean"]}})";
  folder.write("p.json", programOf(vars, op("sigmoid", R"("X":["w"])", "t") + "," +
                                             op("log_softmax", R"("X":["w"])", "s") + "," + loss));
  ToolResult done = folder.run("grad p.json --of l --wrt w,t -o g.json");
  EXPECT_EQ(done.code, 0);
  EXPECT_TRUE(contains(done.err,
                       "warning: block 0, operator 2 (kldiv_loss): the gradient of 't' in slot 'Target' is left out, "
                       "because Paddle's kldiv_loss_grad does not compute it"))
      << done.err;
  EXPECT_TRUE(contains(done.err, "warning: 't' has no gradient")) << done.err;
  EXPECT_TRUE(contains(folder.read("g.json"), R"("result":["w@GRAD",null])")) << folder.read("g.json");
  EXPECT_EQ(problemOf(folder, "g.json"), "") << "the target is held";
  for (const char *names : {"w", "w,t"}) {
    done = folder.run(std::string("grad p.json --of l --as graph -o whole.json --wrt ") + names);
    EXPECT_EQ(done.code, 0);
    EXPECT_EQ(done.err, "");
    if (StringRef(names) == "w") {
      EXPECT_EQ(problemOf(folder, "whole.json"), "") << "the target moves";
    }
  }
  // Constant targets lose nothing.
  EXPECT_EQ(folder.run("grad p.json --of l --wrt w --no-grad t -o g.json").err, "");
}

TEST(CliBlocks, A_19_TheProbabilitiesBesideALossCarryNoGradientInPaddle) {
  const ScratchFolder folder;
  const std::string vars = variable("w", "[2,3]", kParameter) + "," +
                           variable("x", "[2,3]", R"(,"stop_gradient":true)") + "," + variable("s", "[2,3]") + "," +
                           variable("e", "[2,1]") + "," + variable("l", "[]");
  const std::string entropy = R"({"type":"softmax_with_cross_entropy","in":{"Logits":["w"],"Label":["x"]},"out":)"
                              R"({"Softmax":["s"],"Loss":["e"]},"attrs":{"soft_label":["BOOLEAN",true]}},)";
  folder.write("p.json", programOf(vars, entropy + op("reduce_max", R"("X":["s"])", "l", kAll)));
  const ToolResult done = folder.run("grad p.json --of l -o g.json");
  EXPECT_EQ(done.code, 0);
  EXPECT_TRUE(contains(done.err, "the gradient of 's' in slot 'Softmax' is left out, because Paddle's "
                                 "softmax_with_cross_entropy_grad does not read it"))
      << done.err;
}

TEST(CliBlocks, P_04_AGradientThatIsAskedForAndAbsentIsTold) {
  const ScratchFolder folder;
  const std::string vars = variable("w", "[2]", kParameter) + "," + variable("x", "[2]", R"(,"stop_gradient":true)") +
                           "," + variable("y", "[2]") + "," + variable("l", "[]");
  folder.write("p.json", programOf(vars, op("reduce_sum", R"("X":["w"])", "l", kAll)));
  for (const char *form : {"blocks", "graph"}) {
    const ToolResult done = folder.run(std::string("grad p.json --of l --wrt w,x,y -o g.json --as ") + form);
    EXPECT_EQ(done.code, 0) << form;
    EXPECT_TRUE(contains(done.err, "warning: 'x' has no gradient: it is declared with stop_gradient")) << done.err;
    EXPECT_TRUE(contains(done.err, "warning: 'y' has no gradient: no target depends on it")) << done.err;
  }
  EXPECT_EQ(folder.run("grad p.json --of l --wrt w,y --as graph --unused none -o g.json").err, "");
  const ToolResult refused = folder.run("grad p.json --of l --wrt w,y --as graph --unused error -o g.json");
  EXPECT_EQ(refused.code, 1);
  EXPECT_TRUE(contains(refused.err, "'y' has no gradient, which '--unused error' forbids")) << refused.err;
}

TEST(CliBlocks, TheFlagOfATargetDoesNotStopItsGradient) {
  const ScratchFolder folder;
  const std::string flag = R"(,"stop_gradient":true)";
  folder.write("p.json", programOf(variable("w", "[2]", kParameter) + "," + variable("a", "[2]") + "," +
                                       variable("b", "[2]", flag),
                                   op("tanh", R"("X":["w"])", "a") + "," + op("exp", R"("X":["a"])", "b")));
  for (const char *targets : {"a,b", "b"}) {
    const ToolResult done = folder.run(std::string("grad p.json -o g.json --wrt w --of ") + targets);
    EXPECT_EQ(done.code, 0);
    EXPECT_EQ(done.err, "");
    const std::string text = folder.read("g.json");
    EXPECT_TRUE(contains(text, R"("type":"exp_grad")")) << text;
    EXPECT_TRUE(contains(text, R"("stop_gradient":true)")) << "the program keeps the flag\n" << text;
    EXPECT_EQ(problemOf(folder, "g.json"), "") << targets;
  }
}

/// Three times s = s + x², where the root does not mention x.
std::string readInLoop() {
  const std::string index = R"(,"stop_gradient":true)", step = R"("step":["FLOAT",1])";
  auto whole = [&](const std::string &name, const std::string &dtype) {
    return "\"" + name + R"(":{"kind":"LOD_TENSOR","dtype":")" + dtype + R"(","shape":[1])" + index + "}";
  };
  auto constant = [](const std::string &name, const std::string &value) {
    return op("fill_constant", "", name, R"("shape":["LONGS",[1]],"dtype":["INT",3],"value":["FLOAT",)" + value + "]");
  };
  const std::string compare = op("less_than", R"("X":["i"],"Y":["n"])", "c"),
                    loop = R"({"type":"while","in":{"Condition":["c"],"X":["s","x","i","n"]},"out":)"
                           R"({"Out":["s","i","c"],"StepScopes":["scopes"]},"attrs":{"sub_block":["BLOCK",1]}})";
  return R"({"program":{"blocks":[{"idx":0,"parent":-1,"forward":-1,"vars":{)" + variable("x", "[3]") + "," +
         variable("y", "[3]") + "," + variable("s", "[3]") + "," + variable("l", "[]") + "," + whole("i", "INT64") +
         "," + whole("n", "INT64") + "," + whole("c", "BOOL") + R"(,"scopes":{"kind":"STEP_SCOPES"}},"ops":[)" +
         op("assign", R"("X":["y"])", "s") + "," + constant("i", "0") + "," + constant("n", "3") + "," + compare + "," +
         loop + "," + op("reduce_sum", R"("X":["s"])", "l", kAll) + R"(]},{"idx":1,"parent":0,"forward":-1,"vars":{)" +
         variable("q", "[3]") + "," + variable("t", "[3]") + R"(},"ops":[)" + op("square", R"("X":["x"])", "q") + "," +
         op("elementwise_add", R"("X":["s"],"Y":["q"])", "t") + "," + op("assign", R"("X":["t"])", "s") + "," +
         op("increment", R"("X":["i"])", "i", step) + "," + compare + R"(]}],"parameters":[]}})";
}

TEST(CliBlocks, IR_12_WhatOnlyALoopReadsIsAVariable) {
  const ScratchFolder folder;
  folder.write("p.json", readInLoop());
  for (const char *form : {"blocks", "graph"}) {
    const ToolResult done = folder.run(std::string("grad p.json --of l --wrt x,y -o g.json --as ") + form);
    EXPECT_EQ(done.code, 0) << form;
    EXPECT_EQ(done.err, "") << form;
    const ToolResult checked = folder.run("gradcheck g.json --init 1");
    EXPECT_EQ(checked.code, 0) << checked.out << checked.err;
    EXPECT_TRUE(contains(checked.out, "\nx  ")) << checked.out;
  }
}

}  // namespace
}  // namespace gradc::testing
