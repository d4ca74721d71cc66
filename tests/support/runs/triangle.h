// A small classifier and its examples, for tests of whole training runs.
#pragma once

#include "runtime/training/trainer.h"
#include "tests/support/tensors.h"

#include <cmath>

namespace gradc::testing {

// Batch norm has auxiliary states, dropout draws: everything a resumed run could get wrong.
inline constexpr llvm::StringRef kNet =
    "data = var; h = FullyConnected(data, fc1_weight, fc1_bias) {num_hidden=8};"
    "n = BatchNorm(h, bn_gamma, bn_beta, bn_mean, bn_var) {fix_gamma=False}; r = Activation(n) {act_type=relu};"
    "d = Dropout(r) {p=0.25}; o = FullyConnected(d, fc2_weight, fc2_bias) {num_hidden=3}; y = SoftmaxOutput(o, label)";

// Three classes in the plane, around the corners of a triangle.
inline Dataset triangle(int64_t rows) {
  std::vector<float> points, labels;
  const RandomKey key{5, 0, 0};
  for (int64_t i = 0; i < rows; ++i) {
    const double angle = static_cast<double>(i % 3) * 2 * M_PI / 3;
    points.push_back(static_cast<float>(std::cos(angle) + key.uniform(2 * static_cast<uint64_t>(i)) - 0.5));
    points.push_back(static_cast<float>(std::sin(angle) + key.uniform(2 * static_cast<uint64_t>(i) + 1) - 0.5));
    labels.push_back(static_cast<float>(i % 3));
  }
  return llvm::cantFail(Dataset::create({{"data", floats({rows, 2}, points)}, {"label", floats({rows}, labels)}}));
}

inline TrainerOptions plainOptions() {
  TrainerOptions options;
  options.batch = 8;
  options.shuffle = 3;
  options.optimizer.momentum = 0.9;
  options.optimizer.weightDecay = 0.001;
  options.schedule = {.kind = ScheduleKind::Cosine, .rate = 0.1, .warmup = 3, .total = 40};
  options.session.exec.backend = Backend::Reference;
  return options;
}

}  // namespace gradc::testing
