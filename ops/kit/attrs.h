// Attributes that operators of several families have. Tested by tests/ops/registry_test.cc,
// tests/ops/layer_ops_test.cc
#pragma once

#include "ir/op/attr_spec.h"
#include "ir/op/hidden_keys.h"
#include "ir/rules/grad_rule.h"

namespace gradc {

/// An axis or a list of axes, negative ones counted from the end. No shape has more than 64 (ir/tensor/shape.cc): rules
/// write codes for that many axes where no shape is known.
constexpr AttrSpec ofAxis(AttrSpec spec) { return spec.atLeast(-64).atMost(64); }

/// `value` rounded to single precision, in which MXNet holds it. Not inlined: g++ 12.2 at -O2 vectorises two such
/// conversions of neighbouring members and then drops both.
[[gnu::noinline]] inline double roundToSingle(double value) { return static_cast<double>(static_cast<float>(value)); }

/// For the node that yields the output of a lowered operator with a declared gradient: it has the values, but another
/// gradient, so `grad` refuses to differentiate it.
inline AttrText loweredFrom(const DecomposeRule &d) { return {kLoweredFromMark, d.kind().op->name}; }

}  // namespace gradc
