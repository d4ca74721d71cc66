// Random numbers, which all operators that draw are made of. Tested by tests/conformance_test.cc, tests/index_ops_test.cc
#include "ir/grad_rule.h"
#include "ir/inference.h"
#include "ir/kernel.h"
#include "ops/families.h"
#include "ops/kernel_dispatch.h"
#include "ops/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

struct UniformParams {
  double low = 0, high = 1;
};
constexpr AttrSpec kAttrs[] = {
    attr<&UniformParams::low>("low", "0", "least number"),
    attr<&UniformParams::high>("high", "1", "end of the range, which is not reached"),
};

}  // namespace

// Draw i of the node is that of every other random operator in its place.
constinit const OpDef kUniformLike = {
    .name = "_uniform_like",
    .summary = "float64 numbers drawn from [low, high) in the shape of data, of which only the shape is used",
    .inputs = {"data"},
    .attrs = kAttrs,
    .params = paramsOf<UniformParams>(),
    .shape = [](ShapeInference &s) { s.sameInOut(0, 0); },
    .dtype = [](DTypeInference &t) { t.setOut(0, DType::Float64); },
    .ignored = {0},
    .stopped = {0},
    .flags = {.isRandom = true, .hasNoGradient = true},
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.noGrad(0); },
    .primitive = {.onnx = "RandomUniformLike", .c = "y[i] = low + (high - low) * draw(seed, step, node, i)"},
    .kernel =
        [](const KernelCall &call) {
          if (!call.wants(0)) return;
          const UniformParams &p = call.params<UniformParams>();
          dispatchFloating(call.out[0].dtype, [&](auto zero) {
            using T = decltype(zero);
            for (int64_t i = 0, size = call.out[0].size(); i < size; ++i)
              call.out[0].as<T>()[i] =
                  static_cast<T>(p.low + (p.high - p.low) * call.random.uniform(static_cast<uint64_t>(i)));
          });
        },
};

namespace {
constexpr const OpDef *kOps[] = {&kUniformLike};
}  // namespace

constinit const OpFamily kRandomFamily = kOps;

}  // namespace gradc
