// Bindings, initial values, requests and output keys.
#include "ir/graph/graph_builder.h"
#include "runtime/arrays/elements.h"
#include "runtime/executor/tensor_keys.h"
#include "runtime/session/initial_values.h"
#include "runtime/session/session.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace llvm;
using gradc::testing::nodeNamed;
using gradc::testing::parseGraph;
using gradc::testing::TestGraph;

namespace gradc {
namespace {

using Doubles = std::vector<double>;
using Floats = std::vector<float>;

Session open(const Graph &graph, std::vector<NamedArray> bindings, const SessionOptions &options) {
  Expected<Session> session = Session::create(testing::testContext(), graph, std::move(bindings), options);
  if (!session) report_fatal_error(session.takeError());
  return std::move(*session);
}
GradcError refusal(const Graph &graph, std::vector<NamedArray> bindings, const SessionOptions &options) {
  return errorOf(Session::create(testing::testContext(), graph, std::move(bindings), options));
}

TEST(Session, RUN_04_BindsByNameAndInfersFromTheArrays) {
  TestGraph g("y = elemwise_add(a, b)");
  Session session = open(g, {{"b", floats({2}, {10, 20})}, {"a", floats({2}, {1, 2})}}, {});
  cantFail(session.run(0));
  EXPECT_EQ(valuesOf<float>(session.head(0)), (Floats{11, 22}));
}

// No address space holds 2^48 bytes, however much memory the machine promises.
TEST(Session, TensorsThatDoNotFitAreAnOrdinaryError) {
  TestGraph variable("x = var {__shape__=(70368744177664,)}; y = sum(x)");
  SessionOptions options;
  options.initSeed = 1;
  GradcError error = refusal(variable, {}, options);
  EXPECT_EQ(error.kind, ErrorKind::TooLarge);
  const std::string text = " needs 281474976710656 bytes of memory, more than this process can have: ";
  EXPECT_TRUE(StringRef(error.message).starts_with("variable 'x'" + text)) << error.message;
  EXPECT_EQ(error.place.node, nodeNamed(variable, "x"));
  TestGraph head("x = var {__shape__=(1,)}; y = broadcast_to(x) {shape=(70368744177664,)}");
  error = refusal(head, {}, options);
  EXPECT_EQ(error.kind, ErrorKind::TooLarge);
  EXPECT_TRUE(StringRef(error.message).starts_with("node 'y' (broadcast_to)" + text)) << error.message;
  TestGraph value("x = var {__shape__=(1,)}; b = broadcast_to(x) {shape=(70368744177664,)}; y = sum(b)");
  error = refusal(value, {}, options);
  EXPECT_TRUE(StringRef(error.message).starts_with("node 'b' (broadcast_to)" + text)) << error.message;
  EXPECT_EQ(error.place.node, nodeNamed(value, "b"));
}

TEST(Session, RUN_04_ConvertsToTheInferredFloatingType) {
  TestGraph g("y = elemwise_add(a, b)");
  // Rounding 2^24 + 1 once gives 2^24; 0.1 must round as float does.
  Session narrow =
      open(g, {{"a", doubles({2}, {0.1, 1})}, {"b", arrayOf<int64_t>(DType::Int64, {2}, {0, 16777217})}}, {});
  EXPECT_EQ(valuesOf<float>(narrow.variable(nodeNamed(g, "a"))), (Floats{0.1f, 1}));
  EXPECT_EQ(valuesOf<float>(narrow.variable(nodeNamed(g, "b"))), (Floats{0, 16777216}));
  SessionOptions wide;
  wide.infer.floatAs = DType::Float64;
  Session session = open(g, {{"a", floats({1}, {0.1f})}, {"b", arrayOf<uint8_t>(DType::Bool, {1}, {1})}}, wide);
  cantFail(session.run(0));
  EXPECT_EQ(valuesOf<double>(session.head(0)), Doubles{static_cast<double>(0.1f) + 1});
}

TEST(Session, RUN_04_IntegersAreRoundedOnce) {
  // Through double, 2^62 + 2^38 + 1 would become the tie 2^62 + 2^38 first and then round down.
  int64_t value = (int64_t{1} << 62) + (int64_t{1} << 38) + 1;
  Array from = arrayOf<int64_t>(DType::Int64, {1}, {value}), to = floats({1}, {0});
  convertElements(from.ref(), to.ref());
  EXPECT_EQ(valuesOf<float>(to), Floats{static_cast<float>((int64_t{1} << 62) + (int64_t{1} << 39))});
}

TEST(Session, E_70_MissingBindingsAreAllNamed) {
  TestGraph g("y = elemwise_add(a, b); z = elemwise_add(y, c)");
  SessionOptions options;
  options.hints.shapes = {{nodeNamed(g, "b"), {2}}};
  GradcError error = refusal(g, {{"a", floats({2}, {1, 2})}}, options);
  EXPECT_EQ(error.kind, ErrorKind::BindingMissing);
  EXPECT_EQ(error.message, "variables 'b', 'c' are not bound");
  EXPECT_EQ(error.notes[0].text, "SessionOptions::initSeed fills what is not given");
}

TEST(Session, E_71_ShapeAndDTypeMismatches) {
  TestGraph g("w = var {__shape__=(2,)}; y = elemwise_add(w, b)");
  GradcError shape = refusal(g, {{"w", floats({3}, {1, 2, 3})}, {"b", floats({2}, {1, 2})}}, {});
  EXPECT_EQ(shape.kind, ErrorKind::BindingMismatch);
  EXPECT_EQ(shape.message, "'w': expected shape (2,), got (3,)");
  TestGraph h("y = elemwise_add(a, b)");
  GradcError each = refusal(h, {{"a", floats({3}, {1, 2, 3})}, {"b", floats({2}, {1, 2})}}, {});
  EXPECT_EQ(each.kind, ErrorKind::BindingMismatch);
  EXPECT_EQ(each.notes.back().text, "the shapes of the bound arrays take part in inference");
  TestGraph i("w = var {__dtype__=4,__shape__=(1,)}; y = _copy(w)");
  GradcError dtype = refusal(i, {{"w", floats({1}, {1})}}, {});
  EXPECT_EQ(dtype.kind, ErrorKind::BindingMismatch);
  EXPECT_EQ(dtype.message, "'w': expected (1,) int32, got (1,) float32");
}

TEST(Session, E_72_SurplusBindingsSuggestNames) {
  TestGraph g("w = var {__shape__=(1,)}; y = elemwise_add(fc1_weight, fc1_bias)");
  GradcError error = refusal(g, {{"fc1_wieght", floats({1}, {1})}}, {});
  EXPECT_EQ(error.kind, ErrorKind::BindingSurplus);
  EXPECT_EQ(error.message, "'fc1_wieght' is bound, but the graph has no variable of that name");
  ASSERT_EQ(error.notes.size(), 1u);
  EXPECT_EQ(error.notes[0].text, "did you mean 'fc1_weight'?");
  EXPECT_TRUE(refusal(g, {{"unlike", floats({1}, {1})}}, {}).notes.empty());
}

TEST(Session, E_31_RefusesToRunAgainstVersions) {
  TestGraph g("m = test_accumulate(x, s@1); r = exp(s); y = elemwise_add(m, r)");
  GradcError error = refusal(g, {{"x", floats({1}, {1})}, {"s", floats({1}, {2})}}, {});
  EXPECT_EQ(error.kind, ErrorKind::StaleVersion);
  EXPECT_EQ(error.place.node, g.at("r").node);
}

TEST(Session, E_34_NamesOfSeveralVariables) {
  gradc::testing::TestContext context;
  GraphBuilder builder(context);
  Value a = builder.addVariable("w", Attrs()), b = builder.addVariable("w", Attrs());
  Value c = builder.addVariable("", Attrs());
  NodeId n =
      cantFail(builder.add(*context.ops.find("add_n"), {a, b, c}, {"y", context.attrs({{"num_args", "3"}}), {}}));
  Graph graph = cantFail(std::move(builder).freeze({Value{n}}, {})).graph;
  EXPECT_EQ(refusal(graph, {{"w", floats({1}, {1})}}, {}).kind, ErrorKind::AmbiguousName);
  SessionOptions options;
  options.initSeed = 1;
  Session session = open(graph, {{"w#2", floats({1}, {5})}, {"#2", floats({1}, {7})}}, options);
  EXPECT_EQ(valuesOf<float>(session.variable(NodeId(1))), Floats{5});
  EXPECT_EQ(valuesOf<float>(session.variable(NodeId(2))), Floats{7});
  EXPECT_EQ(refusal(graph, {{"#2", floats({1}, {7})}, {"#2", floats({1}, {7})}}, {}).message, "'#2' is bound twice");
}

TEST(Session, RUN_04_EmptyTensorsRun) {
  TestGraph g("y = exp(x)");
  Session session = open(g, {{"x", floats({0, 3}, {})}}, {});
  cantFail(session.run(0));
  EXPECT_EQ(cantFail(session.outputs())[0].array.shape, (std::vector<int64_t>{0, 3}));
}

// ---- emitted graphs

GradientRequest allOf(const Graph &graph, Request request) {
  GradientRequest result;
  for (GradientTarget target : allTargets(graph, nullptr).targets) result.wrt.push_back({target.x, request});
  return result;
}

TEST(Session, REQ_04_AddHeadsStartFromTheirBinding) {
  TestGraph g("y = square(x)");
  Graph graph = cantFail(buildGradient(g.context, g, allOf(g, Request::Add), {})).graph;
  Session session = open(graph, {{"x", floats({2}, {1, 3})}, {"x_grad", doubles({2}, {100, 200})}}, {});
  cantFail(session.run(0));
  EXPECT_EQ(valuesOf<float>(session.head(1)), (Floats{102, 206}));
  cantFail(session.run(1));
  EXPECT_EQ(valuesOf<float>(session.head(1)), (Floats{104, 212}));
  Session fromZero = open(graph, {{"x", floats({2}, {1, 3})}}, {});
  cantFail(fromZero.run(0));
  EXPECT_EQ(valuesOf<float>(fromZero.head(1)), (Floats{2, 6}));
  EXPECT_EQ(refusal(graph, {{"x", floats({2}, {1, 3})}, {"x_grad", floats({3}, {1, 2, 3})}}, {}).kind,
            ErrorKind::BindingMismatch);
}

TEST(Session, REQ_04_StartValueOfATakenName) {
  TestGraph g("y = elemwise_mul(x, x_grad)");
  Graph graph = cantFail(buildGradient(g.context, g, allOf(g, Request::Add), {})).graph;
  Session session =
      open(graph, {{"x", floats({1}, {2})}, {"x_grad", floats({1}, {3})}, {"x#grad", floats({1}, {10})}}, {});
  cantFail(session.run(0));
  EXPECT_EQ(valuesOf<float>(session.head(1)), Floats{13});
}

TEST(Session, REQ_04_StartValueNeedsAddRequest) {
  TestGraph g("y = square(x)");
  Graph graph = cantFail(buildGradient(g.context, g, allOf(g, Request::Write), {})).graph;
  EXPECT_EQ(refusal(graph, {{"x", floats({1}, {1})}, {"x_grad", floats({1}, {1})}}, {}).kind,
            ErrorKind::BindingSurplus);
}

TEST(Session, H_11_BindingsOfDroppedHeadVariablesAreAccepted) {
  TestGraph g("y = square(x); z = exp(w); heads y, z");
  GradientRequest request;
  request.wrt = {{g.at("x"), Request::Write}};
  request.heads = {{g.at("y"), std::nullopt, "dy"}, {g.at("z"), std::nullopt, "dz"}};
  Graph graph = cantFail(buildGradient(g.context, g, request, {})).graph;
  Session session =
      open(graph,
           {{"x", floats({1}, {3})}, {"w", floats({1}, {0})}, {"dy", floats({1}, {10})}, {"dz", floats({1}, {1})}}, {});
  cantFail(session.run(0));
  EXPECT_EQ(valuesOf<float>(session.head(2)), Floats{60});
}

std::vector<std::string> keysOf(const Session &session) {
  std::vector<std::string> keys;
  for (const NamedArray &named : cantFail(session.outputs())) keys.push_back(named.name);
  return keys;
}

// A name that looks like the key of another variable keeps it.
TEST(Session, E_34_NamesThatLookLikeKeys) {
  gradc::testing::TestContext context;
  GraphBuilder builder(context);
  SmallVector<Value, 8> variables;
  for (StringRef name : {"w", "w", "w#2", "", "#3", "#3#1", "w"})
    variables.push_back(builder.addVariable(name, Attrs()));
  const Graph graph = cantFail(std::move(builder).freeze(variables, {})).graph;
  const std::vector<std::string> keys = {"w", "#1", "w#2", "#3#2", "#3", "#3#1", "w#3"};
  EXPECT_EQ(variableKeys(graph), keys);
  std::vector<NamedArray> bindings;
  for (size_t i = 1; i < keys.size(); ++i) bindings.push_back({keys[i], floats({1}, {static_cast<float>(i)})});
  SessionOptions options;
  options.initSeed = 1;
  options.hints.shapes = {{NodeId(0), DimsBuffer({1})}};
  Session session = open(graph, bindings, options);
  for (uint32_t i = 1; i < keys.size(); ++i)
    EXPECT_EQ(valuesOf<float>(session.variable(NodeId(i))), Floats{static_cast<float>(i)});
  EXPECT_EQ(keysOf(session), (std::vector<std::string>{"w", "w#3", "w#2", "#3", "#3#2", "#3#1", "w#4"}));
}

TEST(Session, RUN_04_OutputKeys) {
  TestGraph g("s = var; y = test_accumulate(x, s); z = _copy(y); heads y, z, z, x");
  SessionOptions options;
  options.exec.isTraining = true;
  Graph first = cantFail(buildGradient(g.context, g, allOf(g, Request::Write), {})).graph;
  Session session = open(first, {{"x", floats({1}, {3})}, {"s", floats({1}, {1})}}, options);
  cantFail(session.run(0));
  EXPECT_EQ(keysOf(session), (std::vector<std::string>{"y_output", "z_output", "z_copy0_output", "x", "x_grad", "s"}));
  EXPECT_EQ(valuesOf<float>(cantFail(session.outputs()).back().array), Floats{4}) << "the updated state";
  options.exec.isTraining = false;
  Session inferring = open(first, {{"x", floats({1}, {3})}, {"s", floats({1}, {1})}}, options);
  EXPECT_EQ(keysOf(inferring), (std::vector<std::string>{"y_output", "z_output", "z_copy0_output", "x", "x_grad"}));
  Session forward = open(g, {{"x", floats({1}, {3})}, {"s", floats({1}, {1})}}, options);
  EXPECT_EQ(keysOf(forward), (std::vector<std::string>{"y_output", "z_output", "z_output#2", "x"}));
}

TEST(Session, RUN_04_OutputKeysOfHigherOrders) {
  TestGraph g("y = exp(x)");
  GradientRequest request = allOf(g, Request::Write);
  Graph first = cantFail(buildGradient(g.context, g, request, {})).graph;
  request.heads = {{first.heads()[1], std::nullopt, ""}};
  Graph graph = cantFail(buildGradient(g.context, first, request, {})).graph;
  Session session = open(graph, {{"x", floats({1}, {0})}}, {});
  EXPECT_EQ(keysOf(session), (std::vector<std::string>{"y_output", "x_grad", "x_grad2"}));
}

TEST(Session, E_34_CollidingOutputKeys) {
  TestGraph g("y = elemwise_mul(x, x_grad); heads y, x_grad");
  GradientRequest request;
  request.wrt = {{g.at("x"), Request::Write}};
  Graph graph = cantFail(buildGradient(g.context, g, request, {})).graph;
  Session session = open(graph, {{"x", floats({1}, {2})}, {"x_grad", floats({1}, {3})}}, {});
  GradcError error = errorOf(session.outputs());
  EXPECT_EQ(error.kind, ErrorKind::AmbiguousName);
  EXPECT_EQ(error.message, "two outputs are called 'x_grad': variable 'x_grad' and the gradient of 'x'");
}

// ---- --init

Session initialised(const Graph &graph, uint64_t seed) {
  SessionOptions options;
  options.initSeed = seed;
  return open(graph, {}, options);
}

TEST(Init, RUN_04_AttributesComeFirst) {
  TestGraph g("a = var {__shape__=(2,),__init__=zeros}; b = var {__shape__=(2,),__init__=[\"one\", {}]};"
              "c = var {__shape__=(2,),__init__=[\"Constant\", {\"value\": 0.25}]};"
              "d = var {__shape__=(2,),__init__=[\"xavier\", {\"magnitude\": 2}]};"
              "e = var {__shape__=(2,),__init__=[\"Constant\", {\"value\": 0.25, \"of\": {\"value\": 3}}]};"
              "y = add_n(a, b, c, d, e) {num_args=5}");
  Session session = initialised(g, 1);
  EXPECT_EQ(valuesOf<float>(session.variable(nodeNamed(g, "a"))), (Floats{0, 0}));
  EXPECT_EQ(valuesOf<float>(session.variable(nodeNamed(g, "b"))), (Floats{1, 1}));
  EXPECT_EQ(valuesOf<float>(session.variable(nodeNamed(g, "c"))), (Floats{0.25f, 0.25f}));
  EXPECT_EQ(valuesOf<float>(session.variable(nodeNamed(g, "e"))), (Floats{0.25f, 0.25f}));
  Floats drawn = valuesOf<float>(session.variable(nodeNamed(g, "d")));
  EXPECT_NE(drawn[0], drawn[1]) << "an initialiser that draws falls to the default";
}

TEST(Init, RUN_04_DomainsOfTheReaders) {
  TestGraph g("data = var {__shape__=(64,5)}; y = SoftmaxOutput(data, label); p = var {__shape__=(40,)}; z = log(p);"
              "heads y, z");
  Session session = initialised(g, 3);
  std::vector<int> seen(5, 0);
  for (float label : valuesOf<float>(session.variable(nodeNamed(g, "label")))) {
    ASSERT_EQ(label, std::floor(label));
    ASSERT_TRUE(label >= 0 && label < 5) << label;
    ++seen[static_cast<size_t>(label)];
  }
  for (int count : seen) EXPECT_GT(count, 0) << "every class occurs";
  for (float value : valuesOf<float>(session.variable(nodeNamed(g, "p")))) EXPECT_GT(value, 0);
}

TEST(Init, RUN_04_DefaultIsUniformByFanIn) {
  TestGraph g("w = var {__shape__=(50,300)}; b = var {__shape__=(50,300)}; y = elemwise_mul(w, b); "
              "x = var {__shape__=(400,20)}; z = relu(x); heads y, z");
  Session session = initialised(g, 5);
  auto variance = [&](StringRef name, double bound) {
    double sum = 0;
    Floats values = valuesOf<float>(session.variable(nodeNamed(g, name)));
    for (float value : values) {
      EXPECT_LE(std::fabs(value), bound);
      sum += double{value} * value;
    }
    return sum / static_cast<double>(values.size());
  };
  EXPECT_NEAR(variance("w", 0.1) * 300, 1, 0.05);
  EXPECT_NEAR(variance("x", std::sqrt(3.0)), 1, 0.05) << "what is read as `data` has unit variance";
}

TEST(Init, RUN_02_ValuesDependOnSeedAndOrdinalAlone) {
  TestGraph g("a = var {__shape__=(3,)}; b = var {__shape__=(3,)}; y = elemwise_mul(a, b)");
  TestGraph h("a = var {__shape__=(3,)}; c = exp(a); b = var {__shape__=(3,)}; y = elemwise_mul(a, b); heads y, c");
  Session one = initialised(g, 9), again = initialised(g, 9), longer = initialised(h, 9), other = initialised(g, 10);
  NodeId a = nodeNamed(g, "a"), b = nodeNamed(g, "b");
  EXPECT_EQ(valuesOf<float>(one.variable(b)), valuesOf<float>(again.variable(b)));
  EXPECT_EQ(valuesOf<float>(one.variable(b)), valuesOf<float>(longer.variable(nodeNamed(h, "b"))));
  EXPECT_NE(valuesOf<float>(one.variable(b)), valuesOf<float>(other.variable(b)));
  EXPECT_NE(valuesOf<float>(one.variable(a)), valuesOf<float>(one.variable(b)));
}

// Any byte but 0 is true: kernels that add bools leave others than 1.
TEST(Session, RUN_04_BoolsOfAnyByte) {
  Array from = arrayOf<uint8_t>(DType::Bool, {3}, {0, 2, 255}), to = floats({3}, {9, 9, 9});
  convertElements(from.ref(), to.ref());
  EXPECT_EQ(valuesOf<float>(to), (Floats{0, 1, 1}));
  EXPECT_EQ(readElement(from.ref(), 1), 1);
}

}  // namespace
}  // namespace gradc
