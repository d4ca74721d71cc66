#include "tests/support/blocks/rule_samples.h"

#include "tests/support/blocks/block_programs.h"
#include "tests/support/blocks/sample_attrs.h"

#include "ir/graph/context.h"

using namespace llvm;

namespace gradc::testing {
namespace {

using Operands = SampleOperands;
using Attributes = SampleAttrs;
using Add = AddSample;

constexpr auto kIndex = RuleSample::Index;
constexpr auto kFlag = RuleSample::Flag;
constexpr auto kConstant = RuleSample::Constant;
constexpr auto kAnySign = RuleSample::AnySign;
constexpr auto kPositive = RuleSample::Positive;
constexpr auto kFraction = RuleSample::Fraction;

void addActivations(Add add) {
  // Arguments in (−1, 1) and above 1.
  for (const char *type : {"asin", "acos", "atanh", "erfinv"})
    add(type, {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {}, kAnySign);
  add("gelu", {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {{"approximate", flag(true)}}, kAnySign);
  add("celu", {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {{"alpha", number(0.5)}}, kAnySign);
  add("swish", {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {{"beta", number(2)}}, kAnySign);
  add("softplus", {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {{"beta", number(2)}, {"threshold", number(0.5)}}, kAnySign);
  add("prelu", {{"Alpha", {1}}, {"X", {2, 3}}}, {{"Out", {2, 3}}}, {{"mode", string("all")}}, kAnySign);
  add("prelu", {{"Alpha", {3}}, {"X", {2, 3, 2, 1}}}, {{"Out", {2, 3, 2, 1}}}, {{"mode", string("channel")}}, kAnySign);
  add("prelu", {{"Alpha", {3}}, {"X", {2, 2, 1, 3}}}, {{"Out", {2, 2, 1, 3}}},
      {{"mode", string("channel")}, {"data_format", string("NHWC")}}, kAnySign);
}

void addNorms(Add add) {
  for (double p : {1., 2., 3., std::numeric_limits<double>::infinity()})
    add("p_norm", {{"X", {2, 3}}}, {{"Out", {2}}}, {{"porder", number(p)}, {"axis", integer(-1)}}, kPositive);
  add("frobenius_norm", {{"X", {2, 3}}}, {{"Out", {2, 1}}}, {{"dim", integers({1})}, {"keep_dim", flag(true)}},
      kAnySign);
  for (bool isReverse : {false, true})
    add("cumsum", {{"X", {2, 3}}}, {{"Out", {2, 3}}},
        {{"axis", integer(1)}, {"reverse", flag(isReverse)}, {"exclusive", flag(isReverse)}}, kAnySign);
  add("cumsum", {{"X", {2, 3}}}, {{"Out", {6}}}, {{"flatten", flag(true)}}, kAnySign);
  add("group_norm", {{"Bias", {4}}, {"Scale", {4}}, {"X", {2, 4, 2, 1}}},
      {{"Mean", {2, 2}, kIndex}, {"Variance", {2, 2}, kIndex}, {"Y", {2, 4, 2, 1}}}, {{"groups", integer(2)}},
      kAnySign);
  add("instance_norm", {{"Bias", {2}}, {"Scale", {2}}, {"X", {2, 2, 3, 1}}},
      {{"SavedMean", {4}, kIndex}, {"SavedVariance", {4}, kIndex}, {"Y", {2, 2, 3, 1}}}, {}, kAnySign);
}

void addProducts(Add add) {
  add("matmul_v2", {{"X", {2, 3, 4}}, {"Y", {4}}}, {{"Out", {2, 3}}}, {}, kAnySign);
  add("matmul_v2", {{"X", {2, 4, 3}}, {"Y", {4}}}, {{"Out", {2, 3}}}, {{"trans_x", flag(true)}}, kAnySign);
  add("matmul_v2", {{"X", {4}}, {"Y", {2, 4, 3}}}, {{"Out", {2, 3}}}, {}, kAnySign);
  add("matmul_v2", {{"X", {4}}, {"Y", {2, 3, 4}}}, {{"Out", {2, 3}}}, {{"trans_y", flag(true)}}, kAnySign);
  add("matmul", {{"X", {2, 3}}, {"Y", {4, 3}}}, {{"Out", {2, 4}}},
      {{"transpose_Y", flag(true)}, {"alpha", number(0.5)}}, kAnySign);
  add("bmm", {{"X", {2, 2, 3}}, {"Y", {2, 3, 2}}}, {{"Out", {2, 2, 2}}}, {}, kAnySign);
  add("dot", {{"X", {2, 3}}, {"Y", {2, 3}}}, {{"Out", {2}}}, {}, kAnySign);
  add("mv", {{"Vec", {3}}, {"X", {2, 3}}}, {{"Out", {2}}}, {}, kAnySign);
  add("addmm", {{"Input", {2, 2}}, {"X", {2, 3}}, {"Y", {3, 2}}}, {{"Out", {2, 2}}},
      {{"Alpha", number(0.5)}, {"Beta", number(2)}}, kAnySign);
}

void addWindows(Add add) {
  const std::pair<std::string, std::string> strides = {"strides", integers({2, 2})},
                                            uneven = {"paddings", integers({1, 0, 0, 1})},
                                            same = {"padding_algorithm", string("SAME")},
                                            last = {"data_format", string("NHWC")},
                                            window = {"ksize", integers({2, 2})};
  const Operands images = {{"Filter", {2, 1, 2, 2}}, {"Input", {1, 1, 3, 4}}};
  add("conv2d", images, {{"Output", {1, 2, 2, 2}}}, {strides, uneven}, kAnySign);
  add("conv2d", images, {{"Output", {1, 2, 2, 2}}}, {strides, same}, kAnySign);
  add("conv2d", {{"Filter", {2, 1, 2, 2}}, {"Input", {1, 3, 4, 1}}}, {{"Output", {1, 2, 2, 2}}}, {strides, same, last},
      kAnySign);
  add("conv2d_transpose", {{"Filter", {2, 1, 2, 2}}, {"Input", {1, 2, 2, 2}}}, {{"Output", {1, 1, 3, 3}}},
      {strides, {"paddings", integers({1, 1})}, {"output_padding", integers({1, 1})}}, kAnySign);
  add("conv2d_transpose", {{"Filter", {2, 1, 2, 2}}, {"Input", {1, 2, 2, 2}}}, {{"Output", {1, 1, 5, 4}}},
      {strides, {"output_size", integers({5, 4})}}, kAnySign);
  for (const char *kind : {"max", "avg"})
    for (bool isExclusive : {true, false}) {
      const std::pair<std::string, std::string> type = {"pooling_type", string(kind)},
                                                exclusive = {"exclusive", flag(isExclusive)};
      add("pool2d", {{"X", {1, 1, 3, 3}}}, {{"Out", {1, 1, 2, 2}}}, {type, window, strides, uneven, exclusive},
          kAnySign);
      add("pool2d", {{"X", {1, 3, 3, 1}}}, {{"Out", {1, 2, 2, 1}}}, {type, window, strides, same, exclusive, last},
          kAnySign);
    }
  add("pool2d", {{"X", {1, 1, 2, 4}}}, {{"Out", {1, 1, 1, 2}}},
      {{"adaptive", flag(true)}, {"ksize", integers({1, 2})}, {"pooling_type", string("max")}}, kAnySign);
  add("max_pool2d_with_index", {{"X", {1, 1, 2, 4}}}, {{"Mask", {1, 1, 1, 2}, kIndex}, {"Out", {1, 1, 1, 2}}},
      {window, strides}, kAnySign);
}

void addLosses(Add add) {
  const Operands weighted = {{"Label", {2, 3}, kConstant}, {"X", {2, 3}}};
  add("bce_loss", weighted, {{"Out", {2, 3}}}, {}, kFraction);
  add("sigmoid_cross_entropy_with_logits", weighted, {{"Out", {2, 3}}}, {}, kAnySign);
  add("sigmoid_cross_entropy_with_logits",
      {{"Label", {2, 3}, kConstant}, {"X", {2, 3}}, {"pos_weight", {3}, kConstant}}, {{"Out", {2, 3}}}, {}, kAnySign);
  const Operands labelled = {{"Label", {2, 1}, kIndex}, {"X", {2, 3}}};
  add("cross_entropy", labelled, {{"Y", {2, 1}}}, {}, kPositive);
  add("cross_entropy2", labelled, {{"MatchX", {2, 1}, kIndex}, {"XShape", {2, 3}, kIndex}, {"Y", {2, 1}}}, {},
      kPositive);
  add("softmax_with_cross_entropy", {{"Label", {2, 1}, kIndex}, {"Logits", {2, 3}}},
      {{"Loss", {2, 1}}, {"Softmax", {2, 3}, kIndex}}, {{"use_softmax", flag(false)}}, kPositive);
  add("nll_loss", {{"Label", {2}, kIndex}, {"X", {2, 3}}}, {{"Out", {}}, {"Total_weight", {}, kIndex}},
      {{"reduction", string("mean")}, {"ignore_index", integer(1)}}, kAnySign);
  add("huber_loss", {{"X", {2, 1}}, {"Y", {2, 1}}}, {{"Out", {2, 1}}, {"Residual", {2, 1}, kIndex}},
      {{"delta", number(0.5)}}, kAnySign);
  add("kldiv_loss", {{"Target", {2, 3}, kConstant}, {"X", {2, 3}}}, {{"Loss", {}}},
      {{"reduction", string("batchmean")}}, kAnySign);
  // Operands of real numbers whose gradient Paddle leaves out.
  add("cross_entropy", {{"Label", {2, 3}, kConstant}, {"X", {2, 3}}}, {{"Y", {2, 1}}}, {{"soft_label", flag(true)}},
      kPositive);
  add("softmax_with_cross_entropy", {{"Label", {2, 3}, kConstant}, {"Logits", {2, 3}}},
      {{"Loss", {2, 1}}, {"Softmax", {2, 3}, kIndex}}, {{"soft_label", flag(true)}}, kAnySign);
  add("nll_loss", {{"Label", {2}, kIndex}, {"Weight", {3}, kConstant}, {"X", {2, 3}}},
      {{"Out", {}}, {"Total_weight", {}, kIndex}}, {{"reduction", string("sum")}}, kAnySign);
  add("clip", {{"Min", {1}, kConstant}, {"X", {2, 3}}}, {{"Out", {2, 3}}}, {{"max", number(2)}}, kAnySign);
  add("clip", {{"Max", {1}, kConstant}, {"X", {3, 4}}}, {{"Out", {3, 4}}}, {{"min", number(-2)}}, kAnySign);
}

void addShapes(Add add) {
  add("expand_as_v2", {{"X", {1, 3}}}, {{"Out", {2, 3}}}, {{"target_shape", integers({2, 3})}}, kAnySign);
  add("tile", {{"X", {2, 3}}}, {{"Out", {4, 3}}}, {{"repeat_times", integers({2, 1})}}, kAnySign);
  add("pad", {{"X", {2, 3}}}, {{"Out", {3, 5}}}, {{"paddings", integers({1, 0, 0, 2})}, {"pad_value", number(0.5)}},
      kAnySign);
  add("pad3d", {{"X", {1, 2, 1, 2, 2}}}, {{"Out", {1, 2, 1, 3, 3}}},
      {{"paddings", integers({1, 0, 0, 1, 0, 0})}, {"mode", string("replicate")}}, kAnySign);
  add("flip", {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {{"axis", integers({-1})}}, kAnySign);
  add("roll", {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {{"shifts", integers({-1})}, {"axis", integers({1})}}, kAnySign);
  add("roll", {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {{"shifts", integers({2})}}, kAnySign);
  add("tril_triu", {{"X", {2, 3, 3}}}, {{"Out", {2, 3, 3}}}, {{"diagonal", integer(1)}, {"lower", flag(true)}},
      kAnySign);
  add("unbind", {{"X", {2, 3}}}, {{"Out", {2}}, {"Out", {2}}, {"Out", {2}}}, {{"axis", integer(1)}}, kAnySign);
}

void addPositions(Add add) {
  add("gather_nd", {{"Index", {3, 2}, kIndex}, {"X", {2, 3, 2}}}, {{"Out", {3, 2}}}, {}, kAnySign);
  add("index_select", {{"Index", {3}, kIndex}, {"X", {3, 2}}}, {{"Out", {3, 3}}}, {{"dim", integer(1)}}, kAnySign);
  add("index_sample", {{"Index", {2, 2}, kIndex}, {"X", {2, 3}}}, {{"Out", {2, 2}}}, {}, kAnySign);
  add("take_along_axis", {{"Index", {1, 3}, kIndex}, {"Input", {2, 3}}}, {{"Result", {1, 3}}}, {{"Axis", integer(0)}},
      kAnySign);
  add("scatter_nd_add", {{"Index", {3, 1}, kIndex}, {"Updates", {3, 3}}, {"X", {2, 3}}}, {{"Out", {2, 3}}}, {},
      kAnySign);
  add("scatter", {{"Ids", {3}, kIndex}, {"Updates", {3, 3}}, {"X", {3, 3}}}, {{"Out", {3, 3}}},
      {{"overwrite", flag(false)}}, kAnySign);
  add("argsort", {{"X", {2, 3}}}, {{"Indices", {2, 3}, kIndex}, {"Out", {2, 3}}}, {{"descending", flag(true)}},
      kAnySign);
}

std::vector<RuleSample> makeSamples() {
  std::vector<RuleSample> samples;
  auto add = [&](std::string type, Operands inputs, Operands outputs, Attributes attrs = {},
                 RuleSample::Range range = kAnySign) {
    size_t before = 0;
    for (const RuleSample &sample : samples) before += sample.type == type;
    const std::string name = before ? type + "_" + std::to_string(before) : type;
    samples.push_back({name, type, std::move(inputs), std::move(outputs), std::move(attrs), range});
  };
  for (const char *type : {"abs",      "cos",         "exp",          "relu",       "sigmoid",    "sin",
                           "square",   "tanh",        "assign",       "cosh",       "sinh",       "tan",
                           "softsign", "erf",         "ceil",         "floor",      "sign",       "rnn_memory_helper",
                           "asinh",    "atan",        "brelu",        "celu",       "elu",        "expm1",
                           "gelu",     "hard_shrink", "hard_sigmoid", "hard_swish", "logsigmoid", "mish",
                           "relu6",    "round",       "selu",         "silu",       "softplus",   "softshrink",
                           "stanh",    "swish",       "tanh_shrink",  "trunc"})
    add(type, {{"X", {2, 3}}}, {{"Out", {2, 3}}});
  for (const char *type :
       {"log", "rsqrt", "sqrt", "reciprocal", "digamma", "lgamma", "log10", "log1p", "log2", "thresholded_relu"})
    add(type, {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {}, kPositive);
  addActivations(add);
  add("leaky_relu", {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {{"alpha", number(0.1)}});
  add("pow", {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {{"factor", number(2.5)}}, kPositive);
  add("log_softmax", {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {{"axis", integer(-1)}});
  add("expand_v2", {{"X", {1, 3}}}, {{"Out", {2, 3}}}, {{"shape", integers({2, 3})}});
  add("clip", {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {{"min", number(-0.5)}, {"max", number(0.5)}});
  for (bool isLast : {true, false})
    add("scale", {{"X", {2, 3}}}, {{"Out", {2, 3}}},
        {{"scale", number(1.5)}, {"bias", number(0.5)}, {"bias_after_scale", flag(isLast)}});
  add("cast", {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {{"in_dtype", integer(6)}, {"out_dtype", integer(6)}});
  for (const char *type : {"elementwise_add", "elementwise_sub", "elementwise_mul", "elementwise_div",
                           "elementwise_max", "elementwise_min", "elementwise_pow"}) {
    add(type, {{"X", {2, 3}}, {"Y", {2, 3}}}, {{"Out", {2, 3}}}, {{"axis", integer(-1)}}, kPositive);
    add(type, {{"X", {2, 3, 2}}, {"Y", {3}}}, {{"Out", {2, 3, 2}}}, {{"axis", integer(1)}}, kPositive);
  }
  add("where", {{"Condition", {2, 3}, kFlag}, {"X", {2, 3}}, {"Y", {2, 3}}}, {{"Out", {2, 3}}});
  add("sum", {{"X", {2, 3}}, {"X", {2, 3}}, {"X", {2, 3}}}, {{"Out", {2, 3}}});
  add("mean", {{"X", {2, 3}}}, {{"Out", {}}});
  add("squared_l2_norm", {{"X", {2, 3}}}, {{"Out", {1}}});
  for (const char *type : {"reduce_mean", "reduce_sum", "reduce_max", "reduce_min", "reduce_prod"}) {
    add(type, {{"X", {2, 3}}}, {{"Out", {}}}, {{"reduce_all", flag(true)}});
    add(type, {{"X", {2, 3, 2}}}, {{"Out", {2, 1, 2}}}, {{"dim", integers({1})}, {"keep_dim", flag(true)}});
    add(type, {{"X", {2, 3}}}, {{"Out", {2}}}, {{"dim", integers({-1})}});
  }
  add("logsumexp", {{"X", {2, 3}}}, {{"Out", {2}}}, {{"axis", integers({-1})}});
  addNorms(add);
  addProducts(add);
  add("mul", {{"X", {2, 3}}, {"Y", {3, 2}}}, {{"Out", {2, 2}}});
  add("mul", {{"X", {2, 2, 3}}, {"Y", {3, 2}}}, {{"Out", {2, 2, 2}}}, {{"x_num_col_dims", integer(2)}});
  for (bool x : {false, true})
    for (bool y : {false, true})
      add("matmul_v2",
          {{"X", x ? std::vector<int64_t>{3, 2} : std::vector<int64_t>{2, 3}},
           {"Y", y ? std::vector<int64_t>{4, 3} : std::vector<int64_t>{3, 4}}},
          {{"Out", {2, 4}}}, {{"trans_x", flag(x)}, {"trans_y", flag(y)}});
  add("matmul_v2", {{"X", {2, 2, 3}}, {"Y", {2, 3, 2}}}, {{"Out", {2, 2, 2}}});
  addWindows(add);
  const Attributes convolution = {{"strides", integers({1, 1})},
                                  {"paddings", integers({1, 1})},
                                  {"dilations", integers({1, 1})},
                                  {"groups", integer(1)}};
  add("conv2d", {{"Filter", {2, 1, 2, 2}}, {"Input", {1, 1, 3, 3}}}, {{"Output", {1, 2, 4, 4}}}, convolution);
  add("depthwise_conv2d", {{"Filter", {2, 1, 2, 2}}, {"Input", {1, 2, 3, 3}}}, {{"Output", {1, 2, 4, 4}}},
      {{"strides", integers({1, 1})},
       {"paddings", integers({1, 1})},
       {"dilations", integers({1, 1})},
       {"groups", integer(2)}});
  for (const char *kind : {"max", "avg"})
    add("pool2d", {{"X", {1, 1, 4, 4}}}, {{"Out", {1, 1, 2, 2}}},
        {{"pooling_type", string(kind)},
         {"ksize", integers({2, 2})},
         {"strides", integers({2, 2})},
         {"paddings", integers({0, 0})}});
  add("batch_norm",
      {{"Bias", {2}}, {"Mean", {2}, kIndex}, {"Scale", {2}}, {"Variance", {2}, kIndex}, {"X", {3, 2, 1, 2}}},
      {{"MeanOut", {2}, kIndex},
       {"SavedMean", {2}, kIndex},
       {"SavedVariance", {2}, kIndex},
       {"VarianceOut", {2}, kIndex},
       {"Y", {3, 2, 1, 2}}});
  add("layer_norm", {{"Bias", {3}}, {"Scale", {3}}, {"X", {2, 3}}},
      {{"Mean", {2}, kIndex}, {"Variance", {2}, kIndex}, {"Y", {2, 3}}}, {{"begin_norm_axis", integer(1)}});
  add("dropout", {{"X", {2, 3}}}, {{"Mask", {2, 3}, kIndex}, {"Out", {2, 3}}},
      {{"dropout_prob", number(0)}, {"dropout_implementation", string("upscale_in_train")}});
  add("softmax", {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {{"axis", integer(-1)}});
  add("softmax_with_cross_entropy", {{"Label", {2, 1}, kIndex}, {"Logits", {2, 3}}},
      {{"Loss", {2, 1}}, {"Softmax", {2, 3}, kIndex}});
  addLosses(add);
  add("lookup_table", {{"Ids", {3, 1}, kIndex}, {"W", {2, 3}}}, {{"Out", {3, 3}}}, {{"padding_idx", integer(1)}});
  add("lookup_table_v2", {{"Ids", {3}, kIndex}, {"W", {2, 3}}}, {{"Out", {3, 3}}});
  const RuleSample::Operand shape = {"XShape", {0, 2, 3}, kIndex};
  add("reshape2", {{"X", {2, 3}}}, {{"Out", {3, 2}}, shape}, {{"shape", integers({3, 2})}});
  add("transpose2", {{"X", {2, 3}}}, {{"Out", {3, 2}}, shape}, {{"axis", integers({1, 0})}});
  add("squeeze2", {{"X", {2, 1}}}, {{"Out", {2}}, {"XShape", {0, 2, 1}, kIndex}}, {{"axes", integers({1})}});
  add("unsqueeze2", {{"X", {2, 3}}}, {{"Out", {2, 1, 3}}, shape}, {{"axes", integers({1})}});
  add("flatten_contiguous_range", {{"X", {2, 3}}}, {{"Out", {6}}, shape},
      {{"start_axis", integer(0)}, {"stop_axis", integer(1)}});
  add("concat", {{"X", {2, 3}}, {"X", {2, 2}}}, {{"Out", {2, 5}}}, {{"axis", integer(1)}});
  add("split", {{"X", {2, 4}}}, {{"Out", {2, 2}}, {"Out", {2, 2}}}, {{"axis", integer(1)}, {"num", integer(2)}});
  add("split", {{"X", {2, 4}}}, {{"Out", {2, 1}}, {"Out", {2, 3}}},
      {{"axis", integer(1)}, {"sections", integers({1, 3})}});
  add("stack", {{"X", {2, 3}}, {"X", {2, 3}}}, {{"Y", {2, 2, 3}}}, {{"axis", integer(1)}});
  add("unstack", {{"X", {2, 3}}}, {{"Y", {3}}, {"Y", {3}}}, {{"axis", integer(0)}, {"num", integer(2)}});
  addShapes(add);
  addPositions(add);
  addArrangedSamples(add);
  add("slice", {{"Input", {3, 3}}}, {{"Out", {2, 3}}},
      {{"axes", integers({0})}, {"starts", integers({1})}, {"ends", integers({3})}});
  add("slice", {{"Input", {3, 3}}}, {{"Out", {3}}},
      {{"axes", integers({0})}, {"starts", integers({1})}, {"ends", integers({2})}, {"decrease_axis", integers({0})}});
  add("strided_slice", {{"Input", {3, 3}}}, {{"Out", {2, 3}}},
      {{"axes", integers({0})}, {"starts", integers({0})}, {"ends", integers({3})}, {"strides", integers({2})}});
  add("slice", {{"EndsTensorList", {}, kIndex}, {"Input", {3, 3}}, {"StartsTensorList", {}, kIndex}}, {{"Out", {3}}},
      {{"axes", integers({0})},
       {"starts", integers({-1})},
       {"ends", integers({-1})},
       {"decrease_axis", integers({0})},
       {"infer_flags", integers({-1})}});
  add("gather", {{"Index", {3}, kIndex}, {"X", {2, 3}}}, {{"Out", {3, 3}}}, {{"axis", integer(0)}});
  add("scatter", {{"Ids", {1}, kIndex}, {"Updates", {1, 3}}, {"X", {2, 3}}}, {{"Out", {2, 3}}});
  add("strided_slice", {{"Input", {2, 4}}}, {{"Out", {2, 4}}},
      {{"axes", integers({1})},
       {"starts", integers({INT32_MAX})},
       {"ends", integers({-1})},
       {"strides", integers({-1})}});
  add("strided_slice", {{"Input", {5}}}, {{"Out", {2}}},
      {{"axes", integers({0})}, {"starts", integers({-1})}, {"ends", integers({-6})}, {"strides", integers({-2})}});
  add("stack", {{"X", {}}, {"X", {}}}, {{"Y", {2}}}, {{"axis", integer(0)}});
  add("expand_v2", {{"X", {}}}, {{"Out", {2, 3}}}, {{"shape", integers({2, 3})}});
  add("gather", {{"Index", {}, kIndex}, {"X", {2, 3, 2}}}, {{"Out", {2, 2}}}, {{"axis", integer(1)}});
  add("lookup_table_v2", {{"Ids", {}, kIndex}, {"W", {2, 3}}}, {{"Out", {3}}});
  add("flatten_contiguous_range", {{"X", {}}}, {{"Out", {1}}, {"XShape", {0}, kIndex}},
      {{"start_axis", integer(0)}, {"stop_axis", integer(-1)}});
  add("top_k_v2", {{"X", {2, 3}}}, {{"Indices", {2, 2}, kIndex}, {"Out", {2, 2}}}, {{"k", integer(2)}});
  add("kthvalue", {{"X", {2, 3}}}, {{"Indices", {2}, kIndex}, {"Out", {2}}}, {{"axis", integer(1)}, {"k", integer(2)}});
  add("kron", {{"X", {2, 3}}, {"Y", {2, 2}}}, {{"Out", {4, 6}}});
  add("cross", {{"X", {2, 3}}, {"Y", {2, 3}}}, {{"Out", {2, 3}}}, {{"dim", integer(9)}});
  add("logcumsumexp", {{"X", {2, 3}}}, {{"Out", {2, 3}}}, {{"axis", integer(1)}, {"reverse", flag(true)}});
  for (const char *extremum : {"reduce_amax", "reduce_amin"})
    add(extremum, {{"X", {2, 3}}}, {{"Out", {2}}}, {{"dim", integers({1})}});
  add("affine_grid", {{"Theta", {1, 2, 3}}}, {{"Output", {1, 2, 3, 2}}}, {{"output_shape", integers({1, 1, 2, 3})}});
  add("grid_sampler", {{"Grid", {1, 2, 2, 2}}, {"X", {1, 2, 3, 4}}}, {{"Output", {1, 2, 2, 2}}});
  return samples;
}

BlockVariable &declare(BlockProgram &program, const std::string &name, const std::vector<int64_t> &shape,
                       FluidType type) {
  program.addVariable(
      0, {program.intern(name), FluidType::LodTensor, type, SmallVector<int64_t, 4>(shape.begin(), shape.end()), 0});
  return *program.find(0, program.texts.find(name));
}

void addTo(SlotNames &slots, const std::string &slot, const std::string &name) {
  if (slots.empty() || slots.back().first != slot) slots.push_back({slot, {}});
  slots.back().second.push_back(name);
}

bool isReal(const RuleSample &sample, const RuleSample::Operand &operand) {
  return operand.kind == RuleSample::Parameter || operand.kind == kConstant || sample.type == "batch_norm";
}

}  // namespace

const std::vector<RuleSample> &ruleSamples() {
  static const std::vector<RuleSample> samples = makeSamples();
  return samples;
}

BlockFile programOfSample(Context &context, const RuleSample &sample) {
  BlockFile file;
  BlockProgram &program = file.program;
  addBlock(program, std::nullopt, {});
  SlotNames inputs, outputs;
  std::vector<std::string> terms;
  for (const RuleSample::Operand &operand : sample.inputs) {
    const bool isParameter = operand.kind == RuleSample::Parameter;
    const std::string name = (isParameter ? "p" : "x") + std::to_string(program.blocks[0].variables.size());
    const FluidType type = operand.kind == kFlag     ? FluidType::Bool
                           : isReal(sample, operand) ? FluidType::Fp64
                                                     : FluidType::Int64;
    BlockVariable &variable = declare(program, name, operand.shape, type);
    variable.isParameter = isParameter;
    variable.stopsGradient = !isParameter;
    if (isParameter) program.parameters.push_back({program.intern(name), true});
    addTo(inputs, operand.slot, name);
  }
  struct Result {
    std::string name;
    std::vector<int64_t> shape;
  };
  std::vector<Result> results;
  for (const RuleSample::Operand &operand : sample.outputs) {
    const std::string name = "y" + std::to_string(program.blocks[0].variables.size());
    declare(program, name, operand.shape, FluidType::Fp64).stopsGradient = operand.kind != RuleSample::Parameter;
    if (operand.kind == RuleSample::Parameter) results.push_back({name, operand.shape});
    addTo(outputs, operand.slot, name);
  }
  SmallVector<AttrText, 8> attrs;
  for (const auto &[key, value] : sample.attrs) attrs.push_back({key, value});
  addOp(program, 0, sample.type, inputs, outputs).attrs = context.attrs(attrs);
  for (const auto &[name, shape] : results) {
    declare(program, "h" + name, shape, FluidType::Fp64).stopsGradient = true;
    declare(program, "m" + name, shape, FluidType::Fp64);
    declare(program, "s" + name, {}, FluidType::Fp64);
    addOp(program, 0, "elementwise_mul", {{"X", {name}}, {"Y", {"h" + name}}}, {{"Out", {"m" + name}}});
    addOp(program, 0, "reduce_sum", {{"X", {"m" + name}}}, {{"Out", {"s" + name}}}).attrs =
        context.attrs({{"reduce_all", boolAttrText(true)}});
    terms.push_back("s" + name);
  }
  declare(program, "loss", {}, FluidType::Fp64);
  addOp(program, 0, "sum", {{"X", terms}}, {{"Out", {"loss"}}});
  file.call.emplace();
  file.call->api = "append_backward";
  file.call->loss = "loss";
  return file;
}

}  // namespace gradc::testing
