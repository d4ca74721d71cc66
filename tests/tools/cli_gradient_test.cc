// Whole gradient requests through the command line: intermediates, no-gradient sets and mixed requests at once on the
// networks of testdata/demo, orders, and which operators cannot be differentiated so often.
#include "tests/support/tool.h"

#include "runtime/arrays/elements.h"
#include "runtime/arrays/npy.h"
#include "runtime/arrays/npz_reader.h"
#include "runtime/arrays/npz_writer.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace llvm;

namespace gradc::testing {
namespace {

constexpr StringRef kRetained = "conv1,relu1,pool1,conv2,relu2,pool2,flatten,fc1,relu3,fc2";

class CliGradient : public ::testing::Test {
 protected:
  CliGradient() { folder.write("lenet.json", readText("testdata/demo/lenet.json")); }

  void expectRun(StringRef arguments) {
    ToolResult result = folder.run(arguments);
    EXPECT_EQ(result.code, 0) << arguments.str() << "\n" << result.out << result.err;
  }
  StringMap<std::vector<double>> outputs(StringRef file) {
    StringMap<std::vector<double>> values;
    for (NamedArray &named : cantFail(parseNpz(folder.read(file), file)))
      for (int64_t i = 0; i < named.array.ref().size(); ++i)
        values[named.name].push_back(readElement(named.array.ref(), i));
    return values;
  }

  ScratchFolder folder;
};

TEST_F(CliGradient, NL_01_NG_04_REQ_08_IntermediatesCutsAndRequestsTogether) {
  const std::string all = ("grad lenet.json --retain " + kRetained).str();
  expectRun(all + " -o all.json");
  expectRun(all +
            " --no-grad fc2_bias,conv1_bias --unused none --req conv2_weight=add --req fc1_weight=null --req pool1=add "
            "--req fc2=null -o mixed.json");
  for (StringRef file : {"all.json", "mixed.json"})
    expectRun(("gradcheck " + file + " --shape data=2,1,28,28 --init 3").str());
  for (StringRef name : {"all", "mixed"})
    expectRun(("run " + name +
               ".json --train --shape data=2,1,28,28 --init 3 --dtype float64 --backend reference --outputs " + name +
               ".npz")
                  .str());
  StringMap<std::vector<double>> whole = outputs("all.npz"), mixed = outputs("mixed.npz");
  // Ten intermediates; what is requested besides, cut or left out changes no other value.
  size_t numRetained = 0;
  for (const auto &entry : mixed) {
    ASSERT_TRUE(whole.contains(entry.first())) << entry.first().str();
    EXPECT_EQ(entry.second, whole[entry.first()]) << entry.first().str();
    numRetained += entry.first().ends_with("_output_grad");
  }
  EXPECT_EQ(numRetained, 9u);
  for (StringRef gone : {"fc2_bias_grad", "conv1_bias_grad", "fc1_weight_grad", "fc2_output_grad"}) {
    EXPECT_TRUE(whole.contains(gone)) << gone.str();
    EXPECT_FALSE(mixed.contains(gone)) << gone.str();
  }
}

TEST_F(CliGradient, REQ_04_AddAccumulatesOverRuns) {
  expectRun("grad lenet.json --wrt fc1_weight,fc1_bias --req fc1_weight=add --retain relu3 --req relu3=add -o g.json");
  const std::string run = "run g.json --train --shape data=2,1,28,28 --init 3 --dtype float64 --backend reference";
  expectRun(run + " --outputs once.npz");
  // What was written is the start of the next run.
  std::vector<NamedArray> start = cantFail(parseNpz(folder.read("once.npz"), "once.npz"));
  llvm::erase_if(start, [](const NamedArray &named) {
    return named.name != "fc1_weight_grad" && named.name != "relu3_output_grad";
  });
  std::string bytes;
  raw_string_ostream os(bytes);
  cantFail(writeNpz(os, start));
  folder.write("start.npz", bytes);
  expectRun(run + " --inputs start.npz --outputs twice.npz");
  StringMap<std::vector<double>> once = outputs("once.npz"), twice = outputs("twice.npz");
  for (StringRef key : {"fc1_weight_grad", "relu3_output_grad"}) {
    ASSERT_FALSE(once[key].empty()) << key.str();
    double largest = 0;
    for (size_t i = 0; i < once[key].size(); ++i) {
      EXPECT_EQ(twice[key][i], 2 * once[key][i]) << key.str() << " " << i;
      largest = std::max(largest, std::abs(once[key][i]));
    }
    EXPECT_GT(largest, 0) << key.str();
  }
  EXPECT_EQ(twice["fc1_bias_grad"], once["fc1_bias_grad"]);
}

TEST_F(CliGradient, HO_02_ASK_01_OperatorsThatCannotBeDifferentiatedThreeTimes) {
  for (StringRef order : {"1", "2", "3"}) {
    ToolResult result = folder.run(("ops --missing-order " + order).str());
    EXPECT_EQ(result.code, 0) << result.err;
    // Allowed reasons: the gradient of a plain loss is a constant, nothing is differentiated through parameter updates,
    // and operators unrolled along an axis need its size, which a node without shapes does not have.
    SmallVector<StringRef, 0> lines;
    StringRef(result.out).split(lines, '\n', -1, false);
    for (StringRef line : lines)
      EXPECT_TRUE(line.starts_with("operator ") || line.contains("(a constant)") ||
                  line.split(' ').first.contains("_update") || line.contains("needs the size of axis") ||
                  line.contains("it runs graphs"))
          << line.str();
    EXPECT_NE(result.out.find("\nsgd_update "), std::string::npos);
  }
}

TEST_F(CliGradient, HO_01_OrderTwoOfANetwork) {
  folder.write("mlp.json", R"({"nodes": [
{"op": "null", "name": "data", "inputs": []}, {"op": "null", "name": "w", "inputs": []}, {"op": "null", "name": )"
                           R"("b", "inputs": []},
{"op": "FullyConnected", "name": "fc", "attrs": {"num_hidden": "3"}, "inputs": [[0, 0, 0], [1, 0, 0], [2, 0, 0]]},
{"op": "Activation", "name": "act", "attrs": {"act_type": "tanh"}, "inputs": [[3, 0, 0]]},
{"op": "null", "name": "label", "inputs": []},
{"op": "SoftmaxOutput", "name": "out", "inputs": [[4, 0, 0], [5, 0, 0]]}],
"arg_nodes": [0, 1, 2, 5], "heads": [[6, 0, 0]]})");
  expectRun("grad mlp.json --wrt w,b --order 2 --retain act -o g.json");
  expectRun("gradcheck g.json --shape data=4,5 --init 2");
  expectRun("gradcheck mlp.json --wrt w,b --order 2 --shape data=4,5 --init 2");
}

// The gradient of order 1 of what is in a body, and those of order 2 of the loop around it.
TEST_F(CliGradient, NL_01_OrderTwoWithARetainedEntryInABody) {
  folder.write("cf12.json", readText("testdata/loops/cf12.json"));
  for (int order : {1, 2}) {
    const std::string file = "g" + std::to_string(order);
    expectRun("grad cf12.json --order " + std::to_string(order) + " --retain _foreach0/0/tanh0 -o " + file + ".json");
    expectRun("gradcheck " + file + ".json --shape x=2,1 --init 2");
    expectRun("run " + file + ".json --shape x=2,1 --init 2 --dtype float64 --outputs " + file + ".npz");
  }
  const std::string key = "_foreach0/0/tanh0_grad";
  StringMap<std::vector<double>> first = outputs("g1.npz"), second = outputs("g2.npz");
  ASSERT_EQ(first.count(key), 1u);
  EXPECT_EQ(first[key], second[key]);
  EXPECT_EQ(first[key].size(), 2u);
}

// In the operators of a host it cannot be told which of them is which, so shapes are carried over only if they are
// equal.
TEST_F(CliGradient, CLI_04_VariablesThatShareAName) {
  folder.write("same.json", R"({"nodes": [{"op": "null", "name": "x", "inputs": []},
    {"op": "null", "name": "x", "inputs": []}, {"op": "exp", "name": "a", "inputs": [[0, 0, 0]]},
    {"op": "sin", "name": "b", "inputs": [[1, 0, 0]]}], "arg_nodes": [0, 1], "heads": [[2, 0, 0], [3, 0, 0]]})");
  for (StringRef dialect : {"mxnet", "primitives"}) {
    expectRun(("grad same.json --shape '#0=4' --shape 'x#2=4' -o equal.json --dialect " + dialect).str());
    expectRun("infer equal.json -o -");
    expectRun(("grad same.json --shape '#0=2,3' --shape 'x#2=4' -o other.json --dialect " + dialect).str());
    const ToolResult result = folder.run("infer other.json");
    EXPECT_EQ(result.code, 1) << result.out;
    EXPECT_TRUE(StringRef(result.err).contains("shape of variable 'x' is known only as ?")) << result.err;
    expectRun("infer other.json --shape '#0=2,3' --shape 'x#2=4' -o -");
  }
}

// The advice names the outputs that gradients arrive at, as --stop takes them.
TEST_F(CliGradient, E_32_OutputsOfAnUnknownOperatorAreStoppedOneByOne) {
  folder.write("unknown.json", R"({"nodes": [{"op": "null", "name": "x", "inputs": []},
{"op": "my_targets", "name": "t", "inputs": [[0, 0, 0]]}, {"op": "exp", "name": "p", "inputs": [[0, 0, 0]]},
{"op": "elemwise_mul", "name": "a", "inputs": [[2, 0, 0], [1, 0, 0]]},
{"op": "elemwise_sub", "name": "y", "inputs": [[3, 0, 0], [1, 1, 0]]}], "arg_nodes": [0], "heads": [[4, 0, 0]]})");
  const std::string grad = "grad unknown.json --wrt x -o out.json";
  std::string flags;
  for (StringRef advice : {"t,t:1", "t:1"}) {
    const ToolResult result = folder.run(grad + flags);
    EXPECT_EQ(result.code, 1);
    EXPECT_NE(result.err.find(("stop the gradient there with --stop " + advice + ", or").str()), std::string::npos)
        << result.err;
    flags = " --stop t";
  }
  EXPECT_EQ(folder.run(grad + " --stop t,t:1").code, 0);
}

}  // namespace
}  // namespace gradc::testing
