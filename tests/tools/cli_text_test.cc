// Whatever a file contains, what the tool prints is one line for each line of it: every verb × every place of a text.
#include "tests/support/cli.h"

#include "ir/base/printable.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"

using namespace llvm;

namespace gradc::testing {
namespace {

/// As JSON: C0, DEL, C1, marks of direction. The letters around it tell the places apart.
std::string hostile(StringRef place) {
  return (place + R"(\u001b[31mR\u001b]0;t\u0007\r\n\b\u007f\u009b31m\u202e\u2066\u200f\u061c\u0000)" + place).str();
}

/// Names, an attribute, a graph attribute and, unless `isKnown`, an operator with such a text.
std::string network(bool isKnown) {
  const std::string op = isKnown ? "tanh" : hostile("o");
  return R"j({"nodes": [{"op": "null", "name": ")j" + hostile("x") +
         R"j(", "inputs": [], "attrs": {"__shape__": "(2,3)", ")j" + hostile("__k") + R"j(": ")j" + hostile("v") +
         R"j("}}, {"op": ")j" + op + R"j(", "name": ")j" + hostile("y") + R"j(", "inputs": [[0, 0, 0]]},
{"op": "null", "name": ")j" +
         hostile("w") + R"j(", "inputs": []},
{"op": "FullyConnected", "name": ")j" +
         hostile("f") + R"j(", "attrs": {"num_hidden": "2", "no_bias": "True"},
 "inputs": [[1, 0, 0], [2, 0, 0]]}],
"arg_nodes": [0, 2], "heads": [[3, 0, 0]], "attrs": {")j" +
         hostile("g") + R"j(": ["str", ")j" + hostile("h") + R"j("]}})j";
}

std::string program() {
  const std::string variable = R"("kind": "LOD_TENSOR", "dtype": "FP32", "shape": [2, 3], "lod_level": 0,
    "persistable": false, "is_parameter": false, "stop_gradient": false)";
  return R"({"program": {"blocks": [{"idx": 0, "parent": -1, "forward": -1, "vars": {")" + hostile("x") + R"(": {)" +
         variable + R"(, "is_data": true}, ")" + hostile("y") + R"(": {)" + variable + R"(}},
    "ops": [{"type": "tanh", "in": {"X": [")" +
         hostile("x") + R"("]}, "in_order": ["X"], "out": {"Out": [")" + hostile("y") +
         R"("]}, "out_order": ["Out"], "attrs": {}},
    {"type": ")" +
         hostile("t") + R"(", "in": {"X": [")" + hostile("y") +
         R"("]}, "in_order": ["X"], "out": {}, "out_order": [], "attrs": {}}]}], "parameters": []}})";
}

TEST_F(Cli, NothingOfAFileControlsTheTerminal) {
  folder.write("known.json", network(true));
  folder.write("unknown.json", network(false));
  folder.write("program.json", program());
  folder.write("broken.json", network(true) + hostile("z") + "\x9b\xff\xe2\x80");
  folder.write("bytes.json", StringRef(network(true)).split("\\u0000").first.str() + "\x9b\xff\", \xe2\x80\n");
  ASSERT_EQ(runShell(folder.path(), "cp known.json \"$(printf 'n\\033[31m\\233\\302\\233\\342\\200\\256.json')\"").code,
            0);
  const std::string odd = "\"$(printf 'n\\033[31m\\233\\302\\233\\342\\200\\256.json')\"";
  size_t numPrinted = 0, numEscaped = 0;
  for (const std::string file :
       {"known.json", "unknown.json", "program.json", "broken.json", "bytes.json", odd.c_str()})
    for (const std::string command : {"verify",
                                      "show",
                                      "show --as stats",
                                      "show --as dot",
                                      "show --as svg",
                                      "convert --to text",
                                      "infer --report",
                                      "plan --report",
                                      "plan --svg -",
                                      "grad -o out",
                                      "grad --wrt nope -o out",
                                      "grad --of @7 -o out",
                                      "run --init 1",
                                      "run --init 1 --profile - ",
                                      "run",
                                      "gradcheck --init 1",
                                      "gradcheck",
                                      "opt --passes unroll -o out",
                                      "ops --coverage",
                                      "ops --coverage --json",
                                      "diff known.json",
                                      "train --data m.json",
                                      "verify --error-limit 0x"})
      for (const std::string form : {"", " --diag=json"}) {
        const std::string all = command + form + " " + file;
        const ToolResult result = folder.run(all);
        EXPECT_NE(result.code, 70) << all;
        EXPECT_GE(result.code, 0) << all;
        for (StringRef text : {StringRef(result.out), StringRef(result.err)}) {
          SmallVector<StringRef, 16> lines;
          text.split(lines, '\n', -1, false);
          for (StringRef line : lines) EXPECT_TRUE(isPrintable(line)) << all << ": " << printable(line);
          numPrinted += lines.size();
          numEscaped += text.contains("\\x1b") || text.contains("\\u001b");
        }
        if (form.empty()) continue;
        SmallVector<StringRef, 4> messages;
        StringRef(result.err).split(messages, '\n', -1, false);
        for (StringRef message : messages) {
          Expected<json::Value> value = json::parse(message);
          EXPECT_TRUE(bool(value)) << all << ": " << message.str();
          if (!value) consumeError(value.takeError());
        }
      }
  EXPECT_GT(numPrinted, 1000u);
  EXPECT_GT(numEscaped, 100u);
}

// The escape of a line feed, or what follows it would look like a line of the tool.
TEST_F(Cli, TextsOfAFileDoNotStartLines) {
  folder.write("lines.json", StringRef(network(true)).str());
  for (StringRef command : {"show", "show --as stats", "infer --report", "plan --report", "run --init 1", "verify"}) {
    const ToolResult result = folder.run((command + " lines.json").str());
    EXPECT_EQ(result.code, 0) << command.str() << result.err;
    SmallVector<StringRef, 16> lines;
    StringRef(result.out).split(lines, '\n');
    for (StringRef line : lines) EXPECT_FALSE(line.starts_with("\\b") || line.starts_with("\b")) << command.str();
  }
  EXPECT_EQ(StringRef(folder.run("show lines.json").out).count('\n'), 5u);
}

// A caret stands below its character, also if those before it are not printed.
TEST_F(Cli, ExcerptsCountCharactersThatAreNotPrinted) {
  folder.write("caret.json", "{\"a\xc2\x9b\xe2\x80\xae\xff\x1b\": 1 }\n");
  const ToolResult result = folder.run("verify caret.json");
  SmallVector<StringRef, 8> lines;
  StringRef(result.err).split(lines, '\n');
  ASSERT_GE(lines.size(), 3u) << result.err;
  for (StringRef line : lines) EXPECT_TRUE(isPrintable(line)) << printable(line);
}

}  // namespace
}  // namespace gradc::testing
