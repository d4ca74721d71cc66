// The cross entropy and the accuracy of probabilities, as SoftmaxOutput yields them.
#pragma once

#include "ir/tensor/tensor.h"
#include "ops/loss/softmax_loss.h"

namespace gradc {

struct SoftmaxScore {
  double loss = 0;                      // the sum over rows, weighted as in the gradient
  double numRight = 0, numCounted = 0;  // rows whose likeliest class is the label's; rows that are not ignored
};

/// Of floating probabilities in row-major order and labels in double precision. Linear in the elements, which are read
/// once; only what a target multiplies has a logarithm taken of it.
SoftmaxScore scoreSoftmax(const SoftmaxOutputParams &params, const TensorRef &probabilities, const TensorRef &labels);

}  // namespace gradc
