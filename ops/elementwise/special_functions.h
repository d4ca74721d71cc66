// Probability functions that the C++ library lacks, and operators of ops/elementwise/special_functions.cc that others
// emit. Tested by tests/ops/layer_ops_test.cc
#pragma once

#include "ir/op/op.h"

#include <cmath>

namespace gradc {

/// 1/√(2π), the standard normal density at 0.
inline constexpr double kNormalPeak = 0.3989422804014326779;

/// Standard normal distribution function.
template <class T> T normalCdf(T x) { return T(0.5) * std::erfc(-x * static_cast<T>(0.70710678118654752440)); }
/// Standard normal density.
template <class T> T normalDensity(T x) { return static_cast<T>(kNormalPeak) * std::exp(T(-0.5) * x * x); }

extern const OpDef kErf;  // erf(x)

}  // namespace gradc
