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
    printf %s $most)").out;
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

TEST_F(Process, WithoutMemoryItEndsWithAnError) {
  folder.write("big.json", R"js({"nodes": [{"op": "null", "name": "x", "attrs": {"__shape__": "(30000, 30000)"}, "inputs": []},
    {"op": "square", "name": "y", "inputs": [[0, 0]]}], "arg_nodes": [0], "heads": [[1, 0]]})js");
  const ToolResult result = runShell(folder.path(), "ulimit -v 2000000; $GRADC run big.json --init 1");
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("no memory for the 3600000000 bytes of variable 'x'"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace gradc::testing
