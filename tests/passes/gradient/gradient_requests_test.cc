// Intermediate gradients, requests and how long values are kept (§9, §10), from the request to the memory of a run.
#include "ir/graph/graph_builder.h"
#include "ir/rules/inference.h"
#include "passes/gradient/higher_order/keep_lists.h"
#include "runtime/executor/executor.h"
#include "tests/support/ops/naive.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"
#include "tests/support/tool.h"

#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

using namespace llvm;

namespace gradc {
namespace {

using testing::nodeNamed;
using testing::TestGraph;
using Doubles = std::vector<double>;

/// A graph made ready to run; requests are those of the heads.
struct Prepared {
  Prepared(const Graph &graph, std::vector<Request> headRequests, bool allowInplace)
      : graph(graph), headRequests(std::move(headRequests)) {
    InferOptions inferOptions{.floatAs = DType::Float64};
    inference = cantFail(infer(testing::testContext(), graph, {}, inferOptions));
    requests = countRequests(graph, this->headRequests);
    PlanOptions planOptions;
    planOptions.allowInplace = allowInplace;
    plan = cantFail(planMemory(testing::testContext(), graph, inference, requests, planOptions));
    ExecOptions options;
    options.backend = Backend::Reference;
    options.headRequests = this->headRequests;
    executor.emplace(cantFail(Executor::create(graph, inference, requests, plan, options)));
  }
  void bind(StringRef name, Doubles values) {
    arrays.push_back(std::make_unique<Array>(doubles({static_cast<int64_t>(values.size())}, values)));
    cantFail(executor->bind(nodeNamed(graph, name), arrays.back()->ref()));
  }
  void run() { cantFail(executor->run(0)); }
  Doubles head(size_t i) const { return valuesOf<double>(executor->head(i)); }
  int64_t offset(Value v) const { return plan.offset[graph.entry(v)]; }

  Graph graph;
  std::vector<Request> headRequests;
  Inference inference;
  RequestTable requests;
  MemoryPlan plan;
  std::optional<Executor> executor;
  std::vector<std::unique_ptr<Array>> arrays;
};

GradientResult build(TestGraph &g, const GradientRequest &request) {
  Expected<GradientResult> result = buildGradient(g.context, g, request, GradientOptions());
  if (!result) report_fatal_error(StringRef(testing::describeError(result.takeError())));
  return std::move(*result);
}

// ---- intermediates

// h = 3v, out = Σh²; the gradient of h is added to over runs, the x written afresh.
TEST(GradientRequests, NL_04_IntermediatesHaveRequestsOfTheirOwn) {
  TestGraph g("v = var {__shape__=(2,)}; h = _mul_scalar(v) {scalar=3}; q = square(h); out = sum(q)");
  GradientRequest request = testing::wrt(g, {"v"});
  request.retained = {{g.at("h"), Request::Add}};
  Graph graph = build(g, request).graph;
  std::optional<GradientTable> table = cantFail(readGradientTable(graph));
  ASSERT_EQ(table->heads.size(), 3u);
  EXPECT_EQ(table->heads[1].request, Request::Write);
  EXPECT_EQ(table->heads[2].request, Request::Add);
  Prepared p(graph, {Request::Write, Request::Write, Request::Add}, true);
  p.bind("v", {1, -2});
  p.run();
  EXPECT_EQ(p.head(2), (Doubles{6, -12})) << "2h";
  p.run();
  EXPECT_EQ(p.head(2), (Doubles{12, -24})) << "4h";
  EXPECT_EQ(p.head(1), (Doubles{18, -36})) << "18v";
  // Dropped again, it has no buffer, and the others are what they were.
  Prepared dropped(graph, {Request::Write, Request::Write, Request::Null}, true);
  dropped.bind("v", {1, -2});
  dropped.run();
  EXPECT_EQ(dropped.executor->head(2).data, nullptr);
  EXPECT_EQ(dropped.head(1), (Doubles{18, -36}));
}

TEST(GradientRequests, NL_08_OneGradientInThreePlaces) {
  // The head gradient h is that of y, of a and of b: as an x, as an intermediate and as given.
  TestGraph g("a = var {__shape__=(2,)}; b = var {__shape__=(2,)}; h = var {__shape__=(2,)}; y = elemwise_add(a, b)");
  for (Request third : {Request::Write, Request::Add}) {
    GradientRequest request = testing::wrt(g, {"a", "y", "b"});
    request.heads = {{g.at("y"), std::nullopt, "h"}};
    request.retained = {{g.at("y"), Request::Write}};
    Graph graph = build(g, request).graph;
    std::set<uint32_t> entries;
    for (Value head : graph.heads())
      EXPECT_TRUE(entries.insert(graph.entry(head).value).second) << "one buffer, one head";
    Prepared p(graph, {Request::Write, Request::Write, Request::Add, third, Request::Write}, true);
    p.bind("a", {1, 2});
    p.bind("b", {3, 4});
    p.bind("h", {5, 6});
    p.run();
    p.run();
    EXPECT_EQ(p.head(1), (Doubles{5, 6}));
    EXPECT_EQ(p.head(2), (Doubles{10, 12})) << "added twice";
    EXPECT_EQ(p.head(3), third == Request::Add ? (Doubles{10, 12}) : (Doubles{5, 6}));
    EXPECT_EQ(p.head(4), (Doubles{5, 6}));
    EXPECT_EQ(valuesOf<double>(p.arrays[2]->ref()), (Doubles{5, 6})) << "the head gradient itself stays";
  }
}

// ---- requests

/// Doubles its input and keeps what it was called with.
struct Spy {
  std::vector<Request> requests;
  std::vector<bool> isInplace;
};
Spy *spy = nullptr;
constexpr InplacePair kSpyPair[] = {{0, 0}};
constinit const OpDef kSpyOp = {
    .name = "spy",
    .inputs = {"data"},
    .shape = shapes::same,
    .inplace = kSpyPair,
    .kernel =
        [](const KernelCall &call) {
          spy->requests.push_back(call.requests[0]);
          spy->isInplace.push_back(call.in[0].data == call.out[0].data);
          for (int64_t i = 0; i < call.in[0].size(); ++i)
            call.out[0].as<double>()[i] = 2 * call.in[0].as<const double>()[i];
        },
};

TEST(GradientRequests, REQ_05_InPlaceIsThePlannersAndNeverWithAdd) {
  Spy seen;
  spy = &seen;
  testing::TestContext context;
  cantFail(context.ops.add(kSpyOp));
  Graph graph = cantFail(testing::parseGraph(
      context, "x = var {__shape__=(3,)}; a = exp(x); b = spy(a); c = spy(b); d = exp(c); e = spy(d); heads e, d"));
  auto runWith = [&](Request last, bool allowInplace) {
    seen = Spy();
    Prepared p(graph, {last, Request::Null}, allowInplace);
    p.bind("x", {0, 0, 0});
    p.run();
    p.run();
    return p.head(0);
  };
  const double value = 2 * std::exp(4.0);
  EXPECT_EQ(runWith(Request::Write, true), Doubles(3, value));
  EXPECT_EQ(seen.isInplace, (std::vector<bool>{true, true, false, true, true, false})) << "a head has its own buffer";
  EXPECT_EQ(runWith(Request::Write, false), Doubles(3, value));
  EXPECT_EQ(seen.isInplace, std::vector<bool>(6, false));
  EXPECT_EQ(runWith(Request::Add, true), Doubles(3, 2 * value));
  for (Request request : seen.requests) EXPECT_NE(request, Request::Add) << "what is added is computed by itself first";
  EXPECT_EQ(seen.requests.size(), 6u);
}

TEST(GradientRequests, REQ_09_E_18_OneBufferForTwoVariables) {
  TestGraph g("a = var {__shape__=(2,)}; b = var {__shape__=(2,)}; y = elemwise_mul(a, b)");
  Graph graph = build(g, testing::wrt(g, {"a", "b"})).graph;
  Array buffer = doubles({2}, {0, 0});
  for (Request second : {Request::Write, Request::Add}) {
    Prepared p(graph, {Request::Null, Request::Add, second}, true);
    p.bind("a", {1, 2});
    p.bind("b", {3, 4});
    cantFail(p.executor->bindHead(1, buffer.ref()));
    GradcError error = errorOf(p.executor->bindHead(2, buffer.ref()));
    if (second == Request::Write) {
      EXPECT_EQ(error.kind, ErrorKind::BufferAlias);
      EXPECT_EQ(error.message,
                "the gradient of 'a' and the gradient of 'b' would share memory, but not both have the request 'add'");
      continue;
    }
    EXPECT_EQ(error.message, "success");
    p.run();
    EXPECT_EQ(valuesOf<double>(buffer), (Doubles{4, 6})) << "b + a: both are added";
  }
  // Disjoint buffers, or the same head again, do not alias.
  Prepared p(graph, {Request::Null, Request::Write, Request::Write}, true);
  Array other = doubles({2}, {0, 0});
  EXPECT_EQ(errorOf(p.executor->bindHead(1, buffer.ref())).message, "success");
  EXPECT_EQ(errorOf(p.executor->bindHead(1, buffer.ref())).message, "success");
  EXPECT_EQ(errorOf(p.executor->bindHead(2, other.ref())).message, "success");
}

// ---- how long values are kept

TEST(GradientRequests, RC_02_ValuesLiveUntilTheirLastPosition) {
  // a is read twice by b, then once by d: its bytes are free after d and not before.
  TestGraph g("x = var {__shape__=(16,)}; a = exp(x); b = elemwise_mul(a, a); c = tanh(b); d = elemwise_mul(c, a);"
              "e = tanh(d); f = elemwise_mul(e, d); y = sum(f)");
  Prepared p(g, {Request::Write}, false);
  const int64_t a = p.offset(g.at("a"));
  EXPECT_NE(p.offset(g.at("b")), a);
  EXPECT_NE(p.offset(g.at("c")), a);
  EXPECT_NE(p.offset(g.at("d")), a);
  EXPECT_TRUE(p.offset(g.at("e")) == a || p.offset(g.at("f")) == a);
  // An output nothing reads is released at once: it never gets a place.
  TestGraph split("x = var {__shape__=(6,)}; s = test_split3(x); t = exp(s:1); y = exp(t)");
  Prepared q(split, {Request::Write}, false);
  EXPECT_EQ(q.offset(split.at("s")), kUnused);
  EXPECT_GE(q.offset(split.at("s:1")), 0);
}

TEST(GradientRequests, RC_06_ASK_14_ForwardValuesMakeRoomForGradients) {
  // Six layers, each of which keeps its output: no forward value outlives its last backward reader, so the arena holds
  // the kept values and two gradients at a time, never all of them.
  TestGraph g("x = var {__shape__=(1024,)}; a = exp(x); b = exp(a); c = exp(b); d = exp(c); e = exp(d); f = exp(e); "
              "y = sum(f)");
  Graph graph = build(g, testing::wrt(g, {"x"})).graph;
  Prepared p(graph, {Request::Write, Request::Write}, false);
  int64_t all = 0;
  for (uint32_t e = 0; e < graph.numEntries(); ++e)
    if (p.plan.offset[EntryId(e)] >= 0) all += 1024 * 8;
  EXPECT_LE(p.plan.plannedBytes, 8 * 1024 * 8);
  EXPECT_GT(all, 10 * 1024 * 8);
  // The bytes of the last layer's output serve a gradient later on.
  const int64_t kept = p.offset({nodeNamed(graph, "f"), 0});
  bool isReused = false;
  for (uint32_t n = g.graph.numNodes(); n < graph.numNodes(); ++n) isReused |= p.offset({NodeId(n), 0}) == kept;
  EXPECT_TRUE(isReused);
}

/// What the gradient of a node of this kind keeps: "0,1 / 2" for inputs 0 and 1 and output 2, "-" for none.
std::string keepList(Context &context, const KindRef &kind) {
  const KeepList kept = cantFail(keepListOf(context, kind));
  auto list = [](ArrayRef<uint32_t> positions) {
    std::string text;
    for (uint32_t i : positions) text += (text.empty() ? "" : ",") + std::to_string(i);
    return text.empty() ? "-" : text;
  };
  return list(kept.inputs) + " / " + list(kept.outputs);
}

// testdata/keep_lists.txt lists what the gradient of each operator reads, inputs / outputs, for default attributes or
// those listed with it. A rule that starts to read more keeps more memory alive, and shows up here.
TEST(GradientRequests, RC_04_WhatTheGradientsKeep) {
  testing::TestContext context;
  SmallVector<StringRef, 0> lines;
  std::string text = testing::readText("testdata/keep_lists.txt");
  StringRef(text).split(lines, '\n', -1, false);
  std::set<std::string> listed;
  for (StringRef line : lines) {
    if (line.starts_with("#")) continue;
    auto [subject, expected] = line.split(": ");
    auto [name, rest] = subject.split(' ');
    const OpDef *op = context.ops.find(name);
    ASSERT_NE(op, nullptr) << name.str();
    SmallVector<AttrText, 4> attrs;
    SmallVector<StringRef, 4> pairs;
    rest.split(pairs, ' ', -1, false);
    for (StringRef pair : pairs) attrs.push_back({pair.split('=').first, pair.split('=').second});
    KindRef kind = cantFail(context.kind(*op, context.attrs(ArrayRef<AttrText>(attrs))));
    EXPECT_EQ(keepList(context, kind), expected) << subject.str();
    listed.insert(name.str());
  }
  std::string missing;
  for (const OpDef *op : context.ops.all())
    if (op->gradient && !op->flags.isBackward && !op->flags.hasNoGradient && gradc::testing::isMxnets(*op) &&
        !op->flow && !op->name.contains("test_") && !listed.count(op->name.str()))
      missing += op->name.str() + " ";
  EXPECT_EQ(missing, "") << "operators without a line";
}

}  // namespace
}  // namespace gradc
