// Attributes that are axes, or that MXNet holds in single precision. Tested by tests/ops/registry_test.cc,
// tests/ops/layer_ops_test.cc
#pragma once

#include "ir/op/attr_spec.h"

namespace gradc {

/// An axis or a list of axes, negative ones counted from the end. No shape has more than 64 (ir/tensor/shape.cc): rules
/// write codes for that many axes where no shape is known.
constexpr AttrSpec ofAxis(AttrSpec spec) { return spec.atLeast(-64).atMost(64); }

/// `value` rounded to single precision. Not inlined: g++ 12.2 at -O2 vectorises two such conversions of neighbouring
/// members and then drops both.
[[gnu::noinline]] inline double roundToSingle(double value) { return static_cast<double>(static_cast<float>(value)); }

}  // namespace gradc
