// What `gradc ops` says about single operators, and that it names the differences from MXNet that the page has.
#include "tests/support/test_graph.h"
#include "tests/support/tool.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSet.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc::testing {
namespace {

/// The row of `gradc ops OPERATOR` with this title, without its title; several are joined by newlines.
std::string rowOf(StringRef op, StringRef title) {
  const ToolResult result = runTool(".", ("ops " + op).str());
  EXPECT_EQ(result.code, 0) << result.err;
  SmallVector<StringRef, 0> lines;
  StringRef(result.out).split(lines, '\n');
  std::string text;
  for (StringRef line : lines)
    if (line.consume_front(title) && line.starts_with(" ")) text += (text.empty() ? "" : "\n") + line.trim().str();
  return text;
}

TEST(OperatorReference, ShapesAreWhatInferenceConcludes) {
  EXPECT_EQ(rowOf("Convolution", "shapes"),
            "data (2,3,4,5), weight (1,3,1,1), bias (1,) → (2,1,4,5), for kernel=(1,1), num_filter=1");
  EXPECT_EQ(rowOf("broadcast_add", "shapes"), "lhs (2,1,4), rhs (3,1) → (2,3,4)");
  EXPECT_EQ(rowOf("transpose", "shapes"), "data (2,3,4,5) → (5,4,3,2)");
  EXPECT_EQ(rowOf("CTCLoss", "shapes"), "data (2,3,4) → (3,)") << "the labels stay open";
  EXPECT_EQ(rowOf("_linspace", "shapes"), "(1,), for num=1, start=1, stop=1");
  EXPECT_EQ(rowOf("Reshape", "shapes"), "") << "nothing follows from the data alone";
}

TEST(OperatorReference, TargetsThatHaveTheOperator) {
  EXPECT_EQ(rowOf("sin", "targets"), "MXNet 1.9.1, the primitives");
  EXPECT_EQ(rowOf("sin", "ONNX opset 18"), "Sin");
  EXPECT_EQ(rowOf("softmax", "targets"), "MXNet 1.9.1");
  EXPECT_EQ(rowOf("softmax", "ONNX opset 18"), "");
  EXPECT_EQ(rowOf("_index_like", "targets"),
            "the primitives; for MXNet 1.9.1 lowered to its operators, where these can express it");
  EXPECT_EQ(rowOf("gelu", "targets"), "none; for MXNet 1.9.1 lowered to its operators, where these can express it");
  EXPECT_EQ(rowOf("_pool_gather", "targets"), "the primitives; for MXNet 1.9.1 it cannot be expressed");
}

/// The names between the first pair of backticks of every line that begins an entry of the page.
struct PageEntry {
  std::string op, says;  // `says`: the last column of a table, empty for entries of the list
};

std::vector<PageEntry> entriesOf(StringRef page) {
  std::vector<PageEntry> entries;
  SmallVector<StringRef, 0> lines;
  page.split(lines, '\n');
  for (StringRef line : lines) {
    const bool isRow = line.starts_with("| `");
    if (!isRow && !line.starts_with("- ")) continue;
    const StringRef op = line.split('`').second.split('`').first;
    entries.push_back({op.str(), isRow ? line.rsplit("| ").second.rtrim(" |").str() : ""});
  }
  return entries;
}

TEST(OperatorReference, DifferencesFromMxnetAreThoseOfThePage) {
  const std::string page = readText("docs/mxnet_differences.md");
  TestContext context;
  StringSet<> named;
  size_t numRows = 0;
  for (const PageEntry &entry : entriesOf(page)) {
    const OpDef *op = context.ops.find(entry.op);
    if (!op) continue;  // MXNet's loops, a script
    const std::string differences = rowOf(op->name, "unlike MXNet");
    EXPECT_NE(differences, "") << op->name.str() << " is on the page: tools/gradc/reference/mxnet_differences.cc";
    if (entry.says.empty()) continue;
    ++numRows;
    EXPECT_TRUE(StringRef(differences).contains("MXNet's gradient " + entry.says))
        << op->name.str() << ": " << differences;
  }
  EXPECT_GE(numRows, 10u) << "rows of the table are found";
}

// The other way round: what the reference says is on the page, which has the proof.
TEST(OperatorReference, OnlyThePageHasDifferences) {
  const std::string page = readText("docs/mxnet_differences.md");
  StringRef op;
  SmallVector<StringRef, 0> lines;
  const std::string reference = readText("docs/operators.md");
  StringRef(reference).split(lines, '\n');
  size_t number = 0;
  for (StringRef line : lines) {
    if (line.consume_front("## ")) op = line;
    if (!line.starts_with("- *unlike MXNet*")) continue;
    ++number;
    const bool isFlow = op == "_cond" || op == "_foreach" || op == "_while_loop";
    const std::string name = ("`" + (isFlow ? op.drop_front() : op) + "`").str();
    EXPECT_TRUE(StringRef(page).contains(name)) << name << " is not on the page";
  }
  EXPECT_GE(number, 30u);
}

}  // namespace
}  // namespace gradc::testing
