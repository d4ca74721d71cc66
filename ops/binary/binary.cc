// Arithmetic on two or more operands of equal shape. Tested by tests/ops/elementwise_ops_test.cc
#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

struct SumParams {
  int64_t numArgs;
};
constexpr AttrSpec kSumAttrs[] = {
    required<&SumParams::numArgs>("num_args", "number of terms").atLeast(0).atMost(1 << 20)};

// Strictly left to right, as MXNet adds them.
void sumKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  // verifyGraph reports E-45; here an empty sum is 0.
  if (call.in.empty()) return writeZeros(call);
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    T *out = call.out[0].as<T>();
    const int64_t size = call.out[0].size();
    for (int64_t i = 0; i < size; ++i) {
      T total = call.in[0].as<const T>()[i];
      for (const TensorRef &term : call.in.drop_front()) total = wrappingAdd(total, term.as<const T>()[i]);
      out[i] = total;
    }
  });
}

extern const OpDef kBackwardSub, kBackwardMul, kBackwardDiv;

}  // namespace

// dx0 = dx1 = dy (REG-10)
constinit const OpDef kElemwiseAdd = asEqualShapes({
    .name = "elemwise_add",
    .aliases = {"_add", "_plus", "_Plus", "_sparse_elemwise_add"},
    .summary = "y = lhs + rhs, operands of equal shape",
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.clone(); },
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kBroadcastAdd, {d.x(0), d.x(1)})); },
    .kernel = mapNumeric<[](auto a, auto b) { return wrappingAdd(a, b); }>,
});

// Adds two contributions to a gradient: elemwise_add under the name that MXNet gives it there.
constinit const OpDef kGradAdd = asEqualShapes({
    .name = "_grad_add",
    .summary = "y = lhs + rhs: two contributions to one gradient",
    .flags = {.isSum = true},
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.clone(); },
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kBroadcastAdd, {d.x(0), d.x(1)})); },
    .kernel = mapNumeric<[](auto a, auto b) { return wrappingAdd(a, b); }>,
});

// dx0 = dy, dx1 = -dy
constinit const OpDef kElemwiseSub = asEqualShapes({
    .name = "elemwise_sub",
    .aliases = {"_sub", "_minus", "_Minus", "_sparse_elemwise_sub"},
    .summary = "y = lhs - rhs, operands of equal shape",
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.fused(kBackwardSub, {g.dy(0)}); },
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kBroadcastSub, {d.x(0), d.x(1)})); },
    .kernel = mapNumeric<[](auto a, auto b) { return wrappingSub(a, b); }>,
});

// dx0 = dy · x1, dx1 = dy · x0
constinit const OpDef kElemwiseMul = asEqualShapes({
    .name = "elemwise_mul",
    .aliases = {"_mul", "_Mul", "_sparse_elemwise_mul"},
    .summary = "y = lhs * rhs, operands of equal shape",
    .kernelTypes = kFloatingAndIntegers,
    .gradient =
        [](GradRule &g) {
          if (g.wants(0) && g.wants(1)) return void(g.fused(kBackwardMul, {g.dy(0), g.x(0), g.x(1)}));
          // A single gradient keeps only the other operand alive.
          if (g.wants(0)) g.dx(0, g.emit(kElemwiseMul, {g.dy(0), g.x(1)}));
          if (g.wants(1)) g.dx(1, g.emit(kElemwiseMul, {g.dy(0), g.x(0)}));
        },
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kBroadcastMul, {d.x(0), d.x(1)})); },
    .kernel = mapNumeric<[](auto a, auto b) { return wrappingMul(a, b); }>,
});

// dx0 = dy / x1, dx1 = -dy · x0 / x1²
constinit const OpDef kElemwiseDiv = asEqualShapes({
    .name = "elemwise_div",
    .aliases = {"_div", "_Div", "_sparse_elemwise_div"},
    .summary = "y = lhs / rhs, operands of equal shape",
    .gradient =
        [](GradRule &g) {
          if (g.wants(1)) return void(g.fused(kBackwardDiv, {g.dy(0), g.x(0), g.x(1)}));
          if (g.wants(0)) g.dx(0, g.emit(kElemwiseDiv, {g.dy(0), g.x(1)}));
        },
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kBroadcastDiv, {d.x(0), d.x(1)})); },
    .kernel = mapFloating<[](auto a, auto b) { return a / b; }>,
});

// dxi = dy, one copy each, as in MXNet
constinit const OpDef kElementWiseSum = {
    .name = "add_n",
    .aliases = {"ElementWiseSum", "_sparse_ElementWiseSum", "_sparse_add_n"},
    .summary = "sum of any number of operands of equal shape: y = x0 + x1 + …",
    .inputs = {{}, [](const NodeKind &kind) { return static_cast<uint32_t>(kind.params<SumParams>().numArgs); }, true},
    .attrs = kSumAttrs,
    .params = paramsOf<SumParams>(),
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .flags = {.isSum = true, .isElementwise = true},
    .kernelTypes = kFloatingAndIntegers,
    .gradient =
        [](GradRule &g) {
          for (size_t i = 0; i < g.numInputs(); ++i)
            if (g.wants(i)) g.dx(i, g.emit(kCopy, {g.dy(0)}));
        },
    .decompose =
        [](DecomposeRule &d) {
          // An empty sum takes its shape from its readers.
          if (d.numInputs() == 0) return d.refuse(ErrorKind::EmptySum, "is that of a sum without terms");
          Value total = d.x(0);
          for (size_t i = 1; i < d.numInputs(); ++i) total = d.emit(kBroadcastAdd, {total, d.x(i)});
          d.y(0, total);
        },
    .kernel = sumKernel,
};

namespace {

constinit const OpDef kBackwardSub = {
    .name = "_backward_sub",
    .summary = "gradient of elemwise_sub: dlhs = dy, drhs = -dy",
    .inputs = {"dy"},
    .outputs = {"dlhs", "drhs"},
    .shape = shapes::same,
    .inplace = kInplaceIdentity,
    .flags = {.isBackward = true, .isElementwise = true},
    .decompose =
        [](DecomposeRule &d) {
          d.y(0, d.x(0));
          if (d.wants(1)) d.y(1, d.emit(kNegative, {d.x(0)}));
        },
    .kernel =
        [](const KernelCall &call) {
          dispatchFloating(call.in[0].dtype, [&](auto zero) {
            using T = decltype(zero);
            const T *dy = call.in[0].as<const T>();
            T *lhs = call.wants(0) ? call.out[0].as<T>() : nullptr,
              *rhs = call.wants(1) ? call.out[1].as<T>() : nullptr;
            const int64_t size = call.in[0].size();
            if (lhs && rhs)
              forElements<T>(size, [=](int64_t i) {
                const T value = dy[i];  // one of the outputs may share its memory
                lhs[i] = value;
                rhs[i] = -value;
              });
            else if (lhs) forElements<T>(size, [=](int64_t i) { lhs[i] = dy[i]; });
            else if (rhs) forElements<T>(size, [=](int64_t i) { rhs[i] = -dy[i]; });
          });
        },
};

constinit const OpDef kBackwardMul = asEqualShapesGradient({
    .name = "_backward_mul",
    .summary = "gradient of elemwise_mul: dlhs = dy * rhs, drhs = dy * lhs",
    .decompose =
        [](DecomposeRule &d) {
          if (d.wants(0)) d.y(0, d.emit(kElemwiseMul, {d.x(0), d.x(2)}));
          if (d.wants(1)) d.y(1, d.emit(kElemwiseMul, {d.x(0), d.x(1)}));
        },
    .kernel =
        mapTwoFloating<[](auto dy, auto, auto b) { return dy * b; }, [](auto dy, auto a, auto) { return dy * a; }>,
});

constinit const OpDef kBackwardDiv = asEqualShapesGradient({
    .name = "_backward_div",
    .summary = "gradient of elemwise_div: dlhs = dy / rhs, drhs = -dy * lhs / rhs^2",
    .decompose =
        [](DecomposeRule &d) {
          Value first = d.emit(kElemwiseDiv, {d.x(0), d.x(2)});
          d.y(0, first);
          if (!d.wants(1)) return;
          Value quotient = d.emit(kElemwiseDiv, {d.x(1), d.x(2)});
          d.y(1, d.emit(kNegative, {d.emit(kElemwiseMul, {first, quotient})}));
        },
    .kernel = mapTwoFloating<[](auto dy, auto, auto b) { return dy / b; },
                             [](auto dy, auto a, auto b) { return -dy * (a / b / b); }>,
});

}  // namespace

constinit const OpFamily kElementwiseBinaryFamily =
    kOps<kElemwiseAdd, kGradAdd, kElemwiseSub, kElemwiseMul, kElemwiseDiv, kElementWiseSum, kBackwardSub, kBackwardMul,
         kBackwardDiv>;

}  // namespace gradc
