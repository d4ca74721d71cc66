// The operators that MXNet 1.9.1 lacks, and how it expresses some of them. Tested by
// tests/passes/lowering/lower_mxnet_test.cc
#include "passes/targets/mxnet/mxnet_indices.h"
#include "passes/targets/mxnet/mxnet_loops.h"
#include "passes/targets/target.h"

#include "ir/rules/grad_rule.h"
#include "ops/kit/attrs.h"
#include "ops/kit/primitives.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr int64_t kMxnetVersion = 10901;

// Sorted. Operators of gradc's own; all others have MXNet's names, inputs and attributes.
constexpr StringRef kOwn[] = {
    "_LinearRegressionOutput_grad",
    "_LogisticRegressionOutput_grad",
    "_MAERegressionOutput_grad",
    "_RNN_grad",
    "_RegressionOutput_weight",
    "_SoftmaxOutput_grad",
    "_SoftmaxOutput_softmax",
    "_SoftmaxOutput_target",
    "_SoftmaxOutput_weight",
    "_adagrad_update",
    "_as_rows",
    "_assign",
    "_backward_gelu",
    "_backward_hard_swish",
    "_backward_log_sigmoid",
    "_backward_mish",
    "_backward_silu",
    "_broadcast_axis_like",
    "_call",
    "_cast_like",
    "_channel_window_sum",
    "_concat_part",
    "_constant",
    "_convolution_data_grad",
    "_convolution_weight_grad",
    "_ctc_loss_grad",
    "_deconvolution_data_grad",
    "_deconvolution_weight_grad",
    "_grad_add",
    "_gradient_tap",
    "_in_training",
    "_index_like",
    "_polygamma",
    "_pool_gather",
    "_pool_scatter",
    "_pooling_grad",
    "_prelu_gamma_spread",
    "_prelu_gamma_sum",
    "_product_gradient",
    "_repeat_axes_like",
    "_scan",
    "_scatter_along_axis",
    "_scatter_nd",
    "_scheduled_adagrad_update",
    "_scheduled_adam_update",
    "_scheduled_adamw_update",
    "_scheduled_ftml_update",
    "_scheduled_ftrl_update",
    "_scheduled_lamb_update_phase1",
    "_scheduled_lamb_update_phase2",
    "_scheduled_nag_mom_update",
    "_scheduled_rmsprop_update",
    "_scheduled_rmspropalex_update",
    "_scheduled_sgd_mom_update",
    "_scheduled_sgd_update",
    "_scheduled_signsgd_update",
    "_scheduled_signum_update",
    "_sort_order",
    "_sum_like",
    "_take_along_axis",
    "_uniform_like",
    "digamma",
    "gelu",
    "hard_swish",
    "log_sigmoid",
    "mish",
    "silu",
};

// Writes only its first output.
constexpr StringRef kResizeGrad = "_backward_contrib_BilinearResize2D";

// Operators whose hidden output MXNet lacks.
constexpr StringRef kWithoutNoise[] = {"_sample_normal", "_sample_uniform"};

const OpDef &op(DecomposeRule &d, StringRef name) {
  const OpDef *found = d.context().ops.find(name);
  assert(found && "a built-in operator");
  return *found;
}

// MXNet's gradient operator reads the output, through which nothing differentiates (loweredFrom), and takes no head
// gradient: with out_grad it would multiply by the output.
void softmaxOutputGrad(DecomposeRule &d) {
  if (!d.forward(0).isValid()) return;
  Attrs attrs = d.context().withAttrs(d.attrs(), {loweredFrom(d)});
  if (d.numInputs() == 3) attrs = d.context().withAttrs(attrs, {{"out_grad", "False"}});
  Value loss = d.emit(op(d, "_backward_SoftmaxOutput"), SmallVector<Value, 2>{d.forward(0), d.x(1)}, attrs);
  d.y(0, d.numInputs() == 3 ? d.emit(kElemwiseMul, {loss, d.x(2)}) : loss);
}

// weight · (p − target) for p = 0 and for p = 1 everywhere.
struct Residuals {
  Value ofZeros, ofOnes;
};

Residuals residualsOf(DecomposeRule &d, const Attrs &given) {
  const Attrs attrs = d.context().withAttrs(given, {{"out_grad", "False"}});
  const Value zeros = d.emit(kZerosLike, {d.x(0)}), ones = d.emit(kOnesLike, {d.x(0)}), label = d.x(1);
  const Value forward = d.emit(op(d, "SoftmaxOutput"), {zeros, label}, attrs);
  auto residual = [&](Value p) {
    return d.emitFused(op(d, "_backward_SoftmaxOutput"), SmallVector<Value, 2>{p, label}, attrs, forward.node);
  };
  return {residual(zeros), residual(ones)};
}

void softmaxOutputWeight(DecomposeRule &d) {
  const Residuals found = residualsOf(d, d.attrs());
  d.y(0, d.emit(kElemwiseSub, {found.ofOnes, found.ofZeros}));
}

// Every row has a target, even if its weight is 0.
void softmaxOutputTarget(DecomposeRule &d) {
  const Residuals found =
      residualsOf(d, d.context().withAttrs(d.attrs(), {{"grad_scale", "1"}, {"use_ignore", "False"}}));
  const Value weight = d.emit(kElemwiseSub, {found.ofOnes, found.ofZeros});
  d.y(0, d.emit(kNegative, {d.emit(kElemwiseDiv, {found.ofZeros, weight})}));
}

void regressionGrad(DecomposeRule &d, StringRef backward) {
  if (!d.forward(0).isValid()) return;
  const Attrs attrs = d.context().withAttrs(d.attrs(), {loweredFrom(d)});
  d.y(0, d.emit(op(d, backward), SmallVector<Value, 2>{d.x(1), d.forward(0)}, attrs));
}

void repeatAxesLike(DecomposeRule &d) {
  Attrs kept = d.context().withAttrs(d.attrs(), AttrText{"keepdims", "True"});
  Value shaped = d.emit(kReshapeLike, {d.x(0), d.emit(kSum, d.x(1), kept)});
  d.y(0, d.emit(kBroadcastLike, {shaped, d.x(1)}));
}

// MXNet computes the second operand of a `_grad_add` directly into the sum, and its loops and branches overwrite what
// they should add to.
void gradAdd(DecomposeRule &d) { d.y(0, d.emit(kElemwiseAdd, {d.x(0), d.x(1)})); }

// Next to an axis without elements, -1 could be any size.
void asRows(DecomposeRule &d) {
  const ShapeRef shape = d.shape(d.x(0));
  const bool isEmpty = shape.hasRank() && shape.rank() > 0 && shape[shape.rank() - 1] == 0;
  auto reshaped = [&](Value x, StringRef codes, StringRef reverse) {
    return d.emit(kReshape, {x}, {{"shape", codes}, {"reverse", reverse}});
  };
  if (!isEmpty) return d.y(0, reshaped(d.x(0), "(-1,0)", "True"));
  Value rows = shape.rank() == 1 ? reshaped(d.x(0), "(-4,1,-1)", "False") : d.emit(kCopy, {d.x(0)});
  for (size_t rank = shape.rank(); rank > 2; --rank) rows = reshaped(rows, "(-3,-2)", "False");
  d.y(0, rows);
}

// MXNet cannot take the type from another value, so it has to be known.
void castLike(DecomposeRule &d) {
  const DType type = d.dtype(d.x(1));
  if (type != DType::Unknown) d.y(0, d.emit(kCast, {d.x(0)}, {{"dtype", dtypeName(type)}}));
}

// The gradient of the input that only gives the shape, which MXNet's operator does not write.
void resizeGrad(DecomposeRule &d) {
  if (!d.forward(0).isValid() || d.numOutputs() < 2) return;
  if (d.wants(0)) d.y(0, d.emit(*d.kind().op, d.x(0), d.attrs()));
  if (d.wants(1)) d.y(1, d.emit(kZerosLike, {d.forwardInput(1)}));
}

constexpr TargetRow kRows[] = {
    {"_LinearRegressionOutput_grad", [](DecomposeRule &d) { regressionGrad(d, "_backward_linear_reg_out"); }},
    {"_LogisticRegressionOutput_grad", [](DecomposeRule &d) { regressionGrad(d, "_backward_logistic_reg_out"); }},
    {"_MAERegressionOutput_grad", [](DecomposeRule &d) { regressionGrad(d, "_backward_mae_reg_out"); }},
    {"_SoftmaxOutput_grad", softmaxOutputGrad},
    {"_SoftmaxOutput_target", softmaxOutputTarget},
    {"_SoftmaxOutput_weight", softmaxOutputWeight},
    {kResizeGrad, resizeGrad},
    {"_as_rows", asRows},
    {"_cast_like", castLike},
    {"_cond", mxnetCond},
    {"_foreach", mxnetLoop},
    {"_grad_add", gradAdd},
    {"_index_like", mxnetIndexLike},
    {"_repeat_axes_like", repeatAxesLike},
    {"_scan", mxnetLoop},
    {"_scatter_along_axis", mxnetScatterAlong},
    {"_scatter_nd", mxnetScatterAdd},
    {"_sum_like", mxnetSumLike},
    {"_take_along_axis", mxnetTakeAlong},
    {"_while_loop", mxnetLoop},
};

// MXNet cannot infer the shapes of the gradient operators of losses inside bodies; besides, these read the forward
// node's output, which a step of the gradient does not compute.
void inSimplerOperators(DecomposeRule &d) { d.kind().op->decompose(d); }

constexpr TargetRow kRowsInBodies[] = {
    {"_LinearRegressionOutput_grad", inSimplerOperators},
    {"_LogisticRegressionOutput_grad", inSimplerOperators},
    {"_MAERegressionOutput_grad", inSimplerOperators},
    {"_SoftmaxOutput_grad", inSimplerOperators},
    {"_SoftmaxOutput_target", inSimplerOperators},
    {"_SoftmaxOutput_weight", inSimplerOperators},
    {kResizeGrad, inSimplerOperators},
    {"_cond", mxnetSelect},
};

}  // namespace

constinit const Target kMxnetTarget = {
    .name = "mxnet",
    .title = "MXNet 1.9.1",
    .advice = "emit the graph in gradc's own operators",
    .has =
        [](const NodeKind &kind) {
          if (std::binary_search(std::begin(kOwn), std::end(kOwn), kind.op->name)) return false;
          return !kind.flow || isMxnetFlow(kind);
        },
    .hasInBodies = isInMxnetBodies,
    .numOutputs =
        [](const NodeKind &kind) {
          if (kind.op->name == kResizeGrad) return 1u;
          return llvm::is_contained(kWithoutNoise, kind.op->name) ? kind.numVisible : kind.numOutputs;
        },
    .rows = kRows,
    .rowsInBodies = kRowsInBodies,
    .adjustTable =
        [](GraphTable &table) {
          table.mxnetVersion = kMxnetVersion;
          table.forgetEntries();
        },
};

}  // namespace gradc
