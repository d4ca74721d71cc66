// The arithmetic of softmax, softmin and log_softmax on one row of plain memory, and of their gradients. Sums run in
// float64. Tested by tests/ops/layer_ops_test.cc
#pragma once

#include "ops/kit/axis_rows.h"

#include <algorithm>
#include <cmath>

namespace gradc {

struct SoftmaxRows {
  AxisRows rows;
  double factor;  // of the data: 1, or ±1/temperature
  bool isLog;

  /// Rows to compute: none where they have no elements.
  int64_t count() const { return rows.length == 0 ? 0 : rows.count(); }

  /// y = exp(z − m)/Σ, or z − m − ln Σ, of the first `length` elements, with z = x · factor and m the largest z; 0
  /// beyond.
  template <class In, class Out> void forward(const In *x, Out *y, int64_t row, int64_t length) const {
    x += rows.begin(row), y += rows.begin(row);
    auto z = [&](int64_t k) { return static_cast<double>(x[k * rows.inner]) * factor; };
    double largest = -HUGE_VAL, total = 0;
    for (int64_t k = 0; k < length; ++k) largest = std::max(largest, z(k));
    for (int64_t k = 0; k < length; ++k) total += std::exp(z(k) - largest);
    for (int64_t k = 0; k < rows.length; ++k) {
      const double shifted = k < length ? z(k) - largest : 0;
      const double value = isLog ? shifted - std::log(total) : std::exp(shifted) / total;
      y[k * rows.inner] = static_cast<Out>(k < length ? value : 0);
    }
  }

  /// dx = y·(dy − Σ dy·y) · factor, or (dy − exp(y)·Σ dy) · factor.
  template <class In, class Out> void backward(const In *dy, const In *y, Out *dx, int64_t row) const {
    double sum = 0;
    const int64_t begin = rows.begin(row), end = begin + rows.length * rows.inner;
    for (int64_t i = begin; i < end; i += rows.inner)
      sum += static_cast<double>(dy[i]) * (isLog ? 1.0 : static_cast<double>(y[i]));
    for (int64_t i = begin; i < end; i += rows.inner) {
      const double head = static_cast<double>(dy[i]), value = static_cast<double>(y[i]);
      dx[i] = static_cast<Out>((isLog ? head - std::exp(value) * sum : value * (head - sum)) * factor);
    }
  }
};

}  // namespace gradc
