// What the tool's process looks like from outside: how many threads it has, and how it ends without memory.
#include "tests/support/sanitizers.h"
#include "tests/support/tool.h"

#include <gtest/gtest.h>

#include <sstream>

namespace gradc::testing {
namespace {

/// A shell without a terminal has what it starts with `&` ignore SIGINT.
const std::string kInterruptible = "env --default-signal=INT ";

/// A chain of so many nodes, 2 MB of text.
std::string chain() {
  constexpr int kNodes = 30000;
  std::string text = R"({"nodes": [{"op": "null", "name": "x", "inputs": []})";
  for (int i = 0; i < kNodes; ++i)
    text += ",\n{\"op\": \"tanh\", \"name\": \"t" + std::to_string(i) + "\", \"inputs\": [[" + std::to_string(i) +
            ", 0, 0]]}";
  return text + "], \"arg_nodes\": [0], \"heads\": [[" + std::to_string(kNodes) + ", 0, 0]]}";
}

/// Runs `look` in a shell in which $! is a run of `command` that has written the first byte of its arrays, and waits
/// for a reader of the others: no thread of it has ended, and none is still to be started. Gives what the shell prints.
std::string whileItWrites(const ScratchFolder &folder, const std::string &command, const std::string &look) {
  return runShell(folder.path(), "rm -f pipe; mkfifo pipe; exec 3<>pipe; " + command +
                                     " --outputs pipe >run.out 2>&1 3<&- & timeout 100 head -c 1 <&3 >/dev/null; " +
                                     look)
      .out;
}

const std::string kCountThreads = "sed -n 's/^Threads:\t//p' /proc/$!/status; kill -KILL $!";

class Process : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string network = readText("testdata/demo/lenet.json");
    folder.write("lenet.json", network);
    ASSERT_EQ(folder.run("grad lenet.json --shape data=64,1,28,28 -o train.json").code, 0);
  }
  std::string threadsOf(const std::string &prefix, const std::string &flags = "") {
    return whileItWrites(folder, prefix + " $GRADC run train.json --init 1 " + flags, kCountThreads);
  }
  ScratchFolder folder;
};

TEST_F(Process, ReadingStartsNoThread) {
  folder.write("chain.json", chain());
  // More than a pipe holds, so the tool has read some of it by then; it waits for the rest.
  const ToolResult result = runShell(folder.path(), "mkfifo pipe; $GRADC show - <pipe >run.out 2>&1 & exec 3>pipe; "
                                                    "head -c 1000000 chain.json >&3; " +
                                                        kCountThreads);
  EXPECT_EQ(result.out, "1\n");
}

TEST_F(Process, ThreadsThatCannotBeStartedAreAnError) {
#ifdef GRADC_HEAP_OF_SANITIZER
  GTEST_SKIP() << "a sanitizer reserves more memory than the limit";
#endif
  folder.write("digits.npz", readText("testdata/digits/digits.npz"));
  folder.write("digits.json", readText("testdata/demo/digits.json"));
  // The stacks of 300 threads do not fit, whoever the user is.
  for (const char *command :
       {"run train.json --init 1 --outputs out.npz", "gradcheck lenet.json --shape data=64,1,28,28 --init 1",
        "train digits.json --data digits.npz --feed data=train_images --feed softmax_label=train_labels -o out.npz"}) {
    SCOPED_TRACE(command);
    const ToolResult run =
        runShell(folder.path(), std::string("ulimit -v 1500000; $GRADC ") + command + " --threads 300");
    EXPECT_EQ(run.code, 1) << run.err;
    EXPECT_NE(run.err.find("error: no thread to run the graph [too_large]"), std::string::npos) << run.err;
    EXPECT_EQ(llvm::StringRef(run.err).count("error:"), 1u) << run.err;
    EXPECT_EQ(runShell(folder.path(), "ls | grep out").out, "");
  }
}

TEST_F(Process, ThreadsAreThoseItMayUse) {
  const std::string one = "taskset -c $(taskset -pc $$ | sed 's/.*: //; s/[-,].*//')";
  EXPECT_EQ(threadsOf(one), "1\n");
  EXPECT_EQ(threadsOf("env GRADC_NUM_THREADS=3"), "3\n");
  EXPECT_EQ(threadsOf("env GRADC_NUM_THREADS=3", "--threads 2"), "2\n");
  EXPECT_EQ(threadsOf("env GRADC_NUM_THREADS=3", "--backend reference"), "1\n");
}

TEST_F(Process, AnEnvironmentThatIsNoCountIsAnError) {
  for (const char *text : {"garbage", "0", "-1", "1e3", "100000"}) {
    const ToolResult run = runShell(folder.path(), std::string("GRADC_NUM_THREADS=") + text +
                                                       " $GRADC run train.json --init 1 --outputs out.npz");
    EXPECT_EQ(run.code, 2) << run.err;
    EXPECT_EQ(run.err, std::string("train.json: error: the environment variable GRADC_NUM_THREADS is '") + text +
                           "', expected a number of threads from 1 to 1024 [usage]\n");
    EXPECT_EQ(run.out, "");
    // With a number of its own it does not look.
    EXPECT_EQ(runShell(folder.path(), std::string("GRADC_NUM_THREADS=") + text +
                                          " $GRADC run train.json --init 1 --threads 1 --outputs o.npz")
                  .code,
              0);
  }
  EXPECT_EQ(runShell(folder.path(), "ls | grep out").out, "");
}

/// Shell code that ends $! with `signal` as soon as it writes the file that will be `name`, or waits for its end.
std::string killWhileItWrites(const std::string &name, const std::string &signal) {
  return "while kill -0 $! 2>/dev/null; do set -- " + name + ".tmp-*; [ -e \"$1\" ] && break; done; kill -" + signal +
         " $! 2>/dev/null; wait $!; ";
}

TEST_F(Process, ACheckpointIsWholeWheneverTheRunEnds) {
  folder.write("digits.json", readText("testdata/demo/digits.json"));
  folder.write("digits.npz", readText("testdata/digits/digits.npz"));
  const std::string train = kInterruptible + "$GRADC train digits.json --data digits.npz --feed data=train_images "
                                             "--feed softmax_label=train_labels --batch 4 ";
  for (const std::string signal : {"INT", "TERM", "KILL"})
    for (const std::string round : {"first", "second", "third"}) {
      // The first checkpoint is there; the run is ended in one of the next.
      const ToolResult ended =
          runShell(folder.path(), train +
                                      "--steps 1000000 --checkpoint c.npz --checkpoint-every 1 >out 2>&1 & "
                                      "while kill -0 $! 2>/dev/null; do [ -s c.npz ] && break; done; " +
                                      killWhileItWrites("c.npz", signal) + "ls | grep -c tmp");
      if (signal != "KILL") {
        EXPECT_EQ(ended.out, "0\n") << signal << ": a temporary file is left";
      }
      // The checkpoint is read as a whole, and its step is beyond the end of this run.
      const ToolResult resumed = runShell(folder.path(), train + "--steps 1 --resume c.npz");
      EXPECT_EQ(resumed.code, 2);
      EXPECT_NE(resumed.err.find("c.npz' is at step"), std::string::npos)
          << signal << ", " << round << " round: " << resumed.err;
      runShell(folder.path(), "rm -f c.npz *tmp*");
    }
}

TEST_F(Process, AFileIsTheOldOrTheNewOneWheneverTheCommandEnds) {
  folder.write("chain.json", chain());
  ASSERT_EQ(folder.run("convert chain.json -o whole.json").code, 0);
  const std::string whole = folder.read("whole.json");
  // While it reads, when all is read but the end of the file, and while it writes.
  const std::string rest = "tail -c +1000001 chain.json >&3; ";
  for (const std::string signal : {"INT", "TERM", "QUIT", "KILL"})
    for (const std::string &kill : {"kill -" + signal + " $!; wait $!; ", rest + "kill -" + signal + " $!; wait $!; ",
                                    rest + "exec 3>&-; " + killWhileItWrites("out.json", signal)}) {
      folder.write("out.json", "before");
      const ToolResult ended = runShell(
          folder.path(), "rm -f pipe; mkfifo pipe; env --default-signal=INT,QUIT $GRADC convert - -o out.json <pipe & "
                         "exec 3>pipe; head -c 1000000 chain.json >&3; " +
                             kill + "code=$?; ls | grep -c tmp; exit $code");
      const bool mayEnd = kill.find("while") != std::string::npos;  // before the signal comes
      EXPECT_TRUE(ended.code != 0 || mayEnd) << kill;
      const std::string left = folder.read("out.json");
      EXPECT_TRUE(left == "before" || (mayEnd && left == whole)) << kill;
      if (signal != "KILL") {
        EXPECT_EQ(ended.out, "0\n") << kill << ": a temporary file is left";
      }
      runShell(folder.path(), "rm -f *tmp*");
    }
}

struct Written {
  std::string command;    // its last word is the file
  bool isStream = false;  // grows line by line
};

class WrittenFiles : public Process, public ::testing::WithParamInterface<Written> {
 protected:
  void SetUp() override {
    Process::SetUp();
    folder.write("digits.json", readText("testdata/demo/digits.json"));
    folder.write("digits.npz", readText("testdata/digits/digits.npz"));
  }
};

TEST_P(WrittenFiles, AFullDiskIsAnErrorAndLeavesTheOldFile) {
  const Written &written = GetParam();
  folder.write("out", "before");
  // Files may have one block of 512 bytes; the pages of errors are pipes.
  const ToolResult result = runShell(folder.path(), "ulimit -f 1; " + written.command +
                                                        " out >/dev/null; code=$?; ls | grep -c tmp | cat; exit $code");
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_NE(result.err.find("cannot write 'out': File too large [io]"), std::string::npos) << result.err;
  EXPECT_EQ(result.out, "0\n");
  if (!written.isStream) {
    EXPECT_EQ(folder.read("out"), "before");
  }
  const ToolResult full = runShell(folder.path(), written.command + " /dev/full >/dev/null");
  EXPECT_EQ(full.code, 2) << full.err;
  EXPECT_NE(full.err.find("cannot write '/dev/full': No space left on device [io]"), std::string::npos) << full.err;
}

constexpr char kTrain[] = "$GRADC train digits.json --data digits.npz --feed data=train_images "
                          "--feed softmax_label=train_labels --batch 64 --steps 8";
INSTANTIATE_TEST_SUITE_P(
    Flags, WrittenFiles,
    ::testing::Values(Written{"$GRADC convert train.json -o"}, Written{"$GRADC run train.json --init 1 --outputs"},
                      Written{"$GRADC run train.json --init 1 --profile"}, Written{"$GRADC plan train.json --svg"},
                      Written{"$GRADC show train.json --as svg -o"}, Written{std::string(kTrain) + " -o"},
                      Written{std::string(kTrain) + " --checkpoint"}, Written{std::string(kTrain) + " --svg"},
                      Written{std::string(kTrain) + " --emit-graph"}, Written{std::string(kTrain) + " --log", true}));

TEST_F(Process, FilesOfOneCommandAppearTogether) {
  folder.write("small.json",
               R"js({"nodes": [{"op": "null", "name": "x", "attrs": {"__shape__": "(2,)"}, "inputs": []},
    {"op": "exp", "name": "a", "inputs": [[0, 0, 0]]}, {"op": "exp", "name": "b", "inputs": [[1, 0, 0]]},
    {"op": "exp", "name": "c", "inputs": [[2, 0, 0]]}], "arg_nodes": [0], "heads": [[3, 0, 0]]})js");
  const std::string run = "$GRADC run small.json --init 1 --outputs o.npz --profile p.json";
  ASSERT_EQ(runShell(folder.path(), run).code, 0);
  ASSERT_LT(folder.read("o.npz").size(), 512u);
  ASSERT_GT(folder.read("p.json").size(), 512u);
  const ToolResult result = runShell(folder.path(), "rm o.npz p.json; ulimit -f 1; " + run + " >/dev/null");
  EXPECT_EQ(result.code, 2);
  EXPECT_FALSE(folder.has("o.npz")) << "the file that fits is there without the other";
  EXPECT_FALSE(folder.has("p.json"));
  // Nobody reads the table.
  const ToolResult piped = runShell(folder.path(), "mkfifo pipe; true <pipe & exec 3>pipe; wait $!; " + run +
                                                       " >&3; ls | grep -c -e tmp -e npz");
  EXPECT_EQ(piped.out, "0\n");
}

TEST_F(Process, UnderNohupItGoesOn) {
  EXPECT_EQ(whileItWrites(folder, "trap '' HUP; $GRADC run train.json --init 1",
                          "run=$!; kill -HUP $run; cat <&3 >rest & wait $run; echo code $?; kill -KILL $!"),
            "code 0\n");
}

// From the least that the program can be loaded in to what it needs.
TEST_F(Process, WithTooLittleMemoryEveryLimitIsAnError) {
#ifdef GRADC_HEAP_OF_SANITIZER
  GTEST_SKIP() << "a sanitizer needs all addresses";
#endif
  folder.write("chain.json", chain());
  const ToolResult result = runShell(folder.path(), R"(
    base=20000
    until (ulimit -v $base; $GRADC --version >/dev/null 2>&1); do base=$((base + 1000)); done
    for more in $(seq 0 1500 30000); do
      (ulimit -v $((base + more)); $GRADC grad chain.json -o out.json 2>message)
      code=$?
      case $code in
        0) ;;
        1) grep -q 'memory.*\[too_large\]' message && echo refused || cat message ;;
        *) echo $more: $code; cat message ;;
      esac
      ls | grep tmp
    done)");
  size_t numRefused = 0;
  for (size_t at = 0; (at = result.out.find("refused\n", at)) != std::string::npos; ++at) ++numRefused;
  EXPECT_GT(numRefused, 2u);
  EXPECT_EQ(result.out.size(), numRefused * 8) << result.out;
  EXPECT_TRUE(folder.has("out.json"));
}

/// A body of `op` around a body, as many levels deep as a file may have.
std::string nested(const std::string &op, const std::string &attrs) {
  const std::string variables =
      R"({"op": "null", "name": "s", "inputs": []}, {"op": "null", "name": "x", "inputs": []}, )";
  std::string graph = R"({"nodes": [)" + variables +
                      R"({"op": "elemwise_mul", "name": "m", "inputs": [[0, 0], [1, 0]]},
    {"op": "tanh", "name": "t", "inputs": [[2, 0]]}], "arg_nodes": [0, 1], "heads": [[3, 0]]})";
  for (int level = 0; level < 63; ++level)
    graph = R"({"nodes": [)" + variables + R"({"op": ")" + op + R"(", "name": "c", "attrs": {)" + attrs +
            R"(}, "inputs": [[0, 0], [1, 0]], "subgraphs": [)" + graph +
            R"(]}], "arg_nodes": [0, 1], "heads": [[2, 0]]})";
  return graph;
}

TEST_F(Process, A_19_DeepBodiesOnASmallStack) {
#if defined(GRADC_ADDRESS_SANITIZER) || defined(GRADC_THREAD_SANITIZER)
  GTEST_SKIP() << "a sanitizer's frames are larger";
#endif
  folder.write("scan.json", nested("_scan", R"("num_args": "2", "num_data": "0", "num_states": "1", "num_out_data": "0",
    "length": "1")"));
  folder.write("call.json", nested("_call", R"("num_args": "2", "num_outputs": "1")"));
  for (const std::string command :
       {"infer FILE --shape s=2 -o out", "plan FILE --shape s=2", "grad FILE --wrt s --shape s=2 -o out",
        "grad FILE --wrt s --shape s=2 --dialect mxnet -o out", "run FILE --shape s=2 --init 1 --train",
        "gradcheck FILE --shape s=2 --init 1 --dtype float64", "opt --passes unroll,inline FILE --shape s=2 -o out",
        "show FILE", "show FILE --as svg", "show FILE --as dot", "show FILE --as stats", "diff FILE FILE",
        "verify FILE", "convert FILE -o out"})
    for (const std::string file : {"scan.json", "call.json"}) {
      std::string here = command;
      for (size_t at = 0; (at = here.find("FILE")) != std::string::npos;) here.replace(at, 4, file);
      const ToolResult result = runShell(folder.path(), "ulimit -s 256; $GRADC " + here);
      EXPECT_EQ(result.code, 0) << here << "\n" << result.err;
    }
}

// Nodes of a step are named after its row, and the time of the loop is counted once.
TEST_F(Process, ProfilesHaveTheNodesOfSteps) {
  folder.write("loop.json", readText("testdata/loops/cf03.json"));
  const ToolResult result = folder.run("run loop.json --shape x=2 --init 1 --profile trace.json --backend reference");
  ASSERT_EQ(result.code, 0) << result.err;
  const std::string trace = folder.read("trace.json");
  for (const std::string name :
       {"_foreach0", "_foreach0[0] > _plus0", "_foreach0[1] > _plus0", "_foreach0[1] > _mulscalar0"})
    EXPECT_NE(trace.find("\"" + name + "\""), std::string::npos) << name << "\n" << trace;
  EXPECT_EQ(trace.find("_foreach0[2]"), std::string::npos);
  // Five nodes: the loop, and four in its body.
  double sum = 0, all = 0;
  std::istringstream lines(result.out.substr(result.out.find("operator")));
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string op, nodes, fast, ms;
    if (!(words >> op >> nodes >> fast >> ms) || op == "operator") continue;
    if (op == "elemwise_add") {
      EXPECT_EQ(nodes, "2");
    }
    if (op == "all") {
      EXPECT_EQ(nodes, "5");
    }
    (op == "all" ? all : sum) += std::stod(ms);
  }
  EXPECT_GT(all, 0);
  EXPECT_NEAR(sum, all, 0.01);
  const size_t dur = trace.find("\"dur\":");
  ASSERT_NE(dur, std::string::npos);
  EXPECT_NEAR(std::stod(trace.substr(dur + 6)) / 1e3, all, 0.01) << "of the loop, in which all others ran";
}

TEST_F(Process, WithoutMemoryItEndsWithAnError) {
#ifdef GRADC_HEAP_OF_SANITIZER
  GTEST_SKIP() << "a sanitizer needs all addresses";
#endif
  folder.write("big.json",
               R"js({"nodes": [{"op": "null", "name": "x", "attrs": {"__shape__": "(30000, 30000)"}, "inputs": []},
    {"op": "square", "name": "y", "inputs": [[0, 0]]}], "arg_nodes": [0], "heads": [[1, 0]]})js");
  const ToolResult result = runShell(folder.path(), "ulimit -v 2000000; $GRADC run big.json --init 1");
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(
      result.err.find("variable 'x' needs 3600000000 bytes of memory, more than this process can have: the limit of "
                      "its address space is 2048000000 [too_large]"),
      std::string::npos)
      << result.err;
}

constexpr const char *kVerbs[] = {"verify FILE",       "show FILE",
                                  "convert FILE",      "infer FILE --report",
                                  "grad FILE",         "plan FILE --report",
                                  "run FILE --init 1", "opt FILE --passes unroll",
                                  "diff FILE FILE",    "gradcheck FILE --init 1 --samples 1",
                                  "ops tanh",          "help",
                                  "--version"};

// A file that is opened gets the lowest free descriptor, and must not be what is printed to.
TEST_F(Process, ClosedDescriptorsAreNotTaken) {
  for (const char *closed : {"<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"}) {
    const ToolResult plain =
        runShell(folder.path(), "$GRADC run train.json --init 1 --outputs o.npz; cp o.npz expected");
    ASSERT_EQ(plain.code, 0) << plain.err;
    const ToolResult result = runShell(
        folder.path(), std::string("rm o.npz; $GRADC run train.json --init 1 --outputs o.npz --repeat 2 ") + closed +
                           "; code=$?; [ ! -e o.npz ] || cmp o.npz expected; ls | grep -c tmp | cat; exit $code");
    const bool hasStdout = (" " + std::string(closed)).find(" >&-") == std::string::npos;
    EXPECT_EQ(result.code, hasStdout ? 0 : 2) << closed << result.err;
    EXPECT_EQ(result.out.substr(result.out.rfind('\n', result.out.size() - 2) + 1), "0\n") << closed << result.out;
    EXPECT_EQ(result.out.find("differ"), std::string::npos) << closed << result.out;
  }
}

// Nobody sees its messages, but the code is the verb's own.
TEST_F(Process, ACodeDoesNotDependOnStandardError) {
  folder.write("bad.json", "{}");
  ASSERT_EQ(folder.run("infer lenet.json --shape data=1,1,28,28 -o net.json").code, 0);
  for (std::string verb : kVerbs)
    for (const char *file : {"net.json", "bad.json", "absent.json"}) {
      std::string command = verb;
      for (size_t at = 0; (at = command.find("FILE")) != std::string::npos;) command.replace(at, 4, file);
      const ToolResult plain = runShell(folder.path(), "$GRADC " + command + " >out");
      for (const char *lost : {"2>/dev/full", "2>&-"})
        for (const char *form : {"", " --diag=json "}) {
          if (*form && (verb == "help" || verb == "--version")) continue;
          const ToolResult result = runShell(folder.path(), "$GRADC " + command + form + " >lost " + lost);
          EXPECT_EQ(result.code, plain.code) << command << ' ' << lost;
          EXPECT_EQ(folder.read("lost"), folder.read("out")) << command << ' ' << lost;
        }
    }
  EXPECT_EQ(runShell(folder.path(), "$GRADC frob 2>/dev/full").code, 2);
}

TEST_F(Process, AStandardOutputThatIsFullIsAnError) {
  ASSERT_EQ(folder.run("infer lenet.json --shape data=1,1,28,28 -o net.json").code, 0);
  for (std::string command : kVerbs) {
    for (size_t at = 0; (at = command.find("FILE")) != std::string::npos;) command.replace(at, 4, "net.json");
    if (command.substr(0, 4) == "diff") continue;  // prints nothing
    for (const char *full : {">/dev/full", ">&-"}) {
      const ToolResult result = runShell(folder.path(), "$GRADC " + command + " " + full);
      EXPECT_EQ(result.code, 2) << command << full << result.err;
      EXPECT_NE(result.err.find("cannot write '<stdout>'"), std::string::npos) << command << ": " << result.err;
    }
  }
}

// The first cannot be written, and the second is not finished.
TEST_F(Process, AFullDiskWithTwoFilesIsAnErrorOfTheFirst) {
  for (const std::string command :
       {"run train.json --init 1 --outputs o --profile p", "plan train.json --svg o -o p"}) {
    const ToolResult result = runShell(folder.path(), "ulimit -f 1; $GRADC " + command +
                                                          " >/dev/null; code=$?; ls | grep -c tmp | cat; exit $code");
    EXPECT_EQ(result.code, 2) << command << result.err;
    EXPECT_NE(result.err.find(": File too large [io]"), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "0\n");
    EXPECT_FALSE(folder.has("o") || folder.has("p"));
  }
}

}  // namespace
}  // namespace gradc::testing
