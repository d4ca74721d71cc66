// The attributes that other implementations of a layer need, without the parameter structs of ops/*.cc.
// Tested by tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "ops/kit/axis_rows.h"
#include "ops/spatial/convolution_kernel.h"

#include "ir/op/op.h"

#include <vector>

namespace gradc {

/// Of Convolution and the operators of its gradients; `data` and `output` are the shapes of x and y.
ConvGeometry convolutionGeometry(const NodeKind &kind, Dims data, Dims output);

/// Of BatchNorm and its gradient.
struct BatchNormAttrs {
  double eps, momentum;
  bool fixGamma, useGlobalStats;
  int64_t axis;
};
BatchNormAttrs batchNormAttrs(const NodeKind &kind);

/// Of Activation and its gradient.
enum class ActType : uint8_t { Relu, Sigmoid, Softrelu, Softsign, Tanh };
inline constexpr llvm::StringRef kActTypeNames[] = {"relu", "sigmoid", "softrelu", "softsign", "tanh"};
constexpr llvm::ArrayRef<llvm::StringRef> enumNames(ActType) { return kActTypeNames; }
ActType activationType(const NodeKind &kind);

/// Of LeakyReLU and its gradient.
enum class LeakyType : uint8_t { Elu, Gelu, Leaky, Prelu, Rrelu, Selu };
inline constexpr llvm::StringRef kLeakyTypeNames[] = {"elu", "gelu", "leaky", "prelu", "rrelu", "selu"};
constexpr llvm::ArrayRef<llvm::StringRef> enumNames(LeakyType) { return kLeakyTypeNames; }
struct LeakyAttrs {
  LeakyType type;
  double slope;  // of leaky; elu approaches -slope, selu -slope · scale
  double scale;  // selu's slope above 0; else 1
};
LeakyAttrs leakyAttrs(const NodeKind &kind);

/// Of clip and its gradient.
struct ClipAttrs {
  double low, high;
};
ClipAttrs clipAttrs(const NodeKind &kind);

/// Of Concat and its gradient: the axis, counted from the end when negative.
int64_t concatAxis(const NodeKind &kind);
/// Of SliceChannel, stack and their gradients: the axis of the whole that is cut.
int64_t splitAxis(const NodeKind &kind);

/// Of softmax, softmin, log_softmax, SoftmaxActivation and their gradients: rows of x · factor.
struct SoftmaxAttrs {
  int64_t axis;   // counted from the end when negative
  double factor;  // also of the gradient
  bool isLog, hasLength;
};
SoftmaxAttrs softmaxAttrs(const NodeKind &kind);
SoftmaxAttrs softmaxActivationAttrs(const NodeKind &kind);

/// Of LRN, its gradient and _channel_window_sum.
struct LrnAttrs {
  double scale, beta, knorm;  // n = knorm + scale · Σ x²
  int64_t nsize;
};
LrnAttrs lrnAttrs(const NodeKind &kind);
/// The widest window for which adding up the channels one by one pays.
inline constexpr int64_t kWidestLrnWindow = 63;

/// Of Deconvolution and the operators of its gradients: the convolution from images of y to images of x.
ConvGeometry deconvolutionGeometry(const NodeKind &kind, Dims data, Dims output);

/// Of LayerNorm and its gradient; the axis counts from the end when negative.
struct LayerNormAttrs {
  int64_t axis;
  double eps;
};
LayerNormAttrs layerNormAttrs(const NodeKind &kind);

/// Of Pad and its gradient.
struct PadAttrs {
  Dims widths;  // before and after, axis by axis
  double constant;
};
PadAttrs padAttrs(const NodeKind &kind);
/// For each position of the padded axis, the index that it shows of the unpadded axis of `size` elements; -1: the
/// constant.
std::vector<int64_t> padShown(const NodeKind &kind, size_t axis, int64_t size);

/// Of InstanceNorm and its gradient.
double instanceNormEps(const NodeKind &kind);

/// Of _np_cumsum and its gradient, whose output has this shape: along what elements are added up.
AxisRows cumsumRows(const NodeKind &kind, Dims shape);

/// Of norm and its gradient: 1, the sum of absolute values, or 2, Euclidean. The axes are ReduceParams.
int64_t normOrder(const NodeKind &kind);

/// Of GroupNorm and its gradient.
double groupNormEps(const NodeKind &kind);

/// Of L2Normalization and its gradient: groups as rows, numbered like the elements of the norm.
AxisRows l2Rows(const NodeKind &kind, Dims shape);
double l2Eps(const NodeKind &kind);

/// Of regression outputs and their gradients: the factor of residuals.
double regressionWeight(const NodeKind &kind, const TensorRef &label);

/// Of UpSampling and its gradient.
struct UpSamplingAttrs {
  bool isBilinear, isConcat;  // not bilinear: pixels are repeated; not concat: several images are added up
};
UpSamplingAttrs upSamplingAttrs(const NodeKind &kind);
/// The geometry of the deconvolution that bilinear upsampling is.
ConvGeometry upSamplingGeometry(const NodeKind &kind, Dims data, Dims output);

/// How one row or column of a resized image is blended: `weight` of row or column `first` and the rest of `second`.
struct Blend {
  int64_t first, second;
  double weight;
};
/// Of _contrib_BilinearResize2D and its gradient: the blend of row or column i of `out`, from `in` rows or columns.
Blend resizeBlend(const NodeKind &kind, int64_t i, int64_t in, int64_t out);

/// Rows or columns of an image that row or column i of an adaptive mean covers.
struct AdaptiveWindow {
  int64_t begin, end;

  /// ⌊i·in/out⌋ and ⌈(i + 1)·in/out⌉, computed without overflow.
  AdaptiveWindow(int64_t i, int64_t in, int64_t out)
      : begin(i * (in / out) + i * (in % out) / out),
        end((i + 1) * (in / out) + ((i + 1) * (in % out) + out - 1) / out) {}
};

/// Of dropout: whether it drops when training, and the probability that an element stays.
struct DropoutAttrs {
  bool alwaysDrops;
  double keep;
};
DropoutAttrs dropoutAttrs(const NodeKind &kind);

/// Of dot and of batch_dot.
struct DotTransposes {
  bool a, b;
};
DotTransposes dotTransposes(const NodeKind &kind);
DotTransposes batchDotTransposes(const NodeKind &kind);

/// Operands of dot as matrices: lhs (m, k) or, transposed, (k, m); rhs (k, n) or (n, k). m and n gather all remaining
/// axes.
struct DotExtents {
  int64_t m, n, k;
};
DotExtents dotExtents(DotTransposes transposes, Dims lhs, Dims rhs);

}  // namespace gradc
