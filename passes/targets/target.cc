// Tested by tests/passes/lowering/lower_to_test.cc, tests/ops/conformance_test.cc
#include "passes/targets/target.h"

using namespace llvm;

namespace gradc {

constinit const Target kPrimitivesTarget = {
    .name = "primitives",
    .title = "the primitives",
    .has = [](const NodeKind &kind) { return bool(kind.op->primitive); },
};

constinit const Target kNoTarget = {
    .name = "none",
    .title = "no host",
    .has = [](const NodeKind &) { return false; },
};

}  // namespace gradc
