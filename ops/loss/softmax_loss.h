// What SoftmaxOutput means by rows, labels and weights; shared by the operator and the parts it decomposes into.
//
// A *row* is one distribution: `classes` elements, `inner` apart. Labels are numbered like rows.
// Tested by tests/ops/loss_ops_test.cc
#pragma once

#include "ir/op/attr_spec.h"
#include "ir/rules/inference.h"
#include "ir/tensor/tensor.h"

namespace gradc {

/// The divisor of a loss. MXNet keeps factors of losses in float32, also where tensors are float64; gradc rounds where
/// MXNet does, so that gradients agree to the last bits.
enum class LossNormalization { Null, Batch, Valid };
inline constexpr llvm::StringRef kLossNormalizationNames[] = {"null", "batch", "valid"};
constexpr llvm::ArrayRef<llvm::StringRef> enumNames(LossNormalization) { return kLossNormalizationNames; }

struct SoftmaxOutputParams {
  double gradScale;
  double ignoreLabel;
  bool multiOutput;
  bool useIgnore;
  bool preserveShape;
  LossNormalization normalization;
  bool outGrad;
  double smoothAlpha;
};

inline constexpr AttrSpec kSoftmaxOutputAttrs[] = {
    attr<&SoftmaxOutputParams::gradScale>("grad_scale", "1", "factor of the gradient"),
    attr<&SoftmaxOutputParams::ignoreLabel>("ignore_label", "-1", "label whose rows get no gradient under use_ignore"),
    attr<&SoftmaxOutputParams::multiOutput>("multi_output", "False", "whether classes run along axis 1 of (n, k, ...)"),
    attr<&SoftmaxOutputParams::useIgnore>("use_ignore", "False", "whether ignore_label takes effect"),
    attr<&SoftmaxOutputParams::preserveShape>("preserve_shape", "False", "whether classes run along the last axis"),
    attr<&SoftmaxOutputParams::normalization>(
        "normalization", "null", "divide by nothing, the batch size, or the number of labels other than ignore_label"),
    attr<&SoftmaxOutputParams::outGrad>("out_grad", "False", "whether the head gradient multiplies the gradient"),
    attr<&SoftmaxOutputParams::smoothAlpha>("smooth_alpha", "0",
                                            "probability taken from the label for the other classes")
        .atLeast(0)
        .atMost(1),
};

struct SoftmaxRows {
  int64_t outer, classes, inner;

  SoftmaxRows(const SoftmaxOutputParams &params, Dims shape);
  /// None where rows have no elements.
  int64_t count() const { return classes == 0 ? 0 : outer * inner; }
  /// Index of class 0 of a row; class k is k · inner further.
  int64_t begin(int64_t row) const { return row / inner * classes * inner + row % inner; }
};

/// The target probability of the label's class and of every other one.
struct ClassShares {
  double onLabel = 1, offLabel = 0;
};
ClassShares classSharesOf(const SoftmaxOutputParams &params, int64_t classes);

/// Reads labels: the target distribution and the weight of each row. Labels that equal no class number, after dropping
/// the fraction, match no class: their target is zero everywhere (never read out of bounds).
class SoftmaxLabels {
 public:
  /// `label` has the shape of the data (probabilities) or one class number per row.
  SoftmaxLabels(const SoftmaxOutputParams &params, Dims shape, const TensorRef &label);

  double target(int64_t row, int64_t classIndex) const;
  /// The target distribution of a row as one class and all others; none if labels are probabilities.
  struct ClassTarget {
    int64_t label;  // may be the number of no class
    double onLabel, offLabel;
  };
  std::optional<ClassTarget> classTarget(int64_t row) const;
  /// grad_scale over the normalization, 0 where the label is ignored.
  double weight(int64_t row) const;

  const SoftmaxRows rows;

 private:
  double value(int64_t index) const;
  bool isIgnored(int64_t row) const;
  float factor() const;

  const SoftmaxOutputParams &params;
  const TensorRef label;
  const bool isProbability;
  ClassShares shares;
  float scale = 1;
};

/// Output 0 = softmax of every row of input 0, computed in float64. They may be the same memory.
void softmaxOfRows(const KernelCall &call);

/// Shapes of (data, …) and of output 0, which has the shape of data: whether it has the axes that rows need.
void softmaxDataShape(ShapeInference &s);
/// Shapes of (data, label, …) and of output 0.
void softmaxOutputShape(ShapeInference &s);

}  // namespace gradc
