// Leaky activations, softmaxes, normalisations, deconvolution, up-sampling, adaptive pooling and elementwise functions:
// values and gradients as MXNet 1.9.1 computes them, shapes both ways, pieces, refusals.
//
// A row whose gradient is empty says that the input has none. Where MXNet computes in single precision only (LRN,
// SoftmaxActivation, gelu, three-dimensional deconvolution, a constant of erf's gradient) rows have the tolerance of
// that.
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
    {"LeakyReLU_leaky", "LeakyReLU", {{"act_type", "leaky"}, {"slope", "0.1"}}, 1e-14, {{{6}, {-2, -0.5, 0, 0.25,
     1.5, -1}}}, {{-0.20000000298023224, -0.05000000074505806, 0, 0.25, 1.5, -0.10000000149011612}},
     {{-0.15000000223517418, -0.05000000074505806, 0.05000000074505806, 1.5, 2.5, -0.15000000223517418}}},
    {"LeakyReLU_default", "LeakyReLU", {}, 1e-14, {{{6}, {-2, -0.5, 0, 0.25, 1.5, -1}}}, {{-0.5, -0.125, 0, 0.25,
     1.5, -0.25}}, {{-0.375, -0.125, 0.125, 1.5, 2.5, -0.375}}},
    {"LeakyReLU_elu", "LeakyReLU", {{"act_type", "elu"}, {"slope", "0.3"}}, 1e-14, {{{6}, {-2, -0.5, 0, 0.25, 1.5,
     -1}}}, {{-0.25939942533662286, -0.11804080677673003, 0, 0.25, 1.5, -0.18963617518403159}},
     {{-0.060900879876459146, -0.09097960257209947, 0.15000000596046448, 1.5, 2.5, -0.16554575510534605}}},
    {"LeakyReLU_selu", "LeakyReLU", {{"act_type", "selu"}}, 1e-14, {{{6}, {-2, -0.5, 0, 0.25, 1.5, -1}}},
     {{-1.5201664733475926, -0.6917581899652426, 0, 0.2626752555370331, 1.5760515332221985, -1.1113307412864784}},
     {}},
    {"LeakyReLU_gelu", "LeakyReLU", {{"act_type", "gelu"}}, 2e-07, {{{6}, {-2, -0.5, 0, 0.25, 1.5, -1}}},
     {{-0.04550027847290039, -0.1542687714099884, 0, 0.14967657625675201, 1.3997893333435059,
     -0.15865525603294373}}, {{0.12784770503640175, -0.0662524402141571, 0.25, 1.0430599451065063,
     2.8186729550361633, 0.12497321516275406}}},
    {"LeakyReLU_prelu_channel", "LeakyReLU", {{"act_type", "prelu"}}, 1e-14, {{{2, 3, 2}, {0.5, -1.25, 0, -2, 0.5,
     0.75, 0.25, 0.5, -0.5, -2, 1, -0.25}}, {{3}, {0.25, -0.5, 0.75}}}, {{0.5, -0.3125, -0, 1, 0.5, 0.75, 0.25,
     0.5, 0.25, 1, 1, -0.1875}}, {{-1.5, -0.125, -0.25, -0.75, 2.5, -1.5, -0.5, 0.5, -0.75, -1.25, -1.5, -0.375},
     {0.625, -8.75, 0.125}}},
    {"LeakyReLU_prelu_shared", "LeakyReLU", {{"act_type", "prelu"}}, 1e-14, {{{2, 2, 2}, {1.5, -1.5, -1.5, -1.75,
     -0.75, 0, 1.5, -1.75}}, {{1}, {0.25}}}, {{1.5, -0.375, -0.375, -0.4375, -0.1875, 0, 1.5, -0.4375}}, {{-1.5,
     -0.125, 0.125, 0.375, 0.625, -0.375, -0.5, 0.125}, {-5.375}}},
    {"LeakyReLU_prelu_vector", "LeakyReLU", {{"act_type", "prelu"}}, 1e-14, {{{3}, {0.5, -0.25, 0.75}}, {{3},
     {0.25, 0.5, 1}}}, {{0.5, -0.125, 0.75}}, {{-1.5, -0.25, 0.5}, {-0, 0.125, 0}}},
    {"LRN_three", "LRN", {{"nsize", "3"}, {"alpha", "0.5"}, {"beta", "0.75"}, {"knorm", "1.5"}}, 1e-06, {{{1, 4,
     2, 1}, {-1.75, 1.75, 2, -0.75, 1.5, -2, -2, 0.25}}}, {{-0.8361642360687256, 1.0016775131225586,
     0.8661291599273682, -0.3492234945297241, 0.6257222890853882, -1.081162691116333, -0.993553102016449,
     0.13948699831962585}}, {{-0.44966059923171997, -0.09934796392917633, -0.3324574828147888, 0.7522757649421692,
     0.7335253953933716, -0.5322997570037842, 0.09312616288661957, 0.2323366403579712}}},
    {"LRN_wide", "LRN", {{"nsize", "5"}, {"alpha", "2"}, {"beta", "0.5"}, {"knorm", "1"}}, 1e-06, {{{1, 3, 1, 2},
     {-0.75, -0.25, -0.75, 1.5, -1.75, -1.75}}}, {{-0.4585633873939514, -0.14085903763771057, -0.4585633873939514,
     0.8451542258262634, -1.0699812173843384, -0.9860132932662964}}, {{-1.1656938791275024, -0.1922837793827057,
     0.057141855359077454, 0.3085483908653259, 0.9485547542572021, -0.21911412477493286}}},
    {"SoftmaxActivation_channel", "SoftmaxActivation", {{"mode", "channel"}}, 1e-06, {{{1, 3, 2}, {0.5, 0.75, -1,
     -1.25, 2, 2}}}, {{0.17529039084911346, 0.21618452668190002, 0.03911257162690163, 0.02925739251077175,
     0.785597026348114, 0.7545580863952637}}, {{-0.5645425319671631, 0.15047378838062286, -0.047741323709487915,
     0.07887919247150421, 0.6122839450836182, -0.22935302555561066}}},
    {"SoftmaxActivation_instance", "SoftmaxActivation", {}, 1e-06, {{{2, 3}, {-2, 2, 0.75, -2, 1.25, -0.75}}},
     {{0.014036903157830238, 0.7663888931274414, 0.21957410871982574, 0.03302435204386711, 0.851709246635437,
     0.11526631563901901}}, {{-0.016922010108828545, -0.15752147138118744, 0.17444345355033875,
     -0.01670735515654087, 0.4208208918571472, -0.4041133522987366}}},
    {"softmax_temperature", "softmax", {{"axis", "1"}, {"temperature", "2.5"}}, 1e-14, {{{1, 3, 2}, {2, -1.75,
     -1.5, -1, 0, 1}}}, {{0.5896483941044577, 0.1867753758093136, 0.1454055037792031, 0.2521203860745199,
     0.2649461021163392, 0.5611042381161665}}, {{-0.31855056725730146, 0.00424827809033207, 0.03777080027583543,
     0.20743088445688285, 0.2807797669814661, -0.21167916254721497}}},
    {"softmax_last", "softmax", {}, 1e-14, {{{2, 3}, {2, 0.5, 2, -1, 0, -0.25}}}, {{0.4498162176582741,
     0.10036756468345168, 0.4498162176582741, 0.17137132816379141, 0.465835567266526, 0.36279310456968256}},
     {{-0.4498162176582741, 0, 0.4498162176582741, 0.10668614866791755, 0.7558385865388064,
     -0.8625247352067239}}},
    {"softmax_length", "softmax", {{"use_length", "True"}, {"axis", "1"}}, 1e-14, {{{2, 3}, {-2, 2, 0.25, -1.75,
     1.75, 0.75}}, {{2}, {2, 3}}}, {{0.017986209962091555, 0.9820137900379085, 0, 0.021599230379269717,
     0.7152682759694339, 0.2631324936512963}}, {{-0.017662706213291114, 0.017662706213291107, 0,
     0.0016011337762913541, 0.7682905446176498, -0.7698916783939411}, {}}},
    {"softmin", "softmin", {{"axis", "0"}, {"temperature", "0.5"}}, 1e-14, {{{3, 2}, {0.5, 2, 2, 1, -1, 1}}},
     {{0.047314155221824035, 0.06337893833303762, 0.00235563308079668, 0.4683105308334812, 0.9503302116973793,
     0.4683105308334812}}, {{0.3601583883428315, 0.05936204850881464, 0.008508697980497523, -1.434612616754851,
     -0.36866708632332934, 1.375250568246036}}},
    {"softmin_last", "softmin", {}, 1e-14, {{{2, 2}, {1, 2, -1.5, -0.25}}}, {{0.7310585786300049,
     0.2689414213699951, 0.7772998611746911, 0.22270013882530884}}, {{0.19661193324148177, -0.19661193324148188,
     0.17310478699249698, -0.173104786992497}}},
    {"log_softmax", "log_softmax", {{"axis", "1"}}, 1e-14, {{{1, 3, 2}, {-1.75, -1.25, 1.25, -1.75, -1.5,
     -1.25}}}, {{-3.107701210709639, -0.9580200879470336, -0.10770121070963898, -1.4580200879470335,
     -2.857701210709639, -0.9580200879470336}}, {{-1.567055402211698, -0.30817413440472463, -0.8468437570222622,
     1.6163482688094493, 2.41389915923396, -1.3081741344047246}}},
    {"log_softmax_temperature", "log_softmax", {{"temperature", "0.3"}}, 1e-14, {{{2, 2}, {0.75, -0.25, -1.75,
     0.75}}}, {{-0.035052416079462995, -3.3683857494127967, -8.33357367392564, -0.00024034059230536062}},
     {{1.4370320288919263, -1.4370320288919256, 1.6650645885812072, -1.6650645885812074}}},
    {"Deconvolution_bias", "Deconvolution", {{"kernel", "(2,2)"}, {"num_filter", "2"}, {"stride", "(2,1)"},
     {"no_bias", "False"}, {"pad", "(0,1)"}, {"adj", "(1,0)"}}, 1e-14, {{{1, 2, 2, 2}, {-2, 2, 0.75, 0, 0, 1.5, 1,
     -1}}, {{2, 2, 2, 2}, {0.25, -0.75, 0.25, 0.5, 0.25, -2, 1.25, 1, -0.25, -1, 0.5, 0, 1, -2, -0.25, -2}}, {{2},
     {0.5, 0.25}}}, {{2.125, 0.75, -0.8125, 0.375, 0.5, 6.25, 0.375, -4.25, -0.75, 0.25}}, {{3.375, -1.5, 0.875,
     2.5, 5.5, -1.25, -4.5, 0.75}, {-3, 3.375, -1, 2.125, -3, 3.375, -1, 2.125, -2.75, 0.5, -2.25, 1.5, -2.75,
     0.5, -2.25, 1.5}, {2.5, 2.5}}},
    {"Deconvolution_groups", "Deconvolution", {{"kernel", "(2,2)"}, {"num_filter", "2"}, {"num_group", "2"},
     {"dilate", "(2,1)"}}, 1e-14, {{{1, 2, 2, 2}, {-1.75, 1.75, 0.75, 0.25, -0.25, 1.25, -1, 0.25}}, {{2, 1, 2,
     2}, {1.25, 1.25, -2, 1.75, -1, 0.5, -0.5, 1}}}, {{-2.1875, 0, 2.1875, 0.9375, 1.25, 0.3125, 3.5, -6.5625,
     3.0625, -1.5, 0.8125, 0.4375, 0.25, -1.375, 0.625, 1, -0.75, 0.125, 0.125, -0.875, 1.25, 0.5, -1.125, 0.25}},
     {{-0.625, 1.625, -2.625, 3.375, 2, -3, 2, 2}, {3.5, 3.25, 3.25, 0.5, 3.125, 3.375, 3.375, -2.625}}},
    {"Deconvolution_target", "Deconvolution", {{"kernel", "(2,2)"}, {"num_filter", "1"}, {"stride", "(2,2)"},
     {"target_shape", "(3,4)"}}, 1e-14, {{{1, 2, 2, 2}, {1.75, 1.5, 0.5, 0.75, -1.25, 0, -1.5, 0.75}}, {{2, 1, 2,
     2}, {-1, -2, 1.25, -0.25, -1.75, -1.5, -1.5, 1.5}}}, {{4.0625, -2.3125, 1.875, -0.375, 2.125, 1.25, -2.0625,
     -2.625, 2.875, -2.375, -0.1875, 0.9375}}, {{-1.75, 0.25, 1.75, -2.25, 1.5, 1.5, -0.625, 1.625}, {0.875,
     -0.375, -2.25, 2.25, -4.125, 2.625, -1.5, -3.5}}},
    {"Deconvolution_line", "Deconvolution", {{"kernel", "(3,)"}, {"num_filter", "2"}, {"stride", "(2,)"}, {"pad",
     "(1,)"}}, 1e-14, {{{2, 1, 3}, {0.5, -0.25, 1, 0.75, -0.25, -0.25}}, {{1, 2, 3}, {1, 1, 0.25, -0.25, -1.5,
     1.75}}}, {{0.5, -0.125, -0.25, 0.9375, 1, -0.75, 0.9375, 0.375, -0.6875, -1.5, 0.75, -0.0625, -0.25, -0.3125,
     -0.25, -1.125, 1.375, 0.375, -0.375, 0.375}}, {{-0.25, 2.375, -0.125, -0.25, 2.375, -0.125}, {1.375, -0.25,
     -1.375, 1.375, -0.25, -1.375}}},
    {"Deconvolution_volume", "Deconvolution", {{"kernel", "(2,1,2)"}, {"num_filter", "1"}}, 1e-06, {{{1, 1, 1, 2,
     2}, {1.25, -1, 0, 0.25}}, {{1, 1, 2, 1, 2}, {0, -0.75, 1, -1.25}}}, {{0, -0.9375, 0.75, 0, 0, -0.1875, 1.25,
     -2.5625, 1.25, 0, 0.25, -0.3125}}, {{-0.75, -1.75, 2.5, 0.25}, {-0.75, -1.5, -1.5, -1}}},
    {"UpSampling_nearest", "UpSampling", {{"scale", "3"}, {"sample_type", "nearest"}, {"num_args", "1"}}, 1e-14,
     {{{1, 1, 1, 2}, {-1.5, 0.75}}}, {{-1.5, -1.5, -1.5, 0.75, 0.75, 0.75, -1.5, -1.5, -1.5, 0.75, 0.75, 0.75,
     -1.5, -1.5, -1.5, 0.75, 0.75, 0.75}}, {{4.5, 1.5}}},
    {"UpSampling_concat", "UpSampling", {{"scale", "2"}, {"sample_type", "nearest"}, {"num_args", "2"}}, 1e-14,
     {{{1, 1, 2, 2}, {-2, -0.25, -2, 1.5}}, {{1, 2, 1, 1}, {-1.25, -0.75}}}, {{-2, -2, -0.25, -0.25, -2, -2,
     -0.25, -0.25, -2, -2, 1.5, 1.5, -2, -2, 1.5, 1.5, -1.25, -1.25, -1.25, -1.25, -1.25, -1.25, -1.25, -1.25,
     -1.25, -1.25, -1.25, -1.25, -1.25, -1.25, -1.25, -1.25, -0.75, -0.75, -0.75, -0.75, -0.75, -0.75, -0.75,
     -0.75, -0.75, -0.75, -0.75, -0.75, -0.75, -0.75, -0.75, -0.75}}, {{-1, 2, 6, -1}, {7, 8}}},
    {"UpSampling_sum", "UpSampling", {{"scale", "2"}, {"sample_type", "nearest"}, {"num_args", "2"},
     {"multi_input_mode", "sum"}}, 1e-14, {{{1, 1, 2, 2}, {1.5, 1.25, 1, -1.5}}, {{1, 1, 1, 1}, {-0.5}}}, {{1, 1,
     0.75, 0.75, 1, 1, 0.75, 0.75, 0.5, 0.5, -2, -2, 0.5, 0.5, -2, -2}}, {{-1, 2, 6, -1}, {6}}},
    {"UpSampling_bilinear", "UpSampling", {{"scale", "2"}, {"sample_type", "bilinear"}, {"num_args", "1"},
     {"num_filter", "1"}}, 1e-14, {{{1, 1, 2, 2}, {-0.5, 1.25, -0.25, 1.25}}, {{1, 1, 4, 4}, {-0.25, -2, 1, 0, -1,
     0.5, -1, 1, -2, -1.25, 1.25, -1, -1.5, -0.75, -0.25, 0.25}}}, {{-0.25, -0.75, 0.125, -1.25, 1.125, -3.6875,
     -3.5625, 2.8125, 0.25, -2.75, -0.6875, -1.5625, 0.3125, -2.8125, -1.3125, 1.5625}}, {{-6.375, 1, -11,
     -8.875}, {-1.875, -1.25, 1, 0.125, 2.5, -0.875, 0.875, 0.125, 0, 1.125, -0.875, -0.375, 3.125, -2.625,
     -1.875, 0.75}}},
    {"AdaptivePooling_rectangle", "_contrib_AdaptiveAvgPooling2D", {{"output_size", "(2,3)"}}, 1e-14, {{{1, 1, 3,
     4}, {-0.5, 1.25, -2, -1.75, -0.25, -2, -1.25, 1.5, -0.75, 1, 0.75, -1.75}}}, {{-0.375, -1, -0.875, -0.5,
     -0.375, -0.1875}}, {{-0.375, -0.5, 0, 0.125, 0, 0.5, 0.25, -0.25, 0.375, 1, 0.25, -0.375}}},
    {"AdaptivePooling_global", "_contrib_AdaptiveAvgPooling2D", {}, 1e-14, {{{1, 2, 2, 2}, {1.75, -1.25, -0.5,
     1.5, 1.75, 1.5, 0.75, -0.75}}}, {{0.375, 0.8125}}, {{-0.375, -0.375, -0.375, -0.375, -0.125, -0.125, -0.125,
     -0.125}}},
    {"AdaptivePooling_larger", "_contrib_AdaptiveAvgPooling2D", {{"output_size", "3"}}, 1e-14, {{{1, 1, 2, 2},
     {1.75, 2, -1.5, -1.75}}}, {{1.75, 1.875, 2, 0.125, 0.125, 0.125, -1.5, -1.625, -1.75}}, {{-0.375, 0.125,
     1.125, 1.625}}},
    {"erf", "erf", {}, 1e-07, {{{6}, {-2, -0.5, 0, 0.25, 1.5, -1}}}, {{-0.9953222650189527, -0.5204998778130465,
     0, 0.2763263901682369, 0.9661051464753108, -0.8427007929497149}}, {{-0.03100047709985074,
     -0.43939127626794067, 0.5641895665989011, 1.5900211462982434, 0.29732571412709247, -0.6226612274254859}}},
    {"erf_wide", "erf", {}, 1e-07, {{{3}, {-4, 3, 0.125}}}, {{-0.9999999845827421, 0.9999779095030014,
     0.1403162048013338}}, {{-1.9047351435597123e-07, -6.962652388171903e-05, 0.5554426181122437}}},
    {"round", "round", {}, 1e-14, {{{7}, {-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.375}}}, {{-3, -2, -1, 1, 2, 3, 0}},
     {{0, 0, 0, 0, 0, 0, 0}}},
    {"round_large", "round", {}, 1e-14, {{{2}, {1000000000000000, -3.75}}}, {{1000000000000000, -4}}, {{0, 0}}},
    {"smooth_l1", "smooth_l1", {{"scalar", "2.1"}}, 1e-14, {{{7}, {-3, -0.25, -0.125, 0, 0.125, 0.25, 3}}},
     {{2.886621315192744, 0.1366213151927438, 0.034453125, 0, 0.034453125, 0.1366213151927438,
     2.886621315192744}}, {{1.5, 0.5, -0.275625, 0, 1.378125, -1.5, -0.5}}},
    {"smooth_l1_default", "smooth_l1", {}, 1e-14, {{{5}, {-3, -0.25, 1, 0, 3}}}, {{2.5, 0.03125, 0.5, 0, 2.5}},
     {{1.5, 0.125, 0.5, 0, 2.5}}},
    {"hard_sigmoid", "hard_sigmoid", {}, 1e-14, {{{7}, {-3, -2.5, -0.125, 0, 2.25, 2.5, 3}}}, {{0, 0,
     0.47499999962747097, 0.5, 0.9500000067055225, 1, 1}}, {{0, 0, 0.10000000149011612, 0.30000000447034836,
     0.5000000074505806, 0, 0}}},
    {"hard_sigmoid_steep", "hard_sigmoid", {{"alpha", "0.7"}, {"beta", "0.1"}}, 1e-14, {{{5}, {-3, -0.125, 0, 1,
     2.5}}}, {{0, 0.012500002980232239, 0.10000000149011612, 0.7999999895691872, 1}}, {{0, -0.3499999940395355,
     0.3499999940395355, 1.0499999821186066, 0}}},
    {"LayerNorm_last", "LayerNorm", {{"eps", "0.1"}, {"output_mean_var", "True"}}, 1e-14, {{{2, 3}, {-0.5, 1, -1,
     -0.25, 0.5, -1.25}}, {{3}, {1, 0.5, 2}}, {{3}, {0, 0.5, 1}}}, {{-0.36760731071379593, 1.1433127937491427,
     -0.8380365535689793, 0.1063589073237947, 1.0317945366189736, -1.3398959611234842}, {-0.16666666666666666,
     -0.3333333333333333}, {0.9067647014040293, 0.7835106191871333}}, {{-1.471671159276628, 0.3260031043496274,
     1.1456680549270006, 1.79462608837905, -0.5601889905497848, -1.234437097829265}, {0.7109493270563859,
     2.0156598893457254, 1.2954128324503684}, {0, 2, -1}}},
    {"LayerNorm_first", "LayerNorm", {{"eps", "0.1"}, {"axis", "0"}}, 1e-14, {{{2, 3}, {0.5, -1.5, -1.75, 1.5,
     1.5, 1}}, {{2}, {1, 0.5}}, {{2}, {0, 0.5}}}, {{-0.8451542529294053, -0.9784921092699363, -0.9745586285504481,
     0.9225771264647027, 0.9892460546349682, 0.9872793142752241}}, {{-0.5433134540946185, -0.024288811569542768,
     0.022253372737958854, 0.5433134540946185, 0.024288811569542768, -0.022253372737958854}, {1.269698119753852,
     2.2521237097432767}, {-1.5, 2.5}}},
    {"Embedding_outside", "Embedding", {{"input_dim", "3"}, {"output_dim", "2"}}, 1e-14, {{{6}, {0, 2, 5, -1,
     1.75, 2}}, {{3, 2}, {-1, -1.25, -1.5, 1, 0.5, -1}}}, {{-1, -1.25, 0.5, -1, 0.5, -1, -1, -1.25, -1.5, 1, 0.5,
     -1}}, {{}, {-2, 0, 1.5, 2.5, 1.5, -0.5}}},
    {"Embedding_matrix", "Embedding", {{"input_dim", "2"}, {"output_dim", "1"}}, 1e-14, {{{2, 2}, {0, 1, 1, 1}},
     {{2, 1}, {0, -1.75}}}, {{0, -1.75, -1.75, -1.75}}, {{}, {-1.5, 1.5}}},
    {"batch_dot_plain", "batch_dot", {}, 1e-14, {{{2, 2, 1}, {-0.5, -0.75, 0.75, -1.25}}, {{2, 1, 2}, {0.5, 2,
     -0.25, -1.5}}}, {{-0.25, -1, -0.375, -1.5, -0.1875, -1.125, 0.3125, 1.875}}, {{-1.75, 3.25, 1.625, -0.625},
     {0.375, -0.875, 2.5, -1.75}}},
    {"batch_dot_a", "batch_dot", {{"transpose_a", "True"}}, 1e-14, {{{1, 2, 2}, {1, -0.5, 2, -1.75}}, {{1, 2, 1},
     {-2, -1}}}, {{-4, 2.75}}, {{3, 1, 1.5, 0.5}, {-1.25, -2.125}}},
    {"batch_dot_b", "batch_dot", {{"transpose_b", "True"}}, 1e-14, {{{1, 2, 3}, {1.5, -0.75, -0.5, 0.5, -1,
     1.25}}, {{1, 1, 3}, {-2, 0.5, 1}}}, {{-3.875, -0.25}}, {{3, -0.75, -1.5, 1, -0.25, -0.5}, {-2.5, 1.625,
     0.125}}},
    {"batch_dot_ab", "batch_dot", {{"transpose_a", "True"}, {"transpose_b", "True"}}, 1e-14, {{{1, 3, 2}, {1, 0,
     0.75, 1.75, -1, -2}}, {{1, 1, 3}, {0.5, 0.25, -0.75}}}, {{1.4375, 1.9375}}, {{-0.75, -0.25, -0.375, -0.125,
     1.125, 0.375}, {-1.5, -2, 2.5}}},
    {"L2Normalization_instance", "L2Normalization", {{"mode", "instance"}, {"eps", "0.1"}}, 1e-14, {{{2, 2, 2},
     {1.5, 0.25, -0.5, 1, -2, -1.75, -1, 0.75}}}, {{0.7837949162502997, 0.13063248604171662, -0.26126497208343324,
     0.5225299441668665, -0.6770913690077134, -0.5924549478817492, -0.3385456845038567, 0.2539092633778925}},
     {{-0.5430387987287074, -0.22113895249650117, 0.1810129329095691, 0.944298994598028, 0.7299588183269068,
     -0.609673245571928, -0.2274755387182958, 0.21292486460170393}}},
    {"L2Normalization_channel", "L2Normalization", {{"mode", "channel"}, {"eps", "0.1"}}, 1e-14, {{{2, 2, 2},
     {1.5, 1.5, 0, -1.25, -2, 1, -1.75, 0}}}, {{0.9784921092699363, 0.7583402086039271, 0, -0.631950173836606,
     -0.7473046388652383, 0.9534625885997878, -0.6538915590070835, 0}}, {{-0.04163796269064471,
     0.2560104855649492, 0.3261640364233121, 0.33434807935426747, 0.5037459281204261, -0.1300176274794377,
     -0.5634129213697912, 0.4767312942998939}}},
    {"L2Normalization_spatial", "L2Normalization", {{"mode", "spatial"}, {"eps", "0.1"}}, 1e-14, {{{2, 2, 2},
     {0.75, 1, -1.25, -2, 0.5, -0.25, -1.25, -1.25}}}, {{0.5816750504864302, 0.775566733981907,
     -0.5252981912902994, -0.8404771060644791, 0.7784989427553971, -0.38924947137769855, -0.6960575578263234,
     -0.6960575578263234}}, {{-0.594795540856628, 0.3702893798306899, -0.1261643337136787, 0.09230405318068176,
     0.8256807079403522, -0.8020898253478747, -0.27842302313052936, 0.27842302313052936}}},
  };
  // clang-format on
  return list;
}

class LayerValues : public ::testing::TestWithParam<MxnetRow> {};

TEST_P(LayerValues, RUN_02_OutputsAndGradients) { checkMxnetRow(GetParam()); }

INSTANTIATE_TEST_SUITE_P(LayerOps, LayerValues, ::testing::ValuesIn(rows()),
                         [](const auto &info) { return info.param.name; });

// Below 0 MXNet's gradient of selu is λ·(y + α); this is the derivative.
TEST(LayerOps, SeluGradientIsTheDerivative) {
  OpHarness h;
  const Value x = h.variable({2}, std::vector<double>{-2, 1});
  const Value y = h.apply("LeakyReLU", x, {{"act_type", "selu"}});
  const Value dx = h.gradients(y, h.variable({2}, std::vector<double>{1, 1}), x)[0];
  expectClose(h.values(dx), {1.7580993408473766 * std::exp(-2.0), 1.0507009873554805}, 1e-7);
}

TEST(LayerOps, RreluInInferenceForm) {
  OpHarness h;
  h.isTraining = false;
  const Value x = h.variable({3}, std::vector<double>{-2, -0.5, 1.5});
  const Value y = h.apply("LeakyReLU", x, {{"act_type", "rrelu"}});
  expectClose(h.values(y), {-0.45899999141693115, -0.11474999785423279, 1.5}, 1e-15);
}

// Gamma of one element is shared by all of the data at every order.
TEST(LayerOps, HO_02_SharedPreluSlope) {
  OpHarness h;
  const Value x = h.variable({2, 3, 2}, 1), gamma = h.variable({1}, 2);
  h.checkGradients(h.apply("LeakyReLU", {x, gamma}, {{"act_type", "prelu"}}), {x, gamma}, 3);
}

TEST(LayerOps, RUN_03_PiecesStayBeyondTheKink) {
  OpHarness h;
  const Value x = h.variable({2}, std::vector<double>{1, -2}), base = h.variable({2}, std::vector<double>{-1, 2});
  EXPECT_EQ(h.pieceValues(h.apply("LeakyReLU", x, {{"slope", "0.25"}}), {base}), (std::vector<double>{0.25, -2}));
  EXPECT_EQ(h.pieceValues(h.apply("smooth_l1", x, {{"scalar", "2"}}), {base}), (std::vector<double>{-1.125, -2.125}));
  EXPECT_EQ(h.pieceValues(h.apply("round", x, {}), {base}), (std::vector<double>{-1, 2}));
}

TEST(LayerOps, INF_04_LeakyReLU) {
  const std::vector<AttrText> prelu = {{"act_type", "prelu"}};
  EXPECT_EQ(inferShapes("LeakyReLU", prelu, "(2,3,4) ? -> ?"), "(2,3,4) (3,) -> (2,3,4)");
  EXPECT_EQ(inferShapes("LeakyReLU", prelu, "? (1,) -> (2,3,4)"), "(2,3,4) (1,) -> (2,3,4)");
  EXPECT_EQ(inferShapes("LeakyReLU", prelu, "(2,3,4) (2,) -> ?"),
            "gamma has 2 elements, expected 1 or 3, the channels of data of shape (2,3,4)");
  EXPECT_EQ(inferShapes("_backward_LeakyReLU", prelu, "(2,3) ? ? ? -> ? ?"), "(2,3) (2,3) (3,) (2,3) -> (2,3) (3,)");
  const std::vector<AttrText> rrelu = {{"act_type", "rrelu"}};
  EXPECT_EQ(inferShapes("LeakyReLU", rrelu, "(2,3) -> ? ?"), "(2,3) -> (2,3) (2,3)");
}

TEST(LayerOps, INF_04_LeakyReLUGradientReadsTheMask) {
  EXPECT_EQ(inferShapes("_backward_LeakyReLU", {{"act_type", "rrelu"}}, "(2,3) ? ? ? (2,1) -> ?"),
            "input 0 has shape (2,3), but input 4 has shape (2,1)");
}

TEST(LayerOps, INF_04_Softmax) {
  const std::vector<AttrText> attrs = {{"use_length", "True"}, {"axis", "1"}};
  EXPECT_EQ(inferShapes("softmax", attrs, "(2,?,4) ? -> ?"), "(2,?,4) (2,4) -> (2,?,4)");
  EXPECT_EQ(inferShapes("softmax", attrs, "(?,3,?) (2,4) -> ?"), "(2,3,4) (2,4) -> (2,3,4)");
  const std::vector<AttrText> far = {{"axis", "2"}};
  EXPECT_EQ(inferShapes("softmax", far, "(2,3) -> ?"), "axis 2 is outside data of shape (2,3)");
  EXPECT_EQ(inferShapes("SoftmaxActivation", {}, "(3,) -> ?"), "(3,) -> (3,)");
  EXPECT_EQ(inferShapes("SoftmaxActivation", {}, "() -> ?"), "data has shape (), expected 1 axis at least");
  EXPECT_EQ(inferShapes("SoftmaxActivation", {{"mode", "channel"}}, "(2,3) -> ?"),
            "data has shape (2,3), expected 3 axes at least");
}

TEST(LayerOps, INF_04_Deconvolution) {
  const std::vector<AttrText> attrs = {{"kernel", "(3,3)"}, {"num_filter", "6"}, {"num_group", "2"},
                                       {"stride", "(2,2)"}, {"pad", "(1,0)"},    {"adj", "(1,0)"}};
  EXPECT_EQ(inferShapes("Deconvolution", attrs, "(2,4,3,3) ? -> ?"), "(2,4,3,3) (4,3,3,3) -> (2,6,6,7)");
  EXPECT_EQ(inferShapes("Deconvolution", attrs, "? (4,?,?,?) -> (2,?,6,7)"), "(2,4,3,3) (4,3,3,3) -> (2,6,6,7)");
  EXPECT_EQ(inferShapes("Deconvolution", attrs, "(2,5,3,3) ? -> ?"),
            "input has 5 channels, expected a multiple of num_group 2");
  const std::vector<AttrText> target = {
      {"kernel", "(3,)"}, {"num_filter", "6"}, {"stride", "(2,)"}, {"target_shape", "(6,)"}};
  EXPECT_EQ(inferShapes("Deconvolution", target, "(2,4,3) ? -> ?"), "(2,4,3) (4,6,3) -> (2,6,6)");
  EXPECT_EQ(inferShapes("Deconvolution", target, "(2,4,2) ? -> ?"),
            "target_shape 6 exceeds the 5 pixels available on spatial axis 0");
  const std::vector<AttrText> last = {{"kernel", "(3,3)"}, {"num_filter", "6"}, {"layout", "NHWC"}};
  EXPECT_EQ(inferShapes("Deconvolution", last, "(2,3,3,4) ? -> ?"), "(2,3,3,4) (4,3,3,6) -> (2,5,5,6)");
  const std::vector<AttrText> cut = {{"kernel", "(3,)"}, {"num_filter", "1"}, {"pad", "(3,)"}};
  EXPECT_EQ(inferShapes("Deconvolution", cut, "(1,1,3) ? -> ?"),
            "pad cuts off more than the 5 pixels of spatial axis 0");
}

TEST(LayerOps, INF_04_UpSamplingAndAdaptivePooling) {
  const std::vector<AttrText> joined = {{"scale", "2"}, {"sample_type", "nearest"}, {"num_args", "2"}};
  EXPECT_EQ(inferShapes("UpSampling", joined, "(1,2,4,4) (1,3,8,8) -> ?"), "(1,2,4,4) (1,3,8,8) -> (1,5,8,8)");
  EXPECT_EQ(inferShapes("UpSampling", joined, "(?,2,?,?) (?,?,2,2) -> (1,5,8,8)"), "(1,2,4,4) (1,3,2,2) -> (1,5,8,8)");
  EXPECT_EQ(inferShapes("UpSampling", joined, "(1,2,4,4) (1,2,3,3) -> ?"),
            "input 1 has shape (1,2,3,3), which no integer factor enlarges to 8 × 8 pixels");
  const std::vector<AttrText> bilinear = {
      {"scale", "3"}, {"sample_type", "bilinear"}, {"num_args", "1"}, {"num_filter", "2"}};
  EXPECT_EQ(inferShapes("UpSampling", bilinear, "(1,?,2,2) ? -> ?"), "(1,2,2,2) (2,1,5,5) -> (1,2,6,6)");
  const std::vector<AttrText> size = {{"output_size", "(2,3)"}};
  EXPECT_EQ(inferShapes("_contrib_AdaptiveAvgPooling2D", size, "(?,3,5,4) -> (2,?,?,?)"), "(2,3,5,4) -> (2,3,2,3)");
}

TEST(LayerOps, INF_04_LayerNormEmbeddingBatchDot) {
  const std::vector<AttrText> axis = {{"axis", "1"}, {"output_mean_var", "True"}};
  EXPECT_EQ(inferShapes("LayerNorm", axis, "(2,?,4) (3,) ? -> ? ? ?"), "(2,3,4) (3,) (3,) -> (2,3,4) (2,1,4) (2,1,4)");
  const std::vector<AttrText> table = {{"input_dim", "5"}, {"output_dim", "2"}};
  EXPECT_EQ(inferShapes("Embedding", table, "(3,4) ? -> ?"), "(3,4) (5,2) -> (3,4,2)");
  EXPECT_EQ(inferShapes("Embedding", table, "? ? -> (3,4,?)"), "(3,4) (5,2) -> (3,4,2)");
  const std::vector<AttrText> transposed = {{"transpose_b", "True"}};
  EXPECT_EQ(inferShapes("batch_dot", transposed, "(2,3,4) (?,5,?) -> ?"), "(2,3,4) (2,5,4) -> (2,3,5)");
  EXPECT_EQ(inferShapes("batch_dot", transposed, "? (?,?,4) -> (2,3,5)"), "(2,3,4) (2,5,4) -> (2,3,5)");
}

TEST(LayerOps, INF_04_L2Normalization) {
  const std::vector<AttrText> pixels = {{"mode", "spatial"}}, channels = {{"mode", "channel"}};
  EXPECT_EQ(inferShapes("L2Normalization", pixels, "(2,3,4,5) -> ? ?"), "(2,3,4,5) -> (2,3,4,5) (2,3)");
  EXPECT_EQ(inferShapes("L2Normalization", channels, "? -> (2,3,4) ?"), "(2,3,4) -> (2,3,4) (2,1,4)");
  EXPECT_EQ(inferShapes("L2Normalization", channels, "(2,3) -> ? ?"), "data has shape (2,3), expected 3 axes at least");
}

TEST(LayerOps, REG_19_AttributesThatContradict) {
  EXPECT_EQ(refusalOf("LRN", {{"nsize", "4"}}), "attribute 'nsize' is 4, expected an odd number [bad_attribute]");
  EXPECT_EQ(refusalOf("softmin", {{"use_length", "True"}}),
            "attribute 'use_length' is True, expected False: only softmax takes lengths [bad_attribute]");
  EXPECT_EQ(refusalOf("softmax", {{"dtype", "int32"}}),
            "attribute 'dtype' is int32, expected a floating type or None [bad_attribute]");
  EXPECT_EQ(refusalOf("Deconvolution", {{"kernel", "(2,2)"}, {"num_filter", "1"}, {"adj", "(1,0)"}}),
            "attribute 'adj' is 1, expected less than 'stride' = 1 [bad_attribute]");
  EXPECT_EQ(refusalOf("UpSampling", {{"scale", "2"}, {"sample_type", "bilinear"}, {"num_args", "1"}}),
            "attribute 'num_filter' is 0, sample_type 'bilinear' needs the channels of the data [bad_attribute]");
  EXPECT_EQ(refusalOf("_contrib_AdaptiveAvgPooling2D", {{"output_size", "(1,1,1)"}}),
            "attribute 'output_size' has 3 elements, expected at most 2 [bad_attribute]");
}

// Windows of any width are sums over the channels there are.
TEST(LayerOps, RUN_02_WideChannelWindows) {
  constexpr int64_t kChannels = 150, kPixels = 2;
  std::vector<double> x;
  for (int64_t i = 0; i < kChannels * kPixels; ++i) x.push_back(static_cast<double>(i * 37 % 101));
  for (int64_t nsize : {63, 65, 101, 299, 2147483647}) {
    std::vector<double> sums(x.size(), 0);
    for (int64_t c = 0; c < kChannels; ++c)
      for (int64_t k = 0; k < kChannels; ++k)
        for (int64_t p = 0; p < kPixels && std::abs(k - c) <= nsize / 2; ++p)
          sums[static_cast<size_t>(c * kPixels + p)] += x[static_cast<size_t>(k * kPixels + p)];
    checkRow({"_channel_window_sum",
              {{"nsize", std::to_string(nsize)}},
              {{{1, kChannels, 1, kPixels}, x}},
              {1, kChannels, 1, kPixels},
              sums,
              {}});
  }
}

// Nothing is looped over that has no element, however long its other axes are: results are there at once.
TEST(LayerOps, RUN_02_EmptyTensorsOfLongAxes) {
  constexpr int64_t kLong = int64_t{1} << 40;
  checkRow({"LeakyReLU",
            {{"act_type", "prelu"}},
            {{{kLong, 3, 0}, {}}, {{3}, {1, 2, 3}}},
            {kLong, 3, 0},
            {},
            {{}, {0, 0, 0}}});
  // A bias gradient of images without pixels, and images out of data without channels.
  checkRow({"Deconvolution",
            {{"kernel", "(1,)"}, {"num_filter", "2"}, {"no_bias", "False"}},
            {{{kLong, 1, 0}, {}}, {{1, 2, 1}, {3, 4}}, {{2}, {5, 6}}},
            {kLong, 2, 0},
            {},
            {{}, {0, 0}, {0, 0}}});
  checkRow({"Deconvolution",
            {{"kernel", "(1,)"}, {"num_filter", "1"}, {"target_shape", "(2,)"}},
            {{{1, 0, kLong}, {}}, {{0, 1, 1}, {}}},
            {1, 1, 2},
            {0, 0},
            {{}, {}}});
  checkRow({"_contrib_BilinearResize2D",
            {{"mode", "like"}},
            {{{1, 1, 2, 2}, {1, 2, 3, 4}}, {{1, 1, kLong, 0}, {}}},
            {1, 1, kLong, 0},
            {},
            {{0, 0, 0, 0}, {}}});
  checkRow({"BatchNorm",
            {},
            {{{kLong, 3, 0}, {}}, {{3}, {1, 1, 1}}, {{3}, {0, 0, 0}}, {{3}, {0, 0, 0}}, {{3}, {1, 1, 1}}},
            {kLong, 3, 0},
            {},
            {}});
}

TEST(LayerOps, E_50_UpSamplingOfTooManyPixels) {
  const std::string end = ", expected dimensions from 0 and at most 2^48 elements";
  const std::vector<AttrText> scale = {{"scale", "1000"}, {"sample_type", "nearest"}, {"num_args", "1"}};
  EXPECT_EQ(inferShapes("UpSampling", scale, "(1,1,281474976710656,1) -> ?"),
            "output 0 would have the shape (1,?,out of range,1000)" + end);
  const std::vector<AttrText> joined = {{"scale", "1"}, {"sample_type", "nearest"}, {"num_args", "2"}};
  EXPECT_EQ(inferShapes("UpSampling", joined, "(1,281474976710656,1,1) (1,1,1,1) -> ?"),
            "output 0 would have the shape (1,out of range,1,1)" + end);
  EXPECT_EQ(inferShapes("UpSampling", joined, "(1,5,2,2) (1,?,2,2) -> (1,3,2,2)"),
            "input 1 would have the shape (1,out of range,2,2)" + end);
}

// A number is a row of one element, with one length.
TEST(LayerOps, INF_04_SoftmaxOfANumberHasOneLength) {
  EXPECT_EQ(inferShapes("softmax", {{"use_length", "True"}}, "() (0,) -> ?"), "input 1 has shape (0,), expected ()");
  EXPECT_EQ(inferShapes("softmax", {{"use_length", "True"}}, "() ? -> ?"), "() () -> ()");
}

// Slopes of channels without elements: as many steps as there are slopes.
TEST(LayerOps, RUN_02_SlopesOfNothing) {
  checkRow({"_prelu_gamma_sum", {}, {{{int64_t{1} << 40, 3, 0}, {}}, {{3}, {1, 2, 3}}}, {3}, {0, 0, 0}, {}});
  checkRow({"_prelu_gamma_sum", {}, {{{2, 0}, {}}, {{1}, {1}}}, {1}, {0}, {}});
}

}  // namespace
}  // namespace gradc
