// What the tool's process looks like from outside: how many threads it has, and how it ends without memory.
#include "tests/support/tool.h"

#include <gtest/gtest.h>

namespace gradc::testing {
namespace {

/// The most threads that a run of `command` has, among some hundred looks; the run is ended after them.
std::string mostThreads(const ScratchFolder &folder, const std::string &command) {
  return runShell(folder.path(), command + R"( >run.out 2>&1 &
    most=0
    for look in $(seq 150); do
      now=$(sed -n 's/^Threads:\t//p' /proc/$!/status 2>/dev/null)
      [ "${now:-0}" -gt $most ] && most=$now
      sleep 0.02
    done
    kill $! 2>/dev/null
    printf %s $most)")
      .out;
}

class Process : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string network = readText("testdata/demo/lenet.json");
    folder.write("lenet.json", network);
    ASSERT_EQ(folder.run("grad lenet.json --shape data=64,1,28,28 -o train.json").code, 0);
  }
  std::string threadsOf(const std::string &prefix, const std::string &flags = "") {
    return mostThreads(folder, prefix + " $GRADC run train.json --init 1 --repeat 1000000 " + flags);
  }
  ScratchFolder folder;
};

TEST_F(Process, ReadingStartsNoThread) {
  EXPECT_EQ(mostThreads(folder, "{ sleep 4; cat lenet.json; } | $GRADC show -"), "1");
}

TEST_F(Process, ThreadsAreThoseItMayUse) {
  const std::string one = "taskset -c $(taskset -pc $$ | sed 's/.*: //; s/[-,].*//')";
  EXPECT_EQ(threadsOf(one), "1");
  EXPECT_EQ(threadsOf("env GRADC_NUM_THREADS=3"), "3");
  EXPECT_EQ(threadsOf("env GRADC_NUM_THREADS=3", "--threads 2"), "2");
  EXPECT_EQ(threadsOf("env GRADC_NUM_THREADS=3", "--backend reference"), "1");
}

// A step of this network takes less than its checkpoint, so most of these runs are ended while one is written.
TEST_F(Process, ACheckpointIsWholeWheneverTheRunEnds) {
  folder.write("digits.json", readText("testdata/demo/digits.json"));
  folder.write("digits.npz", readText("testdata/digits/digits.npz"));
  const std::string train = "$GRADC train digits.json --data digits.npz --feed data=train_images "
                            "--feed softmax_label=train_labels --batch 4 ";
  for (const char *signal : {"INT", "TERM", "KILL"})
    for (const char *pause : {"0.10", "0.17", "0.23", "0.31"}) {
      const ToolResult ended =
          runShell(folder.path(), train +
                                      "--steps 1000000 --checkpoint c.npz --checkpoint-every 1 >out 2>&1 & "
                                      "until [ -s c.npz ]; do sleep 0.01; done; sleep " +
                                      pause + "; kill -" + signal + " $!; wait $!; ls | grep -c tmp");
      if (std::string(signal) != "KILL") {
        EXPECT_EQ(ended.out, "0\n") << signal << ": a temporary file is left";
      }
      // Read whole, and found to be further than this run is to go.
      const ToolResult resumed = runShell(folder.path(), train + "--steps 1 --resume c.npz");
      EXPECT_EQ(resumed.code, 2);
      EXPECT_NE(resumed.err.find("steps far already"), std::string::npos)
          << signal << " " << pause << ": " << resumed.err;
      runShell(folder.path(), "rm -f c.npz *tmp*");
    }
}

TEST_F(Process, AFullDiskLeavesTheOldFile) {
  folder.write("out.json", "before");
  // Files of the shell and what it starts may have two blocks.
  const ToolResult result = runShell(folder.path(), "ulimit -f 2; trap '' XFSZ; $GRADC convert train.json -o out.json; "
                                                    "code=$?; ls | grep -c tmp; exit $code");
  EXPECT_NE(result.code, 0);
  EXPECT_NE(result.err.find("cannot write"), std::string::npos) << result.err;
  EXPECT_EQ(result.out, "0\n");
  EXPECT_EQ(folder.read("out.json"), "before");
}

TEST_F(Process, WithoutMemoryItEndsWithAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs all addresses";
#endif
  folder.write("big.json",
               R"js({"nodes": [{"op": "null", "name": "x", "attrs": {"__shape__": "(30000, 30000)"}, "inputs": []},
    {"op": "square", "name": "y", "inputs": [[0, 0]]}], "arg_nodes": [0], "heads": [[1, 0]]})js");
  const ToolResult result = runShell(folder.path(), "ulimit -v 2000000; $GRADC run big.json --init 1");
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("no memory for the 3600000000 bytes of variable 'x'"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace gradc::testing
