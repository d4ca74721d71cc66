// `gradc train` as a user meets it: files, lines, exit codes. What is computed is in tests/runtime/trainer_test.cc.
#include "passes/optimizer/append_optimizer.h"
#include "tests/support/tool.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"

#include "gtest/gtest.h"

using namespace llvm;

namespace gradc::testing {
namespace {

class TrainCli : public ::testing::Test {
 protected:
  TrainCli() {
    for (StringRef file : {"testdata/demo/digits.json", "testdata/digits/digits.npz"})
      folder.write(file.substr(file.rfind('/') + 1), readText(file));
  }

  /// Four steps an epoch.
  ToolResult train(StringRef flags) {
    return folder.run(
        ("train digits.json --data digits.npz --feed data=train_images --feed softmax_label=train_labels "
         "--eval-feed data=test_images --eval-feed softmax_label=test_labels --batch 359 --momentum 0.9 " +
         flags)
            .str());
  }

  std::vector<json::Object> log(StringRef name) {
    const std::string text = folder.read(name);
    SmallVector<StringRef, 16> lines;
    StringRef(text).split(lines, '\n', -1, false);
    std::vector<json::Object> objects;
    for (StringRef line : lines) {
      Expected<json::Value> value = json::parse(line);
      if (value && value->getAsObject()) objects.push_back(*value->getAsObject());
      else ADD_FAILURE() << "no JSON object: " << line.str();
    }
    return objects;
  }

  ScratchFolder folder;
};

TEST_F(TrainCli, ALinePerEpochAndTheFilesAskedFor) {
  ToolResult result = train("--epochs 2 -o params.npz --svg loss.svg --log log.jsonl --emit-graph train.json");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "") << "no progress line without a terminal";
  SmallVector<StringRef, 4> lines;
  StringRef(result.out).split(lines, '\n', -1, false);
  ASSERT_EQ(lines.size(), 2u) << result.out;
  EXPECT_TRUE(lines[0].starts_with("epoch 1: loss ") && lines[0].contains("; held out: loss ")) << result.out;
  EXPECT_TRUE(folder.read("loss.svg").ends_with("</svg>\n"));
  EXPECT_EQ(folder.run("verify train.json").code, 0);
  ToolResult run = folder.run("run digits.json --inputs params.npz --shape data=2,1,8,8 --init 1");
  EXPECT_EQ(run.code, 0) << run.err << "trained parameters are values for `run`";

  std::vector<json::Object> rows = log("log.jsonl");
  ASSERT_EQ(rows.size(), 10u) << "four steps and one evaluation, twice";
  EXPECT_EQ(rows[0].getString("kind"), "step");
  EXPECT_EQ(rows[4].getString("kind"), "evaluation");
  EXPECT_EQ(rows[9].getInteger("step"), 8);
  for (StringRef key : {"loss", "accuracy", "rate", "seconds", "samples_per_second"})
    EXPECT_TRUE(rows[0].getNumber(key).has_value()) << key.str();
}

/// The numbers of "x,y x,y" between `from` and `to`.
std::vector<double> numbersBetween(StringRef text, StringRef from, StringRef to) {
  std::vector<double> numbers;
  SmallVector<StringRef, 32> parts;
  text.split(from).second.split(to).first.split(parts, ' ', -1, false);
  for (StringRef part : parts) {
    auto [x, y] = part.split(',');
    for (StringRef number : {x, y})
      if (double value; !number.getAsDouble(value)) numbers.push_back(value);
  }
  return numbers;
}

// A loss below 0 has a linear axis that reaches from the lowest to above the highest; its labels give the scale of the
// line.
TEST_F(TrainCli, AChartOfALossBelowZero) {
  folder.write("below.json", R"json({"nodes": [{"op": "null", "name": "data", "inputs": []},
      {"op": "null", "name": "w", "attrs": {"__shape__": "(1,)"}, "inputs": []},
      {"op": "mean", "name": "m", "attrs": {"axis": "(1,2,3)"}, "inputs": [[0, 0, 0]]},
      {"op": "broadcast_sub", "name": "d", "inputs": [[2, 0, 0], [1, 0, 0]]},
      {"op": "square", "name": "q", "inputs": [[3, 0, 0]]},
      {"op": "_minus_scalar", "name": "y", "attrs": {"scalar": "30"}, "inputs": [[4, 0, 0]]}],
      "arg_nodes": [0, 1], "heads": [[5, 0, 0]], "attrs": {"mxnet_version": ["int", 10901]}})json");
  const ToolResult result =
      folder.run("train below.json --data digits.npz --feed data=train_images --batch 359 --epochs 2 --lr 0.1 --init 1 "
                 "--svg loss.svg --log log.jsonl");
  ASSERT_EQ(result.code, 0) << result.err;
  const std::string svg = folder.read("loss.svg");
  EXPECT_TRUE(StringRef(svg).contains(">loss</text>"));
  // Labels of the values are 3.5 below their lines.
  std::vector<std::pair<double, double>> labels;  // value, y
  for (StringRef rest = svg; rest.contains("class=\"t3 end\"");) {
    rest = rest.split("class=\"t3 end\"").second;
    double value, y;
    ASSERT_FALSE(rest.split(" y=\"").second.split('"').first.getAsDouble(y));
    ASSERT_FALSE(rest.split('>').second.split('<').first.getAsDouble(value));
    labels.push_back({value, y - 3.5});
  }
  ASSERT_GE(labels.size(), 2u);
  const auto [low, lowY] = labels.front();
  const auto [high, highY] = labels.back();
  EXPECT_LT(high, 0);
  const std::vector<double> line = numbersBetween(svg, "class=\"e forward\" points=\"", "\"");
  const std::vector<json::Object> rows = log("log.jsonl");
  ASSERT_EQ(rows.size(), 8u);
  ASSERT_EQ(line.size(), 16u);
  for (size_t i = 0; i < rows.size(); ++i) {
    const double loss = *rows[i].getNumber("loss");
    EXPECT_LT(loss, 0);
    EXPECT_NEAR(line[2 * i + 1], lowY + (loss - low) / (high - low) * (highY - lowY), 0.05) << loss;
  }
  EXPECT_GT(line[1], 86) << "the highest is below the upper edge";
}

TEST_F(TrainCli, RUN_02_ResumedRunsEndWithTheSameBytes) {
  ASSERT_EQ(train("--init 4 --steps 3 --checkpoint run.npz --log run.jsonl").code, 0);
  ASSERT_EQ(train("--init 4 --steps 6 --checkpoint straight.npz").code, 0);
  ASSERT_EQ(train("--init 4 --steps 6 --checkpoint run.npz --resume run.npz --log run.jsonl").code, 0);
  EXPECT_EQ(folder.read("run.npz"), folder.read("straight.npz"));
  std::vector<json::Object> rows = log("run.jsonl");
  ASSERT_EQ(rows.size(), 9u) << "3 steps, 1 evaluation, 3 steps, 2 evaluations";
  EXPECT_EQ(rows.back().getInteger("step"), 6) << "a resumed run appends to its log";
  ToolResult done = train("--init 4 --steps 6 --resume run.npz");
  EXPECT_EQ(done.code, 2) << "nothing is left to do";
  EXPECT_NE(done.err.find("is at step 6, and this run ends at step 6: more --epochs or --steps continue it"),
            std::string::npos)
      << done.err;
}

TEST_F(TrainCli, ADivergedRunStopsAndWritesNothing) {
  ToolResult result = train("--lr 1e30 --steps 20 -o params.npz --checkpoint run.npz");
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("the loss is not finite at step"), std::string::npos) << result.err;
  EXPECT_FALSE(folder.has("params.npz"));
}

TEST_F(TrainCli, E_71_ACheckpointOfAnotherNetworkIsNamed) {
  ASSERT_EQ(train("--steps 1 --checkpoint run.npz").code, 0);
  ToolResult result = train("--steps 4 --resume run.npz --optimizer adam");
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("checkpoint 'run.npz' is of another network or optimizer"), std::string::npos)
      << result.err;
}

TEST_F(TrainCli, ParametersAreNoCheckpoint) {
  ASSERT_EQ(train("--steps 1 -o params.npz").code, 0);
  ToolResult result = train("--steps 4 --resume params.npz");
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(StringRef(result.err).contains("a file of parameters only provides initial values: --inputs\n"))
      << result.err;
}

TEST_F(TrainCli, EveryOptimizerUnderASchedule) {
  for (size_t kind = 0; kind < kNumOptimizers; ++kind) {
    const std::string name = optimizerInfo(static_cast<OptimizerKind>(kind)).name.str();
    ToolResult result =
        train("--optimizer " + name + " --steps 2 --schedule cosine --warmup 1 --emit-graph train.json");
    EXPECT_EQ(result.code, 0) << name << ": " << result.err;
    EXPECT_EQ(folder.run("verify train.json").code, 0) << name;
  }
}

TEST_F(TrainCli, AttributesOfTheOptimizer) {
  ToolResult result = train("--optimizer rmsprop --optimizer-attr gamma1=0.5 --steps 1 --emit-graph train.json");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(folder.read("train.json").find("\"gamma1\": \"0.5\""), std::string::npos);
  result = train("--optimizer rmsprop --optimizer-attr gamma3=0.5 --steps 1");
  EXPECT_NE(result.code, 0);
  EXPECT_NE(result.err.find("optimizer 'rmsprop' has no attribute 'gamma3', expected gamma1, epsilon or clip_weights"),
            std::string::npos)
      << result.err;
}

TEST_F(TrainCli, A_14_MxnetTakesFixedRatesAlone) {
  ToolResult fixed = train("--optimizer nag --steps 1 --dialect mxnet --emit-graph train.json");
  EXPECT_EQ(fixed.code, 0) << fixed.err;
  EXPECT_NE(folder.read("train.json").find("\"op\": \"nag_mom_update\""), std::string::npos);
  for (StringRef name : {"adam", "adamw", "ftml", "lamb"}) {
    ToolResult result = train(("--optimizer " + name + " --steps 1 --dialect mxnet --emit-graph train.json").str());
    EXPECT_EQ(result.code, 1) << name.str();
    EXPECT_NE(result.err.find("needs a constant learning rate"), std::string::npos) << result.err;
  }
}

// Known before the first step, not after the last.
TEST_F(TrainCli, ResultsThatCannotBeWrittenCostNoTraining) {
  for (StringRef flags : {"-o no/params.npz --svg loss.svg", "-o params.npz --svg no/loss.svg"}) {
    const ToolResult result = train(("--steps 1 --log log.jsonl " + flags).str());
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_FALSE(folder.has("log.jsonl") || folder.has("params.npz") || folder.has("loss.svg")) << flags.str();
  }
  const ToolResult result = train("--steps 1 --log /dev/full -o params.npz");
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_TRUE(folder.has("params.npz")) << "a full disk under the log does not cost the parameters";
}

TEST_F(TrainCli, NamesOfFrozenVariablesMayContainCommas) {
  folder.write("comma.json", R"({"nodes": [{"op": "null", "name": "data", "inputs": []},
{"op": "null", "name": "a,b", "inputs": []}, {"op": "null", "name": "c", "inputs": []},
{"op": "broadcast_mul", "name": "m", "inputs": [[0, 0, 0], [1, 0, 0]]},
{"op": "broadcast_add", "name": "y", "inputs": [[3, 0, 0], [2, 0, 0]]}], "arg_nodes": [0, 1, 2], "heads": [[4, 0, )"
                             R"(0]]})");
  const std::string command = "train comma.json --data digits.npz --feed data=train_labels --shape a,b=1 --shape c=1 "
                              "--steps 1 --emit-graph train.json --freeze ";
  const ToolResult result = folder.run(command + "a,b");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(folder.read("train.json").find("\"a,b_"), std::string::npos) << "no step for it";
  EXPECT_EQ(folder.run(command + "a,c").code, 1) << "a list";
}

TEST_F(TrainCli, UsageErrors) {
  for (StringRef flags : {"--epochs 1 --steps 1", "--eval-feed other=test_images", "--momentum 1", "--batch 0"}) {
    ToolResult result = train(flags);
    EXPECT_EQ(result.code, 2) << flags.str() << "\n" << result.err;
    EXPECT_NE(result.err.find("[usage]"), std::string::npos) << result.err;
  }
  EXPECT_EQ(folder.run("train digits.json").code, 2);
  EXPECT_EQ(train("--steps 1 -o one.npz --checkpoint one.npz").code, 2);
}

// What is minimized without a loss is nothing that a user would expect.
TEST_F(TrainCli, ANetworkWithoutALossIsWarnedOf) {
  folder.write("plain.json", R"({"nodes": [{"op": "null", "name": "data", "inputs": []},
{"op": "null", "name": "w", "inputs": []}, {"op": "null", "name": "b", "inputs": []},
{"op": "FullyConnected", "name": "fc", "attrs": {"num_hidden": "3"}, "inputs": [[0, 0, 0], [1, 0, 0], [2, 0, 0]]}],
"arg_nodes": [0, 1, 2], "heads": [[3, 0, 0]]})");
  const ToolResult result =
      folder.run("train plain.json --data digits.npz --feed data=train_images --batch 32 --steps 1");
  EXPECT_EQ(result.code, 0) << result.err;
  for (StringRef part : {"warning: the network has no loss; what is minimized is the sum of all elements of 1 head: "
                         "'fc_output' (32,3)",
                         "note: give the network a loss as its head"})
    EXPECT_TRUE(StringRef(result.err).contains(part)) << result.err;
  EXPECT_EQ(train("--steps 1").err, "");
}

TEST_F(TrainCli, LinesThatCannotBeWrittenCostNoParameters) {
  const std::string train = "\"$GRADC\" train digits.json --data digits.npz --feed data=train_images "
                            "--feed softmax_label=train_labels --batch 359 --steps 1 ";
  for (StringRef out : {">/dev/full", ">&-"}) {
    const ToolResult result = runShell(folder.path(), (train + "-o params.npz --log log.jsonl " + out).str());
    EXPECT_EQ(result.code, 2) << out.str() << result.err;
    EXPECT_TRUE(StringRef(result.err).contains("cannot write '<stdout>'")) << result.err;
    EXPECT_TRUE(StringRef(result.err).contains("[io]")) << result.err;
    EXPECT_EQ(folder.run("run digits.json --inputs params.npz --shape data=2,1,8,8 --init 1").code, 0)
        << "the parameters are whole";
    EXPECT_EQ(log("log.jsonl").size(), 1u);
    runShell(folder.path(), "rm params.npz log.jsonl");
  }
}

// Each of them would destroy what it names.
TEST_F(TrainCli, WhatIsReadIsNotWritten) {
  runShell(folder.path(), "ln -s digits.npz link; ln digits.npz hard; ln -s nothing one; ln -s one two; mkdir in; "
                          "ln -s ../digits.npz in/link; ln -s a b; ln -s b a; cp digits.npz other.npz");
  const std::string data = folder.read("digits.npz"), graph = folder.read("digits.json");
  const std::string train = "train digits.json --data digits.npz --feed data=train_images --feed "
                            "softmax_label=train_labels --batch 359 --steps 1 --eval other.npz --eval-feed "
                            "data=test_images --eval-feed softmax_label=test_labels ";
  const std::string other = folder.read("other.npz");
  for (StringRef file : {"digits.npz", "./digits.npz", "link", "hard", "in/link", "digits.json", "other.npz"})
    for (StringRef flag : {"--log", "-o", "--svg", "--checkpoint", "--emit-graph"}) {
      const ToolResult result = folder.run((train + flag + " " + file).str());
      EXPECT_EQ(result.code, 2) << flag.str() << ' ' << file.str();
      EXPECT_TRUE(StringRef(result.err).contains(("would overwrite '" + file + "', which ").str())) << result.err;
    }
  for (StringRef flags : {"-o new --log ./new", "-o one --checkpoint two", "--log two --svg nothing"}) {
    const ToolResult result = folder.run((train + flags).str());
    EXPECT_EQ(result.code, 2) << flags.str();
    EXPECT_TRUE(StringRef(result.err).contains(" both name '")) << result.err;
  }
  const ToolResult circle = folder.run(train + "-o a");
  EXPECT_EQ(circle.code, 2);
  EXPECT_TRUE(StringRef(circle.err).contains("cannot write 'a': Too many levels of symbolic links [io]")) << circle.err;
  EXPECT_EQ(folder.read("digits.npz"), data);
  EXPECT_EQ(folder.read("digits.json"), graph);
  EXPECT_EQ(folder.read("other.npz"), other);
  EXPECT_FALSE(folder.has("nothing") || folder.has("new"));
  // A dangling link is followed as any other, and stays.
  EXPECT_EQ(folder.run(train + "-o two").code, 0);
  EXPECT_TRUE(folder.has("nothing"));
  EXPECT_EQ(runShell(folder.path(), "readlink two; readlink one; ls | grep -c tmp").out, "one\nnothing\n0\n");
  EXPECT_EQ(folder.run(train + "--checkpoint run.npz").code, 0);
  EXPECT_EQ(folder.run(train + "--checkpoint run.npz --resume ./run.npz --log log.jsonl").code, 2) << "nothing is left";
}

// An empty text is not a number, and all flags accept the same numbers.
TEST_F(TrainCli, NumbersAreSpelledInOneWay) {
  const StringRef floats[] = {"lr",       "momentum", "wd",    "clip",  "drop-factor",
                              "final-lr", "rescale",  "beta1", "beta2", "epsilon"};
  const StringRef counts[] = {"steps",      "epochs", "batch",   "warmup",           "drop-every",
                              "shuffle",    "init",   "threads", "checkpoint-every", "max-iterations",
                              "error-limit"};
  for (const StringRef value : {"", " 1", "1 ", "+1", "-1", "0x1", "1_0", "one", "inf", "nan", "1e"}) {
    auto expectRefused = [&](StringRef flag) {
      const ToolResult result = train(("--" + flag + "='" + value + "' --steps 1").str());
      EXPECT_EQ(result.code, 2) << flag.str() << "='" << value.str() << "'";
      EXPECT_TRUE(StringRef(result.err).contains(("flag '--" + flag + "' takes ").str())) << result.err;
    };
    for (StringRef flag : floats) expectRefused(flag);
    for (StringRef flag : counts) expectRefused(flag);
  }
  for (const StringRef value : {"0.5", ".5", "5e-1", "5E-1", "00.5"})
    EXPECT_EQ(train(("--lr=" + value + " --steps 1").str()).code, 0) << value.str();
}

}  // namespace
}  // namespace gradc::testing
