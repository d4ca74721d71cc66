// Calls and loops that overwrite, in the operators of a target: what a body overwrites is overwritten once, and what
// reads the variable sees the version that it saw before.
#include "ir/graph/bodies.h"
#include "ir/graph/graph_builder.h"
#include "ir/rules/verify.h"
#include "passes/lowering/lower_to.h"
#include "tests/support/runs/loops.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

using namespace llvm;

namespace gradc::testing {
namespace {

/// What runs leave behind: the heads, then the momentum, 4 before.
std::vector<Doubles> runWithMomentum(const Graph &graph) {
  const Binding bindings[] = {{"x", {1}, {3}}, {"w", {1}, {9}}, {"g", {1}, {1}}, {"m", {1}, {4}}};
  return runReading(graph, bindings, "m");
}

void expectSameMomentum(const Graph &graph, const std::vector<Doubles> &expected, ArrayRef<const Target *> targets) {
  EXPECT_EQ(runWithMomentum(graph), expected);
  for (const Target *target : targets) {
    const InferRequest hints{{{nodeNamed(graph, "x"), {1}}, {nodeNamed(graph, "w"), {1}}}, {}};
    const Inference known = cantFail(infer(testContext(), graph, hints, InferOptions()));
    Expected<Graph> made = lowerTo(testContext(), graph, *target, &known);
    ASSERT_TRUE(static_cast<bool>(made)) << describeError(made.takeError());
    const Graph lowered = *made;
    EXPECT_EQ(describeError(verifyGraph(lowered, 5)), "success");
    for (uint32_t n = 0; n < lowered.numNodes(); ++n) {
      EXPECT_NE(lowered.opName(NodeId(n)), "_call");
      ArrayRef<NodeId> deps = lowered.controlDeps(NodeId(n));
      EXPECT_EQ(std::set<NodeId>(deps.begin(), deps.end()).size(), deps.size());
    }
    EXPECT_EQ(runWithMomentum(lowered), expected) << target->name.str() << "\n" << dump(lowered);
  }
}

// A node that overwrites, whose output only a call is given that does not read it: m is 0.5·4 − 1 in any words.
TEST(LowerWrites, MUT_06_ACallThatReadsNothingOfAWriteKeepsIt) {
  Context &context = testContext();
  const Target *const both[] = {&kMxnetTarget, &kPrimitivesTarget};
  auto callOf = [&](StringRef inner, StringRef locations, size_t head) {
    GraphBuilder builder(context);
    SmallVector<Value, 4> given;
    for (StringRef name : {"w", "g", "m"}) given.push_back(builder.addVariable(name, Attrs()));
    const NodeId write = cantFail(builder.add(*context.ops.find("sgd_mom_update"), given,
                                              {"u", context.attrs({{"lr", "1"}, {"momentum", "0.5"}}), NodeId()}));
    const NodeId between = cantFail(builder.add(*context.ops.find("exp"), Value{write}, {"e", Attrs(), NodeId()}));
    const Graph made = body(inner);
    const std::string numOutputs = std::to_string(made.heads().size());
    const AttrText attrs[] = {{"num_args", "2"}, {"num_outputs", numOutputs}, {"input_locs", locations}};
    const Value operands[] = {builder.addVariable("x", Attrs()), Value{between}};
    const NodeId call =
        cantFail(builder.add(*context.ops.find("_call"), operands, {"call", context.attrs(attrs), NodeId(), made}));
    return cantFail(std::move(builder).freeze({Value{call, static_cast<uint16_t>(head)}}, {})).graph;
  };
  expectSameMomentum(callOf("y = square(p)", "(0,)", 0), {{9}, {1}}, both);
  expectSameMomentum(callOf("y = negative(p); heads p, y", "(0,)", 0), {{3}, {1}}, both);
  expectSameMomentum(callOf("y = square(p); z = exp(q); heads y, z", "(0, 1)", 0), {{9}, {1}}, both);
}

// A write in a body after the output that is read, and a node that waits for it.
TEST(LowerWrites, MUT_06_ACallKeepsTheWritesOfItsBody) {
  const Target *const both[] = {&kMxnetTarget, &kPrimitivesTarget};
  auto callOf = [](StringRef inner, StringRef locations, size_t head) {
    const Graph made = body(inner);
    const std::string numOutputs = std::to_string(made.heads().size());
    const Graph call =
        around("_call", {"x", "w", "g", "m"},
               {{"num_args", "4"}, {"num_outputs", numOutputs}, {"input_locs", locations}}, made, made.heads().size());
    return onlyHead(call, head);
  };
  const StringRef after =
      "y = square(x); z = sgd_mom_update(y, g, m@1) {lr=1, momentum=0.5}; u = elemwise_mul(w, z); heads y, u";
  expectSameMomentum(callOf(after, "(0, 1, 2, 3)", 0), {{9}, {1}}, both);
  expectSameMomentum(callOf(after, "(0, 1, 2, 3)", 1), {{9 * 10}, {1}}, both);
  // The product reads m after the write, and before it.
  expectSameMomentum(
      callOf("z = sgd_mom_update(w, g, m@1) {lr=1, momentum=0.5}; y = elemwise_mul(x, m@1) ^z; heads y, z",
             "(0, 3, 1, 2)", 0),
      {{3}, {1}}, both);
  expectSameMomentum(callOf("y = elemwise_mul(x, m); z = sgd_mom_update(w, g, m@1) {lr=1, momentum=0.5} ^y; heads y, z",
                            "(0, 3, 1, 2)", 0),
                     {{12}, {1}}, both);
  // The output that the write is behind leads to a call that does not read it.
  GraphBuilder builder(testContext());
  SmallVector<Value, 4> given;
  for (StringRef name : {"x", "w", "g", "m"}) given.push_back(builder.addVariable(name, Attrs()));
  const Graph writing = body("y = square(x); z = sgd_mom_update(w, g, m@1) {lr=1, momentum=0.5} ^y; heads y, z");
  const AttrText attrs[] = {{"num_args", "4"}, {"num_outputs", "2"}},
                 reads[] = {{"num_args", "2"}, {"num_outputs", "1"}, {"input_locs", "(0,)"}};
  const NodeId first = cantFail(
      builder.add(*testContext().ops.find("_call"), given, {"first", testContext().attrs(attrs), NodeId(), writing}));
  const NodeId second =
      cantFail(builder.add(*testContext().ops.find("_call"), {Value{first}, Value{first, 1}},
                           {"second", testContext().attrs(reads), NodeId(), body("y = negative(x)")}));
  expectSameMomentum(cantFail(std::move(builder).freeze({Value{first}, Value{second}}, {})).graph, {{9}, {-9}, {1}},
                     both);
  // One node yields two outputs.
  const StringRef behind = "z = sgd_mom_update(w, g, m@1) {lr=1, momentum=0.5}; u = square(x) ^z; y = negative(u)";
  const Graph twice = around("_call", {"x", "w", "g", "m"}, {{"num_args", "4"}, {"num_outputs", "2"}},
                             body((behind + "; heads y, y").str()), 2);
  expectSameMomentum(twice, {{-9}, {-9}, {1}}, both);
}

// A loop that waits for a write through one operand, and reads the overwritten variable as another: what takes m's rows
// down has no such operand.
TEST(LowerWrites, MUT_06_APartOfALoopReadsAVariableAfterTheWrite) {
  Context &context = testContext();
  GraphBuilder builder(context);
  SmallVector<Value, 4> given;
  for (StringRef name : {"w", "g", "m"}) given.push_back(builder.addVariable(name, Attrs()));
  const Value after{given[2].node, 0, 1}, x = builder.addVariable("x", Attrs());
  given[2] = after;
  const Value written{cantFail(builder.add(*context.ops.find("sgd_mom_update"), given,
                                           {"u", context.attrs({{"lr", "1"}, {"momentum", "0.5"}}), NodeId()}))};
  const AttrText attrs[] = {{"num_args", "3"},     {"num_data", "2"},   {"num_states", "1"},
                            {"num_out_data", "0"}, {"reverse", "True"}, {"input_locs", "(2, 0, 1)"}};
  const Graph inner = body("p = elemwise_mul(a, b); n = elemwise_add(p, c)");
  const Value operands[] = {after, written, x};
  const NodeId loop =
      cantFail(builder.add(*context.ops.find("_scan"), operands, {"loop", context.attrs(attrs), NodeId(), inner}));
  const Graph graph = cantFail(std::move(builder).freeze({Value{loop}}, {})).graph;
  expectSameMomentum(graph, runWithMomentum(graph), {&kMxnetTarget, &kPrimitivesTarget});
}

// The gradient reads m as it was before the write, from a copy made for it, in any form of the write.
TEST(LowerWrites, MUT_03_WhatIsGeneratedForAWriteBelongsBeforeItsFirstPart) {
  const StringRef step = "r = elemwise_mul(x, m); u = sgd_mom_update(w, g, m) {lr=1, momentum=0.5}; v = BlockGrad(u);"
                         "t = elemwise_mul(v, x); y = elemwise_add(r, t)";
  const Graph graph = gradientOf(body(step), {"x"}).graph;
  expectSameMomentum(graph, {{3 * 4 + 10 * 3}, {4 + 10}, {1}}, {&kPrimitivesTarget, &kMxnetTarget});
  const Graph call = around("_call", {"x", "m", "w", "g"}, {{"num_args", "4"}, {"num_outputs", "1"}}, body(step), 1);
  expectSameMomentum(gradientOf(call, {"x"}).graph, {{42}, {14}, {1}}, {&kPrimitivesTarget});
}

// A step reads m after it overwrote it; its gradient is given m from a stack, and has nothing to wait for. The second
// step has no version numbers, and yields only a state, which MXNet has behind the stack.
TEST(LowerWrites, MUT_06_AGradientReadsWhatAStepOverwrote) {
  Context &context = testContext();
  auto gradientOfScan = [&](ArrayRef<StringRef> names, ArrayRef<AttrText> attrs, StringRef step) {
    GraphBuilder builder(context);
    std::map<StringRef, Value> variables;
    for (StringRef name : {"x", "w", "g", "m"}) variables[name] = builder.addVariable(name, Attrs());
    SmallVector<Value, 5> operands;
    for (StringRef name : names) operands.push_back(variables[name]);
    operands.back().version = step.contains('@');
    const NodeId loop = cantFail(
        builder.add(*context.ops.find("_scan"), operands, {"loop", context.attrs(attrs), NodeId(), body(step)}));
    return gradientOf(cantFail(std::move(builder).freeze({Value{loop}}, {})).graph, {"x"}).graph;
  };
  const Target *const both[] = {&kMxnetTarget, &kPrimitivesTarget};
  const Graph stacked =
      gradientOfScan({"x", "w", "g", "m"},
                     {{"num_args", "4"},
                      {"num_data", "1"},
                      {"num_states", "0"},
                      {"num_out_data", "2"},
                      {"input_locs", "(0, 3, 1, 2)"}},
                     "z = sgd_mom_update(w, g, m@1) {lr=1, momentum=0.5}; y = elemwise_mul(r, m@1) ^z; heads y, z");
  expectSameMomentum(stacked, {{3}, {1}, {1}}, both);
  const Graph carried = gradientOfScan({"x", "x", "w", "g", "m"},
                                       {{"num_args", "5"},
                                        {"num_data", "1"},
                                        {"num_states", "1"},
                                        {"num_out_data", "0"},
                                        {"input_locs", "(1, 4, 2, 3)"}},
                                       "z = sgd_mom_update(w, g, m) {lr=1, momentum=0.5}; n = elemwise_mul(s, m) ^z");
  expectSameMomentum(carried, {{3}, {1}, {1}}, both);
}

}  // namespace
}  // namespace gradc::testing
