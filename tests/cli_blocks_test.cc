// Programs of blocks on the command line: messages about the graph name the program's operators; calls on a program that has
// its gradient already; what a call may ask for.
#include "tests/support/tool.h"

#include "llvm/ADT/StringRef.h"

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

}  // namespace
}  // namespace gradc::testing
