#include "passes/targets/target.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr StringRef kOperators[] = {"broadcast_add", "broadcast_mul", "exp"};

}  // namespace

constinit const Target kThreeTarget = {
    .name = "three",
    .title = "the host of three operators",
    .has = [](const NodeKind &kind) { return is_contained(kOperators, kind.op->name); },
};

}  // namespace gradc
