// Attributes that MXNet holds in single precision. Tested by tests/ops/layer_ops_test.cc
#pragma once

namespace gradc {

/// `value` rounded to single precision. Not inlined: g++ 12.2 at -O2 vectorises two such conversions of neighbouring
/// members and then drops both.
[[gnu::noinline]] inline double roundToSingle(double value) { return static_cast<double>(static_cast<float>(value)); }

}  // namespace gradc
