// What must hold of every built-in operator, and the first-order gradients MXNet 1.9.1 makes, operator by operator.
#include "ops/registry.h"
#include "tests/support/test_graph.h"

#include "ir/graph/graph_builder.h"
#include "ir/rules/grad_rule.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

struct BuiltinContext : Context {
  BuiltinContext() { registerBuiltinOps(ops); }
};

TEST(Registry, A_05_EveryOperatorIsComplete) {
  BuiltinContext context;
  for (const OpDef *op : context.ops.all()) {
    SCOPED_TRACE(op->name.str());
    EXPECT_FALSE(op->summary.empty());
    EXPECT_NE(op->kernel, nullptr);
    EXPECT_NE(op->flags.isStep, op->isDifferentiable()) << "steps of optimizers alone have no way to a gradient";
    EXPECT_TRUE(!op->name.starts_with("_backward_") || op->flags.isBackward);
    EXPECT_FALSE(op->flags.isOpaque);
    EXPECT_TRUE(!op->flags.isBackward || op->name.contains("backward") || !gradc::testing::isMxnets(*op));
    for (const AttrSpec &spec : op->attrs) EXPECT_FALSE(spec.key.empty() || spec.doc.empty()) << spec.key.str();
    EXPECT_EQ(op->attrs.empty(), op->params.construct == nullptr);
    for (StringRef alias : ArrayRef<StringRef>(op->aliases)) EXPECT_EQ(context.ops.find(alias), op) << alias.str();
  }
}

// The list is small, and every host can do all of it.
// Rules write lists as long as an axis where no shape is known.
TEST(Registry, REG_19_AxesAreThoseAShapeCanHave) {
  BuiltinContext context;
  size_t numAxes = 0;
  for (const OpDef *op : context.ops.all())
    for (const AttrSpec &attr : op->attrs) {
      const StringRef key = attr.key;
      if (!key.starts_with("ax") && !key.starts_with("dim") && !key.starts_with("lhs_") && !key.starts_with("rhs_"))
        continue;
      ++numAxes;
      EXPECT_GE(attr.lowest, -64) << op->name.str() << " " << key.str();
      EXPECT_LE(attr.highest, 64) << op->name.str() << " " << key.str();
    }
  EXPECT_GT(numAxes, 40u);
  EXPECT_TRUE(isPossible(DimsBuffer(64, 1)));
  EXPECT_FALSE(isPossible(DimsBuffer(65, 1)));
  EXPECT_EQ(testing::describeError(context.kind(*context.ops.find("repeat"),
                                                context.attrs({{"repeats", "2"}, {"axis", "1000000000000000000"}}))),
            "[bad_attribute] attribute 'axis' is \"1000000000000000000\", expected int or None from -64 to 64");
}

TEST(Registry, A_17_PrimitivesAreFew) {
  BuiltinContext context;
  size_t numPrimitives = 0, numIrreducible = 0;
  for (const OpDef *op : context.ops.all()) {
    SCOPED_TRACE(op->name.str());
    numPrimitives += bool(op->primitive);
    numIrreducible += !op->irreducible.empty();
    EXPECT_EQ(op->primitive.onnx.empty(), op->primitive.c.empty());
    EXPECT_EQ(bool(op->primitive) + (op->decompose != nullptr) + !op->irreducible.empty(), 1) << "one of them";
  }
  EXPECT_LE(numPrimitives, 80u);
  EXPECT_LE(numIrreducible, 8u);
}

TEST(Registry, REG_22_DefaultsParse) {
  BuiltinContext context;
  for (const OpDef *op : context.ops.all()) {
    // Some need attributes, each or in relation to one another.
    const bool needsAttrs = op->check || llvm::any_of(op->attrs, [](const AttrSpec &spec) { return spec.isRequired; });
    if (needsAttrs) continue;
    Expected<KindRef> kind = context.kind(*op, Attrs());
    ASSERT_TRUE(bool(kind)) << op->name.str() << ": " << toString(kind.takeError());
    EXPECT_LE((*kind)->numVisible, (*kind)->numOutputs) << op->name.str();
  }
}

TEST(Registry, A_01_WellKnownOperators) {
  BuiltinContext context;
  const WellKnownOps &ops = context.ops.wellKnown;
  EXPECT_EQ(ops.zerosLike->name, "zeros_like");
  EXPECT_EQ(ops.onesLike->name, "ones_like");
  EXPECT_EQ(ops.zerosPlaceholder->name, "_zeros_without_dtype");
  EXPECT_EQ(ops.copy->name, "_copy");
  EXPECT_EQ(ops.sum->name, "add_n");
  EXPECT_EQ(ops.add->name, "_grad_add");
  EXPECT_EQ(ops.tap->name, "_gradient_tap");
  EXPECT_EQ(cantFail(ops.sumOf(context, 3))->op, ops.sum);
  EXPECT_EQ(cantFail(ops.scaled(context, 2))->op->name, "_mul_scalar");
}

TEST(Registry, LegacyNamesAreAliases) {
  BuiltinContext context;
  const std::pair<StringRef, StringRef> names[] = {
      {"_Plus", "elemwise_add"},
      {"_plus", "elemwise_add"},
      {"_add", "elemwise_add"},
      {"_Minus", "elemwise_sub"},
      {"_sub", "elemwise_sub"},
      {"_Mul", "elemwise_mul"},
      {"_Div", "elemwise_div"},
      {"_PlusScalar", "_plus_scalar"},
      {"_MulScalar", "_mul_scalar"},
      {"_RPowerScalar", "_rpower_scalar"},
      {"ElementWiseSum", "add_n"},
      {"identity", "_copy"},
      {"stop_gradient", "BlockGrad"},
      {"flatten", "Flatten"},
      {"concat", "Concat"},
      {"sum_axis", "sum"},
      {"broadcast_plus", "broadcast_add"},
      {"broadcast_minus", "broadcast_sub"},
      {"Softmax", "SoftmaxOutput"},
      {"reshape", "Reshape"},
      {"swapaxes", "SwapAxis"},
      {"flip", "reverse"},
      {"crop", "slice"},
      {"split", "SliceChannel"},
      {"broadcast_axes", "broadcast_axis"},
      {"cast", "Cast"},
      {"pad", "Pad"},
      {"max_axis", "max"},
      {"min_axis", "min"},
      {"_Maximum", "_maximum"},
      {"_Power", "_power"},
      {"_Not_Equal", "_not_equal"},
      {"cumsum", "_np_cumsum"},
      {"shuffle", "_shuffle"},
      {"_sparse_norm", "norm"},
      {"_npx_topk", "topk"},
      {"_npi_sort", "sort"},
      {"_npi_argsort", "argsort"},
      {"choose_element_0index", "pick"},
      {"_crop_assign", "_slice_assign"},
      {"_crop_assign_scalar", "_slice_assign_scalar"},
      {"_npx_activation", "Activation"},
      {"_npx_batch_norm", "BatchNorm"},
      {"_npx_convolution", "Convolution"},
      {"_npx_dropout", "Dropout"},
      {"_npx_fully_connected", "FullyConnected"},
      {"_npx_pooling", "Pooling"},
      {"_npx_sequence_mask", "SequenceMask"},
      {"_npi_abs", "abs"},
      {"_npi_hypot_scalar", "_hypot_scalar"},
      {"_npi_shuffle", "_shuffle"},
      {"_npi_split", "_split_v2"},
      {"_sparse_FullyConnected", "FullyConnected"},
      {"_sparse__contrib_round_ste", "_contrib_round_ste"},
      {"_sparse__contrib_sign_ste", "_contrib_sign_ste"},
      {"_sparse_arccos", "arccos"},
      {"_sparse_arccosh", "arccosh"},
      {"_sparse_cos", "cos"},
      {"_sparse_cosh", "cosh"},
      {"_sparse_gamma", "gamma"},
      {"_sparse_gammaln", "gammaln"},
  };
  for (auto [alias, name] : names) {
    const OpDef *op = context.ops.find(alias);
    ASSERT_NE(op, nullptr) << alias.str();
    EXPECT_EQ(op->name, name) << alias.str();
  }
}

// The nodes a rule makes: "_backward_mul(dy0,x0,x1) x0=n0:0 x1=n0:1"; x and y are the node's inputs and outputs, n its
// gradient nodes. A gradient that is dy itself is written "x0=dy0", none at all as "x0=none".
std::string signature(StringRef name, ArrayRef<AttrText> attrs) {
  BuiltinContext context;
  GraphBuilder builder(context);
  const OpDef &op = *context.ops.find(name);
  const KindRef handle = cantFail(context.kind(op, context.attrs(attrs)));
  const NodeKind &kind = *handle;
  SmallVector<Value, 8> inputs, heads;
  std::vector<std::string> names;
  for (uint32_t i = 0; i < kind.numInputs; ++i) {
    inputs.push_back(builder.addVariable("", Attrs()));
    names.push_back("x" + std::to_string(i));
  }
  for (uint32_t o = 0; o < kind.numOutputs; ++o) {
    heads.push_back(builder.addVariable("", Attrs()));
    names.push_back("dy" + std::to_string(o));
  }
  const NodeId node = cantFail(builder.add(op, inputs, {"", context.attrs(attrs), NodeId()}));
  SmallVector<bool, 8> wanted(inputs.size(), true);
  GradRule rule(builder, node, node, {heads, [](void *, size_t) { return Value(); }, nullptr}, wanted);
  op.gradient(rule);
  EXPECT_FALSE(rule.hasFailed());

  auto spell = [&](Value v) -> std::string {
    if (v.node.value < node.value) return names[v.node.value];
    if (v.node == node) return "y" + std::to_string(v.index);
    return "n" + std::to_string(v.node.value - node.value - 1) + ":" + std::to_string(v.index);
  };
  std::string text;
  for (uint32_t n = node.value + 1; n < builder.numNodes(); ++n) {
    text += (builder.kind(NodeId(n)).op->name + "(").str();
    for (Value v : builder.inputs(NodeId(n))) text += (text.back() == '(' ? "" : ",") + spell(v);
    text += ") ";
  }
  for (uint32_t i = 0; i < kind.numInputs; ++i) {
    text += "x" + std::to_string(i) + "=";
    text += rule.slot(i) == GradRule::Slot::Gradient ? spell(rule.gradient(i)) : "none";
    if (i + 1 < kind.numInputs) text += " ";
  }
  return text;
}

struct Signature {
  StringRef op;
  std::vector<AttrText> attrs;
  StringRef expected;
};

// From MXNet 1.9.1's own executor, but for the losses (their gradient reads the input) and labels (none instead of 0).
TEST(Registry, A_14_FirstOrderGradientsAreMxnetOperators) {
  const Signature rows[] = {
      {"elemwise_add", {}, "x0=dy0 x1=dy0"},
      {"_grad_add", {}, "x0=dy0 x1=dy0"},
      {"elemwise_sub", {}, "_backward_sub(dy0) x0=n0:0 x1=n0:1"},
      {"elemwise_mul", {}, "_backward_mul(dy0,x0,x1) x0=n0:0 x1=n0:1"},
      {"elemwise_div", {}, "_backward_div(dy0,x0,x1) x0=n0:0 x1=n0:1"},
      {"add_n", {{"num_args", "3"}}, "_copy(dy0) _copy(dy0) _copy(dy0) x0=n0:0 x1=n1:0 x2=n2:0"},
      {"_copy", {}, "_copy(dy0) x0=n0:0"},
      {"zeros_like", {}, "zeros_like(x0) x0=n0:0"},
      {"ones_like", {}, "zeros_like(x0) x0=n0:0"},
      {"BlockGrad", {}, "zeros_like(x0) x0=n0:0"},
      {"_random_uniform_like", {}, "zeros_like(x0) x0=n0:0"},
      {"_random_normal_like", {}, "zeros_like(x0) x0=n0:0"},
      {"make_loss", {}, "ones_like(x0) x0=n0:0"},
      {"_plus_scalar", {{"scalar", "2"}}, "_copy(dy0) x0=n0:0"},
      {"_minus_scalar", {{"scalar", "2"}}, "_copy(dy0) x0=n0:0"},
      {"_rminus_scalar", {{"scalar", "2"}}, "negative(dy0) x0=n0:0"},
      {"_mul_scalar", {{"scalar", "2"}}, "_backward_mul_scalar(dy0) x0=n0:0"},
      {"_div_scalar", {{"scalar", "2"}}, "_backward_div_scalar(dy0) x0=n0:0"},
      {"_rdiv_scalar", {{"scalar", "2"}}, "_backward_rdiv_scalar(dy0,x0) x0=n0:0"},
      {"_power_scalar", {{"scalar", "2"}}, "_backward_power_scalar(dy0,x0) x0=n0:0"},
      {"_rpower_scalar", {{"scalar", "2"}}, "_backward_rpower_scalar(dy0,y0) x0=n0:0"},
      {"_maximum_scalar", {{"scalar", "2"}}, "_backward_maximum_scalar(dy0,x0) x0=n0:0"},
      {"_minimum_scalar", {{"scalar", "2"}}, "_backward_minimum_scalar(dy0,x0) x0=n0:0"},
      {"_greater_scalar", {{"scalar", "2"}}, "x0=none"},
      {"negative", {}, "negative(dy0) x0=n0:0"},
      {"exp", {}, "elemwise_mul(dy0,y0) x0=n0:0"},
      {"log", {}, "_backward_log(dy0,x0) x0=n0:0"},
      {"sqrt", {}, "_backward_sqrt(dy0,y0) x0=n0:0"},
      {"square", {}, "_backward_square(dy0,x0) x0=n0:0"},
      {"reciprocal", {}, "_backward_reciprocal(dy0,x0) x0=n0:0"},
      {"abs", {}, "_backward_abs(dy0,x0) x0=n0:0"},
      {"sign", {}, "_backward_sign(dy0,x0) x0=n0:0"},
      {"relu", {}, "_backward_relu(dy0,y0) x0=n0:0"},
      {"sigmoid", {}, "_backward_sigmoid(dy0,y0) x0=n0:0"},
      {"tanh", {}, "_backward_tanh(dy0,y0) x0=n0:0"},
      {"softsign", {}, "_backward_softsign(dy0,x0) x0=n0:0"},
      {"log2", {}, "_backward_log2(dy0,x0) x0=n0:0"},
      {"log10", {}, "_backward_log10(dy0,x0) x0=n0:0"},
      {"rsqrt", {}, "_backward_rsqrt(dy0,x0) x0=n0:0"},
      {"rcbrt", {}, "_backward_rcbrt(dy0,x0) x0=n0:0"},
      {"sin", {}, "_backward_sin(dy0,x0) x0=n0:0"},
      {"cos", {}, "_backward_cos(dy0,x0) x0=n0:0"},
      {"arcsin", {}, "_backward_arcsin(dy0,x0) x0=n0:0"},
      {"arccos", {}, "_backward_arccos(dy0,x0) x0=n0:0"},
      {"arctan", {}, "_backward_arctan(dy0,x0) x0=n0:0"},
      {"sinh", {}, "_backward_sinh(dy0,x0) x0=n0:0"},
      {"cosh", {}, "_backward_cosh(dy0,x0) x0=n0:0"},
      {"arcsinh", {}, "_backward_arcsinh(dy0,x0) x0=n0:0"},
      {"arccosh", {}, "_backward_arccosh(dy0,x0) x0=n0:0"},
      {"arctanh", {}, "_backward_arctanh(dy0,x0) x0=n0:0"},
      {"degrees", {}, "_backward_degrees(dy0,x0) x0=n0:0"},
      {"radians", {}, "_backward_radians(dy0,x0) x0=n0:0"},
      {"cbrt", {}, "_backward_cbrt(dy0,y0) x0=n0:0"},
      {"tan", {}, "_backward_tan(dy0,y0) x0=n0:0"},
      {"erfinv", {}, "_backward_erfinv(dy0,y0) x0=n0:0"},
      {"rint", {}, "zeros_like(x0) x0=n0:0"},
      {"ceil", {}, "zeros_like(x0) x0=n0:0"},
      {"floor", {}, "zeros_like(x0) x0=n0:0"},
      {"trunc", {}, "zeros_like(x0) x0=n0:0"},
      {"fix", {}, "zeros_like(x0) x0=n0:0"},
      {"logical_not", {}, "zeros_like(x0) x0=n0:0"},
      {"_hypot", {}, "_backward_hypot(dy0,x0,x1) x0=n0:0 x1=n0:1"},
      {"_mod", {}, "_backward_mod(dy0,x0,x1) x0=n0:0 x1=n0:1"},
      {"broadcast_hypot", {}, "_backward_broadcast_hypot(dy0,x0,x1) x0=n0:0 x1=n0:1"},
      {"broadcast_mod", {}, "_backward_broadcast_mod(dy0,x0,x1) x0=n0:0 x1=n0:1"},
      {"_npi_arctan2", {}, "_backward_npi_arctan2(dy0,x0,x1) x0=n0:0 x1=n0:1"},
      {"_npi_ldexp", {}, "_backward_npi_ldexp(dy0,x0,x1) x0=n0:0 x1=n0:1"},
      {"_hypot_scalar", {}, "_backward_hypot_scalar(dy0,x0) x0=n0:0"},
      {"_mod_scalar", {}, "_backward_mod_scalar(dy0,x0) x0=n0:0"},
      {"_rmod_scalar", {}, "_backward_rmod_scalar(dy0,x0) x0=n0:0"},
      {"_npi_arctan2_scalar", {}, "_backward_npi_arctan2_scalar(dy0,x0) x0=n0:0"},
      {"_npi_rarctan2_scalar", {}, "_backward_npi_rarctan2_scalar(dy0,x0) x0=n0:0"},
      {"_npi_ldexp_scalar", {}, "_backward_npi_ldexp_scalar(dy0,x0) x0=n0:0"},
      {"_npi_rldexp_scalar", {}, "_backward_npi_rldexp_scalar(dy0,x0) x0=n0:0"},
      {"log1p", {}, "_backward_log1p(dy0,x0) x0=n0:0"},
      {"expm1", {}, "_backward_expm1(dy0,x0) x0=n0:0"},
      {"sum", {{"axis", "1"}}, "_backward_sum(dy0) x0=n0:0"},
      {"mean", {{"axis", "1"}}, "_backward_mean(dy0) x0=n0:0"},
      {"broadcast_like", {}, "_broadcast_backward(dy0) zeros_like(x1) x0=n0:0 x1=n1:0"},
      {"reshape_like", {}, "_backward_copy(dy0) zeros_like(x1) x0=n0:0 x1=n1:0"},
      {"Flatten", {}, "_backward_copy(dy0) x0=n0:0"},
      {"dot", {}, "_backward_dot(dy0,x0,x1) x0=n0:0 x1=n0:1"},
      {"_linalg_gemm2", {{"alpha", "2"}}, "_backward_linalg_gemm2(dy0,x0,x1) x0=n0:0 x1=n0:1"},
      {"_linalg_gemm", {}, "_backward_linalg_gemm(dy0,x0,x1,x2) x0=n0:0 x1=n0:1 x2=n0:2"},
      {"_contrib_interleaved_matmul_selfatt_qk",
       {{"heads", "2"}},
       "_backward_interleaved_matmul_selfatt_qk(dy0,x0) x0=n0:0"},
      {"_contrib_interleaved_matmul_selfatt_valatt",
       {{"heads", "2"}},
       "_backward_interleaved_matmul_selfatt_valatt(dy0,x0,x1) x0=n0:0 x1=n0:1"},
      {"_contrib_interleaved_matmul_encdec_qk",
       {{"heads", "2"}},
       "_backward_interleaved_matmul_encdec_qk(dy0,x0,x1) x0=n0:0 x1=n0:1"},
      {"_contrib_interleaved_matmul_encdec_valatt",
       {{"heads", "2"}},
       "_backward_interleaved_matmul_encdec_valatt(dy0,x0,x1) x0=n0:0 x1=n0:1"},
      {"SequenceLast", {}, "_backward_SequenceLast(dy0) x0=n0:0"},
      {"SequenceLast", {{"use_sequence_length", "True"}}, "_backward_SequenceLast(dy0,x1) x0=n0:0 x1=none"},
      {"SequenceReverse", {}, "_backward_SequenceReverse(dy0) x0=n0:0"},
      {"SequenceReverse", {{"use_sequence_length", "True"}}, "_backward_SequenceReverse(dy0,x1) x0=n0:0 x1=none"},
      {"broadcast_add", {}, "_backward_broadcast_add(dy0) x0=n0:0 x1=n0:1"},
      {"broadcast_sub", {}, "_backward_broadcast_sub(dy0) x0=n0:0 x1=n0:1"},
      {"broadcast_mul", {}, "_backward_broadcast_mul(dy0,x0,x1) x0=n0:0 x1=n0:1"},
      {"broadcast_div", {}, "_backward_broadcast_div(dy0,x0,x1) x0=n0:0 x1=n0:1"},
      {"Concat", {{"num_args", "2"}}, "_backward_Concat(dy0,x0,x1) x0=n0:0 x1=n0:1"},
      {"Reshape", {{"shape", "(-1,)"}}, "_backward_reshape(dy0) x0=n0:0"},
      {"expand_dims", {{"axis", "0"}}, "_backward_reshape(dy0) x0=n0:0"},
      {"squeeze", {{"axis", "0"}}, "_backward_squeeze(dy0) x0=n0:0"},
      {"transpose", {}, "transpose(dy0) x0=n0:0"},
      {"SwapAxis", {{"dim1", "0"}, {"dim2", "1"}}, "_backward_SwapAxis(dy0) x0=n0:0"},
      {"reverse", {{"axis", "0"}}, "_backward_reverse(dy0) x0=n0:0"},
      {"repeat", {{"repeats", "2"}, {"axis", "0"}}, "_backward_repeat(dy0) x0=n0:0"},
      {"tile", {{"reps", "(2, 2)"}}, "_backward_tile(dy0) x0=n0:0"},
      {"slice", {{"begin", "(0,)"}, {"end", "(1,)"}}, "_backward_slice(dy0) x0=n0:0"},
      {"slice_axis", {{"axis", "0"}, {"begin", "0"}, {"end", "1"}}, "_backward_slice_axis(dy0) x0=n0:0"},
      {"slice_like", {}, "_backward_slice_like(dy0) x0=n0:0 x1=n0:1"},
      {"SliceChannel", {{"num_outputs", "3"}}, "_backward_SliceChannel(dy0,dy1,dy2) x0=n0:0"},
      {"_split_v2", {{"indices", "(0, 2)"}}, "_split_v2_backward(dy0,dy1) x0=n0:0"},
      {"_rnn_param_concat", {{"num_args", "2"}}, "_backward_Concat(dy0,x0,x1) x0=n0:0 x1=n0:1"},
      {"_contrib_gradientmultiplier", {{"scalar", "2"}}, "_contrib_backward_gradientmultiplier(dy0) x0=n0:0"},
      {"_contrib_quadratic", {{"a", "2"}}, "_contrib_backward_quadratic(dy0,x0) x0=n0:0"},
      {"_contrib_round_ste", {}, "_copy(dy0) x0=n0:0"},
      {"_contrib_sign_ste", {}, "_copy(dy0) x0=n0:0"},
      {"_ravel_multi_index", {{"shape", "(2, 3)"}}, "zeros_like(x0) x0=n0:0"},
      {"_unravel_index", {{"shape", "(2, 3)"}}, "zeros_like(x0) x0=n0:0"},
      {"_contrib_arange_like", {}, "zeros_like(x0) x0=n0:0"},
      {"_contrib_index_array", {}, "zeros_like(x0) x0=n0:0"},
      {"stack", {{"num_args", "2"}}, "_backward_stack(dy0) x0=n0:0 x1=n0:1"},
      {"broadcast_axis", {{"axis", "0"}, {"size", "2"}}, "_broadcast_backward(dy0) x0=n0:0"},
      {"broadcast_to", {{"shape", "(2, 3)"}}, "_broadcast_backward(dy0) x0=n0:0"},
      {"Crop", {{"num_args", "2"}}, "_backward_Crop(dy0) x0=n0:0 x1=n0:1"},
      {"Pad", {{"mode", "edge"}, {"pad_width", "(0,0,0,0,1,1,1,1)"}}, "_backward_Pad(dy0) x0=n0:0"},
      {"Cast", {{"dtype", "float32"}}, "_backward_cast(dy0) x0=n0:0"},
      {"amp_cast", {{"dtype", "float16"}}, "_backward_amp_cast(dy0) x0=n0:0"},
      {"amp_multicast", {{"num_outputs", "2"}}, "_backward_amp_multicast(dy0,dy1) x0=n0:0 x1=n0:1"},
      {"depth_to_space", {{"block_size", "2"}}, "space_to_depth(dy0) x0=n0:0"},
      {"space_to_depth", {{"block_size", "2"}}, "depth_to_space(dy0) x0=n0:0"},
      {"im2col", {{"kernel", "(2,2)"}}, "_backward_im2col(dy0) x0=n0:0"},
      {"col2im", {{"kernel", "(2,2)"}, {"output_size", "(4,6)"}}, "_backward_col2im(dy0) x0=n0:0"},
      {"where", {}, "_backward_where(dy0,x0) zeros_like(x0) x0=n1:0 x1=n0:0 x2=n0:1"},
      {"_maximum", {}, "_backward_maximum(dy0,x0,x1) x0=n0:0 x1=n0:1"},
      {"_minimum", {}, "_backward_minimum(dy0,x0,x1) x0=n0:0 x1=n0:1"},
      {"_power", {}, "_backward_power(dy0,x0,x1) x0=n0:0 x1=n0:1"},
      {"broadcast_maximum", {}, "_backward_broadcast_maximum(dy0,x0,x1) x0=n0:0 x1=n0:1"},
      {"broadcast_minimum", {}, "_backward_broadcast_minimum(dy0,x0,x1) x0=n0:0 x1=n0:1"},
      {"broadcast_power", {}, "_backward_broadcast_power(dy0,x0,x1) x0=n0:0 x1=n0:1"},
      {"clip", {{"a_min", "0"}, {"a_max", "1"}}, "_backward_clip(dy0,x0) x0=n0:0"},
      {"max", {{"axis", "1"}}, "_backward_max(dy0,x0,y0) x0=n0:0"},
      {"min", {{"axis", "1"}}, "_backward_min(dy0,x0,y0) x0=n0:0"},
      {"prod", {{"axis", "1"}}, "_backward_prod(dy0,x0,y0) x0=n0:0"},
      {"nanprod", {{"axis", "1"}}, "_backward_nanprod(dy0,x0,y0) x0=n0:0"},
      {"nansum", {{"axis", "1"}}, "_backward_nansum(dy0,x0,y0) x0=n0:0"},
      {"norm", {{"ord", "1"}, {"axis", "1"}}, "_backward_norm(dy0,x0,y0) x0=n0:0"},
      {"moments", {{"axes", "1"}}, "_backward_moments(dy0,dy1,x0,y0,y1) x0=n0:0"},
      {"_np_cumsum", {{"axis", "1"}}, "_backward_np_cumsum(dy0) x0=n0:0"},
      {"argmax", {{"axis", "1"}}, "zeros_like(x0) x0=n0:0"},
      {"argmin", {}, "zeros_like(x0) x0=n0:0"},
      {"argmax_channel", {}, "x0=none"},
      {"topk", {{"ret_typ", "value"}, {"k", "2"}}, "_backward_topk(dy0,y0,y1) x0=n0:0"},
      {"topk", {{"ret_typ", "both"}}, "_backward_topk(dy0,y0,y1) x0=n0:0"},
      {"topk", {}, "zeros_like(x0) x0=n0:0"},
      {"topk", {{"ret_typ", "mask"}}, "zeros_like(x0) x0=n0:0"},
      {"sort", {{"axis", "1"}}, "_backward_topk(dy0,y0,y1) x0=n0:0"},
      {"argsort", {}, "zeros_like(x0) x0=n0:0"},
      {"_equal", {}, "x0=none x1=none"},
      {"broadcast_lesser", {}, "x0=none x1=none"},
      {"take", {{"axis", "1"}}, "_backward_take(dy0,x1) x0=n0:0 x1=none"},
      {"Embedding", {{"input_dim", "3"}, {"output_dim", "2"}}, "_backward_Embedding(dy0,x0) x0=none x1=n0:1"},
      {"pick", {{"axis", "1"}}, "_backward_pick(dy0,x1) zeros_like(x1) x0=n0:0 x1=n1:0"},
      {"gather_nd", {}, "_backward_gather_nd(dy0,x1) zeros_like(x1) x0=n0:0 x1=n1:0"},
      {"scatter_nd", {{"shape", "(4,3)"}}, "gather_nd(dy0,x1) zeros_like(x1) x0=n0:0 x1=n1:0"},
      {"one_hot", {{"depth", "4"}}, "zeros_like(x0) x0=n0:0"},
      {"_contrib_index_copy", {}, "_contrib_backward_index_copy(dy0,x0,x1,x2) x0=n0:0 x1=none x2=n0:2"},
      {"diag", {{"k", "1"}}, "_backward_diag(dy0) x0=n0:0"},
      {"shape_array", {}, "zeros_like(x0) x0=n0:0"},
      {"size_array", {}, "zeros_like(x0) x0=n0:0"},
      {"SoftmaxOutput", {}, "_SoftmaxOutput_grad(x0,x1) x0=n0:0 x1=none"},
      {"SoftmaxOutput", {{"out_grad", "True"}}, "_SoftmaxOutput_grad(x0,x1,dy0) x0=n0:0 x1=none"},
      {"LinearRegressionOutput", {}, "_LinearRegressionOutput_grad(x0,x1) x0=n0:0 x1=none"},
      {"LogisticRegressionOutput", {}, "_LogisticRegressionOutput_grad(x0,x1) x0=n0:0 x1=none"},
      {"MAERegressionOutput", {}, "_MAERegressionOutput_grad(x0,x1) x0=n0:0 x1=none"},
      {"SVMOutput", {}, "_backward_SVMOutput(x1,x0) x0=n0:0 x1=none"},
      {"softmax_cross_entropy", {}, "_backward_softmax_cross_entropy(dy0,x0,x1) x0=n0:0 x1=none"},
      {"MakeLoss", {}, "_backward_MakeLoss() x0=n0:0"},
      {"MakeLoss", {{"normalization", "valid"}}, "_backward_MakeLoss(x0) x0=n0:0"},
      {"CTCLoss", {}, "_backward_ctc_loss(dy0,dy1,y0,y1) x0=n0:0 x1=none"},
      {"CTCLoss",
       {{"use_data_lengths", "True"}, {"use_label_lengths", "True"}},
       "_backward_ctc_loss(dy0,dy1,y0,y1) x0=n0:0 x1=none x2=none x3=none"},
      {"RNN",
       {{"state_size", "2"}, {"num_layers", "1"}, {"mode", "gru"}},
       "_backward_RNN(x0,x1,x2,y0,dy0) x0=n0:0 x1=n0:1 x2=n0:2"},
      {"RNN",
       {{"state_size", "2"}, {"num_layers", "1"}, {"mode", "rnn_tanh"}, {"state_outputs", "True"}},
       "_backward_RNN(x0,x1,x2,y0,dy0,y1,dy1) x0=n0:0 x1=n0:1 x2=n0:2"},
      {"RNN",
       {{"state_size", "2"}, {"num_layers", "1"}, {"mode", "lstm"}},
       "_backward_RNN(x0,x1,x2,y0,dy0,x3) x0=n0:0 x1=n0:1 x2=n0:2 x3=n0:3"},
      {"RNN",
       {{"state_size", "2"}, {"num_layers", "1"}, {"mode", "lstm"}, {"state_outputs", "True"}},
       "_backward_RNN(x0,x1,x2,y0,dy0,y1,dy1,x3,y2,dy2) x0=n0:0 x1=n0:1 x2=n0:2 x3=n0:3"},
  };
  for (const Signature &row : rows) EXPECT_EQ(signature(row.op, row.attrs), row.expected) << row.op.str();
}

}  // namespace
}  // namespace gradc
