// Arithmetic with NumPy broadcasting: shapes aligned at the last axis, dimensions of one element repeated.
//
// The gradient of an operand is summed over the axes along which it was repeated. Fused backward operators get the
// operands' shapes from their forward node; decompositions undo the broadcast with `_sum_like`, which takes the shape
// from a value. Tested by tests/ops/elementwise_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ir/rules/missing_inputs.h"
#include "ops/binary/broadcast.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

bool repeats(int64_t dim) { return dim == kUnknownDim || dim == 1; }

// Unifies one axis of two operands and the result. A dimension other than 1, even 0, is also the result's; next to a 1,
// the other operand's dimension is the result's. False if both are known, neither is 1, and they differ.
bool unifyAxis(int64_t &a, int64_t &b, int64_t &out) {
  if (!repeats(a) && !repeats(b) && a != b) return false;
  if (out == 1) {
    if (a == kUnknownDim) a = 1;
    if (b == kUnknownDim) b = 1;
  }
  if (a == 1 && b == kUnknownDim) b = out;
  if (b == 1 && a == kUnknownDim) a = out;
  if (a != kUnknownDim && b != kUnknownDim) out = a == 1 ? b : a;
  else if (!repeats(a)) out = a;
  else if (!repeats(b)) out = b;
  return true;
}

}  // namespace

// Infers in both directions wherever an axis determines the others; the operands' ranks must be known.
void broadcastShape(ShapeInference &s) {
  if (!s.in(0).hasRank() || !s.in(1).hasRank()) return;
  DimsBuffer a(s.in(0).dims()), b(s.in(1).dims());
  const size_t rank = std::max(a.size(), b.size());
  DimsBuffer out(rank, kUnknownDim);
  if (s.out(0).hasRank() && !mergeDims(out, s.out(0).dims()))
    return s.fail("output 0 has shape " + toString(s.out(0)) + ", expected " + Twine(rank) + " dimensions");
  for (size_t back = 1; back <= rank; ++back) {
    int64_t one = 1;
    int64_t &left = back <= a.size() ? a[a.size() - back] : one;
    int64_t other = 1;
    int64_t &right = back <= b.size() ? b[b.size() - back] : other;
    if (!unifyAxis(left, right, out[rank - back]))
      return s.fail("operands of shapes " + toString(s.in(0)) + " and " + toString(s.in(1)) + " do not broadcast");
  }
  s.setIn(0, a);
  s.setIn(1, b);
  s.setOut(0, out);
}

namespace {

extern const OpDef kBackwardBroadcastAdd, kBackwardBroadcastSub, kBackwardBroadcastMul, kBackwardBroadcastDiv;

// dlhs and drhs of a backward operator: full-size terms summed down to the operands, inputs 1 and 2. Not for add and
// sub, whose backward nodes do not read the operands.
void sumDown(DecomposeRule &d, size_t output, Value term) { d.y(output, d.emit(kSumLike, {term, d.x(1 + output)})); }

}  // namespace

// dx0 = Σ dy, dx1 = Σ dy over the repeated axes of each
constinit const OpDef kBroadcastAdd = asBroadcast({
    .name = "broadcast_add",
    .aliases = {"broadcast_plus", "_sparse_broadcast_add", "_sparse_broadcast_plus", "_npi_add"},
    .summary = "y = lhs + rhs with broadcasting",
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.fused(kBackwardBroadcastAdd, {g.dy(0)}); },
    .primitive = {.onnx = "Add", .c = "y[i] = a[j] + b[k]; a repeated axis has step 0"},
    .kernel = broadcastKernel<[](auto a, auto b) { return wrappingAdd(a, b); }>,
});

// dx0 = Σ dy, dx1 = -Σ dy over the repeated axes of each
constinit const OpDef kBroadcastSub = asBroadcast({
    .name = "broadcast_sub",
    .aliases = {"broadcast_minus", "_sparse_broadcast_sub", "_sparse_broadcast_minus", "_npi_subtract"},
    .summary = "y = lhs - rhs with broadcasting",
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.fused(kBackwardBroadcastSub, {g.dy(0)}); },
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kBroadcastAdd, {d.x(0), d.emit(kNegative, {d.x(1)})})); },
    .kernel = broadcastKernel<[](auto a, auto b) { return wrappingSub(a, b); }>,
});

// dx0 = Σ dy · x1, dx1 = Σ dy · x0 over the repeated axes of each
constinit const OpDef kBroadcastMul = asBroadcast({
    .name = "broadcast_mul",
    .aliases = {"_sparse_broadcast_mul", "_npi_multiply"},
    .summary = "y = lhs * rhs with broadcasting",
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.fused(kBackwardBroadcastMul, {g.dy(0), g.x(0), g.x(1)}); },
    .primitive = {.onnx = "Mul", .c = "y[i] = a[j] * b[k]; a repeated axis has step 0"},
    .kernel = broadcastKernel<[](auto a, auto b) { return wrappingMul(a, b); }>,
});

// dx0 = Σ dy / x1, dx1 = -Σ dy · x0 / x1² over the repeated axes of each
constinit const OpDef kBroadcastDiv = asBroadcast({
    .name = "broadcast_div",
    .aliases = {"_sparse_broadcast_div", "_npi_true_divide"},
    .summary = "y = lhs / rhs with broadcasting",
    .gradient = [](GradRule &g) { g.fused(kBackwardBroadcastDiv, {g.dy(0), g.x(0), g.x(1)}); },
    .primitive = {.onnx = "Div", .c = "y[i] = a[j] / b[k]; a repeated axis has step 0"},
    .kernel = broadcastKernel<[](auto a, auto b) { return a / b; }>,
});

namespace {

// The adjoint of "sum dy down to each operand" is "repeat the two and add": ddy = d(dlhs) + d(drhs), broadcast.
constinit const OpDef kBackwardBroadcastAdd = {
    .name = "_backward_broadcast_add",
    .summary = "gradient of broadcast_add: dlhs and drhs are dy summed over the repeated axes",
    .inputs = {"dy"},
    .outputs = {"dlhs", "drhs"},
    .flags = {.isBackward = true},
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kBroadcastAdd, {g.dy(0), g.dy(1)})); },
    .decompose =
        [](DecomposeRule &d) {
          for (size_t i = 0; i < 2; ++i)
            if (d.wants(i)) d.y(i, d.emit(kSumLike, {d.x(0), d.forwardInput(i)}));
        },
    .kernel = broadcastBackwardKernel<[](auto v) { return v[0]; }, [](auto v) { return v[0]; }>,
};

constinit const OpDef kBackwardBroadcastSub = {
    .name = "_backward_broadcast_sub",
    .summary = "gradient of broadcast_sub: dlhs and drhs are dy and -dy summed over the repeated axes",
    .inputs = {"dy"},
    .outputs = {"dlhs", "drhs"},
    .flags = {.isBackward = true},
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kBroadcastSub, {g.dy(0), g.dy(1)})); },
    .decompose =
        [](DecomposeRule &d) {
          if (d.wants(0)) d.y(0, d.emit(kSumLike, {d.x(0), d.forwardInput(0)}));
          if (d.wants(1)) d.y(1, d.emit(kSumLike, {d.emit(kNegative, {d.x(0)}), d.forwardInput(1)}));
        },
    .kernel = broadcastBackwardKernel<[](auto v) { return v[0]; }, [](auto v) { return -v[0]; }>,
};

/// Of gradients that do not each read both operands (ops/kit/output_reads.cc).
template <auto F0, auto F1> void oneSidedBackward(const KernelCall &call) {
  withMissingInputs(call, broadcastBackwardKernel<F0, F1>);
}

constinit const OpDef kBackwardBroadcastMul = asBroadcastGradient({
    .name = "_backward_broadcast_mul",
    .summary = "gradient of broadcast_mul: dlhs = sum dy * rhs, drhs = sum dy * lhs over the repeated axes",
    .decompose =
        [](DecomposeRule &d) {
          if (d.wants(0)) sumDown(d, 0, d.emit(kBroadcastMul, {d.x(0), d.x(2)}));
          if (d.wants(1)) sumDown(d, 1, d.emit(kBroadcastMul, {d.x(0), d.x(1)}));
        },
    .kernel = oneSidedBackward<[](auto v) { return v[0] * v[2]; }, [](auto v) { return v[0] * v[1]; }>,
});

constinit const OpDef kBackwardBroadcastDiv = asBroadcastGradient({
    .name = "_backward_broadcast_div",
    .summary = "gradient of broadcast_div: dlhs = sum dy / rhs, drhs = sum -dy * lhs / rhs^2 over the repeated axes",
    .decompose =
        [](DecomposeRule &d) {
          Value first = d.emit(kBroadcastDiv, {d.x(0), d.x(2)});
          if (d.wants(0)) sumDown(d, 0, first);
          if (!d.wants(1)) return;
          Value quotient = d.emit(kBroadcastDiv, {d.x(1), d.x(2)});
          sumDown(d, 1, d.emit(kNegative, {d.emit(kElemwiseMul, {first, quotient})}));
        },
    .kernel = oneSidedBackward<[](auto v) { return v[0] / v[2]; }, [](auto v) { return -v[0] * (v[1] / v[2] / v[2]); }>,
});

}  // namespace

constinit const OpFamily kBroadcastFamily =
    kOps<kBroadcastAdd, kBroadcastSub, kBroadcastMul, kBroadcastDiv, kBackwardBroadcastAdd, kBackwardBroadcastSub,
         kBackwardBroadcastMul, kBackwardBroadcastDiv>;

}  // namespace gradc
