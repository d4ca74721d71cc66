// An operator that distinguishes training form and inference form at run time. Tested by tests/ops/nn_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

void switchKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.in[0].as<const T>();
    T *y = call.out[0].as<T>();
    for (int64_t i = 0, size = call.out[0].size(); i < size; ++i) y[i] = call.isTraining ? x[i] : T{0};
  });
}

}  // namespace

// y = x in training, 0 in inference
constinit const OpDef kInTraining = {
    .name = "_in_training",
    .summary = "y = x when the step runs in training form, zeros when it runs in inference form",
    .inputs = {"data"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .readsForm = true,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kInTraining, {g.dy(0)})); },
    .primitive = {.onnx = "exported for training: Identity, for inference: Shape, ConstantOfShape, CastLike",
                  .c = "y[i] = isTraining ? x[i] : 0"},
    .kernel = switchKernel,
};

constinit const OpFamily kInTrainingFamily = kOps<kInTraining>;

}  // namespace gradc
