// Operators of more inputs than a machine word has bits: the same keep-lists, plans and gradients as those of few.
#include "ir/graph/graph_builder.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/verify.h"
#include "ops/kit/kernel_dispatch.h"
#include "passes/gradient/gradient.h"
#include "passes/memory/plan_memory.h"
#include "runtime/session/session.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

#include <set>

using namespace llvm;

namespace gradc::testing {
namespace {

constexpr uint32_t kCounts[] = {2, 31, 32, 33, 64, 65, 199, 4099};

std::string numbered(StringRef name, uint32_t i) { return (name + Twine(i)).str(); }

/// y = w · op(-x0, -x1, …): each x has one element, and nothing but op and w decides what its gradient reads.
std::string overNegatives(const Twine &op, uint32_t count, StringRef attrs) {
  std::string text, operands;
  for (uint32_t i = 0; i < count; ++i) {
    text +=
        (numbered("x", i) + " = var {__shape__=(1,)}; " + numbered("p", i) + " = negative(" + numbered("x", i) + "); ");
    operands += (i ? ", " : "") + numbered("p", i);
  }
  return text + ("c = " + op + "(" + operands + ") {" + attrs + "}; y = elemwise_mul(c, w)").str();
}

struct Differentiated {
  explicit Differentiated(const std::string &text) : g(text) {
    GradientRequest request;
    for (uint32_t n = 0; n < g.graph.numNodes(); ++n)
      if (g.graph.isVariable(NodeId(n)) && g.graph.name(NodeId(n)).starts_with("x"))
        request.wrt.push_back({Value{NodeId(n)}});
    gradient = cantFail(buildGradient(g.context, g, request, GradientOptions())).graph;
  }

  TestGraph g;
  Graph graph() const { return gradient; }
  Graph gradient;
};

/// What each operand of `op` is read for: once, by the forward node, and never by the gradient.
void expectOperandsAreNotKept(const Graph &graph, uint32_t count) {
  const Inference inference = cantFail(infer(testContext(), graph, {}, InferOptions()));
  const RequestTable requests = countRequests(graph, {});
  for (uint32_t i = 0; i < count; ++i)
    ASSERT_EQ(requests.reads[graph.entry(Value{nodeNamed(graph, numbered("p", i))})], 1u) << "operand " << i;
  const MemoryPlan plan = cantFail(planMemory(testContext(), graph, inference, requests, PlanOptions()));
  EXPECT_EQ(describeError(checkPlan(graph, inference, requests, plan, PlanOptions())), "success");
}

/// The gradient of operand i is what `expected` makes of i and the weights 1, 2, 3, ….
void expectGradients(const Graph &graph, uint32_t count, Dims shape, function_ref<float(uint32_t)> expected) {
  std::vector<NamedArray> bindings;
  int64_t size = 1;
  for (int64_t dim : shape) size *= dim;
  std::vector<float> weights;
  for (int64_t i = 0; i < size; ++i) weights.push_back(static_cast<float>(i + 1));
  bindings.push_back({"w", floats(shape.vec(), weights)});
  for (uint32_t i = 0; i < count; ++i) bindings.push_back({numbered("x", i), floats({1}, {static_cast<float>(i)})});
  Session session = cantFail(Session::create(testContext(), graph, std::move(bindings), SessionOptions()));
  cantFail(session.run(0));
  for (uint32_t i = 0; i < count; ++i) ASSERT_EQ(*session.head(1 + i).as<float>(), expected(i)) << "gradient of x" << i;
}

TEST(WideInputs, RC_04_Concat) {
  for (uint32_t count : kCounts) {
    Differentiated d(overNegatives("Concat", count, ("dim=0, num_args=" + Twine(count)).str()));
    expectOperandsAreNotKept(d.gradient, count);
    expectGradients(d.gradient, count, {int64_t{count}}, [](uint32_t i) { return -static_cast<float>(i + 1); });
  }
}

TEST(WideInputs, RC_04_Stack) {
  for (uint32_t count : kCounts) {
    Differentiated d(overNegatives("stack", count, ("axis=0, num_args=" + Twine(count)).str()));
    expectOperandsAreNotKept(d.gradient, count);
    expectGradients(d.gradient, count, {int64_t{count}, 1}, [](uint32_t i) { return -static_cast<float>(i + 1); });
  }
}

TEST(WideInputs, RC_04_Sum) {
  for (uint32_t count : kCounts) {
    Differentiated d(overNegatives("add_n", count, ("num_args=" + Twine(count)).str()));
    expectOperandsAreNotKept(d.gradient, count);
    expectGradients(d.gradient, count, {1}, [](uint32_t) { return -1.0f; });
  }
}

KindRef kindOf(StringRef op, std::initializer_list<AttrText> attrs = {}) {
  Context &context = testContext();
  return cantFail(context.kind(*context.ops.find(op), context.attrs(ArrayRef<AttrText>(attrs.begin(), attrs.size()))));
}

/// The same as `overNegatives` of many operands, which text would take too long to name.
Graph overManyNegatives(StringRef op, uint32_t count) {
  GraphBuilder builder(testContext());
  const AttrText shape{"__shape__", "(1,)"};
  const Attrs attrs = testContext().attrs(ArrayRef<AttrText>(shape));
  std::vector<Value> operands;
  for (uint32_t i = 0; i < count; ++i) {
    const Value x = builder.addVariable(numbered("x", i), attrs);
    operands.push_back(Value{builder.addKind(kindOf("negative"), {x}, NodeId())});
    builder.setName(operands.back().node, "p", std::to_string(i));
  }
  const std::string number = std::to_string(count);
  const KindRef kind =
      op == "Concat" ? kindOf(op, {{"num_args", number}, {"dim", "0"}}) : kindOf(op, {{"num_args", number}});
  const Value c{builder.addKind(kind, operands, NodeId())}, w = builder.addVariable("w", Attrs());
  const Value y{builder.addKind(kindOf("elemwise_mul"), {c, w}, NodeId())};
  return cantFail(std::move(builder).freeze({y}, {})).graph;
}

Expected<GradientResult> gradientOfMany(const Graph &graph) {
  GradientRequest request;
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (graph.name(NodeId(n)).starts_with("x")) request.wrt.push_back({Value{NodeId(n)}});
  return buildGradient(testContext(), graph, request, GradientOptions());
}

// As many as an operator may have outputs, and the gradient one for each input.
TEST(WideInputs, RC_04_AsManyAsThereAreOutputs) {
  const uint32_t count = kMaxIndex;
  for (StringRef op : {"Concat", "stack", "add_n"}) {
    SCOPED_TRACE(op.str());
    const Graph graph = overManyNegatives(op, count), gradient = cantFail(gradientOfMany(graph)).graph;
    const Inference inference = cantFail(infer(testContext(), gradient, {}, InferOptions()));
    const RequestTable requests = countRequests(gradient, {});
    for (Value p : graph.inputs(graph.inputs(graph.heads()[0].node)[0].node))
      ASSERT_EQ(requests.reads[gradient.entry(p)], 1u) << "node " << p.node.value;
    const MemoryPlan plan = cantFail(planMemory(testContext(), gradient, inference, requests, PlanOptions()));
    EXPECT_EQ(describeError(checkPlan(gradient, inference, requests, plan, PlanOptions())), "success");
    const bool isSum = op == "add_n";
    DimsBuffer shape{isSum ? int64_t{1} : int64_t{count}};
    if (op == "stack") shape.push_back(1);
    expectGradients(gradient, count, shape, [&](uint32_t i) { return isSum ? -1.0f : -static_cast<float>(i + 1); });
  }
}

TEST(WideInputs, RC_04_MoreThanThereAreOutputs) {
  for (StringRef op : {"Concat", "stack"}) {
    const std::string message = describeError(gradientOfMany(overManyNegatives(op, kMaxIndex + 1)));
    EXPECT_TRUE(StringRef(message).ends_with("would have 65536 outputs, more than 65535")) << message;
  }
  EXPECT_EQ(describeError(gradientOfMany(overManyNegatives("add_n", kMaxIndex + 1))), "success")
      << "the gradient is the same for all";
}

// y = x0 + … + x39 without x35, which is not read; adds 1 to x33; no gradient flows to x39.
constinit const OpDef kForty = {
    .name = "test_forty",
    .inputs = {{}, [](const NodeKind &) { return 40u; }, true},
    .shape = shapes::same,
    .ignored = {35},
    .mutated = {33},
    .stopped = {33, 39},
    .gradient =
        [](GradRule &g) {
          for (size_t i = 0; i < 40; ++i) i == 33 || i == 39 ? g.noGrad(i) : g.dx(i, g.dy(0));
        },
    .kernel =
        [](const KernelCall &call) {
          dispatchFloating(call.out[0].dtype, [&](auto zero) {
            using T = decltype(zero);
            T total = 0;
            for (size_t i = 0; i < 40; ++i)
              if (i != 35) total += *call.in[i].as<const T>();
            *call.in[33].as<T>() += 1;
            *call.out[0].as<T>() = total;
          });
        },
};

struct FortyContext : TestContext {
  FortyContext() { cantFail(ops.add(kForty)); }

  /// Input `computed` is exp(x<computed>), the others are variables.
  Expected<Graph> parse(uint32_t computed) {
    std::string text, operands;
    for (uint32_t i = 0; i < 40; ++i) {
      text += numbered("x", i) + " = var {__shape__=(1,)}; ";
      operands += (i ? ", " : "") + numbered(i == computed ? "e" : "x", i);
    }
    return parseGraph(*this, text + numbered("e", computed) + " = exp(" + numbered("x", computed) +
                                 "); y = test_forty(" + operands + "); heads y");
  }
};

TEST(WideInputs, REG_16_AMutatedInputIsAVariable) {
  FortyContext context;
  EXPECT_EQ(describeError(verifyGraph(cantFail(context.parse(32)), 9)), "success");
  EXPECT_EQ(
      describeError(verifyGraph(cantFail(context.parse(33)), 9)),
      "[bad_mutation] node 'y' (test_forty) overwrites input 33, expected a variable there, found node 'e33' (exp)");
}

TEST(WideInputs, REG_16_AMutatedInputIsAState) {
  FortyContext context;
  Graph graph = cantFail(context.parse(0));
  const InputLists lists = listInputs(graph);
  ASSERT_EQ(lists.aux.size(), 1u);
  EXPECT_EQ(graph.name(lists.aux[0]), "x33");
  SessionOptions options;
  std::vector<NamedArray> bindings;
  for (uint32_t i = 0; i < 40; ++i) bindings.push_back({numbered("x", i), floats({1}, {i == 0 ? 0.0f : 1.0f})});
  Session session = cantFail(Session::create(context, graph, std::move(bindings), options));
  cantFail(session.run(0));
  cantFail(session.run(1));
  EXPECT_EQ(*session.variable(nodeNamed(graph, "x33")).as<float>(), 3.0f);
  EXPECT_EQ(*session.head(0).as<float>(), 40.0f) << "exp(0), 37 ones, and 2 after one run";
}

TEST(WideInputs, REG_15_REG_21_IgnoredAndStoppedInputs) {
  FortyContext context;
  Graph ignoring = cantFail(context.parse(35));
  EXPECT_EQ(countRequests(ignoring, {}).request[ignoring.entry(Value{nodeNamed(ignoring, "e35")})], Request::Null);
  Graph graph = cantFail(context.parse(0));
  std::set<std::string> targets;
  for (const GradientTarget &target : allTargets(graph, nullptr).targets)
    targets.insert(graph.name(target.x.node).str());
  EXPECT_EQ(targets.size(), 38u) << "all but the state x33 and x39";
  EXPECT_EQ(targets.count("x38"), 1u);
  EXPECT_EQ(targets.count("x39"), 0u);
}

}  // namespace
}  // namespace gradc::testing
