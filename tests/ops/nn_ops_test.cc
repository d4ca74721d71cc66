// Convolution, fully connected, activation, batch normalisation, pooling and dropout: values, gradients and aux states
// as MXNet 1.9.1 computes them in float64, and derivatives of every order by central differences.
#include "tests/support/ops/mxnet_rows.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

const std::vector<MxnetRow> &rows() {
  // clang-format off
  static const std::vector<MxnetRow> list = {
    {"Convolution_GroupsStridePad", "Convolution", {{"kernel", "(2,2)"}, {"stride", "(2,1)"}, {"pad",
     "(1,0)"}, {"num_filter", "2"}, {"num_group", "2"}}, 1e-14,
     {{{1, 2, 3, 4}, {-1.25, 1.5, 1.75, -0.5, 2, 0.25, 0, -1, -0.25, 2, 2, -0.25, 1, 1.75, -0.25, 2, 1, 1.25,
      0.75, -1.75, 1.75, 0.25, 0.5, 0.25}}, {{2, 1, 2, 2}, {0.25, -1.75, -0.25, 2, 1.5, -0.75, -2, 2}}, {{2},
      {-1, 1.5}}},
     {{2.3125, 2.125, -2.4375, 3.125, 2.5625, -0.25, 3, -2.5, 6, -0.9375, 3.3125, 3.4375}},
     {{0.375, -2.875, -1.125, 1, 0.375, -2, -4.75, 2.625, -0.375, 2.375, 5.375, -3, 1, -2, -2, 3, 3.75,
      -4.125, 0.375, 0.375, -5, 8, -2, -1}, {3.625, 1.875, 3.625, 5, 0.25, 2.875, 3.75, 1.75}, {1, 2}},
     {}},
    {"Convolution_Dilate1d", "Convolution", {{"kernel", "(2,)"}, {"dilate", "(2,)"}, {"num_filter", "2"},
     {"no_bias", "True"}}, 1e-14,
     {{{2, 1, 5}, {-1, 0.25, -1.5, -1, -0.5, 0.25, -0.25, -1, 1, 1.25}}, {{2, 1, 2}, {0.75, 0.75, -1.25, -1.75}}},
     {{-1.875, -0.5625, -1.5, 3.875, 1.4375, 2.75, -0.5625, 0.5625, 0.1875, 1.4375, -1.4375, -0.9375}},
     {{-3, -3.5, -1.5, -4.75, 3, -3.5, 2.25, -3, 3, 2}, {-1.125, 5.375, 2.875, -8.625}},
     {}},
    {"FullyConnected_Flatten", "FullyConnected", {{"num_hidden", "3"}}, 1e-14,
     {{{2, 2, 2}, {-1.25, 1.5, -1.75, -0.25, 2, 1.5, 0.25, -0.5}}, {{3, 4}, {1.75, 2, -0.75, -1.5, 1.25, 1.25,
      0.75, 0, -2, 1, 1, -0.75}}, {{3}, {1.5, 1.75, -2}}},
     {{4, 0.75, 0.4375, 8.5625, 6.3125, -3.875}},
     {{-4.25, -3.125, 1.25, 1.875, 8.75, 4.625, -0.75, -1.125}, {4.875, 0, 3, -0.375, 5.625, 3, 1.5, -1.125,
      -3.625, -1.5, -1.25, 0.625}, {0, 2, -1}},
     {}},
    {"FullyConnected_LastAxis", "FullyConnected", {{"num_hidden", "3"}, {"flatten", "False"}, {"no_bias",
     "True"}}, 1e-14,
     {{{2, 2, 2}, {-0.25, -0.25, 2, -2, 0, 1, -0.75, 0.75}}, {{3, 2}, {-0.75, 0.25, -0.75, -1.75, 1.75, -0.5}}},
     {{0.125, 0.625, -0.3125, -2, 2, 4.5, 0.25, -1.75, -0.5, 0.75, -0.75, -1.6875}},
     {{2.375, 0.25, -5.625, -3.25, 2.625, -1.75, -1.625, 3.5}, {1.5, -1.25, 6.25, -5.5, -2.75, 4}},
     {}},
    {"Activation_relu", "Activation", {{"act_type", "relu"}}, 1e-14,
     {{{6}, {-20, -1.5, 0, 0.25, 1, 30}}},
     {{0, 0, 0, 0.25, 1, 30}},
     {{-0, -0, 0, 1.5, 2.5, -1.5}},
     {}},
    {"Activation_sigmoid", "Activation", {{"act_type", "sigmoid"}}, 1e-14,
     {{{6}, {-20, -1.5, 0, 0.25, 1, 30}}},
     {{2.0611536181902037e-09, 0.18242552380635635, 0.5, 0.5621765008857981, 0.7310585786300049,
      0.9999999999999065}},
     {{-3.091730420912774e-09, -0.07457322603516643, 0.125, 0.3692011241063975, 0.4915298331037046,
      -1.4022116801014417e-13}},
     {}},
    {"Activation_softrelu", "Activation", {{"act_type", "softrelu"}}, 1e-14,
     {{{6}, {-20, -1.5, 0, 0.25, 1, 30}}},
     {{2.061153620314381e-09, 0.2014132779827524, 0.6931471805599453, 0.8259394198788436, 1.3132616875182228, 30}},
     {{-3.091730427285306e-09, -0.09121276190317817, 0.25, 0.843264751328697, 1.8276464465750122,
      -1.4999999999998597}},
     {}},
    {"Activation_softsign", "Activation", {{"act_type", "softsign"}}, 1e-14,
     {{{6}, {-20, -1.5, 0, 0.25, 1, 30}}},
     {{-0.9523809523809523, -0.6, 0, 0.2, 0.5, 0.967741935483871}},
     {{-0.0034013605442176874, -0.08, 0.5, 0.96, 0.625, -0.0015608740894901146}},
     {}},
    {"Activation_tanh", "Activation", {{"act_type", "tanh"}}, 1e-14,
     {{{6}, {-20, -1.5, 0, 0.25, 1, 30}}},
     {{-1, -0.9051482536448664, 0, 0.24491866240370913, 0.7615941559557649, 1}},
     {{-0, -0.09035331946182429, 0.5, 1.410022273209567, 1.0499358540350654, -0}},
     {}},
    {"BatchNorm_Train", "BatchNorm", {{"fix_gamma", "False"}, {"momentum", "0.75"}, {"eps", "0.01"},
     {"output_mean_var", "True"}}, 1e-14,
     {{{2, 2, 3}, {-1.25, 1.75, 0, -2, 1.25, 1.75, 0.75, -1, -1, 0.25, -2, 0.5}}, {{2}, {0.5, 2}}, {{2},
      {1.75, -0.5}}, {{2}, {0.25, -1}}, {{2}, {0.75, 2}}},
     {{1.2348528843523523, 2.6085785260794125, 1.8072385684052943, -3.1621739132701556, 1.2559019427952092,
      1.935605920651419, 2.150669978837059, 1.3493300211629407, 1.3493300211629407, -0.10350601291721084,
      -3.1621739132701556, 0.23634597601089402}, {-0.125, -0.041666666666666664}, {0.9158170944847069,
      0.67970397785621}},
     {{-0.7858776430219109, -0.06392957002387568, 0.23995592052766349, 1.5643942366918666, 2.583612194183077,
      -2.9063565514698655, -0.1519427452757696, 0.1519427452757696, 0.6098512925181231, 2.688286039789603,
      -2.513829630445393, -1.4161062887492881}, {-1.2592485049164721, 0.6797039778562103}, {0, 3}},
     {{0.15625, -0.7604166666666666}, {0.8580729166666667, 2.0386284722222223}}},
    {"BatchNorm_FixGamma", "BatchNorm", {{"output_mean_var", "True"}}, 1e-14,
     {{{2, 2, 3}, {-1.25, 1.75, 0, -2, 1.25, 1.75, 0.75, -1, -1, 0.25, -2, 0.5}}, {{2}, {1, 1}}, {{2}, {0.25,
      1.5}}, {{2}, {0.25, -1}}, {{2}, {0.75, 2}}},
     {{-0.7842049674715352, 1.973674945785892, 0.3649116630523928, 0.16613706875057854, 2.379781933377278,
      2.7203426817813856, 1.0543816413667497, -0.5543816413667496, -0.5543816413667496, 1.6986604365690627,
      0.16613706875057854, 1.8689408107711165}, {-0.125, -0.041666666666666664}, {0.9192933044191424,
      0.6811214968082152}},
     {{-1.5792331824769872, -0.1258246091291151, 0.48190145508160165, 0.7842572222065177, 1.2942173023962733,
      -1.4566012104701964, -0.30386303210535837, 0.30386303210535837, 1.2231563365245006, 1.3468823536634917,
      -1.259107268218128, -0.7096483995779584}, {0, 0}, {0, 3}},
     {{0.21249999105930328, -0.9041666438182195}, {0.7932291769733031, 2.0154513925727873}}},
    {"BatchNorm_Global", "BatchNorm", {{"fix_gamma", "False"}, {"use_global_stats", "True"},
     {"output_mean_var", "True"}}, 1e-14,
     {{{2, 2, 3}, {-1.25, 1.75, 0, -2, 1.25, 1.75, 0.75, -1, -1, 0.25, -2, 0.5}}, {{2}, {0.5, 2}}, {{2},
      {-1.5, -2}}, {{2}, {0.25, -1}}, {{2}, {0.75, 2}}},
     {{-2.3654486301973976, -0.6345513698026024, -1.644241438366233, -3.4138601414930245, 1.1811853183593053,
      1.8881153891058173, -1.2115171232675341, -2.221207191831165, -2.221207191831165, -0.23267482313371923,
      -3.4138601414930245, 0.12079021223953657}, {0.25, -1}, {1.1539315069298635, 0.7069300707465123}},
     {{-0.8654486301973976, -0.28848287673246586, 0.28848287673246586, 2.1207902122395366, 3.5346503537325615,
      -2.1207902122395366, -0.28848287673246586, 0.28848287673246586, 0.8654486301973976, 3.5346503537325615,
      -2.1207902122395366, -0.7069300707465123}, {-1.5866558220285623, 2.739354024142735}, {0, 3}},
     {{0.25, -1}, {0.75, 2}}},
    {"BatchNorm_Infer", "BatchNorm", {{"fix_gamma", "False"}, {"output_mean_var", "True"}}, 1e-14,
     {{{2, 2, 3}, {-1.25, 1.75, 0, -2, 1.25, 1.75, 0.75, -1, -1, 0.25, -2, 0.5}}, {{2}, {0.5, 2}}, {{2}, {0,
      0}}, {{2}, {0.25, -1}}, {{2}, {0.75, 2}}},
     {{-0.8654486301973976, 0.8654486301973976, -0.14424143836623293, -1.4138601414930245, 3.1811853183593053,
      3.8881153891058173, 0.28848287673246586, -0.7212071918311647, -0.7212071918311647, 1.7673251768662808,
      -1.4138601414930245, 2.1207902122395366}, {0.25, -1}, {1.1539315069298635, 0.7069300707465123}},
     {},
     {{0.25, -1}, {0.75, 2}},
     false},
    {"Pooling_max_valid", "Pooling", {{"kernel", "(2,)"}, {"stride", "(3,)"}, {"pad", "(1,)"}, {"pool_type",
     "max"}, {"pooling_convention", "valid"}}, 1e-14,
     {{{1, 1, 7}, {1, 3, 3, 0, -1, 2, 7}}},
     {{1, 3, 7}},
     {{-1.5, 0, -0.5, 0, 0, 0, 0.5}},
     {}},
    {"Pooling_max_full", "Pooling", {{"kernel", "(2,)"}, {"stride", "(3,)"}, {"pad", "(1,)"}, {"pool_type",
     "max"}, {"pooling_convention", "full"}}, 1e-14,
     {{{1, 1, 7}, {1, 3, 3, 0, -1, 2, 7}}},
     {{1, 3, 7, -1.7976931348623157e+308}},
     {{-1.5, 0, -0.5, 0, 0, 0, 0.5}},
     {}},
    {"Pooling_avg_valid", "Pooling", {{"kernel", "(2,)"}, {"stride", "(3,)"}, {"pad", "(1,)"}, {"pool_type",
     "avg"}, {"pooling_convention", "valid"}}, 1e-14,
     {{{1, 1, 7}, {1, 3, 3, 0, -1, 2, 7}}},
     {{0.5, 1.5, 4.5}},
     {{-0.75, 0, -0.25, -0.25, 0, 0.25, 0.25}},
     {}},
    {"Pooling_avg_full", "Pooling", {{"kernel", "(2,)"}, {"stride", "(3,)"}, {"pad", "(1,)"}, {"pool_type",
     "avg"}, {"pooling_convention", "full"}}, 1e-14,
     {{{1, 1, 7}, {1, 3, 3, 0, -1, 2, 7}}},
     {{0.5, 1.5, 4.5, 0}},
     {{-0.75, 0, -0.25, -0.25, 0, 0.25, 0.25}},
     {}},
    {"Pooling_sum_valid", "Pooling", {{"kernel", "(2,)"}, {"stride", "(3,)"}, {"pad", "(1,)"}, {"pool_type",
     "sum"}, {"pooling_convention", "valid"}}, 1e-14,
     {{{1, 1, 7}, {1, 3, 3, 0, -1, 2, 7}}},
     {{1, 3, 9}},
     {{-1.5, 0, -0.5, -0.5, 0, 0.5, 0.5}},
     {}},
    {"Pooling_sum_full", "Pooling", {{"kernel", "(2,)"}, {"stride", "(3,)"}, {"pad", "(1,)"}, {"pool_type",
     "sum"}, {"pooling_convention", "full"}}, 1e-14,
     {{{1, 1, 7}, {1, 3, 3, 0, -1, 2, 7}}},
     {{1, 3, 9, 0}},
     {{-1.5, 0, -0.5, -0.5, 0, 0.5, 0.5}},
     {}},
    {"Pooling_AvgWithoutPadding", "Pooling", {{"kernel", "(3,)"}, {"stride", "(2,)"}, {"pad", "(1,)"},
     {"pool_type", "avg"}, {"count_include_pad", "False"}}, 1e-14,
     {{{1, 1, 7}, {1, 3, 3, 0, -1, 2, 7}}},
     {{2, 2, 0.3333333333333333, 4.5}},
     {{-0.75, -0.9166666666666666, -0.16666666666666666, 0, 0.16666666666666666, 0.9166666666666666, 0.75}},
     {}},
    {"Pooling_Ties", "Pooling", {{"kernel", "(2,2)"}, {"pool_type", "max"}}, 1e-14,
     {{{1, 1, 3, 3}, {1, 1, 1, 1, 1, 1, 1, 2, 2}}},
     {{1, 1, 2, 2}},
     {{-1.5, -0.5, 0, 0, 0, 0, 0, 2, 0}},
     {}},
    {"Pooling_ChannelsLast", "Pooling", {{"kernel", "(2,2)"}, {"layout", "NHWC"}, {"pool_type", "max"}}, 1e-14,
     {{{1, 3, 3, 2}, {-0.25, 1, 0, 0.5, 0, -2, 1.75, 1.5, -0.75, -1.25, 0.75, 0.75, -1, -2, -1.5, -1.5, -1.75,
      1.25}}},
     {{1.75, 1.5, 0.75, 0.75, 1.75, 1.5, 0.75, 1.25}},
     {{0, 0, 0, 0, 0, 0, 1, -2, 0, 0, 0, 1.5, 0, 0, 0, 0, 0, 0.5}},
     {}},
    {"Pooling_Global", "Pooling", {{"kernel", "(2,2)"}, {"pad", "(1,1)"}, {"global_pool", "True"},
     {"pool_type", "avg"}}, 1e-14,
     {{{1, 2, 2, 3}, {-1.75, -2, 1.25, 0.25, -1.75, 0.25, -2, 0, -0.25, -1, 1.75, -1}}},
     {{-0.625, -0.41666666666666663}},
     {{-0.25, -0.25, -0.25, -0.25, -0.25, -0.25, -0.08333333333333333, -0.08333333333333333,
      -0.08333333333333333, -0.08333333333333333, -0.08333333333333333, -0.08333333333333333}},
     {}},
    {"Pooling_Norm2", "Pooling", {{"kernel", "(2,)"}, {"stride", "(2,)"}, {"pool_type", "lp"}, {"p_value",
     "2"}}, 1e-14,
     {{{1, 1, 6}, {-1, 2, 0, 0, 3, 4}}},
     {{2.23606797749979, 0, 5}},
     {{0.6708203932499369, -1.3416407864998738, 0, 0, 0.3, 0.4}},
     {}},
    {"Pooling_Norm3", "Pooling", {{"kernel", "(2,)"}, {"stride", "(2,)"}, {"pool_type", "lp"}, {"p_value",
     "3"}}, 1e-14,
     {{{1, 1, 6}, {-1, 2, 0, 0, 3, 4}}},
     {{1.9129311827723894, 0, 4.497941445275415}},
     {{-0.4099138248797976, -1.6396552995191904, 0, 0, 0.22242567586526776, 0.39542342376047607}},
     {}},
  };
  // clang-format on
  return list;
}

class MxnetValues : public ::testing::TestWithParam<MxnetRow> {};

TEST_P(MxnetValues, RUN_02_OutputsGradientsAndAuxStates) { checkMxnetRow(GetParam()); }

INSTANTIATE_TEST_SUITE_P(NnOps, MxnetValues, ::testing::ValuesIn(rows()),
                         [](const auto &info) { return info.param.name; });

TEST(NnOps, HO_02_ConvolutionTripleIsClosed) {
  const std::vector<AttrText> channelsFirst = {{"kernel", "(3,2)"}, {"num_filter", "4"}, {"num_group", "2"},
                                               {"stride", "(2,1)"}, {"pad", "(1,1)"},    {"dilate", "(1,2)"}};
  OpHarness h;
  const Value x = h.variable({2, 4, 4, 5}, 1), w = h.variable({4, 2, 3, 2}, 2), b = h.variable({4}, 3);
  h.checkGradients(h.apply("Convolution", {x, w, b}, channelsFirst), {x, w, b}, 3);
}

TEST(NnOps, HO_02_ConvolutionChannelsLast) {
  OpHarness h;
  const Value x = h.variable({2, 4, 4, 3}, 1), w = h.variable({4, 2, 2, 3}, 2), b = h.variable({4}, 3);
  const std::vector<AttrText> attrs = {{"kernel", "(2,2)"}, {"num_filter", "4"}, {"layout", "NHWC"}};
  h.checkGradients(h.apply("Convolution", {x, w, b}, attrs), {x, w, b}, 3);
}

// Channels last is channels first with the axes in another place.
TEST(NnOps, ConvolutionLayoutsAgree) {
  OpHarness h;
  const Value first = h.variable({1, 2, 2, 3}, 1), last = h.variable({1, 2, 3, 2}, 1);
  const Value w = h.variable({2, 2, 2, 2}, 2), v = h.variable({2, 2, 2, 2}, 2);
  for (size_t pixel = 0; pixel < 6; ++pixel)
    for (size_t c = 0; c < 2; ++c) h.storage(last)[pixel * 2 + c] = h.storage(first)[c * 6 + pixel];
  for (size_t f = 0; f < 2; ++f)
    for (size_t tap = 0; tap < 4; ++tap)
      for (size_t c = 0; c < 2; ++c) h.storage(v)[f * 8 + tap * 2 + c] = h.storage(w)[f * 8 + c * 4 + tap];
  const std::vector<AttrText> attrs = {{"kernel", "(2,2)"}, {"num_filter", "2"}, {"no_bias", "True"}, {"pad", "(1,0)"}};
  std::vector<AttrText> lastAttrs = attrs;
  lastAttrs.push_back({"layout", "NHWC"});
  const std::vector<double> a = h.values(h.apply("Convolution", {first, w}, attrs));
  const std::vector<double> b = h.values(h.apply("Convolution", {last, v}, lastAttrs));
  ASSERT_EQ(a.size(), 12u);
  for (size_t pixel = 0; pixel < 6; ++pixel)
    for (size_t f = 0; f < 2; ++f) EXPECT_NEAR(b[pixel * 2 + f], a[f * 6 + pixel], 1e-15);
}

TEST(NnOps, HO_02_FullyConnected) {
  for (StringRef flatten : {"True", "False"}) {
    SCOPED_TRACE(flatten.str());
    OpHarness h;
    const Value x = h.variable({2, 3, 2}, 1), w = h.variable({4, flatten == "True" ? 6 : 2}, 2), b = h.variable({4}, 3);
    h.checkGradients(h.apply("FullyConnected", {x, w, b}, {{"num_hidden", "4"}, {"flatten", flatten}}), {x, w, b}, 3);
  }
}

TEST(NnOps, HO_02_Activation) {
  for (StringRef type : {"relu", "sigmoid", "softrelu", "softsign", "tanh"}) {
    SCOPED_TRACE(type.str());
    OpHarness h;
    const Value x = h.variable({7}, 1);
    h.checkGradients(h.apply("Activation", x, {{"act_type", type}}), x, 3);
  }
}

// The statistics depend on the data in training and are constants otherwise, at every order. With the momentum 1 the
// moving ones stay where they are over the many runs.
TEST(NnOps, HO_02_BatchNormInEveryForm) {
  for (int form = 0; form < 16; ++form) {
    SCOPED_TRACE("form " + std::to_string(form));
    auto flag = [&](int bit) { return form >> bit & 1 ? StringRef("True") : StringRef("False"); };
    OpHarness h;
    h.isTraining = form & 8;
    const Value x = h.variable({3, 2, 3}, 1), gamma = h.variable({2}, 2), beta = h.variable({2}, 3);
    const Value mean = h.variable({2}, 4), variance = h.variable({2}, std::vector<double>{0.5, 0.7});
    const Value y = h.apply("BatchNorm", {x, gamma, beta, mean, variance},
                            {{"use_global_stats", flag(0)},
                             {"fix_gamma", flag(1)},
                             {"momentum", "1"},
                             {"axis", "-2"},
                             {"eps", "0.01"},
                             {"output_mean_var", flag(2)}});
    std::vector<Value> heads = {y};
    if (form & 4) heads = {y, OpHarness::at(y, 1), OpHarness::at(y, 2)};
    h.checkGradients(heads, {x, gamma, beta}, form & 4 ? 2 : 3);
  }
}

TEST(NnOps, HO_02_Pooling) {
  for (StringRef type : {"max", "avg", "sum", "lp"})
    for (StringRef layout : {"NCHW", "NHWC"})
      for (StringRef p : {"1", "2", "3"}) {
        if (type != "lp" && p != "1") continue;
        SCOPED_TRACE((type + " " + layout + " " + p).str());
        OpHarness h;
        const Value x = h.variable({2, 4, 5, 2}, 5);
        if (type == "lp")
          for (double &element : h.storage(x)) element += 1.5;
        h.checkGradients(h.apply("Pooling", x,
                                 {{"pool_type", type},
                                  {"p_value", p},
                                  {"kernel", "(2,2)"},
                                  {"stride", "(2,1)"},
                                  {"pad", "(1,0)"},
                                  {"layout", layout}}),
                         x, 3);
      }
}

// As many windows as input/stride rounded up, cut off at the end of the image.
TEST(NnOps, PoolingSameConvention) {
  OpHarness h;
  const Value x = h.variable({1, 1, 5}, std::vector<double>{1, 5, 2, 4, 3});
  const Value y = h.apply("Pooling", x, {{"kernel", "(2,)"}, {"stride", "(2,)"}, {"pooling_convention", "same"}});
  EXPECT_EQ(h.values(y), (std::vector<double>{5, 4, 3}));
}

TEST(NnOps, DropoutMaskIsScaledAndShared) {
  OpHarness h;
  const Value x = h.variable({40, 3, 50}, 1);
  const Value y = h.apply("Dropout", x, {{"p", "0.25"}, {"axes", "(1,)"}});
  const std::vector<double> mask = h.values(OpHarness::at(y, 1)), values = h.values(y);
  ASSERT_EQ(mask.size(), 2000u);
  size_t kept = 0;
  for (double element : mask) kept += element != 0;
  EXPECT_NEAR(static_cast<double>(kept) / 2000, 0.75, 0.04);
  for (size_t i = 0; i < values.size(); ++i) {
    const double drawn = mask[i / 150 * 50 + i % 50];
    EXPECT_TRUE(drawn == 0 || drawn == 1 / 0.75);
    EXPECT_EQ(values[i], h.storage(x)[i] * drawn);
  }
}

TEST(NnOps, DropoutIsIdentityInInferenceUnlessAlways) {
  OpHarness h;
  h.isTraining = false;
  const Value x = h.variable({100}, 1);
  EXPECT_EQ(h.values(h.apply("Dropout", x, {})), h.storage(x));
  EXPECT_NE(h.values(h.apply("Dropout", x, {{"mode", "always"}})), h.storage(x));
  EXPECT_EQ(h.values(h.apply("Dropout", x, {{"mode", "always"}, {"p", "0"}})), h.storage(x));
}

TEST(NnOps, HO_02_Dropout) {
  OpHarness h;
  const Value x = h.variable({3, 4}, 1);
  h.checkGradients(h.apply("Dropout", x, {{"p", "0.3"}}), x, 2);
}

// The piece active at the base point is kept on the other side of a kink (settled: kinks).
TEST(NnOps, RUN_03_PiecesOfReluAndMaximum) {
  OpHarness h;
  const Value x = h.variable({1, 1, 4}, std::vector<double>{1, -2, -1, 3});
  const Value base = h.variable({1, 1, 4}, std::vector<double>{-1, 2, -3, 4});
  EXPECT_EQ(h.pieceValues(h.apply("Activation", x, {{"act_type", "relu"}}), {base}),
            (std::vector<double>{0, -2, 0, 3}));
  const Value pool = h.apply("Pooling", x, {{"kernel", "(2,)"}, {"stride", "(1,)"}});
  EXPECT_EQ(h.pieceValues(pool, {base}), (std::vector<double>{-2, -2, 3}));
}

// The mean divides by the taps in the padding too, of which there may be more than an integer counts.
TEST(NnOps, RUN_02_MeanOfAWindowOfPadding) {
  const std::string kernel = "(2147483647,2147483647,2147483647)", pad = "(1073741823,1073741823,1073741823)";
  checkRow({"Pooling",
            {{"pool_type", "avg"}, {"kernel", kernel}, {"pad", pad}},
            {{{1, 1, 1, 1, 1}, {3}}},
            {1, 1, 1, 1, 1},
            {3 / std::pow(2147483647.0, 3)},
            {{-0.75 / std::pow(2147483647.0, 3)}}});
}

}  // namespace
}  // namespace gradc
