// What a pass does not change, a rewrite keeps.
#include "passes/rewrite/rewriter.h"

#include "formats/json/graph_table.h"
#include "formats/json/reader.h"
#include "ir/graph/bodies.h"
#include "ir/rules/verify.h"
#include "tests/support/small_ops.h"
#include "tests/support/test_graph.h"

#include "llvm/Support/MemoryBuffer.h"

#include "gtest/gtest.h"

#include <filesystem>
#include <map>
#include <regex>
#include <set>

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
 "attrs": {"dltype": ["list_str", ["x", "w", "e", "v0", "v1", "t", "s"]],
  "grad_constants": ["list_int", [2, 0, 4, 0]], "a": ["int", 1]}})j";

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

// Names are left to the caller; versions count on from that of the value in place of the variable.
TEST(Rewriter, A_21_ACopyAmongOtherNodes) {
  TestContext context;
  const Graph part = cantFail(parseGraph(context, "u = test_accumulate(x, m@1); s = sin(m@2) ^u ^x"));
  GraphBuilder to(context);
  const NodeId a = to.addVariable("a", Attrs()).node, b = to.addVariable("b", Attrs()).node;
  GraphInsertion rewriter(to, part);
  rewriter.replace(nodeNamed(part, "x"), Value{a}, {});
  rewriter.replace(nodeNamed(part, "m"), Value{b, 0, 3}, {});
  const NodeId u = rewriter.copy(nodeNamed(part, "u")), s = rewriter.copy(nodeNamed(part, "s"));
  const Graph graph = cantFail(std::move(to).freeze({Value{u}, Value{s}}, {})).graph;
  EXPECT_EQ(graph.inputs(u), (ArrayRef<Value>{Value{a}, Value{b, 0, 4}}));
  EXPECT_EQ(graph.inputs(s), ArrayRef<Value>(Value{b, 0, 5}));
  EXPECT_EQ(graph.controlDeps(s), (ArrayRef<NodeId>{u, a}));
  EXPECT_EQ(graph.name(u), "");
}

// Nobody waits for it, and it waits for nobody.
TEST(Rewriter, A_21_ACopyForShapesAlone) {
  TestContext context;
  const Graph graph = readGraph(context, kGraph);
  const NodeId t = nodeNamed(graph, "t");
  GraphRewriter rewriter(context, graph);
  copyAround(rewriter, t, [&] { rewriter.copyForShape(t); });
  const Rewritten result = cantFail(std::move(rewriter).finish());
  const Graph &now = result.graph;
  EXPECT_EQ(now.inputs(nodeNamed(now, "s"))[0], Value{nodeNamed(now, "t")});
  EXPECT_TRUE(now.controlDeps(nodeNamed(now, "s")).empty());
  EXPECT_TRUE(now.controlDeps(nodeNamed(now, "t")).empty());
  EXPECT_FALSE(now.origin(nodeNamed(now, "t")).isValid());
}

// Calls that add a node of a graph again: by its kind, or by its operator, attributes and bodies.
std::vector<std::string> handCopies(const std::string &text) {
  static const std::regex call(R"(\b(addKind\(|(add|emit)\(\*)[^;]*)"), named(R"((\w+) = [^;]*\bkindHandle\()"),
      copied(R"(kindHandle\(|graph\.kindId\(|op\(\w+\)[^;]*bodies\(\w+\))");
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), call), end; at != end; ++at) {
    const std::string made = at->str(), before = at->prefix().str();
    const size_t member = before.rfind("\n  }\n"), function = before.rfind("\n}\n");
    const std::string here = before.substr(std::max(member + 1, function + 1));  // 0 if there is none
    bool isCopy = std::regex_search(made, copied);
    for (std::sregex_iterator name(here.begin(), here.end(), named); name != end; ++name)
      isCopy |= std::regex_search(made, std::regex("\\b" + name->str(1) + "\\b"));
    if (isCopy) found.push_back(made);
  }
  return found;
}

// Bodies, origins, names, dependencies, attributes: a second copy of this loop forgets one of them.
TEST(Rewriter, A_21_NoPassCopiesNodesByHand) {
  const std::map<std::string, StringRef> allowed = {
      {"formats/blocks/graph/gradient_op.cc", "it copies from a builder that a reader still fills, not from a graph"},
      {"passes/targets/mxnet/mxnet_loops.cc",
       "a rule emits nodes, whose origins, names and dependencies its caller sets"},
  };
  std::set<std::string> copying;
  size_t numRead = 0;
  for (const char *folder : {"formats", "imperative", "ir", "ops", "passes", "runtime"})
    for (const auto &file : std::filesystem::recursive_directory_iterator(folder)) {
      if (file.path().extension() != ".cc" || file.path() == "passes/rewrite/rewriter.cc") continue;
      const std::string text =
          cantFail(errorOrToExpected(MemoryBuffer::getFile(file.path().string())))->getBuffer().str();
      ++numRead;
      for (const std::string &call : handCopies(text)) {
        copying.insert(file.path().string());
        EXPECT_TRUE(allowed.contains(file.path().string())) << file.path() << ": " << call;
      }
    }
  EXPECT_GE(numRead, 300u);
  EXPECT_EQ(copying.size(), allowed.size()) << "an entry of the list that excuses nothing";
}

TEST(Rewriter, A_21_HandCopiesAreFound) {
  EXPECT_EQ(handCopies("builder.addKind(graph.kindId(n), inputs, NodeId());").size(), 1u);
  EXPECT_EQ(handCopies("to.addKind(isOther ? other : graph.kindHandle(n), inputs, NodeId());").size(), 1u);
  EXPECT_EQ(handCopies("const KindRef &kind = graph.kindHandle(n);\nto.addKind(without(kind), inputs, n);").size(), 1u);
  EXPECT_EQ(handCopies("d.emit(*body.op(n), operands, body.attrs(n), body.bodies(n));").size(), 1u);
  EXPECT_EQ(handCopies("const KindRef &kind = graph.kindHandle(n);\n}\nto.addKind(kind, inputs, n);").size(), 0u);
  EXPECT_EQ(handCopies("builder.addKind(*ops.copy, {v}, origin);").size(), 0u);
}

}  // namespace
}  // namespace gradc::testing
