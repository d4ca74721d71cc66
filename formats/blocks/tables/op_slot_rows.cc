// Generated once from Paddle 2.6.2 (OpProtoHolder); types that are added later are written by hand.
// Tested by tests/formats/blocks/op_slots_test.cc
#include "formats/blocks/tables/op_slot_rows.h"

namespace gradc {
namespace {

constexpr OpSlotRow kRows[] = {
    {"abs acos acosh arg_max arg_min asin asinh atan atanh bitwise_not brelu cast ceil celu "
     "channel_shuffle clip_by_norm cos cosh cumprod cumsum diag_v2 digamma elu erf erfinv exp expm1 "
     "fill_any_like fill_zeros_like flip floor frobenius_norm gelu hard_shrink hard_sigmoid hard_swish "
     "increment isfinite_v2 isinf_v2 isnan_v2 leaky_relu lgamma log log10 log1p log2 log_softmax "
     "logcumsumexp logical_not logit logsigmoid logsumexp matrix_power maxout mean mish p_norm pad "
     "pixel_shuffle pixel_unshuffle pool2d pool3d reciprocal reduce_max reduce_mean reduce_min reduce_prod "
     "reduce_sum relu relu6 rnn_memory_helper round rsqrt selu share_data sigmoid sign silu sin sinh "
     "softmax softplus softshrink softsign sqrt square squared_l2_norm stanh swish tan tanh tanh_shrink "
     "thresholded_relu tril_triu trunc",
     "X -> Out"},
    {"bitwise_and bitwise_or bitwise_xor bmm cross dist dot elementwise_add elementwise_div "
     "elementwise_floordiv elementwise_fmax elementwise_fmin elementwise_max elementwise_min "
     "elementwise_mod elementwise_mul elementwise_pow elementwise_sub equal grad_add greater_equal "
     "greater_than kron less_equal less_than logical_and logical_or logical_xor matmul matmul_v2 mul "
     "not_equal",
     "X, Y -> Out"},
    {"bicubic_interp_v2 bilinear_interp_v2 linear_interp_v2 nearest_interp_v2 trilinear_interp_v2",
     "X, OutSize?, SizeTensor*?, Scale? -> Out"},
    {"diagonal fill_constant_batch_size_like shape size trace", "Input -> Out"},
    {"conv2d conv3d conv3d_transpose depthwise_conv2d", "Input, Filter -> Output"},
    {"reduce_all reduce_amax reduce_amin reduce_any", "X, AxisTensor?, AxisTensorList*? -> Out"},
    {"gather_nd index_sample index_select", "X, Index -> Out"},
    {"flatten_contiguous_range squeeze2 transpose2", "X -> Out, XShape~"},
    {"adam adamw", "Param, Grad, LearningRate, Moment1, Moment2, Beta1Pow, Beta2Pow, MasterParam?, SkipUpdate?, "
                   "Beta1Tensor?, Beta2Tensor?, EpsilonTensor? -> ParamOut, Moment1Out~, Moment2Out~, Beta1PowOut~, "
                   "Beta2PowOut~, MasterParamOut?"},
    {"argsort kthvalue", "X -> Out, Indices~"},
    {"assign_value eye", " -> Out"},
    {"broadcast_tensors meshgrid", "X* -> Out*"},
    {"gaussian_random uniform_random", "ShapeTensor?, ShapeTensorList*? -> Out"},
    {"group_norm layer_norm", "X, Scale?, Bias? -> Y, Mean~, Variance~"},
    {"max_pool2d_with_index max_pool3d_with_index", "X -> Out, Mask~"},
    {"multi_dot sum", "X* -> Out"},
    {"fold unfold", "X -> Y"},
    {"adadelta", "Param, Grad, AvgSquaredGrad, AvgSquaredUpdate, LearningRate, MasterParam? -> ParamOut, "
                 "AvgSquaredGradOut~, AvgSquaredUpdateOut~, MasterParamOut?"},
    {"adagrad", "Param, Grad, Moment, LearningRate, MasterParam? -> ParamOut, MomentOut~, MasterParamOut?"},
    {"adamax", "Param, Grad, LearningRate, Moment, InfNorm, Beta1Pow, MasterParam? -> ParamOut, MomentOut~, "
               "InfNormOut~, MasterParamOut?"},
    {"addmm", "Input, X, Y -> Out"},
    {"affine_grid", "Theta, OutputShape? -> Output"},
    {"assign", "X? -> Out"},
    {"atan2", "X1, X2 -> Out"},
    {"batch_norm", "X, Scale?, Bias?, Mean, Variance, MomentumTensor? -> Y, MeanOut~, VarianceOut~, SavedMean~, "
                   "SavedVariance~, ReserveSpace?"},
    {"bce_loss", "X, Label -> Out"},
    {"bilinear_tensor_product", "X, Y, Weight, Bias? -> Out"},
    {"check_finite_and_unscale", "X*, Scale -> Out*, FoundInfinite~"},
    {"clip", "X, Min?, Max? -> Out"},
    {"concat", "X*, AxisTensor? -> Out"},
    {"conditional_block", "Cond, Input*? -> Out*?, Scope~"},
    {"conv2d_transpose", "Input, Filter, Bias? -> Output"},
    {"crop_tensor", "X, Shape?, ShapeTensor*?, Offsets?, OffsetsTensor*? -> Out"},
    {"cross_entropy", "X, Label -> Y"},
    {"cross_entropy2", "X, Label -> Y, XShape~, MatchX~"},
    {"dropout", "X, Seed? -> Out, Mask~"},
    {"einsum", "Operands* -> Out, InnerCache*?, XShape*?"},
    {"expand_as_v2", "X, Y? -> Out"},
    {"expand_v2", "X, Shape?, expand_shapes_tensor*? -> Out"},
    {"fill_constant", "ValueTensor?, ShapeTensor?, ShapeTensorList*? -> Out"},
    {"gather", "X, Index, Axis? -> Out"},
    {"grid_sampler", "X, Grid -> Output"},
    {"huber_loss", "X, Y -> Out, Residual~"},
    {"index_add", "X, Index, AddValue -> Out"},
    {"index_put", "x, indices*, value -> out"},
    {"instance_norm", "X, Scale?, Bias? -> Y, SavedMean~, SavedVariance~"},
    {"kldiv_loss", "X, Target -> Loss"},
    {"label_smooth", "X, PriorDist? -> Out"},
    {"lamb", "Param, Grad, LearningRate, Moment1, Moment2, Beta1Pow, Beta2Pow, MasterParam?, SkipUpdate? -> "
             "ParamOut, Moment1Out~, Moment2Out~, Beta1PowOut?, Beta2PowOut?, MasterParamOut?"},
    {"lars_momentum",
     "Param*, Grad*, Velocity*, LearningRate*, MasterParam*? -> ParamOut*, VelocityOut*~, MasterParamOut*?"},
    {"lerp", "X, Y, Weight -> Out"},
    {"linspace", "Start, Stop, Num -> Out"},
    {"log_loss", "Predicted, Labels -> Loss"},
    {"lod_array_length", "X -> Out"},
    {"lookup_table", "W, Ids -> Out"},
    {"lookup_table_v2", "Ids, W -> Out"},
    {"masked_select", "X, Mask -> Y"},
    {"momentum", "Param, Grad, Velocity, LearningRate, MasterParam? -> ParamOut, VelocityOut~, MasterParamOut?"},
    {"multiplex", "X*, Ids -> Out"},
    {"mv", "X, Vec -> Out"},
    {"nll_loss", "X, Label, Weight? -> Out, Total_weight~"},
    {"one_hot_v2", "X, depth_tensor? -> Out"},
    {"pad3d", "X, Paddings? -> Out"},
    {"pow", "X, FactorTensor? -> Out"},
    {"prelu", "X, Alpha -> Out"},
    {"put_along_axis", "Input, Index, Value -> Result"},
    {"range", "Start, End, Step -> Out"},
    {"read_from_array", "X, I, X_W? -> Out"},
    {"recurrent", "inputs*?, initial_states*?, parameters*? -> outputs*?, step_scopes~"},
    {"repeat_interleave", "X, RepeatsTensor? -> Out"},
    {"reshape2", "X, Shape?, ShapeTensor*? -> Out, XShape~"},
    {"rmsprop", "Param, MeanSquare, Grad, Moment, LearningRate, MeanGrad?, MasterParam? -> ParamOut, MomentOut~, "
                "MeanSquareOut~, MeanGradOut~, MasterParamOut?"},
    {"rnn", "Input, PreState*, WeightList*, SequenceLength? -> Out, DropoutState?, State*~, Reserve~"},
    {"roll", "X, ShiftsTensor? -> Out"},
    {"scale", "X, ScaleTensor? -> Out"},
    {"scatter", "X, Ids, Updates -> Out"},
    {"scatter_nd_add", "X, Index, Updates -> Out"},
    {"select_input", "X*, Mask -> Out"},
    {"select_output", "X, Mask -> Out*"},
    {"sequence_mask", "X, MaxLenTensor? -> Y"},
    {"set_value", "Input, ValueTensor?, StartsTensorList*?, EndsTensorList*?, StepsTensorList*? -> Out"},
    {"sgd", "Param, LearningRate, Grad, MasterParam? -> ParamOut, MasterParamOut?"},
    {"sigmoid_cross_entropy_with_logits", "X, Label, pos_weight? -> Out"},
    {"slice", "Input, StartsTensor?, EndsTensor?, StartsTensorList*?, EndsTensorList*? -> Out"},
    {"softmax_with_cross_entropy", "Logits, Label -> Softmax, Loss~"},
    {"split", "X, AxisTensor?, SectionsTensorList*? -> Out*"},
    {"stack", "X* -> Y"},
    {"strided_slice", "Input, StartsTensor?, StartsTensorList*?, EndsTensor?, EndsTensorList*?, StridesTensor?, "
                      "StridesTensorList*? -> Out"},
    {"take_along_axis", "Input, Index -> Result"},
    {"tensor_array_to_tensor", "X -> Out, OutIndex~"},
    {"tile", "X, RepeatTimes?, repeat_times_tensor*? -> Out"},
    {"top_k_v2", "X, K? -> Out, Indices~"},
    {"unbind", "X -> Out*"},
    {"unsqueeze2", "X, AxesTensor?, AxesTensorList*? -> Out, XShape~"},
    {"unstack", "X -> Y*"},
    {"update_loss_scaling",
     "X*, FoundInfinite, PrevLossScaling, InGoodSteps, InBadSteps, StopUpdate? -> Out*, LossScaling~, "
     "OutGoodSteps~, OutBadSteps~"},
    {"warpctc", "Logits, Label, LogitsLength?, LabelLength? -> Loss, WarpCTCGrad~"},
    {"where", "Condition, X, Y -> Out"},
    {"where_index", "Condition -> Out"},
    {"while", "X*?, Condition -> Out*?, StepScopes~"},
    {"write_to_array", "X, I -> Out"},
};

}  // namespace

llvm::ArrayRef<OpSlotRow> opSlotRows() { return kRows; }

}  // namespace gradc
