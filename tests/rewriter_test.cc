// What a pass does not change, a rewrite keeps.
#include "passes/rewriter.h"

#include "formats/json/graph_table.h"
#include "formats/json/reader.h"
#include "ir/bodies.h"
#include "ir/verify.h"
#include "tests/support/small_ops.h"
#include "tests/support/test_graph.h"

#include "llvm/Support/MemoryBuffer.h"

#include "gtest/gtest.h"

#include <filesystem>

using namespace llvm;

namespace gradc::testing {
namespace {

constexpr StringLiteral kGraph = R"j({"nodes": [
  {"op": "null", "name": "x", "attrs": {"__shape__": "(2,)"}, "inputs": []},
  {"op": "null", "name": "w", "inputs": []},
  {"op": "exp", "name": "e", "attrs": {"__note__": "1"}, "inputs": [[0, 0, 0]]},
  {"op": "vendor", "name": "v", "inputs": [[2, 0, 0], [1, 0, 0]], "control_deps": [0, 2], "subgraphs": [
    {"nodes": [{"op": "null", "name": "i", "inputs": []}], "arg_nodes": [0], "heads": [[0, 0, 0]]}]},
  {"op": "tanh", "name": "t", "attrs": {"__origin__": "5"}, "inputs": [[3, 1, 0]], "control_deps": [2]},
  {"op": "sin_of_vendor", "name": "s", "inputs": [[4, 0, 0]], "control_deps": [4]}],
 "arg_nodes": [0, 1], "heads": [[5, 0, 0], [3, 0, 0], [5, 0, 0]],
 "attrs": {"dltype": ["list_str", ["x", "w", "e", "v0", "v1", "t", "s"]], "grad_constants": ["list_int", [2, 0, 4, 0]], "a": ["int", 1]}})j";

Graph readGraph(Context &context, StringRef text) { return cantFail(readJson(context, text, ReadOptions())).graph; }

/// Copies the nodes before and after n, and has `replace` see to n.
void copyAround(GraphRewriter &rewriter, NodeId n, function_ref<void()> replace) {
  for (NodeId m(0); m.value < rewriter.graph().numNodes(); ++m.value) {
    if (m == n) replace();
    else rewriter.copy(m);
  }
}

TEST(Rewriter, A_21_ACopyOfEverythingIsTheSameGraph) {
  TestContext context;
  const Graph graph = readGraph(context, kGraph);
  GraphRewriter rewriter(context, graph);
  for (uint32_t n = 0; n < graph.numNodes(); ++n) EXPECT_EQ(rewriter.copy(NodeId(n)), NodeId(n));
  const Rewritten result = cantFail(std::move(rewriter).finish());
  EXPECT_EQ(written(result.graph), written(graph)) << "origins that come later in the graph included";
  EXPECT_EQ(result.newId[4], NodeId(4));
  EXPECT_EQ(result.newValue[graph.entry(Value{NodeId(3), 1}).value], (Value{NodeId(3), 1}));
}

// b passes m on as it was between two writes: who reads b is not to read m after the second one.
TEST(Rewriter, IR_08_AnOverwrittenVariableInPlaceOfANodeIsCopied) {
  TestContext context;
  const Graph graph =
      cantFail(parseGraph(context, "u = test_accumulate(x, m@1); b = _copy(m@1) ^u; v = test_accumulate(x, m@2) ^b;"
                                   "e = exp(b) ^v; heads u, v, e"));
  const NodeId b = nodeNamed(graph, "b");
  GraphRewriter rewriter(context, graph);
  copyAround(rewriter, b, [&] { rewriter.replace(b, rewriter(graph.inputs(b)[0]), {}); });
  const Rewritten result = cantFail(std::move(rewriter).finish());
  EXPECT_EQ(dump(result.graph), dump(graph));
}

// exp(x) as two nodes; what waited for it waits for the second, and both come from where it came from.
TEST(Rewriter, A_21_NodesInPlaceOfOne) {
  TestContext context;
  const Graph graph = readGraph(context, kGraph);
  const NodeId e = nodeNamed(graph, "e");
  GraphRewriter rewriter(context, graph);
  copyAround(rewriter, e, [&] {
    GraphBuilder &builder = rewriter.builder();
    const NodeId draft = rewriter.draft(e);
    const NodeId first = cantFail(builder.add(*context.ops.find("negative"), builder.inputs(draft), {"first"}));
    const NodeId second = cantFail(builder.add(*context.ops.find("square"), Value{first}, {"second"}));
    rewriter.replace(e, Value{second}, {first, second});
  });
  const Rewritten result = cantFail(std::move(rewriter).finish());
  const Graph &now = result.graph;
  EXPECT_EQ(describeError(verifyGraph(now, 10)), "success");
  EXPECT_EQ(now.numNodes(), graph.numNodes() + 1) << "the draft is dropped";
  const NodeId second = nodeNamed(now, "second"), v = nodeNamed(now, "v");
  EXPECT_EQ(result.newId[e.value], second);
  EXPECT_EQ(now.inputs(v)[0], Value{second});
  EXPECT_EQ(now.controlDeps(v), (ArrayRef<NodeId>{nodeNamed(now, "x"), second}));
  EXPECT_EQ(now.controlDeps(nodeNamed(now, "t")), ArrayRef<NodeId>{second});
  EXPECT_EQ(now.bodies(v).size(), 1u);
  EXPECT_EQ(now.origin(nodeNamed(now, "t")), nodeNamed(now, "s"));
  EXPECT_EQ(now.heads()[0], now.heads()[2]);
  EXPECT_FALSE(graphAttrsOf(now).count("dltype")) << "a list over entries does not fit one more node";
  EXPECT_EQ(graphAttrsOf(now).at("grad_constants").numbers,
            (std::vector<int64_t>{second.value, 0, nodeNamed(now, "t").value, 0}));
}

// A node that disappears: what waited for it waits for what its value comes from.
TEST(Rewriter, A_21_ANodeThatIsItsInput) {
  TestContext context;
  const Graph graph = readGraph(context, kGraph);
  const NodeId t = nodeNamed(graph, "t");
  GraphRewriter rewriter(context, graph);
  copyAround(rewriter, t, [&] { rewriter.replace(t, rewriter(graph.inputs(t)[0]), {}); });
  const Rewritten result = cantFail(std::move(rewriter).finish());
  const NodeId s = nodeNamed(result.graph, "s"), v = nodeNamed(result.graph, "v");
  EXPECT_EQ(result.graph.inputs(s)[0], (Value{v, 1}));
  EXPECT_EQ(result.graph.controlDeps(s), ArrayRef<NodeId>{v});
  EXPECT_EQ(result.newId[t.value], v);
}

// Bodies, origins, names, dependencies, attributes: a second copy of this loop forgets one of them.
TEST(Rewriter, A_21_NoPassCopiesNodesByHand) {
  size_t numRead = 0;
  for (const auto &file : std::filesystem::recursive_directory_iterator("passes")) {
    if (file.path().extension() != ".cc" || file.path().filename() == "rewriter.cc") continue;
    const std::string text =
        cantFail(errorOrToExpected(MemoryBuffer::getFile(file.path().string())))->getBuffer().str();
    ++numRead;
    for (size_t at = text.find("addKind("); at != std::string::npos; at = text.find("addKind(", at + 1)) {
      const std::string call = text.substr(at, text.find(';', at) - at);
      EXPECT_EQ(call.find("graph.kindId("), std::string::npos) << file.path() << ": " << call;
    }
  }
  EXPECT_GE(numRead, 30u);
}

}  // namespace
}  // namespace gradc::testing
