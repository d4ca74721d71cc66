// Definitions of the test-only operators, in the style of ops/.
#include "tests/support/test_ops.h"

#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/primitives.h"

#include <cmath>

using namespace llvm;

namespace gradc::testing {
namespace {

constexpr uint32_t kParts = 3;

void splitShape(ShapeInference &s) {
  if (s.in(0).hasRank() && s.in(0).rank() == 0) return s.fail("a scalar has no first axis to split");
  if (s.in(0).hasRank() && s.in(0)[0] % kParts && s.in(0)[0] != kUnknownDim)
    return s.fail("axis 0 of " + toString(s.in(0)) + " is not divisible by 3");
  for (size_t o = 0; o < kParts; ++o) {
    s.sameOutOut(0, o);
    if (s.in(0).hasRank()) {
      DimsBuffer dims(s.in(0).dims());
      if (dims[0] != kUnknownDim) dims[0] /= kParts;
      s.setOut(o, dims);
    }
    if (s.out(o).hasRank()) {
      DimsBuffer dims(s.out(o).dims());
      if (dims[0] != kUnknownDim) dims[0] *= kParts;
      s.setIn(0, dims);
    }
  }
}

void copyPart(const TensorRef &whole, const TensorRef &part, size_t index, bool toPart) {
  char *at = whole.as<char>() + index * part.bytes();
  if (toPart) std::memcpy(part.data, at, part.bytes());
  else std::memcpy(at, part.data, part.bytes());
}

extern const OpDef kSplit3;

// dx = dy0, dy1, dy2 one behind the other
constinit const OpDef kBackwardSplit3 = {
    .name = "_backward_test_split3",
    .inputs = {"dy0", "dy1", "dy2"},
    .flags = {.isBackward = true},
    .gradient =
        [](GradRule &g) {
          Value parts = g.emit(kSplit3, {g.dy(0)});
          for (size_t i = 0; i < kParts; ++i) g.dx(i, g.at(parts, i));
        },
    .kernel =
        [](const KernelCall &call) {
          for (size_t i = 0; call.wants(0) && i < kParts; ++i) copyPart(call.out[0], call.in[i], i, false);
        },
};

constinit const OpDef kSplit3 = {
    .name = "test_split3",
    .inputs = {"data"},
    .outputs = {"first", "second", "third"},
    .shape = splitShape,
    .gradient = [](GradRule &g) { g.fused(kBackwardSplit3, {g.dy(0), g.dy(1), g.dy(2)}); },
    .kernel =
        [](const KernelCall &call) {
          for (size_t i = 0; i < kParts; ++i)
            if (call.wants(i)) copyPart(call.in[0], call.out[i], i, true);
        },
};

constinit const OpDef kNoGradient = {
    .name = "test_part",
    .inputs = {"data"},
    .shape = shapes::same,
    .kernel = mapFloating<[](auto x) { return std::floor(x); }>,
};

constinit const OpDef kForgetful = {
    .name = "test_forgetful",
    .inputs = {"lhs", "rhs"},
    .shape = shapes::same,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kElemwiseMul, {g.dy(0), g.x(1)})); },
    .kernel = mapFloating<[](auto a, auto b) { return a * b; }>,
};

// dx = dy · (2x); the gradient of the hidden output is not read
constinit const OpDef kBackwardSquare = {
    .name = "_backward_test_square",
    .inputs = {"dy", "dtwice", "twice"},
    .shape = shapes::same,
    .ignored = {1},
    .stopped = {1},
    .flags = {.isBackward = true},
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kElemwiseMul, {d.x(0), d.x(2)})); },
    .kernel =
        [](const KernelCall &call) {
          if (!call.wants(0)) return;
          dispatchFloating(call.out[0].dtype, [&](auto zero) {
            using T = decltype(zero);
            for (int64_t i = 0; i < call.out[0].size(); ++i)
              call.out[0].as<T>()[i] = call.in[0].as<const T>()[i] * call.in[2].as<const T>()[i];
          });
        },
};

constinit const OpDef kSquareWithHidden = {
    .name = "test_square",
    .inputs = {"data"},
    .outputs = {"output", "twice"},
    .visibleOutputs = [](const NodeKind &) { return 1u; },
    .shape = shapes::same,
    .gradient =
        [](GradRule &g) {
          // Head gradients of the hidden output come from higher orders alone: 2 · dtwice joins the fused part.
          if (g.isZero(1)) return void(g.fused(kBackwardSquare, {g.dy(0), g.dy(1), g.y(1)}));
          Value through = g.emit(kMulScalar, {g.dy(1)}, {{"scalar", "2"}});
          Value direct = g.emit(kElemwiseMul, {g.dy(0), g.y(1)});
          g.dx(0, g.emit(kElemwiseAdd, {direct, through}));
        },
    .kernel =
        [](const KernelCall &call) {
          dispatchFloating(call.out[0].dtype, [&](auto zero) {
            using T = decltype(zero);
            for (int64_t i = 0; i < call.in[0].size(); ++i) {
              T x = call.in[0].as<const T>()[i];
              if (call.wants(0)) call.out[0].as<T>()[i] = x * x;
              if (call.wants(1)) call.out[1].as<T>()[i] = 2 * x;
            }
          });
        },
};

constinit const OpDef kAccumulate = {
    .name = "test_accumulate",
    .inputs = {"data", "state"},
    .shape = shapes::same,
    .mutated = {1},
    .gradient =
        [](GradRule &g) {
          g.dx(0, g.dy(0));
          g.noGrad(1);
        },
    .kernel =
        [](const KernelCall &call) {
          dispatchFloating(call.in[0].dtype, [&](auto zero) {
            using T = decltype(zero);
            for (int64_t i = 0; i < call.in[0].size(); ++i) {
              call.in[1].as<T>()[i] += call.in[0].as<const T>()[i];
              if (call.wants(0)) call.out[0].as<T>()[i] = call.in[1].as<T>()[i];
            }
          });
        },
};

constinit const OpDef kScale = {
    .name = "test_scale",
    .inputs = {"data", "state"},
    .shape = shapes::same,
    .mutated = {1},
    .gradient =
        [](GradRule &g) {
          g.dx(0, g.emit(kElemwiseMul, {g.dy(0), g.x(1)}));
          g.noGrad(1);
        },
    .kernel =
        [](const KernelCall &call) {
          dispatchFloating(call.in[0].dtype, [&](auto zero) {
            using T = decltype(zero);
            for (int64_t i = 0; i < call.in[0].size(); ++i) {
              if (call.wants(0)) call.out[0].as<T>()[i] = call.in[0].as<const T>()[i] * call.in[1].as<const T>()[i];
              call.in[1].as<T>()[i] += 1;
            }
          });
        },
};

constexpr InplacePair kFirstIntoEither[] = {{0, 0}, {0, 1}};

// m = x / y, n = x · y;  dx = dm / y + dn · y, dy = dn · x − dm · m / y
constinit const OpDef kRatio = {
    .name = "test_ratio",
    .inputs = {"lhs", "rhs"},
    .outputs = {"ratio", "product"},
    .shape = shapes::same,
    .inplace = kFirstIntoEither,
    .gradient =
        [](GradRule &g) {
          Value quotient = g.emit(kElemwiseDiv, {g.dy(0), g.x(1)});
          g.dx(0, g.emit(kElemwiseAdd, {quotient, g.emit(kElemwiseMul, {g.dy(1), g.x(1)})}));
          Value left = g.emit(kElemwiseMul, {g.dy(1), g.x(0)});
          g.dx(1, g.emit(kElemwiseSub, {left, g.emit(kElemwiseMul, {quotient, g.y(0)})}));
        },
    .kernel =
        [](const KernelCall &call) {
          dispatchFloating(call.in[0].dtype, [&](auto zero) {
            using T = decltype(zero);
            for (int64_t i = 0; i < call.in[0].size(); ++i) {
              T x = call.in[0].as<const T>()[i], y = call.in[1].as<const T>()[i];
              if (call.wants(0)) call.out[0].as<T>()[i] = x / y;
              if (call.wants(1)) call.out[1].as<T>()[i] = x * y;
            }
          });
        },
};

extern const OpDef kCosine;

constinit const OpDef kSine = {
    .name = "test_sine",
    .inputs = {"data"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kElemwiseMul, {g.dy(0), g.emit(kCosine, {g.x(0)})})); },
    .kernel = mapFloating<[](auto x) { return std::sin(x); }>,
};

constinit const OpDef kCosine = {
    .name = "test_cosine",
    .inputs = {"data"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .gradient =
        [](GradRule &g) { g.dx(0, g.emit(kNegative, {g.emit(kElemwiseMul, {g.dy(0), g.emit(kSine, {g.x(0)})})})); },
    .kernel = mapFloating<[](auto x) { return std::cos(x); }>,
};

struct CastParams {
  DType dtype;
};
constexpr AttrSpec kCastAttrs[] = {required<&CastParams::dtype>("dtype", "type of the result")};

constinit const OpDef kBackwardCast = {
    .name = "_backward_test_cast",
    .inputs = {"dy"},
    .attrs = kCastAttrs,
    .params = paramsOf<CastParams>(),
    .shape = shapes::same,
    .dtype = [](DTypeInference &) {},
    .flags = {.isBackward = true},
};

constinit const OpDef kCast = {
    .name = "test_cast",
    .inputs = {"data"},
    .attrs = kCastAttrs,
    .params = paramsOf<CastParams>(),
    .shape = shapes::same,
    .dtype = [](DTypeInference &t) { t.setOut(0, t.params<CastParams>().dtype); },
    .gradient = [](GradRule &g) { g.fused(kBackwardCast, {g.dy(0)}); },
};

// The first has no shape function, the second does not determine its type.
constinit const OpDef kShapeless = {.name = "test_shapeless", .inputs = {"data"}};
constinit const OpDef kTypeless = {
    .name = "test_typeless",
    .inputs = {"data"},
    .shape = shapes::same,
    .dtype = [](DTypeInference &) {},
};

constexpr const OpDef *kTestOps[] = {&kBackwardSplit3,   &kSplit3,       &kNoGradient, &kForgetful, &kBackwardSquare,
                                     &kSquareWithHidden, &kAccumulate,   &kScale,      &kRatio,     &kSine,
                                     &kCosine,           &kBackwardCast, &kCast,       &kShapeless, &kTypeless};

}  // namespace

void registerTestOps(OpRegistry &registry) {
  for (const OpDef *op : kTestOps) cantFail(registry.add(*op), "two test operators share a name");
}

}  // namespace gradc::testing
