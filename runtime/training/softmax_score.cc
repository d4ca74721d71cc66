// Tested by tests/runtime/objective_test.cc
#include "runtime/training/softmax_score.h"

#include "ops/kit/kernel_dispatch.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

/// Replaces a probability of zero, about the smallest normal float32, so that a loss stays finite.
constexpr double kLeastProbability = 1e-38;
constexpr int64_t kLanes = 16;

double logOf(double probability) { return std::log(std::max(probability, kLeastProbability)); }

template <class T> struct Row {
  const T *p;
  int64_t classes, inner;
  double at(int64_t k) const { return static_cast<double>(p[k * inner]); }

  /// The sum and the largest element; in lanes, so that the compiler uses vectors.
  std::pair<double, double> sumAndLargest() const {
    double sums[kLanes] = {}, sum = 0;
    T largest[kLanes], most = p[0];
    std::fill_n(largest, kLanes, p[0]);
    int64_t k = 0;
    if (inner == 1)
      for (; k + kLanes <= classes; k += kLanes)
        for (int64_t j = 0; j < kLanes; ++j) {
          sums[j] += static_cast<double>(p[k + j]);
          largest[j] = p[k + j] > largest[j] ? p[k + j] : largest[j];
        }
    for (int64_t j = 0; j < kLanes; ++j) {
      sum += sums[j];
      most = largest[j] > most ? largest[j] : most;
    }
    for (; k < classes; ++k) {
      sum += at(k);
      most = p[k * inner] > most ? p[k * inner] : most;
    }
    return {sum, static_cast<double>(most)};
  }

  /// The first class with the largest probability, NaN being smaller than any other number but as the first.
  int64_t likeliest() const {
    int64_t best = 0;
    for (int64_t k = 1; k < classes; ++k)
      if (at(k) > at(best)) best = k;
    return best;
  }
};

struct Target {
  double logarithms = 0;  // Σ of the target times the logarithm of the probability
  int64_t likeliest = 0;
};

template <class T> Target targetOf(const SoftmaxLabels &labels, int64_t row, const Row<T> &of) {
  Target target;
  const auto given = labels.classTarget(row);
  if (given && given->offLabel == 0) {
    if (given->label < 0 || given->label >= of.classes) return target;
    target.likeliest = given->onLabel > 0 ? given->label : 0;
    target.logarithms = given->onLabel == 0 ? 0 : given->onLabel * logOf(of.at(given->label));
    return target;
  }
  for (int64_t k = 0; k < of.classes; ++k) {
    const double share = labels.target(row, k);
    if (share != 0) target.logarithms += share * logOf(of.at(k));
    if (share > labels.target(row, target.likeliest)) target.likeliest = k;
  }
  return target;
}

}  // namespace

SoftmaxScore scoreSoftmax(const SoftmaxOutputParams &params, const TensorRef &probabilities, const TensorRef &given) {
  const SoftmaxLabels labels(params, probabilities.shape, given);
  const SoftmaxRows &rows = labels.rows;
  SoftmaxScore score;
  dispatchFloating(probabilities.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t r = 0; r < rows.count(); ++r) {
      const Row<T> row{probabilities.as<const T>() + rows.begin(r), rows.classes, rows.inner};
      const double weight = labels.weight(r);
      const auto [sum, largest] = row.sumAndLargest();
      const Target target = targetOf(labels, r, row);
      // The probabilities are those of a softmax: of their logarithms it is the same distribution, whatever their sum.
      score.loss += weight * (logOf(sum) - target.logarithms);
      if (weight == 0) continue;
      const bool mayBe = row.at(target.likeliest) == largest || std::isnan(sum);
      score.numRight += mayBe && row.likeliest() == target.likeliest;
      score.numCounted += 1;
    }
  });
  return score;
}

}  // namespace gradc
