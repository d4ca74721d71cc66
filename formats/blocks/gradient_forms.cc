// Tested by tests/append_backward_test.cc
#include "formats/blocks/gradient_forms.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace gradc {
namespace {

struct Form {
  StringLiteral type, form;
};

constexpr Form kForms[] = {
    // Elementwise, one operand.
    {"abs", "abs_grad: Out@GRAD, X -> X@GRAD"},
    {"ceil", "ceil_grad: Out@GRAD -> X@GRAD"},
    {"cos", "cos_grad: Out@GRAD, X -> X@GRAD"},
    {"cosh", "cosh_grad: Out@GRAD, X -> X@GRAD"},
    {"erf", "erf_grad: Out@GRAD, X -> X@GRAD"},
    {"exp", "exp_grad: Out, Out@GRAD -> X@GRAD"},
    {"floor", "floor_grad: Out@GRAD -> X@GRAD"},
    {"gelu", "gelu_grad: Out@GRAD, X -> X@GRAD"},
    {"leaky_relu", "leaky_relu_grad: Out@GRAD, X -> X@GRAD"},
    {"log", "log_grad: Out@GRAD, X -> X@GRAD"},
    {"pow", "pow_grad: FactorTensor, Out@GRAD, X -> X@GRAD"},
    {"reciprocal", "reciprocal_grad: Out, Out@GRAD -> X@GRAD"},
    {"relu", "relu_grad: Out, Out@GRAD -> X@GRAD"},
    {"rsqrt", "rsqrt_grad: Out, Out@GRAD -> X@GRAD"},
    {"sigmoid", "sigmoid_grad: Out, Out@GRAD -> X@GRAD"},
    {"sin", "sin_grad: Out@GRAD, X -> X@GRAD"},
    {"sinh", "sinh_grad: Out@GRAD, X -> X@GRAD"},
    {"softsign", "softsign_grad: Out@GRAD, X -> X@GRAD"},
    {"sqrt", "sqrt_grad: Out, Out@GRAD -> X@GRAD"},
    {"square", "square_grad: Out@GRAD, X -> X@GRAD"},
    {"acos", "acos_grad: Out@GRAD, X -> X@GRAD"},
    {"asin", "asin_grad: Out@GRAD, X -> X@GRAD"},
    {"asinh", "asinh_grad: Out@GRAD, X -> X@GRAD"},
    {"atan", "atan_grad: Out@GRAD, X -> X@GRAD"},
    {"atanh", "atanh_grad: Out@GRAD, X -> X@GRAD"},
    {"acosh", "acosh_grad: Out@GRAD, X -> X@GRAD"},
    {"logit", "logit_grad: Out@GRAD, X -> X@GRAD"},
    {"brelu", "brelu_grad: Out@GRAD, X -> X@GRAD"},
    {"celu", "celu_grad: Out@GRAD, X -> X@GRAD"},
    {"digamma", "digamma_grad: Out@GRAD, X -> X@GRAD"},
    {"elu", "elu_grad: Out, Out@GRAD, X -> X@GRAD"},
    {"erfinv", "erfinv_grad: Out, Out@GRAD -> X@GRAD"},
    {"expm1", "expm1_grad: Out, Out@GRAD -> X@GRAD"},
    {"hard_shrink", "hard_shrink_grad: Out@GRAD, X -> X@GRAD"},
    {"hard_sigmoid", "hard_sigmoid_grad: Out, Out@GRAD -> X@GRAD"},
    {"hard_swish", "hard_swish_grad: Out@GRAD, X -> X@GRAD"},
    {"lgamma", "lgamma_grad: Out@GRAD, X -> X@GRAD"},
    {"log10", "log10_grad: Out@GRAD, X -> X@GRAD"},
    {"log1p", "log1p_grad: Out@GRAD, X -> X@GRAD"},
    {"log2", "log2_grad: Out@GRAD, X -> X@GRAD"},
    {"logsigmoid", "logsigmoid_grad: Out@GRAD, X -> X@GRAD"},
    {"mish", "mish_grad: Out@GRAD, X -> X@GRAD"},
    {"prelu", "prelu_grad: Alpha, Out@GRAD, X -> Alpha@GRAD, X@GRAD"},
    {"relu6", "relu6_grad: Out, Out@GRAD -> X@GRAD"},
    {"round", "round_grad: Out@GRAD -> X@GRAD"},
    {"selu", "selu_grad: Out, Out@GRAD -> X@GRAD"},
    {"silu", "silu_grad: Out, Out@GRAD, X -> X@GRAD"},
    {"softplus", "softplus_grad: Out@GRAD, X -> X@GRAD"},
    {"softshrink", "softshrink_grad: Out@GRAD, X -> X@GRAD"},
    {"stanh", "stanh_grad: Out@GRAD, X -> X@GRAD"},
    {"swish", "swish_grad: Out@GRAD, X -> X@GRAD"},
    {"tanh_shrink", "tanh_shrink_grad: Out@GRAD, X -> X@GRAD"},
    {"thresholded_relu", "thresholded_relu_grad: Out@GRAD, X -> X@GRAD"},
    {"trunc", "trunc_grad: Out@GRAD -> X@GRAD"},
    {"tan", "tan_grad: Out@GRAD, X -> X@GRAD"},
    {"tanh", "tanh_grad: Out, Out@GRAD -> X@GRAD"},
    {"clip", "clip_grad: Max, Min, Out@GRAD, X -> X@GRAD"},
    {"scale", "scale: ScaleTensor, X = Out@GRAD -> Out = X@GRAD"},
    {"sign", "scale: X = Out@GRAD -> Out = X@GRAD"},
    {"cast", "cast: X = Out@GRAD -> Out = X@GRAD"},
    {"assign", "assign: X = Out@GRAD -> Out = X@GRAD"},
    // The gradient of a counter counts it back: no gradient is involved, and the loop's gradient needs the counter.
    {"increment", "increment: X = Out -> Out = X"},
    // Elementwise, several operands.
    {"elementwise_add", "elementwise_add_grad: Out@GRAD, X, Y -> X@GRAD, Y@GRAD"},
    {"elementwise_sub", "elementwise_sub_grad: Out@GRAD, X, Y -> X@GRAD, Y@GRAD"},
    {"elementwise_mul", "elementwise_mul_grad: Out@GRAD, X, Y -> X@GRAD, Y@GRAD"},
    {"elementwise_div", "elementwise_div_grad: Out, Out@GRAD, X, Y -> X@GRAD, Y@GRAD"},
    {"elementwise_max", "elementwise_max_grad: Out@GRAD, X, Y -> X@GRAD, Y@GRAD"},
    {"elementwise_min", "elementwise_min_grad: Out@GRAD, X, Y -> X@GRAD, Y@GRAD"},
    {"elementwise_pow", "elementwise_pow_grad: Out@GRAD, X, Y -> X@GRAD, Y@GRAD"},
    {"lerp", "lerp_grad: Out, Out@GRAD, Weight, X, Y -> X@GRAD, Y@GRAD"},
    {"atan2", "atan2_grad: Out@GRAD, X1, X2 -> X1@GRAD, X2@GRAD"},
    {"elementwise_fmax", "elementwise_fmax_grad: Out@GRAD, X, Y -> X@GRAD, Y@GRAD"},
    {"elementwise_fmin", "elementwise_fmin_grad: Out@GRAD, X, Y -> X@GRAD, Y@GRAD"},
    {"where", "where_grad: Condition, Out@GRAD, X, Y -> X@GRAD, Y@GRAD"},
    {"sum", "each scale: X = Out@GRAD -> Out = X@GRAD"},
    // Reductions.
    {"mean", "mean_grad: Out@GRAD, X -> X@GRAD"},
    {"reduce_mean", "reduce_mean_grad: Out@GRAD, X -> X@GRAD"},
    {"reduce_sum", "reduce_sum_grad: Out@GRAD, X -> X@GRAD"},
    {"reduce_max", "reduce_max_grad: Out, Out@GRAD, X -> X@GRAD"},
    {"reduce_min", "reduce_min_grad: Out, Out@GRAD, X -> X@GRAD"},
    {"reduce_prod", "reduce_prod_grad: Out, Out@GRAD, X -> X@GRAD"},
    {"cumsum", "cumsum_grad: Out@GRAD, X -> X@GRAD"},
    {"cumprod", "cumprod_grad: Out, Out@GRAD, X -> X@GRAD"},
    {"dist", "dist_grad: Out, Out@GRAD, X, Y -> X@GRAD, Y@GRAD"},
    {"trace", "trace_grad: Input, Out@GRAD -> Input@GRAD"},
    {"frobenius_norm", "frobenius_norm_grad: Out, Out@GRAD, X -> X@GRAD"},
    {"p_norm", "p_norm_grad: Out, Out@GRAD, X -> X@GRAD"},
    {"logsumexp", "logsumexp_grad: Out, Out@GRAD, X -> X@GRAD"},
    {"squared_l2_norm", "squared_l2_norm_grad: Out@GRAD, X -> X@GRAD"},
    // Products and layers.
    {"mul", "mul_grad: Out@GRAD, X, Y -> X@GRAD, Y@GRAD"},
    {"matmul_v2", "matmul_v2_grad: Out@GRAD, X, Y -> X@GRAD, Y@GRAD"},
    {"matmul", "matmul_grad: Out@GRAD, X, Y -> X@GRAD, Y@GRAD"},
    {"bmm", "bmm_grad: Out@GRAD, X, Y -> X@GRAD, Y@GRAD"},
    {"dot", "dot_grad: Out@GRAD, X, Y -> X@GRAD, Y@GRAD"},
    {"mv", "mv_grad: Out@GRAD, Vec, X -> Vec@GRAD, X@GRAD"},
    {"addmm", "addmm_grad: Input, Out@GRAD, X, Y -> Input@GRAD, X@GRAD, Y@GRAD"},
    {"conv2d", "conv2d_grad: Filter, Input, Output@GRAD -> Filter@GRAD, Input@GRAD"},
    {"depthwise_conv2d", "depthwise_conv2d_grad: Filter, Input, Output@GRAD -> Filter@GRAD, Input@GRAD"},
    {"conv2d_transpose", "conv2d_transpose_grad: Bias, Filter, Input, Output@GRAD -> Filter@GRAD, Input@GRAD"},
    {"max_pool2d_with_index", "max_pool2d_with_index_grad: Mask, Out@GRAD, X -> X@GRAD"},
    {"group_norm", "group_norm_grad: Bias, Mean, Scale, Variance, X, Y, Y@GRAD -> Bias@GRAD, Scale@GRAD, X@GRAD"},
    {"instance_norm",
     "instance_norm_grad: SavedMean, SavedVariance, Scale, X, Y@GRAD -> Bias@GRAD, Scale@GRAD, X@GRAD"},
    {"pool2d", "pool2d_grad: Out, Out@GRAD, X -> X@GRAD"},
    {"batch_norm",
     "batch_norm_grad: Bias, MeanOut, ReserveSpace, SavedMean, SavedVariance, Scale, VarianceOut, X, Y@GRAD -> "
     "Bias@GRAD, Scale@GRAD, X@GRAD"},
    {"layer_norm", "layer_norm_grad: Bias, Mean, Scale, Variance, X, Y@GRAD -> Bias@GRAD, Scale@GRAD, X@GRAD"},
    {"dropout", "dropout_grad: Mask, Out@GRAD -> X@GRAD"},
    {"softmax", "softmax_grad: Out, Out@GRAD -> X@GRAD"},
    {"log_softmax", "log_softmax_grad: Out, Out@GRAD -> X@GRAD"},
    {"softmax_with_cross_entropy", "softmax_with_cross_entropy_grad: Label, Loss@GRAD, Softmax -> Logits@GRAD"},
    {"cross_entropy", "cross_entropy_grad: Label, X, Y@GRAD -> X@GRAD"},
    {"cross_entropy2", "cross_entropy_grad2: Label, MatchX, XShape, Y@GRAD -> X@GRAD"},
    {"bce_loss", "bce_loss_grad: Label, Out@GRAD, X -> X@GRAD"},
    {"sigmoid_cross_entropy_with_logits",
     "sigmoid_cross_entropy_with_logits_grad: Label, Out@GRAD, X, pos_weight -> X@GRAD"},
    {"huber_loss", "huber_loss_grad: Out@GRAD, Residual -> X@GRAD, Y@GRAD"},
    {"kldiv_loss", "kldiv_loss_grad: Loss@GRAD, Target, X -> X@GRAD"},
    {"nll_loss", "nll_loss_grad: Label, Out@GRAD, Total_weight, Weight, X -> X@GRAD"},
    {"conv3d", "conv3d_grad: Filter, Input, Output@GRAD -> Filter@GRAD, Input@GRAD"},
    {"conv3d_transpose", "conv3d_transpose_grad: Filter, Input, Output@GRAD -> Filter@GRAD, Input@GRAD"},
    {"pool3d", "pool3d_grad: Out, Out@GRAD, X -> X@GRAD"},
    {"max_pool3d_with_index", "max_pool3d_with_index_grad: Mask, Out@GRAD, X -> X@GRAD"},
    {"unfold", "unfold_grad: X, Y@GRAD -> X@GRAD"},
    {"fold", "fold_grad: X, Y@GRAD -> X@GRAD"},
    {"maxout", "maxout_grad: Out, Out@GRAD, X -> X@GRAD"},
    {"einsum", "einsum_grad: InnerCache, Out@GRAD, x_shape = XShape -> Operands@GRAD"},
    {"bilinear_tensor_product",
     "bilinear_tensor_product_grad: Out@GRAD, Weight, X, Y -> Bias@GRAD, Weight@GRAD, X@GRAD, Y@GRAD"},
    {"multi_dot", "multi_dot_grad: Out@GRAD, X -> X@GRAD"},
    {"matrix_power", "matrix_power_grad: Out, Out@GRAD, X -> X@GRAD"},
    {"label_smooth", "label_smooth_grad: Out@GRAD -> X@GRAD"},
    {"log_loss", "log_loss_grad: Labels, Loss@GRAD, Predicted -> Predicted@GRAD"},
    {"lookup_table", "lookup_table_grad: Ids, Out@GRAD, W -> W@GRAD"},
    {"lookup_table_v2", "lookup_table_v2_grad: Ids, Out@GRAD, W -> W@GRAD"},
    // Shapes and positions.
    {"reshape2", "reshape2_grad: Out@GRAD, XShape -> X@GRAD"},
    {"transpose2", "transpose2_grad: Out@GRAD, XShape -> X@GRAD"},
    {"squeeze2", "squeeze2_grad: Out@GRAD, XShape -> X@GRAD"},
    {"unsqueeze2", "unsqueeze2_grad: AxesTensor, AxesTensorList, Out@GRAD, XShape -> X@GRAD"},
    {"flatten_contiguous_range", "flatten_contiguous_range_grad: Out@GRAD, XShape -> X@GRAD"},
    {"concat", "concat_grad: AxisTensor, Out@GRAD, X -> X@GRAD?"},
    {"split", "concat: AxisTensor, X = Out@GRAD -> Out = X@GRAD"},
    {"stack", "stack_grad: X, Y@GRAD -> X@GRAD?"},
    {"unstack", "unstack_grad: Y@GRAD -> X@GRAD"},
    {"expand_v2", "expand_v2_grad: Out@GRAD, Shape, X, expand_shapes_tensor -> X@GRAD"},
    {"expand_as_v2", "expand_as_v2_grad: Out@GRAD, X -> X@GRAD"},
    {"tile", "tile_grad: Out@GRAD, RepeatTimes, X, repeat_times_tensor -> X@GRAD"},
    {"pad", "pad_grad: Out@GRAD -> X@GRAD"},
    {"pad3d", "pad3d_grad: Out@GRAD, Paddings, X -> X@GRAD"},
    {"flip", "flip: X = Out@GRAD -> Out = X@GRAD"},
    {"roll", "roll_grad: Out@GRAD, ShiftsTensor, X -> X@GRAD"},
    {"tril_triu", "tril_triu_grad: Out@GRAD -> X@GRAD"},
    {"pixel_shuffle", "pixel_shuffle_grad: Out@GRAD -> X@GRAD"},
    {"nearest_interp_v2", "nearest_interp_v2_grad: Out@GRAD, OutSize, Scale, SizeTensor, X -> X@GRAD"},
    {"broadcast_tensors", "broadcast_tensors_grad: Out@GRAD, X -> X@GRAD"},
    {"meshgrid", "meshgrid_grad: X, outputs@GRAD = Out@GRAD -> X@GRAD"},
    {"diag_v2", "diag_v2_grad: Out@GRAD, X -> X@GRAD"},
    {"diagonal", "diagonal_grad: Input, Out@GRAD -> Input@GRAD"},
    {"channel_shuffle", "channel_shuffle_grad: Out@GRAD -> X@GRAD"},
    {"pixel_unshuffle", "pixel_unshuffle_grad: Out@GRAD -> X@GRAD"},
    {"repeat_interleave", "repeat_interleave_grad: Out@GRAD, RepeatsTensor, X -> X@GRAD"},
    {"multiplex", "multiplex_grad: Ids, Out@GRAD, X -> X@GRAD"},
    {"bilinear_interp_v2", "bilinear_interp_v2_grad: Out@GRAD, OutSize, Scale, SizeTensor, X -> X@GRAD"},
    {"bicubic_interp_v2", "bicubic_interp_v2_grad: Out@GRAD, OutSize, Scale, SizeTensor, X -> X@GRAD"},
    {"linear_interp_v2", "linear_interp_v2_grad: Out@GRAD, OutSize, Scale, SizeTensor, X -> X@GRAD"},
    {"trilinear_interp_v2", "trilinear_interp_v2_grad: Out@GRAD, OutSize, Scale, SizeTensor, X -> X@GRAD"},
    {"set_value",
     "set_value_grad: EndsTensorList, Out@GRAD, StartsTensorList, StepsTensorList, ValueTensor -> Input@GRAD, ValueTensor@GRAD"},
    {"put_along_axis", "put_along_axis_grad: Index, Input, Result, Result@GRAD, Value -> Input@GRAD, Value@GRAD"},
    {"index_add", "index_add_grad: AddValue, Index, Out@GRAD -> AddValue@GRAD, X@GRAD"},
    {"index_put", "index_put_grad: indices, out@GRAD, value, x -> value@GRAD, x@GRAD"},
    {"crop_tensor", "crop_tensor_grad: Offsets, OffsetsTensor, Out@GRAD, X -> X@GRAD"},
    {"masked_select", "masked_select_grad: Mask, X, Y@GRAD -> X@GRAD"},
    {"unbind", "stack: X = Out@GRAD -> Y = X@GRAD"},
    {"gather_nd", "gather_nd_grad: Index, Out@GRAD, X -> X@GRAD"},
    {"index_select", "index_select_grad: Index, Out@GRAD, X -> X@GRAD"},
    {"index_sample", "index_sample_grad: Index, Out@GRAD, X -> X@GRAD"},
    {"take_along_axis", "take_along_axis_grad: Index, Input, Result@GRAD -> Input@GRAD"},
    {"scatter_nd_add", "scatter_nd_add_grad: Index, Out@GRAD, Updates -> Updates@GRAD, X@GRAD"},
    {"argsort", "argsort_grad: Indices, Out@GRAD, X -> X@GRAD"},
    {"slice", "slice_grad: EndsTensor, EndsTensorList, Input, Out@GRAD, StartsTensor, StartsTensorList -> Input@GRAD"},
    {"strided_slice",
     "strided_slice_grad: EndsTensor, EndsTensorList, Input, Out@GRAD, StartsTensor, StartsTensorList, "
     "StridesTensor, StridesTensorList -> Input@GRAD"},
    {"gather", "gather_grad: Axis, Index, Out@GRAD, X -> X@GRAD"},
    {"scatter", "scatter_grad: Ids, Out@GRAD, Updates -> Updates@GRAD, X@GRAD"},
    {"top_k_v2", "top_k_v2_grad: Indices, K, Out@GRAD, X -> X@GRAD"},
    {"kthvalue", "kthvalue_grad: Indices, Out@GRAD, X -> X@GRAD"},
    {"kron", "kron_grad: Out@GRAD, X, Y -> X@GRAD, Y@GRAD"},
    {"cross", "cross_grad: Out@GRAD, X, Y -> X@GRAD, Y@GRAD"},
    {"logcumsumexp", "logcumsumexp_grad: Out, Out@GRAD, X -> X@GRAD"},
    {"reduce_amax", "reduce_amax_grad: AxisTensor, AxisTensorList, Out, Out@GRAD, X -> X@GRAD"},
    {"reduce_amin", "reduce_amin_grad: AxisTensor, AxisTensorList, Out, Out@GRAD, X -> X@GRAD"},
    {"affine_grid", "affine_grid_grad: Output@GRAD, OutputShape, Theta -> Theta@GRAD"},
    {"grid_sampler", "grid_sampler_grad: Grid, Output@GRAD, X -> Grid@GRAD, X@GRAD"},
    {"warpctc", "warpctc_grad: Logits, LogitsLength, Loss@GRAD, WarpCTCGrad -> Logits@GRAD"},
    {"rnn",
     "rnn_grad: DropoutState, Input, Out, Out@GRAD, PreState, Reserve, SequenceLength, State@GRAD, WeightList -> "
     "Input@GRAD, PreState@GRAD?, WeightList@GRAD?"},
    // Blocks, branches and arrays.
    {"while", "while_grad: Out, Out@GRAD, StepScopes, X -> X@GRAD?"},
    {"recurrent", "recurrent_grad: initial_states, inputs, outputs, outputs@GRAD, parameters, step_scopes, "
                  "step_scopes@GRAD = step_scopes -> initial_states@GRAD?, inputs@GRAD?, parameters@GRAD?"},
    {"rnn_memory_helper", "rnn_memory_helper_grad: Out, Out@GRAD, X -> X@GRAD"},
    {"conditional_block", "conditional_block_grad: Cond, Input, Out, Out@GRAD, Scope -> Input@GRAD?"},
    {"select_input", "select_output: Mask, X = Out@GRAD -> Out = X@GRAD?"},
    {"select_output", "select_input: Mask, X = Out@GRAD -> Out = X@GRAD"},
    {"write_to_array", "read_from_array: I, X = Out@GRAD, X_W = X -> Out = X@GRAD"},
    {"read_from_array", "write_to_array: I, X = Out@GRAD -> Out = X@GRAD"},
    {"tensor_array_to_tensor", "tensor_array_to_tensor_grad: Out@GRAD, X -> X@GRAD"},
    // Gradient operators.
    {"tanh_grad", "tanh_grad_grad: Out, grad_out = Out@GRAD, grad_x@GRAD = X@GRAD@GRAD -> Out@GRAD, "
                  "grad_out@GRAD = Out@GRAD@GRAD"},
    {"elementwise_mul_grad",
     "elementwise_mul_grad_grad: DDX = X@GRAD@GRAD, DDY = Y@GRAD@GRAD, DOut = Out@GRAD, X, Y -> "
     "DDOut = Out@GRAD@GRAD, X@GRAD, Y@GRAD"},
    {"matmul_v2_grad", "matmul_v2_grad_grad: X, Y, grad_out = Out@GRAD, grad_x@GRAD = X@GRAD@GRAD, "
                       "grad_y@GRAD = Y@GRAD@GRAD -> X@GRAD, Y@GRAD, grad_out@GRAD = Out@GRAD@GRAD"},
    {"relu_grad", "relu_grad_grad: Out, grad_x@GRAD = X@GRAD@GRAD -> grad_out@GRAD = Out@GRAD@GRAD"},
    {"leaky_relu_grad", "leaky_relu_grad_grad: X, grad_x@GRAD = X@GRAD@GRAD -> grad_out@GRAD = Out@GRAD@GRAD"},
    {"abs_grad", "abs_double_grad: grad_x@GRAD = X@GRAD@GRAD, x = X -> grad_out@GRAD = Out@GRAD@GRAD"},
    {"clip_grad", "clip_double_grad: Max, Min, X, grad_x@GRAD = X@GRAD@GRAD -> grad_out@GRAD = Out@GRAD@GRAD"},
    {"sigmoid_grad", "sigmoid_grad_grad: Out, fwd_grad_out = Out@GRAD, grad_x@GRAD = X@GRAD@GRAD -> Out@GRAD, "
                     "fwd_grad_out@GRAD = Out@GRAD@GRAD"},
    {"square_grad", "square_grad_grad: X, grad_out = Out@GRAD, grad_x@GRAD = X@GRAD@GRAD -> X@GRAD, "
                    "grad_out@GRAD = Out@GRAD@GRAD"},
    {"log_grad", "log_grad_grad: X, grad_out = Out@GRAD, grad_x@GRAD = X@GRAD@GRAD -> X@GRAD, "
                 "grad_out@GRAD = Out@GRAD@GRAD"},
    {"sin_grad", "sin_double_grad: X, grad_out = Out@GRAD, grad_x@GRAD = X@GRAD@GRAD -> X@GRAD, "
                 "grad_out@GRAD = Out@GRAD@GRAD"},
    {"cos_grad", "cos_double_grad: X, grad_out = Out@GRAD, grad_x@GRAD = X@GRAD@GRAD -> X@GRAD, "
                 "grad_out@GRAD = Out@GRAD@GRAD"},
    {"pow_grad", "pow_double_grad: FactorTensor, X, grad_out = Out@GRAD, grad_x@GRAD = X@GRAD@GRAD -> X@GRAD, "
                 "grad_out@GRAD = Out@GRAD@GRAD"},
    {"elementwise_add_grad", "elementwise_add_grad_grad: DDX = X@GRAD@GRAD, DDY = Y@GRAD@GRAD, DOut = Out@GRAD, Y -> "
                             "DDOut = Out@GRAD@GRAD"},
    {"elementwise_sub_grad", "elementwise_sub_grad_grad: DDX = X@GRAD@GRAD, DDY = Y@GRAD@GRAD, DOut = Out@GRAD, Y -> "
                             "DDOut = Out@GRAD@GRAD"},
    {"conv2d_grad", "conv2d_grad_grad: Filter, Input, grad_filter@GRAD = Filter@GRAD@GRAD, "
                    "grad_input@GRAD = Input@GRAD@GRAD, grad_out = Output@GRAD -> Filter@GRAD, Input@GRAD, "
                    "grad_out@GRAD = Output@GRAD@GRAD"},
    {"reshape2_grad", "reshape2_grad_grad: DDX = X@GRAD@GRAD, DOut = Out@GRAD -> DDOut = Out@GRAD@GRAD"},
    {"reduce_sum_grad", "reduce_sum: X = X@GRAD@GRAD -> Out = Out@GRAD@GRAD"},
    {"reduce_mean_grad", "reduce_mean: X = X@GRAD@GRAD -> Out = Out@GRAD@GRAD"},
    {"concat_grad", "concat: AxisTensor, X = X@GRAD@GRAD -> Out = Out@GRAD@GRAD"},
    {"slice_grad", "slice: EndsTensor, EndsTensorList, Input = Input@GRAD@GRAD, StartsTensor, StartsTensorList -> "
                   "Out = Out@GRAD@GRAD"},
    {"expand_v2_grad", "expand_v2: Shape, X = X@GRAD@GRAD, expand_shapes_tensor -> Out = Out@GRAD@GRAD"},
    {"transpose2_grad", "transpose2: X = X@GRAD@GRAD -> Out = Out@GRAD@GRAD, XShape"},
    {"batch_norm_grad",
     "batch_norm_grad_grad: DDBias = Bias@GRAD@GRAD, DDScale = Scale@GRAD@GRAD, DDX = X@GRAD@GRAD, DY = Y@GRAD, "
     "SavedMean, SavedVariance, Scale, X -> DDY = Y@GRAD@GRAD, DScale = Scale@GRAD, DX = X@GRAD"},
    {"celu_grad", "celu_grad_grad: X, grad_out = Out@GRAD, grad_x@GRAD = X@GRAD@GRAD -> X@GRAD, "
                  "grad_out@GRAD = Out@GRAD@GRAD"},
    {"conv2d_transpose_grad", "conv2d_transpose_grad_grad: Filter, Input, grad_filter@GRAD = Filter@GRAD@GRAD, "
                              "grad_out = Output@GRAD, grad_x@GRAD = Input@GRAD@GRAD -> Filter@GRAD, Input@GRAD, "
                              "grad_out@GRAD = Output@GRAD@GRAD"},
    {"conv3d_grad", "conv3d_grad_grad: Filter, Input, grad_filter@GRAD = Filter@GRAD@GRAD, "
                    "grad_input@GRAD = Input@GRAD@GRAD, grad_out = Output@GRAD -> Filter@GRAD, Input@GRAD, "
                    "grad_out@GRAD = Output@GRAD@GRAD"},
    {"depthwise_conv2d_grad", "depthwise_conv2d_grad_grad: Filter, Input, grad_filter@GRAD = Filter@GRAD@GRAD, "
                              "grad_input@GRAD = Input@GRAD@GRAD, grad_out = Output@GRAD -> Filter@GRAD, Input@GRAD, "
                              "grad_out@GRAD = Output@GRAD@GRAD"},
    {"elementwise_div_grad", "elementwise_div_grad_grad: DDX = X@GRAD@GRAD, DDY = Y@GRAD@GRAD, DX = X@GRAD, Out, Y -> "
                             "DDOut = Out@GRAD@GRAD, DOut = Out@GRAD, Y@GRAD"},
    {"elu_grad", "elu_grad_grad: X, grad_out = Out@GRAD, grad_x@GRAD = X@GRAD@GRAD -> X@GRAD, "
                 "grad_out@GRAD = Out@GRAD@GRAD"},
    {"instance_norm_grad",
     "instance_norm_double_grad: fwd_scale = Scale, grad_bias@GRAD = Bias@GRAD@GRAD, "
     "grad_scale@GRAD = Scale@GRAD@GRAD, grad_x@GRAD = X@GRAD@GRAD, grad_y = Y@GRAD, saved_mean = SavedMean, "
     "saved_variance = SavedVariance, x = X -> fwd_scale@GRAD = Scale@GRAD, grad_y@GRAD = Y@GRAD@GRAD, x@GRAD = X@GRAD"},
    {"matmul_grad", "matmul_grad_grad: DDX = X@GRAD@GRAD, DDY = Y@GRAD@GRAD, DOut = Out@GRAD, X, Y -> "
                    "DDOut = Out@GRAD@GRAD, DX = X@GRAD, DY = Y@GRAD"},
    {"mul_grad", "mul_grad_grad: DDX = X@GRAD@GRAD, DDY = Y@GRAD@GRAD, DOut = Out@GRAD, X, Y -> "
                 "DDOut = Out@GRAD@GRAD, DX = X@GRAD, DY = Y@GRAD"},
    {"pad_grad", "pad: X = X@GRAD@GRAD -> Out = Out@GRAD@GRAD"},
    {"pad3d_grad", "pad3d_double_grad: Paddings, grad_x@GRAD = X@GRAD@GRAD -> grad_out@GRAD = Out@GRAD@GRAD"},
    {"pool2d_grad", "pool2d_double_grad: grad_x@GRAD = X@GRAD@GRAD -> grad_out@GRAD = Out@GRAD@GRAD"},
    {"rsqrt_grad", "rsqrt_grad_grad: Out, grad_x = X@GRAD, grad_x@GRAD = X@GRAD@GRAD -> Out@GRAD, "
                   "grad_out@GRAD = Out@GRAD@GRAD"},
    {"softplus_grad", "softplus_double_grad: X, grad_out = Out@GRAD, grad_x@GRAD = X@GRAD@GRAD -> X@GRAD, "
                      "grad_out@GRAD = Out@GRAD@GRAD"},
    {"sqrt_grad", "sqrt_grad_grad: Out, grad_x = X@GRAD, grad_x@GRAD = X@GRAD@GRAD -> Out@GRAD, "
                  "grad_out@GRAD = Out@GRAD@GRAD"},
    {"squeeze2_grad", "squeeze2: X = X@GRAD@GRAD -> Out = Out@GRAD@GRAD, XShape"},
    {"tile_grad", "tile: RepeatTimes, X = X@GRAD@GRAD, repeat_times_tensor -> Out = Out@GRAD@GRAD"},
    {"unsqueeze2_grad", "unsqueeze2: AxesTensor, AxesTensorList, X = X@GRAD@GRAD -> Out = Out@GRAD@GRAD, XShape"},
    {"while_grad", "none"},
    {"conditional_block_grad", "none"},
    {"recurrent_grad", "none"},
    {"rnn_memory_helper_grad", "none"},
    // No gradient flows through these.
    {"fill_constant", ""},
    {"fill_any_like", ""},
    {"fill_constant_batch_size_like", ""},
    {"fill_zeros_like", ""},
    {"assign_value", ""},
    {"gaussian_random", ""},
    {"uniform_random", ""},
    {"range", ""},
    {"shape", ""},
    {"lod_array_length", ""},
    {"seed", ""},
    {"one_hot_v2", ""},
    {"arg_max", ""},
    {"arg_min", ""},
    {"equal", ""},
    {"not_equal", ""},
    {"less_than", ""},
    {"less_equal", ""},
    {"greater_than", ""},
    {"greater_equal", ""},
    {"logical_and", ""},
    {"logical_or", ""},
    {"logical_not", ""},
    {"logical_xor", ""},
    {"accuracy", ""},
    {"allclose", ""},
    {"auc", ""},
    {"bernoulli", ""},
    {"bincount", ""},
    {"bitwise_and", ""},
    {"bitwise_not", ""},
    {"bitwise_or", ""},
    {"bitwise_xor", ""},
    {"equal_all", ""},
    {"elementwise_floordiv", ""},
    {"histogram", ""},
    {"is_empty", ""},
    {"isclose", ""},
    {"isfinite_v2", ""},
    {"isinf_v2", ""},
    {"isnan_v2", ""},
    {"linspace", ""},
    {"logspace", ""},
    {"multinomial", ""},
    {"nextafter", ""},
    {"randint", ""},
    {"randperm", ""},
    {"searchsorted", ""},
    {"sequence_mask", ""},
    {"tril_indices", ""},
    {"triu_indices", ""},
    {"truncated_gaussian_random", ""},
    {"unique", ""},
    {"unique_consecutive", ""},
    {"where_index", ""},
    {"diag_embed", ""},
    {"dirichlet", ""},
    {"empty", ""},
    {"fill", ""},
    {"uniform_random_batch_size_like", ""},
    {"unique_with_counts", ""},
    {"shard_index", ""},
    {"check_finite_and_unscale", ""},
    {"update_loss_scaling", ""},
    {"average_accumulates", ""},
    {"adagrad", ""},
    {"adadelta", ""},
    {"adamax", ""},
    {"adamw", ""},
    {"rmsprop", ""},
    {"lamb", ""},
    {"lars_momentum", ""},
    {"ftrl", ""},
    {"merged_momentum", ""},
    {"merged_adam", ""},
    {"dgc_momentum", ""},
    {"decayed_adagrad", ""},
    {"elementwise_mod", ""},
    {"eye", ""},
    {"reduce_all", ""},
    {"reduce_any", ""},
    {"share_data", ""},
    {"size", ""},
    {"clip_by_norm", ""},
    {"sgd", ""},
    {"momentum", ""},
    {"adam", ""},
};

const StringMap<StringRef> &formsByType() {
  static const StringMap<StringRef> forms = [] {
    StringMap<StringRef> byType;
    for (const Form &form : kForms) byType[form.type] = form.form;
    return byType;
  }();
  return forms;
}

GradientForm::Slot parseSlot(StringRef text) {
  GradientForm::Slot slot;
  slot.keepsEmpty = text.consume_back("?");
  std::tie(slot.name, slot.source) = text.split(" = ");
  if (slot.source.empty()) slot.source = slot.name;
  return slot;
}

const StringMap<GradientForm> &formsByGradient() {
  static const StringMap<GradientForm> forms = [] {
    StringMap<GradientForm> byGradient;
    for (const Form &form : kForms) {
      if (form.form.empty() || form.form == "none") continue;
      GradientForm parsed = parseGradientForm(form.type, form.form);
      if (parsed.type.contains("_grad")) byGradient[parsed.type] = std::move(parsed);
    }
    return byGradient;
  }();
  return forms;
}

}  // namespace

GradientForm parseGradientForm(StringRef forward, StringRef text) {
  GradientForm form;
  form.forward = forward;
  form.isEach = text.consume_front("each ");
  auto [type, slots] = text.split(": ");
  auto [inputs, outputs] = slots.split(" -> ");
  form.type = type;
  for (StringRef slot : split(inputs, ", ")) form.inputs.push_back(parseSlot(slot));
  for (StringRef slot : split(outputs, ", ")) form.outputs.push_back(parseSlot(slot));
  return form;
}

const GradientForm *formOfGradient(StringRef type) {
  auto found = formsByGradient().find(type);
  return found == formsByGradient().end() ? nullptr : &found->second;
}

std::optional<StringRef> gradientForm(StringRef type) {
  auto found = formsByType().find(type);
  if (found == formsByType().end()) return std::nullopt;
  return found->second;
}

}  // namespace gradc
