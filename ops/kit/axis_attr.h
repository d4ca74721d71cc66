// Attributes that are axes. Tested by tests/ops/registry_test.cc
#pragma once

#include "ir/op/attr_spec.h"

namespace gradc {

/// An axis or a list of axes, negative ones counted from the end. No shape has more than 64 (ir/tensor/shape.cc): rules
/// write codes for that many axes where no shape is known.
constexpr AttrSpec ofAxis(AttrSpec spec) { return spec.atLeast(-64).atMost(64); }

}  // namespace gradc
