// Requests and read counts per entry (§10).
#include "passes/order/requests.h"
#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

uint32_t reads(const Graph &graph, StringRef value) {
  return countRequests(graph, {}).reads[graph.entry(TestGraph::findValue(graph, value))];
}
Request request(const Graph &graph, StringRef value) {
  return countRequests(graph, {}).request[graph.entry(TestGraph::findValue(graph, value))];
}

TEST(Requests, REQ_03_EntriesNobodyReadsAreNull) {
  TestGraph g("s = test_split3(x); y = exp(s:1)");
  EXPECT_EQ(request(g, "s"), Request::Null);
  EXPECT_EQ(request(g, "s:1"), Request::Write);
  EXPECT_EQ(request(g, "s:2"), Request::Null);
  EXPECT_EQ(request(g, "y"), Request::Write);
}

TEST(Requests, REQ_03_GradientsNobodyAskedFor) {
  TestGraph g("y = elemwise_div(a, b)");
  Graph graph = gradientOf(g.context, g, {"b"}, 1).graph;
  EXPECT_EQ(request(graph, "y_backward"), Request::Null);
  EXPECT_EQ(request(graph, "y_backward:1"), Request::Write);
}

TEST(Requests, RC_01_OneReadPerPositionAndHead) {
  TestGraph g("a = exp(x); y = elemwise_mul(a, a); z = exp(a); heads y, z, a");
  EXPECT_EQ(reads(g, "a"), 4u);
  EXPECT_EQ(reads(g, "x"), 1u);
  EXPECT_EQ(reads(g, "y"), 1u);
}

TEST(Requests, RC_03_IgnoredInputsAreNotRead) {
  TestGraph g("a = exp(x); z = zeros_like(a); y = elemwise_add(z, x)");
  EXPECT_EQ(reads(g, "a"), 0u);
  EXPECT_EQ(request(g, "a"), Request::Null);
}

TEST(Requests, RC_05_ControlDependenciesDoNotRead) {
  TestGraph g("a = exp(w); y = exp(x) ^a");
  EXPECT_EQ(reads(g, "a"), 0u);
  // exp keeps its output alone, relu too: the inputs are not read by the gradient.
  TestGraph net("a = exp(x); y = relu(a)");
  Graph graph = gradientOf(net.context, net, {"x"}, 1).graph;
  EXPECT_EQ(reads(graph, "x"), 1u);
  EXPECT_EQ(reads(graph, "a"), 2u);  // by relu, and by the gradient of exp
}

TEST(Requests, REQ_01_RequestsOfHeads) {
  TestGraph g("y = exp(x); z = exp(y); heads y, z, z");
  RequestTable table = countRequests(g, {Request::Null, Request::Add, Request::Null});
  EXPECT_EQ(table.request[g.graph.entry(g.at("y"))], Request::Write);  // z reads it
  EXPECT_EQ(table.request[g.graph.entry(g.at("z"))], Request::Add);
  EXPECT_EQ(table.reads[g.graph.entry(g.at("z"))], 1u);
  table = countRequests(g, {Request::Write, Request::Add, Request::Add});
  EXPECT_EQ(table.request[g.graph.entry(g.at("z"))], Request::Write);  // two buffers: one is written, the other copied
  table = countRequests(g, {Request::Null, Request::Null, Request::Null});
  EXPECT_EQ(table.request[g.graph.entry(g.at("z"))], Request::Null);
  EXPECT_EQ(table.request[g.graph.entry(g.at("y"))], Request::Null);  // its reader does not run
}

TEST(Requests, RUN_01_WhatOnlyAnUnwantedNodeReadsIsUnwanted) {
  TestGraph g("a = exp(x); b = exp(a); c = exp(b); y = zeros_like(c)");
  for (StringRef name : {"a", "b", "c"}) EXPECT_EQ(request(g, name), Request::Null) << name.str();
  EXPECT_EQ(reads(g, "x"), 0u);
  // A node that overwrites a variable runs, and what it reads is computed.
  TestGraph writing("a = exp(x); b = test_accumulate(a, s@1); y = exp(x) ^b");
  EXPECT_EQ(request(writing, "a"), Request::Write);
  EXPECT_EQ(request(writing, "b"), Request::Null);
}

}  // namespace
}  // namespace gradc
