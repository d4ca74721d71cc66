// Bilinear resizing, InstanceNorm, the gamma functions and parts of sequence models: values and gradients as
// MXNet 1.9.1 computes them, shapes both ways, draws of rrelu, refusals.
//
// A row whose gradient is empty says that the input has none. MXNet has InstanceNorm, and ψ inside the gradients of the
// gamma functions, in single precision only.
#include "tests/support/ops/mxnet_rows.h"
#include "tests/support/test_graph.h"

#include "passes/inference/infer.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

const std::vector<MxnetRow> &rows() {
  // clang-format off
  static const std::vector<MxnetRow> list = {
    {"Resize_corners", "_contrib_BilinearResize2D", {{"height", "3"}, {"width", "5"}}, 1e-14, {{{1, 1, 2, 3},
     {0.5, -1.25, 0, -2, 0.5, 0.75}}}, {{0.5, -0.375, -1.25, -0.625, 0, -0.75, -0.5625, -0.375, 0, 0.375, -2, -0.75,
     0.5, 0.625, 0.75}}, {{-2.625, 1.5, 4.875, -2.625, 1.5, 4.875}}},
    {"Resize_centres", "_contrib_BilinearResize2D", {{"height", "3"}, {"width", "2"}, {"align_corners", "False"}},
     1e-14, {{{1, 1, 2, 3}, {0.25, 0.5, -0.5, -2, 1, -0.25}}}, {{0.3125, -0.25, -0.46875, -0.09375, -1.25, 0.0625}},
     {{-0.9375, -0.25, 0.1875, 2.0625, 0.5, -0.5625}}},
    {"Resize_scales", "_contrib_BilinearResize2D", {{"scale_height", "1.7"}, {"scale_width", "0.5"}}, 1e-14, {{{1,
     1, 3, 4}, {1.5, -1.5, -1.5, -1.75, -0.75, 0, 1.5, -1.75, 0.5, -0.25, 0.75, -1.75}}}, {{1.5, -1.75, 0.375, -1.75,
     -0.75, -1.75, -0.125, -1.75, 0.5, -1.75}}, {{-1.25, 0, 0, 0.25, 2.5, 0, 0, -0.5, 1.25, 0, 0, 2.75}}},
    {"Resize_odd_scale", "_contrib_BilinearResize2D", {{"mode", "odd_scale"}, {"scale_height", "2"},
     {"scale_width", "2"}}, 1e-14, {{{1, 1, 2, 1}, {1.75, 2}}}, {{1.75, 1.8333333358168602, 1.9166666716337204, 2}},
     {{-1.6666666716337204, 1.6666666716337204}}},
    {"Resize_like", "_contrib_BilinearResize2D", {{"mode", "like"}}, 1e-14, {{{1, 1, 2, 2}, {-0.75, 1.5, -2, -2}},
     {{1, 1, 3, 1}, {0.25, -0.75, -0.25}}}, {{-0.75, -1.375, -2}}, {{-1.75, 0, 0.25, 0}, {0, 0, 0}}},
    {"InstanceNorm_images", "InstanceNorm", {}, 1e-05, {{{2, 2, 2}, {-0.75, 1.5, -1.75, -1.75, 0.5, 0.75, -1,
     -1.25}}, {{2}, {2, 2}}, {{2}, {-2, 2}}}, {{-3.9992103576660156, -0.0007897615432739258, 2, 2,
     -3.9389166831970215, -0.061083197593688965, 3.9389166831970215, 0.061083197593688965}}, {{-0.0007014274597167969,
     0.0007014274597167969, -31.622774124145508, 31.62277603149414, 1.866025447845459, -1.8660264015197754,
     -0.4665064811706543, 0.4665064811706543}, {-2.8782284259796143, -0.9694584012031555}, {-1, 2}}},
    {"InstanceNorm_eps", "InstanceNorm", {{"eps", "0.5"}}, 1e-05, {{{1, 2, 2, 2}, {0.75, -2, 1.25, -0.75, 2,
     -1.75, -1.5, -1}}, {{2}, {0, 1}}, {{2}, {2, 0.5}}}, {{2, 2, 2, 2, 2.041963577270508, -0.21456855535507202,
     -0.06413304805755615, 0.2367379069328308}}, {{0, 0, 0, 0, 0.17618176341056824, -0.5072675943374634,
     -0.02042686939239502, 0.3515126407146454}, {-0.42756912112236023, 5.077197551727295}, {0, 1}}},
    {"Gamma", "gamma", {}, 1e-07, {{{5}, {0.25, 1.5, -0.625, -2.375, 7.25}}}, {{3.625609908221908,
     0.886226925452758, -3.7926978950665613, -1.1714093304981898, 1155.3810139199895}}, {{22.990646371630504,
     -0.016169236057605882, 2.1883848640659007, -4.150801038114872, 5518.254201744813}}},
    {"Gammaln", "gammaln", {}, 1e-07, {{{5}, {0.25, 1.5, -0.625, -2.375, 7.25}}}, {{1.2880225246980774,
     -0.12078223763524522, 1.333077611516383, 0.15820757989552725, 7.0521854507385395}}, {{6.341180367886214,
     -0.018245029115252054, -0.5769995197646753, 3.543424941262482, 4.77613370417298}}},
    {"SequenceMask_time_first", "SequenceMask", {{"use_sequence_length", "True"}}, 1e-14, {{{3, 2, 1}, {2, -1, 0,
     -0.25, -2, 2}}, {{2}, {1, 2}}}, {{2, -1, 0, -0.25, 0, 0}}, {{-1.5, -0.5, 0, 1.5, 0, 0}, {}}},
    {"SequenceMask_batch_first", "SequenceMask", {{"use_sequence_length", "True"}, {"axis", "1"}, {"value",
     "0.3"}}, 1e-14, {{{2, 3}, {0.25, -1.75, 1.75, 0.75, 0.5, 2}}, {{2}, {2.75, 0}}}, {{0.25, -1.75,
     0.30000001192092896, 0.30000001192092896, 0.30000001192092896, 0.30000001192092896}}, {{-1.5, -0.5, 0, 0, 0, 0},
     {}}},
    {"SequenceMask_none", "SequenceMask", {}, 1e-14, {{{2, 2}, {2, 1, -1, 1}}}, {{2, 1, -1, 1}}, {{-1.5, -0.5,
     0.5, 1.5}}},
    {"div_sqrt_dim", "_contrib_div_sqrt_dim", {}, 1e-14, {{{2, 3}, {1, 2, -1.5, -0.25, -1.75, -1.25}}},
     {{0.5773502691896258, 1.1547005383792517, -0.8660254037844387, -0.14433756729740646, -1.0103629710818451,
     -0.7216878364870323}}, {{-0.8660254037844387, -0.2886751345948129, 0.2886751345948129, 0.8660254037844387,
     1.4433756729740645, -0.8660254037844387}}},
    {"div_sqrt_dim_vector", "_contrib_div_sqrt_dim", {}, 1e-14, {{{2}, {1.25, -1.75}}}, {{0.8838834764831843,
     -1.2374368670764582}}, {{-1.0606601717798212, -0.35355339059327373}}},
  };
  // clang-format on
  return list;
}

class SequenceValues : public ::testing::TestWithParam<MxnetRow> {};

TEST_P(SequenceValues, RUN_02_OutputsAndGradients) { checkMxnetRow(GetParam()); }

INSTANTIATE_TEST_SUITE_P(SequenceOps, SequenceValues, ::testing::ValuesIn(rows()),
                         [](const auto &info) { return info.param.name; });

TEST(SequenceOps, RUN_02_Arange) {
  OpHarness h;
  auto numbers = [&](std::vector<AttrText> attrs) { return h.values(h.apply("_arange", ArrayRef<Value>(), attrs)); };
  expectClose(numbers({{"start", "3"}, {"dtype", "float64"}}), {0, 1, 2}, 0);
  expectClose(numbers({{"start", "1"}, {"stop", "2"}, {"step", "0.25"}, {"dtype", "float64"}}), {1, 1.25, 1.5, 1.75},
              0);
  expectClose(numbers({{"start", "3"}, {"stop", "0"}, {"step", "-1"}, {"repeat", "2"}, {"dtype", "float64"}}),
              {3, 3, 2, 2, 1, 1}, 0);
}

TEST(SequenceOps, INF_04_ArangeOfInferredLength) {
  TestGraph g("a = var {__shape__=(3,)}; r = _arange() {start=1, infer_range=True}; y = elemwise_add(a, r)");
  Expected<Inference> inference = infer(g.context, g, {}, {});
  ASSERT_TRUE(!!inference) << toString(inference.takeError());
  EXPECT_EQ(toString(inference->shapeOf(g.graph.entry(g.at("r")))), "(3,)");
  const std::vector<AttrText> withEnd = {{"start", "1"}, {"stop", "5.5"}, {"step", "2"}, {"infer_range", "True"}};
  EXPECT_EQ(inferShapes("_arange", withEnd, " -> ?"), " -> (3,)");
}

// ψ and its derivatives at points where they are known: ψ(1) = −γ, ψ'(1) = π²/6, ψ''(1) = −2·ζ(3), ψ'(½) = π²/2.
TEST(SequenceOps, PolygammaAtKnownPoints) {
  OpHarness h;
  auto at = [&](const char *order, double x) {
    return h.values(h.apply("_polygamma", h.variable({1}, std::vector<double>{x}), {{"order", order}}));
  };
  const double pi = std::acos(-1.0);
  expectClose(at("0", 1), {-0.57721566490153286061}, 1.7e-15);
  expectClose(at("0", -0.5), {0.03648997397857652056}, 1e-13);
  expectClose(at("1", 1), {pi * pi / 6}, 1e-14);
  expectClose(at("1", 0.5), {pi * pi / 2}, 1e-14);
  expectClose(at("1", -0.5), {pi * pi / 2 + 4}, 1e-13);
  expectClose(at("2", 1), {-2 * 1.2020569031595942854}, 1e-14);
  expectClose(at("3", 1), {std::pow(pi, 4) / 15}, 1e-14);
  expectClose(at("0", 1e6), {13.815510057964190771}, 1e-15);
  EXPECT_TRUE(std::isnan(at("0", -2)[0]));
}

// In training slopes are drawn from [lower, upper), one per element, and the gradient uses the same ones.
TEST(SequenceOps, RreluDrawsItsSlopes) {
  OpHarness h;
  const size_t count = 4000;
  const Value x = h.variable({static_cast<int64_t>(count)}, std::vector<double>(count, -2));
  const Value y = h.apply("LeakyReLU", x, {{"act_type", "rrelu"}, {"lower_bound", "0.25"}, {"upper_bound", "0.75"}});
  const std::vector<double> values = h.values(y), slopes = h.values(OpHarness::at(y, 1));
  const Value dx = h.gradients(y, h.variable({static_cast<int64_t>(count)}, std::vector<double>(count, 1)), x)[0];
  double sum = 0, least = 1, largest = 0;
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(values[i], -2 * slopes[i]);
    sum += slopes[i];
    least = std::min(least, slopes[i]);
    largest = std::max(largest, slopes[i]);
  }
  EXPECT_EQ(h.values(dx), slopes);
  EXPECT_GE(least, 0.25);
  EXPECT_LT(largest, 0.75);
  EXPECT_LT(least, 0.26);
  EXPECT_GT(largest, 0.74);
  EXPECT_NEAR(sum / static_cast<double>(count), 0.5, 0.01);
}

// The bounds are held in single precision, and may be in either order, as in MXNet; also in primitives.
TEST(SequenceOps, RreluBoundsAreThoseOfMxnet) {
  const int64_t count = 1000;
  for (const auto &[lower, upper] : {std::pair("0.1", "0.1"), std::pair("0.5", "0.1")}) {
    OpHarness h;
    const Value x = h.variable({count}, std::vector<double>(count, -1));
    const Value y = h.apply("LeakyReLU", x, {{"act_type", "rrelu"}, {"lower_bound", lower}, {"upper_bound", upper}});
    const std::vector<double> slopes = h.values(OpHarness::at(y, 1));
    const bool isOne = StringRef(lower) == upper;
    EXPECT_EQ(*llvm::min_element(slopes) == *llvm::max_element(slopes), isOne);
    EXPECT_GE(*llvm::min_element(slopes), static_cast<double>(0.1f));
    EXPECT_LE(*llvm::max_element(slopes), static_cast<double>(isOne ? 0.1f : 0.5f));
    const Value made = h.decomposed(y);
    ASSERT_TRUE(made.isValid());
    const auto [least, largest] = std::minmax_element(slopes.begin(), slopes.end());
    for (double value : h.values(made)) {
      EXPECT_LE(-value, isOne ? *largest : 0.5);
      EXPECT_GE(-value, isOne ? *least : static_cast<double>(0.1f));
    }
  }
}

TEST(SequenceOps, INF_04_BilinearResize) {
  const char *op = "_contrib_BilinearResize2D";
  EXPECT_EQ(inferShapes(op, {{"height", "3"}, {"width", "5"}}, "(2,?,4,4) -> (?,7,?,?)"), "(2,7,4,4) -> (2,7,3,5)");
  EXPECT_EQ(inferShapes(op, {{"mode", "like"}}, "(2,7,4,4) (?,?,3,?) -> (?,?,?,6)"),
            "(2,7,4,4) (?,?,3,6) -> (2,7,3,6)");
  EXPECT_EQ(inferShapes(op, {{"mode", "to_even_down"}}, "(1,1,5,4) -> ?"), "(1,1,5,4) -> (1,1,4,4)");
  EXPECT_EQ(inferShapes(op, {{"mode", "to_odd_up"}}, "(1,1,5,4) -> ?"), "(1,1,5,4) -> (1,1,5,5)");
  EXPECT_EQ(inferShapes(op, {{"scale_height", "1.7"}, {"scale_width", "2"}}, "(1,2,4,4) -> ?"),
            "(1,2,4,4) -> (1,2,6,8)");
  EXPECT_EQ(inferShapes(op, {{"mode", "odd_scale"}, {"scale_height", "2"}, {"scale_width", "0.5"}}, "(1,2,5,4) -> ?"),
            "(1,2,5,4) -> (1,2,9,2)");
  EXPECT_EQ(inferShapes(op, {}, "(1,2,0,4) -> ?"), "data has shape (1,2,0,4), expected images that are not empty");
  EXPECT_EQ(inferShapes(op, {{"scale_height", "0.1"}}, "(1,2,4,4) -> ?"),
            "data of shape (1,2,4,4) would be resized to an empty image");
}

// Images without a pixel have no nearest one; factors of any size are numbers.
TEST(SequenceOps, E_50_BilinearResizeOfNothingAndToTooMuch) {
  EXPECT_EQ(inferShapes("_contrib_BilinearResize2D", {{"mode", "like"}}, "(1,1,0,3) (1,1,4,4) -> ?"),
            "data has shape (1,1,0,3), expected images that are not empty");
  EXPECT_EQ(
      inferShapes("_contrib_BilinearResize2D", {{"scale_height", "1e30"}, {"scale_width", "1"}}, "(1,1,2,3) -> ?"),
      "output 0 would have the shape (1,1,out of range,3), expected dimensions from 0 and at most 2^48 elements");
  EXPECT_EQ(
      inferShapes("_contrib_BilinearResize2D", {{"scale_height", "0.25"}, {"scale_width", "1"}}, "(1,1,2,3) -> ?"),
      "data of shape (1,1,2,3) would be resized to an empty image");
}

TEST(SequenceOps, INF_04_InstanceNorm) {
  EXPECT_EQ(inferShapes("InstanceNorm", {}, "(2,?,4) ? (3,) -> ? ? ?"), "(2,3,4) (3,) (3,) -> (2,3,4) (2,3) (2,3)");
  EXPECT_EQ(inferShapes("InstanceNorm", {}, "? ? ? -> (2,3) ? ?"), "(2,3) (3,) (3,) -> (2,3) (2,3) (2,3)");
  EXPECT_EQ(inferShapes("InstanceNorm", {}, "(2,) ? ? -> ? ? ?"),
            "data has shape (2,), expected at least an axis of images and one of channels");
}

TEST(SequenceOps, INF_04_SequenceMask) {
  const std::vector<AttrText> lengths = {{"use_sequence_length", "True"}};
  EXPECT_EQ(inferShapes("SequenceMask", lengths, "(4,?,3) (2,) -> ?"), "(4,2,3) (2,) -> (4,2,3)");
  EXPECT_EQ(inferShapes("SequenceMask", {{"use_sequence_length", "True"}, {"axis", "1"}}, "? ? -> (2,4)"),
            "(2,4) (2,) -> (2,4)");
  EXPECT_EQ(inferShapes("SequenceMask", lengths, "(4,) ? -> ?"),
            "data has shape (4,), expected at least a time axis and a batch axis");
}

TEST(SequenceOps, RefusedAttributes) {
  EXPECT_NE(refusalOf("_contrib_BilinearResize2D", {{"mode", "odd_scale"}, {"scale_height", "2"}})
                .find("'scale_width' is None"),
            std::string::npos);
  EXPECT_NE(refusalOf("_arange", {{"start", "5"}, {"stop", "2"}}).find("describe an empty range"), std::string::npos);
  EXPECT_NE(refusalOf("_arange", {{"start", "5"}, {"step", "0"}}).find("describe an empty range"), std::string::npos);
  EXPECT_NE(refusalOf("SequenceMask", {{"axis", "2"}}), "");
  EXPECT_NE(refusalOf("_polygamma", {{"order", "21"}}), "");
}

// Lengths of any type are truncated to integers of at least 0, NaN to 0; a length beyond the last step masks nothing.
TEST(SequenceOps, RUN_02_LengthsOutOfRange) {
  const OpTensor x{{2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}};
  checkRow({"SequenceMask",
            {{"use_sequence_length", "True"}, {"value", "-1"}},
            {x, {{5}, {NAN, HUGE_VAL, -HUGE_VAL, 1e300, -1e300}}},
            {2, 5},
            {-1, 2, -1, 4, -1, -1, 7, -1, 9, -1},
            {}});
  TestGraph g("n = _full {shape=(5,), value=18446744073709549568, dtype=uint64};"
              "y = SequenceMask(x, n) {use_sequence_length=True}");
  EXPECT_EQ(evaluate(g, {{"x", Array({2, 5}, x.values)}})[0].values, x.values) << "2^64 - 2048";
}

// Values of MXNet 1.9.1, which holds the value in single precision.
TEST(SequenceOps, RUN_02_MasksOfIntegers) {
  auto masked = [](const std::string &dtype, const std::string &value) {
    return evaluate(TestGraph("x = _constant {shape=(3,2), dtype=" + dtype +
                              ", values=(1,2,3,4,5,6)}; n = _constant {shape=(2,), dtype=" + dtype +
                              ", values=(1,2)}; y = SequenceMask(x, n) {use_sequence_length=True, value=" + value +
                              "}"),
                    {})[0]
        .values;
  };
  EXPECT_EQ(masked("int32", "-1.5"), (std::vector<double>{1, 2, -1, 4, -1, -1}));
  EXPECT_EQ(masked("uint8", "7"), (std::vector<double>{1, 2, 7, 4, 7, 7}));
  EXPECT_EQ(masked("int64", "16777217"), (std::vector<double>{1, 2, 16777216, 4, 16777216, 16777216}));
  EXPECT_EQ(masked("int8", "-3"), (std::vector<double>{1, 2, -3, 4, -3, -3}));
}

TEST(SequenceOps, RUN_02_ArangeOfIntegers) {
  auto numbers = [](const std::string &attrs) {
    return evaluate(TestGraph("y = _arange {" + attrs + "}"), {})[0].values;
  };
  EXPECT_EQ(numbers("start=3, stop=0, step=-1, dtype=uint8"), (std::vector<double>{3, 2, 1}));
  EXPECT_EQ(numbers("start=-1, stop=2, dtype=uint16"), (std::vector<double>{0, 0, 1}));
  EXPECT_EQ(numbers("start=120, stop=140, step=10, dtype=int8"), (std::vector<double>{120, 127}));
  EXPECT_EQ(numbers("start=1e30, stop=2e30, step=1e30, dtype=int32"), (std::vector<double>{2147483647}));
}

TEST(SequenceOps, E_50_ArangeOfTooManyNumbers) {
  const std::string refused =
      "output 0 would have the shape (out of range,), expected dimensions from 0 and at most 2^48 "
      "elements";
  EXPECT_EQ(inferShapes("_arange", {{"start", "1e15"}}, " -> ?"), refused);
  EXPECT_EQ(inferShapes("_arange", {{"start", "4"}, {"repeat", "4611686018427387904"}}, " -> ?"), refused);
  EXPECT_EQ(inferShapes("_arange", {{"start", "-1e308"}, {"stop", "1e308"}}, " -> ?"), refused);
  EXPECT_EQ(refusalOf("_arange", {{"start", "2"}, {"dtype", "bool"}}),
            "attribute 'dtype' is bool, expected a type of numbers [bad_attribute]");
}

}  // namespace
}  // namespace gradc
