// Values that are part of a graph: every dtype to the last bit, in files and in memory.
#include "formats/json/reader.h"
#include "ir/graph/text.h"
#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

#include "runtime/session/session.h"

#include "gtest/gtest.h"
#include "passes/gradient/higher_order/higher_order.h"

using namespace llvm;

namespace gradc::testing {
namespace {

TensorRef run(Context &context, const Graph &graph, std::optional<Session> &session) {
  session.emplace(cantFail(Session::create(context, graph, {}, SessionOptions())));
  cantFail(session->run(1));
  return session->head(0);
}

template <class T> void expectValues(StringRef dtype, const std::string &text, std::vector<T> expected) {
  TestGraph g("y = _constant {dtype=" + dtype.str() + ", shape=(" + std::to_string(expected.size()) + ",), values=(" +
              text + ")}");
  // As read, and as what is written of it.
  const Graph again = cantFail(readJson(g.context, written(g.graph), ReadOptions())).graph;
  for (const Graph &graph : {g.graph, again}) {
    std::optional<Session> session;
    const TensorRef y = run(g.context, graph, session);
    EXPECT_EQ(dtypeName(y.dtype), dtype);
    ASSERT_EQ(y.bytes(), expected.size() * sizeof(T)) << dtype.str();
    EXPECT_EQ(std::memcmp(y.data, expected.data(), y.bytes()), 0) << dtype.str();
  }
}

TEST(Constant, A_18_EveryDTypeToTheLastBit) {
  expectValues<double>("float64", "0.1, -0, 4.9e-324, inf, 1.7976931348623157e308",
                       {0.1, -0.0, 4.9e-324, HUGE_VAL, 1.7976931348623157e308});
  expectValues<float>("float32", "0.1, 16777217, -inf, 1e-45", {0.1f, 16777216.0f, -HUGE_VALF, 1e-45f});
  expectValues<int64_t>("int64", "9223372036854775807, -9223372036854775808, 9007199254740993",
                        {INT64_MAX, INT64_MIN, 9007199254740993});
  expectValues<uint64_t>("uint64", "18446744073709551615, 0", {UINT64_MAX, 0});
  expectValues<int32_t>("int32", "2147483647, -2147483648", {INT32_MAX, INT32_MIN});
  expectValues<int8_t>("int8", "-128, 127", {-128, 127});
  expectValues<uint8_t>("uint8", "255", {255});
  expectValues<uint8_t>("bool", "1, 0", {1, 0});
}

TEST(Constant, A_18_NothingOrOneElement) {
  TestGraph scalar("y = _constant {dtype=float64, shape=(), values=2.5}"),
      empty("y = _constant {dtype=float32, shape=(0,3), values=()}");
  std::optional<Session> session;
  const TensorRef y = run(scalar.context, scalar, session);
  EXPECT_TRUE(y.shape.empty());
  EXPECT_EQ(*y.as<double>(), 2.5);
  EXPECT_EQ(run(empty.context, empty, session).bytes(), 0u);
}

TEST(Constant, REG_19_ValuesThatDoNotFit) {
  TestContext context;
  auto errorOf = [&](StringRef dtype, StringRef shape, StringRef values) {
    AttrText attrs[] = {{"dtype", dtype}, {"shape", shape}, {"values", values}};
    return describeError(context.kind(*context.ops.find("_constant"), context.attrs(ArrayRef<AttrText>(attrs))));
  };
  EXPECT_EQ(errorOf("float32", "(2,)", "(1,2,3)"),
            "[bad_attribute] attribute 'values' has 3 elements, expected as many as a tensor of shape (2,) has");
  EXPECT_EQ(errorOf("int8", "(1,)", "128"),
            "[bad_attribute] attribute 'values' has 128, expected -128 to 127 for dtype int8");
  EXPECT_EQ(errorOf("bool", "(1,)", "2"), "[bad_attribute] attribute 'values' has 2, expected 0 to 1 for dtype bool");
  for (auto [dtype, values] : {std::pair{"int32", "0.5"},
                               {"int64", "9223372036854775808"},
                               {"uint64", "-1"},
                               {"int32", "(1"},
                               {"int32", "nan"},
                               {"int32", "1,,"},
                               {"float32", "1,,"}})
    EXPECT_EQ(errorOf(dtype, "(1,)", values), "[bad_attribute] attribute 'values' is \"" + std::string(values) +
                                                  "\", expected tuple of elements of dtype");
  for (StringRef dtype : {"float16", "bfloat16"}) EXPECT_EQ(errorOf(dtype, "(1,)", "0.5"), "success") << dtype.str();
  EXPECT_EQ(errorOf("None", "(1,)", "1"), "[bad_attribute] attribute 'dtype' is \"None\", expected an element type");
  EXPECT_EQ(errorOf("float32", "(4294967296,4294967296)", "1"),
            "[bad_attribute] attribute 'values' has 1 element, expected as many as a tensor of shape "
            "(4294967296,4294967296) has");
}

// y = c·x with c = (2, -3): a constant gets no gradient and passes on none.
TEST(Constant, HO_03_GradientsOfWhatReadsIt) {
  TestGraph g(
      "x = var {__shape__=(2,)}; c = _constant {dtype=float64, shape=(2,), values=(2,-3)}; y = elemwise_mul(x, c);"
      "z = elemwise_mul(y, y); heads z");
  const Array x{{2}, {5, 7}};
  const Graph first = cantFail(buildGradient(g.context, g, wrt(g, {"x"}), {})).graph;
  EXPECT_EQ(evaluate(first, {{"x", x}}).back().values, (std::vector<double>{2 * 4 * 5, 2 * 9 * 7}));
  const Graph second = cantFail(buildGradientOfOrder(g.context, g, wrt(g, {"x"}), {}, 2)).graph;
  EXPECT_EQ(evaluate(second, {{"x", x}}).back().values, (std::vector<double>{8, 18}));
}

}  // namespace
}  // namespace gradc::testing
