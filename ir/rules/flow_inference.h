// Inference through the bodies of control flow. Tested by tests/ops/control_flow_test.cc
#pragma once

#include "ir/rules/inference.h"

namespace gradc {

/// OpDef::shape and OpDef::dtype of operators with a flow: through the bodies, both ways (INF-16). Sliced operands and
/// stacked outputs have one length (E-27), a state keeps its shape and type (E-28), a decision has one element and
/// branches agree (E-29).
void inferFlowShapes(ShapeInference &s);
void inferFlowTypes(DTypeInference &t);

}  // namespace gradc
