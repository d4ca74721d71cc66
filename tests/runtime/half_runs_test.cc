// Whole runs in float16 and bfloat16: blocks, memory, requests, states, bindings, initial values, types without a name.
#include "passes/gradient/gradient.h"
#include "passes/lowering/lower_to.h"
#include "passes/memory/plan_memory.h"
#include "runtime/arrays/elements.h"
#include "runtime/session/session.h"
#include "tests/support/ops/differences.h"
#include "tests/support/ops/half_values.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"
#include "passes/gradient/higher_order/higher_order.h"

#include <gtest/gtest.h>

using namespace llvm;
using gradc::testing::nearestHalf;
using gradc::testing::nodeNamed;
using gradc::testing::TestGraph;

namespace gradc {
namespace {

using Halves = std::vector<uint16_t>;

Session open(const Graph &graph, std::vector<NamedArray> bindings, const SessionOptions &options) {
  Expected<Session> session = Session::create(testing::testContext(), graph, std::move(bindings), options);
  if (!session) report_fatal_error(session.takeError());
  return std::move(*session);
}

SessionOptions on(Backend backend) {
  SessionOptions options;
  options.exec.backend = backend;
  options.exec.threads = 2;
  return options;
}

int64_t workspaceOf(const Graph &graph) {
  const Inference inference = cantFail(infer(testing::testContext(), graph, {}, InferOptions()));
  const RequestTable requests = countRequests(graph, {});
  return cantFail(planMemory(testing::testContext(), graph, inference, requests, PlanOptions())).workspaceBytes;
}

// Two whole blocks and five elements, written over their own input.
TEST(HalfRuns, E_63_BlocksOfElements) {
  const int64_t size = 2 * 32768 + 5;
  TestGraph g("x = var {__shape__=(65541,), __dtype__=float16}; a = negative(x); y = exp(a); z = relu(y)");
  Array x{DType::Float16, {size}, std::vector<char>(static_cast<size_t>(size) * 2)};
  for (int64_t i = 0; i < size; ++i) writeElement(x.ref(), i, static_cast<double>(i % 1001) / 256 - 2);
  for (Backend backend : {Backend::Reference, Backend::Auto}) {
    Session session = open(g, {{"x", x}}, on(backend));
    cantFail(session.run(0));
    int64_t wrong = 0;
    for (int64_t i = 0; i < size; ++i) {
      const double given = readElement(x.ref(), i), expected = nearestHalf(DType::Float16, std::exp(-given));
      wrong += std::abs(readElement(session.head(0), i) - expected) > expected / 1000;
    }
    EXPECT_EQ(wrong, 0);
  }
}

// Four bytes for each element of an operand, of blocks where elements do not depend on one another, none for moves.
TEST(HalfRuns, MEM_15_WideningIsPlannedWorkspace) {
  const std::string x = "x = var {__shape__=(40,1000), __dtype__=bfloat16}; ";
  EXPECT_EQ(workspaceOf(TestGraph(x + "a = exp(x); y = exp(a)")), 2 * 32768 * 4);
  EXPECT_EQ(workspaceOf(TestGraph(x + "a = transpose(x); y = Reshape(a) {shape=(-1,)}")), 0);
  EXPECT_EQ(workspaceOf(TestGraph(x + "a = softmax(x); y = _copy(a)")), 2 * 40000 * 4);
  EXPECT_EQ(workspaceOf(TestGraph("i = var {__shape__=(7,), __dtype__=float16};" + x + "y = take(x, i)")), 64)
      << "indices are numbers, rows are moved";
  EXPECT_EQ(workspaceOf(TestGraph(x + "a = Cast(x) {dtype=float32}; y = Cast(a) {dtype=float16}")), 0);
  // The operator's own scratch is that for float32: one image as columns.
  const std::string network = "d = var {__shape__=(1,2,4,4), __dtype__=TYPE}; w = var {__shape__=(3,2,3,3)};"
                              "y = Convolution(d, w) {kernel=(3,3), num_filter=3, no_bias=True}";
  auto inType = [&](StringRef type) {
    std::string text = network;
    return text.replace(text.find("TYPE"), 4, type.str());
  };
  EXPECT_EQ(workspaceOf(TestGraph(inType("float16"))), workspaceOf(TestGraph(inType("float32"))) + 128 + 256 +
                                                           64 * 1 /* 32, 54 and 12 numbers, in lines of 64 bytes */);
}

// An output that is not requested is not computed and needs no scratch.
TEST(HalfRuns, REQ_02_UnrequestedOutputsTakeNoScratch) {
  TestGraph g("x = var {__shape__=(4000,), __dtype__=float16}; w = var {__shape__=(4000,)}; y = broadcast_mul(x, w);"
              "h = ones_like(y); d = _backward_broadcast_mul(h, x, w) ^y; heads d");
  const Inference inference = cantFail(infer(testing::testContext(), g, {}, InferOptions()));
  auto workspace = [&](ArrayRef<Request> heads) {
    const RequestTable requests = countRequests(g, heads);
    return cantFail(planMemory(testing::testContext(), g, inference, requests, PlanOptions())).workspaceBytes;
  };
  EXPECT_EQ(workspace({}), 4 * 16000);
}

// 2048 + 1 is 2049 in float32, and 2048 in float16; 2048 + 3 is 2052.
TEST(HalfRuns, REQ_06_AddRoundsTheSum) {
  TestGraph g("x = var {__shape__=(2,), __dtype__=float16}; y = negative(x)");
  const Request add[] = {Request::Add};
  for (Backend backend : {Backend::Reference, Backend::Auto}) {
    SessionOptions options = on(backend);
    options.exec.headRequests = add;
    Session session = open(g, {{"x", floats({2}, {-1, -3})}}, options);
    writeElement(session.head(0), 0, 2048);
    writeElement(session.head(0), 1, 2048);
    cantFail(session.run(0));
    EXPECT_EQ(readElement(session.head(0), 0), 2048);
    EXPECT_EQ(readElement(session.head(0), 1), 2052);
  }
}

// Sums of many terms are rounded once: in float16, adding 1 to 2048 changes nothing.
TEST(HalfRuns, E_63_SumsAccumulateInFloat32) {
  TestGraph g("x = var {__shape__=(5000,), __dtype__=float16}; y = sum(x); a = ElementWiseSum(x, x, x) {num_args=3};"
              "heads y, a");
  for (Backend backend : {Backend::Reference, Backend::Auto}) {
    Session session = open(g, {{"x", floats({5000}, std::vector<float>(5000, 1.0009765625f))}}, on(backend));
    cantFail(session.run(0));
    EXPECT_EQ(readElement(session.head(0), 0), 5004);
    EXPECT_EQ(readElement(session.head(1), 7), nearestHalf(DType::Float16, 3 * 1.0009765625));
  }
}

// What is computed per channel is float32 beside data of float16, at every order and in primitives too.
TEST(HalfRuns, INF_08_OrdersOfBatchNormOfHalfData) {
  TestGraph forward("n = BatchNorm(x, gamma, beta, mean, var) {fix_gamma=False}; y = exp(n)");
  GradientRequest request;
  for (StringRef name : {"x", "gamma", "beta"}) request.wrt.push_back({Value{nodeNamed(forward, name)}});
  auto gradientsIn = [&](DType type, uint32_t order, const Target *target) {
    InferRequest hints{{{nodeNamed(forward, "x"), {3, 2, 2}}}, {{nodeNamed(forward, "x"), type}}};
    const Inference known = cantFail(infer(forward.context, forward, hints, InferOptions()));
    GradientOptions options;
    options.inference = &known;
    const GradientResult made = cantFail(buildGradientOfOrder(forward.context, forward, request, options, order));
    Graph graph = made.graph;
    if (target) {
      const Inference all =
          cantFail(infer(forward.context, graph,
                         {{{nodeNamed(graph, "x"), {3, 2, 2}}}, {{nodeNamed(graph, "x"), type}}}, InferOptions()));
      graph = cantFail(lowerTo(forward.context, graph, *target, &all));
    }
    SessionOptions session = on(Backend::Reference);
    session.exec.isTraining = true;
    session.hints.dtypes.push_back({nodeNamed(graph, "x"), type});
    Session run = open(graph,
                       {{"x", floats({3, 2, 2}, {1, 2, 3, 5, -1, 0.5, 2, -3, 0.25, 4, -2, 1})},
                        {"gamma", floats({2}, {1, 2})},
                        {"beta", floats({2}, {0, 0.5})},
                        {"mean", floats({2}, {0, 0})},
                        {"var", floats({2}, {1, 1})}},
                       session);
    cantFail(run.run(0));
    std::vector<std::vector<double>> heads(graph.heads().size());
    for (size_t h = 0; h < heads.size(); ++h)
      for (int64_t i = 0; i < run.head(h).size(); ++i) heads[h].push_back(readElement(run.head(h), i));
    return heads;
  };
  for (uint32_t order : {1, 2, 3})
    for (const Target *target : {static_cast<const Target *>(nullptr), &kPrimitivesTarget}) {
      const std::vector<std::vector<double>> half = gradientsIn(DType::Float16, order, target),
                                             whole = gradientsIn(DType::Float32, order, target);
      ASSERT_EQ(half.size(), whole.size());
      for (size_t h = 0; h < half.size(); ++h)
        EXPECT_LE(testing::relativeDistance(half[h], whole[h]), 0.02) << order << ", head " << h;
    }
}

// Data of float16 has statistics in float32, as in MXNet; those of bfloat16 are rounded where they are overwritten.
TEST(HalfRuns, E_63_OverwrittenStatesAreRounded) {
  TestGraph g("y = BatchNorm(x, gamma, beta, mean, var) {momentum=0.9, fix_gamma=False}");
  for (DType type : {DType::Float16, DType::BFloat16}) {
    SessionOptions options = on(Backend::Reference);
    options.exec.isTraining = true;
    options.hints.dtypes.push_back({g.at("x").node, type});
    Session session = open(g,
                           {{"x", floats({4, 1}, {1, 2, 3, 5})},
                            {"gamma", floats({1}, {1})},
                            {"beta", floats({1}, {0})},
                            {"mean", floats({1}, {0.3f})},
                            {"var", floats({1}, {1})}},
                           options);
    cantFail(session.run(0));
    const TensorRef mean = session.variable(g.at("mean").node);
    const bool isRounded = type == DType::BFloat16;
    EXPECT_EQ(mean.dtype, isRounded ? DType::BFloat16 : DType::Float32);
    const float start = isRounded ? static_cast<float>(nearestHalf(type, 0.3f)) : 0.3f;
    const float expected = start * 0.9f + 2.75f * (1 - 0.9f);
    EXPECT_NEAR(readElement(mean, 0), isRounded ? nearestHalf(type, expected) : expected, 1e-6);
  }
}

// Not even a signalling NaN changes where elements are only moved.
TEST(HalfRuns, E_63_MovesKeepEveryBit) {
  TestGraph g(
      "x = var {__shape__=(2,3), __dtype__=float16}; t = transpose(x); s = slice_axis(t) {axis=0, begin=1, end=3};"
      "c = Concat(s, s) {num_args=2, dim=1}; y = reverse(c) {axis=1}");
  Array x = arrayOf<uint16_t>(DType::Float16, {2, 3}, {0x3c00, 0x7c01, 0x8000, 0xfc01, 0x0001, 0x7e55});
  for (Backend backend : {Backend::Reference, Backend::Auto}) {
    Session session = open(g, {{"x", x}}, on(backend));
    cantFail(session.run(0));
    EXPECT_EQ(valuesOf<uint16_t>(session.head(0)), (Halves{1, 0x7c01, 1, 0x7c01, 0x7e55, 0x8000, 0x7e55, 0x8000}));
  }
}

// Every pair of types: what the definition of a conversion through float32 says.
TEST(HalfRuns, E_63_CastsOfEveryType) {
  const std::vector<double> values = {0, -0.0, 1, -1.5, 2.7, 65519, 65520, -70000, 1e-8, 3.3e38, -1e39, std::nan("")};
  for (StringRef half : {"float16", "bfloat16"})
    for (StringRef other : {"float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool"})
      for (bool isTo : {true, false}) {
        const StringRef from = isTo ? other : half, to = isTo ? half : other;
        TestGraph g("x = var {__shape__=(12,), __dtype__=" + from.str() + "}; y = Cast(x) {dtype=" + to.str() + "}");
        Array x{*parseDType(from), {12}, std::vector<char>(12 * dtypeBytes(*parseDType(from)))};
        for (size_t i = 0; i < values.size(); ++i) writeElement(x.ref(), static_cast<int64_t>(i), values[i]);
        Session session = open(g, {{"x", x}}, on(Backend::Reference));
        cantFail(session.run(0));
        for (int64_t i = 0; i < 12; ++i) {
          const double given = readElement(x.ref(), i), found = readElement(session.head(0), i);
          double expected = given;
          if (isHalf(session.head(0).dtype)) {
            expected = nearestHalf(session.head(0).dtype, static_cast<double>(static_cast<float>(given)));
          } else if (!isFloating(session.head(0).dtype)) {
            Array whole{session.head(0).dtype, {1}, std::vector<char>(8)};
            writeElement(whole.ref(), 0, given);
            expected = readElement(whole.ref(), 0);
          }
          if (std::isnan(expected)) EXPECT_TRUE(std::isnan(found)) << from.str() << " to " << to.str();
          else EXPECT_EQ(found, expected) << from.str() << " to " << to.str() << ": " << given;
        }
      }
}

TEST(HalfRuns, RUN_04_DrawsAreThoseOfFloat32Rounded) {
  auto drawn = [](StringRef type) {
    TestGraph g("x = var {__shape__=(3,50), __dtype__=" + type.str() + "}; y = _copy(x)");
    SessionOptions options = on(Backend::Reference);
    options.initSeed = 7;
    Session session = open(g, {}, options);
    cantFail(session.run(0));
    std::vector<double> values;
    for (int64_t i = 0; i < 150; ++i) values.push_back(readElement(session.head(0), i));
    return values;
  };
  const std::vector<double> wide = drawn("float32");
  for (DType type : {DType::Float16, DType::BFloat16}) {
    const std::vector<double> found = drawn(dtypeName(type));
    for (size_t i = 0; i < wide.size(); ++i)
      EXPECT_NEAR(found[i], nearestHalf(type, wide[i]), std::abs(wide[i]) * 1e-2);
    EXPECT_NE(found, wide);
  }
}

// A type of 16 bits for the whole graph is that of variables alone: what states its type keeps it.
TEST(HalfRuns, INF_08_HalfWithoutANameIsADefault) {
  TestGraph g("n = BatchNorm(x, gamma, beta, mean, var); c = Cast(n) {dtype=float32}; y = elemwise_add(c, z)");
  InferRequest request;
  request.shapes.push_back({g.at("x").node, {2, 3}});
  InferOptions options;
  options.floatAs = DType::Float16;
  const Inference half = cantFail(infer(testing::testContext(), g, request, options));
  auto typeOf = [&](const Inference &inference, StringRef name) { return inference.dtype[g.graph.entry(g.at(name))]; };
  EXPECT_EQ(typeOf(half, "x"), DType::Float16);
  EXPECT_EQ(typeOf(half, "gamma"), DType::Float32);
  EXPECT_EQ(typeOf(half, "n"), DType::Float16);
  EXPECT_EQ(typeOf(half, "y"), DType::Float32);
  // An annotated graph has the types of its variables, found without a wish for another one.
  const Graph annotated = annotate(g, cantFail(infer(testing::testContext(), g, request, InferOptions())));
  EXPECT_EQ(cantFail(infer(testing::testContext(), annotated, request, options)).dtype.all(), half.dtype.all());
  options.floatAs = DType::Float64;
  const Inference whole = cantFail(infer(testing::testContext(), g, request, options));
  for (StringRef name : {"x", "gamma", "n", "c", "y"}) EXPECT_EQ(typeOf(whole, name), DType::Float64) << name.str();
}

}  // namespace
}  // namespace gradc
