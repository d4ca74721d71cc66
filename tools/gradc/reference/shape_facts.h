// Shapes of an operator's outputs in the operator reference, as shape inference gives them.
// Tested by tests/tools/golden_test.cc, tests/tools/operator_reference_test.cc
#pragma once

#include "ir/op/op.h"

#include <string>

namespace gradc {

class Context;

/// "data (2,3,4,5), weight (1,3,1,1), bias (1) → (2,1,4,5), for kernel=(1,1), num_filter=1": what inference concludes
/// for a sample node from shapes whose axes have different lengths. Empty if it concludes nothing from inputs alone.
std::string shapesText(Context &context, const OpDef &op);

}  // namespace gradc
