#include "tools/gradc/reference/mxnet_differences.h"

using namespace llvm;

namespace gradc {
namespace {

struct Difference {
  StringRef op, text;
};
/// The page's words where it has a row for the operator.
constexpr Difference kDifferences[] = {
    {"BatchNorm", "under output_mean_var, MXNet's gradient ignores the head gradients of the statistics"},
    {"BatchNorm", "of an empty batch, MXNet writes NaN to the moving statistics in training"},
    {"CTCLoss", "without labels, or with more of them than fit the steps, MXNet reads outside its memory"},
    {"Deconvolution",
     "with a stride and a dilation in float64, MXNet's forward pass is not the adjoint of its own backward pass"},
    {"GroupNorm", "under output_mean_var, MXNet's gradient ignores the head gradients of the statistics"},
    {"LRN", "MXNet's gradient of images of one pixel with one channel is another number in every run"},
    {"LayerNorm", "under output_mean_var, MXNet's gradient ignores the head gradients of the statistics"},
    {"LeakyReLU", "with act_type=selu, MXNet's gradient evaluates its slope at the wrong point below 0"},
    {"LeakyReLU", "with act_type=prelu, MXNet's gradient of the slope depends on the nodes around"},
    {"LinearRegressionOutput", "under the request add, MXNet does not leave the sum in the memory"},
    {"Pooling", "of elements that are all -∞, MXNet's maximum is the lowest finite number"},
    {"Pooling",
     "means under pooling_convention=full in float32: where a window ends outside the image, MXNet's gradient "
     "divides by "
     "all of the window"},
    {"RNN", "MXNet ignores lstm_state_clip_min and lstm_state_clip_max on a processor"},
    {"RNN",
     "of several layers, but for mode lstm, MXNet's gradient overwrites the head gradient of the output, which a "
     "second "
     "order reads as well"},
    {"Reshape", "MXNet writes the length for -1 to a wrong axis, or outside its memory, if -4 precedes it"},
    {"SoftmaxActivation", "with mode=instance, MXNet's gradient runs along axis 1, the forward pass along the last"},
    {"SoftmaxOutput", "with out_grad, MXNet multiplies its gradient by the output instead of the head gradient"},
    {"SoftmaxOutput", "under the request add, MXNet does not leave the sum in the memory"},
    {"SoftmaxOutput",
     "of data with more than two axes, without preserve_shape and multi_output, MXNet's classes are the last axis in "
     "float32, all axes but the first in float64"},
    {"_cond", "MXNet writes nothing to the gradients of a branch that was not taken"},
    {"_contrib_index_copy", "MXNet's gradient goes also to rows that a later copy overwrites"},
    {"_foreach", "MXNet's second step backward makes `add` of the request null"},
    {"_foreach", "MXNet frees what its steps kept, retained or not"},
    {"_hypot", "MXNet's gradient divides by the hypotenuse, which may be 0"},
    {"_mod", "MXNet's gradient has the floor of the rounded quotient as slope"},
    {"_npi_rarctan2_scalar", "MXNet's gradient has x in place of the scalar"},
    {"_power", "MXNet's gradient multiplies 0^rhs by the logarithm of 0"},
    {"_rmod_scalar", "MXNet's gradient has the floor of the rounded quotient as slope"},
    {"_while_loop", "without a step, MXNet writes nothing to the gradients"},
    {"broadcast_mod", "MXNet's gradient has the floor of the rounded quotient as slope"},
    {"degrees", "MXNet's constant is of single precision in float64"},
    {"elemwise_add", "under the request add, MXNet does not leave the sum in the memory of the second gradient"},
    {"erf", "MXNet's constant is of single precision in float64"},
    {"erfinv", "MXNet's constant is of single precision in float64"},
    {"gamma", "MXNet's digamma function is of single precision in float64"},
    {"gammaln", "MXNet's digamma function is of single precision in float64"},
    {"gather_nd",
     "MXNet counts negative indices from the end, but adds their gradients to the memory in front of the data; "
     "here they "
     "are 0"},
    {"mp_lamb_update_phase1", "MXNet rounds the rescaled gradient to float16 before it enters the states"},
    {"mp_lamb_update_phase2", "MXNet leaves the weight in float32 as it was"},
    {"mp_nag_mom_update", "with a weight decay, MXNet takes the decay of its momentum from the new weight"},
    {"nanprod", "MXNet's gradient divides the product by the factor, which may be 0"},
    {"norm", "MXNet's gradient divides by the norm, which may be 0"},
    {"prod", "MXNet's gradient divides the product by the factor, which may be 0"},
    {"softmax", "with use_length, MXNet's gradient is zeros where the length comes from a `Cast` and has a gradient"},
};

}  // namespace

std::vector<StringRef> mxnetDifferences(StringRef op) {
  std::vector<StringRef> texts;
  for (const Difference &row : kDifferences)
    if (row.op == op) texts.push_back(row.text);
  return texts;
}

}  // namespace gradc
