// Overwrites a state, a variable that persists between runs. Every other operator with a state reduces to this one.
// Tested by tests/passes/lowering/lower_to_test.cc, tests/ops/conformance_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

void assignKernel(const KernelCall &call) {
  const TensorRef &state = call.in[0], &value = call.in[1];
  if (const size_t size = value.bytes()) {
    std::memmove(state.data, value.data, size);
    if (call.wants(0)) std::memmove(call.out[0].data, value.data, size);
  }
}

constexpr InplacePair kOverValue[] = {{1, 0}};

}  // namespace

// dvalue = dy: the state's old value is gone
constinit const OpDef kAssign = asMovement({
    .name = "_assign",
    .summary = "y = value; the state, a variable, keeps it",
    .inputs = {"state", "value"},
    .shape = shapes::same,
    .inplace = kOverValue,
    .mutated = {0},
    .stopped = {0},
    .gradient =
        [](GradRule &g) {
          g.noGrad(0);
          g.dx(1, g.dy(0));
        },
    .primitive = {.onnx = "Identity; the value is one more output of the graph", .c = "state[i] = y[i] = value[i]"},
    .kernel = assignKernel,
});

constinit const OpFamily kAssignFamily = kOps<kAssign>;

}  // namespace gradc
