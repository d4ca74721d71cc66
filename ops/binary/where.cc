// Choice between two tensors, element by element or row by row. Tested by tests/ops/movement_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/families.h"
#include "ops/kit/pieces.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

// The condition has the operands' shape, or one element per row: nothing can be inferred until it is fully known
// (INF-05).
void whereShape(ShapeInference &s) {
  if (!s.in(0).isFullyKnown()) return;
  for (int pass = 0; pass < 2; ++pass) {
    s.sameInIn(1, 2);
    s.sameInOut(1, 0);
  }
  if (s.hasFailed() || !s.in(1).hasRank()) return;
  const ShapeRef condition = s.in(0), x = s.in(1);
  if (condition.rank() == x.rank()) {
    s.setIn(1, condition.dims());
    s.sameInIn(1, 2);
    return s.sameInOut(1, 0);
  }
  const bool fits = condition.rank() == 1 && x.rank() > 0 && (x[0] == kUnknownDim || x[0] == condition[0]);
  if (!fits)
    s.fail("the condition has shape " + toString(condition) + ", expected that of x, " + toString(x) +
           ", or one element for each of its rows");
}

void whereDType(DTypeInference &t) {
  t.sameInIn(1, 2);
  t.sameInOut(1, 0);
  t.sameInIn(1, 2);
}

// Calls `visit(i, isTrue)` for every element i of tensors of `size` elements.
template <class F> void forChoices(const TensorRef &condition, int64_t size, F visit) {
  const int64_t count = condition.size(), row = count == 0 ? 1 : size / count;
  dispatchNumeric(condition.dtype, [&](auto zero) {
    const auto *choice = condition.as<const decltype(zero)>();
    if (row == 1) {
      GRADC_INDEPENDENT
      for (int64_t i = 0; i < size; ++i) visit(i, choice[i] != zero);
      return;
    }
    for (int64_t i = 0; i < size; ++i) visit(i, choice[i / row] != zero);
  });
}

void whereKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.in[1].as<const T>(), *y = call.in[2].as<const T>();
    T *out = call.out[0].as<T>();
    forChoices(call.in[0], call.out[0].size(), [=](int64_t i, bool isTrue) {
      const T first = x[i], second = y[i];
      out[i] = isTrue ? first : second;
    });
  });
}

void whereBackwardKernel(const KernelCall &call) {
  dispatchNumeric(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *dy = call.in[0].as<const T>();
    for (size_t output = 0; output < 2; ++output) {
      if (!call.wants(output)) continue;
      T *out = call.out[output].as<T>();
      const bool wanted = output == 0;
      forChoices(call.in[1], call.in[0].size(), [=](int64_t i, bool isTrue) {
        const T head = dy[i];
        out[i] = isTrue == wanted ? head : T(0);
      });
    }
  });
}

void wherePiece(const PieceCall &call) {
  const TensorRef in[] = {call.base[0], call.in[1], call.in[2]};
  runOnInputs(call, in);
}

constexpr InplacePair kWhereInplace[] = {{1, 0}, {2, 0}};

extern const OpDef kBackwardWhere;

}  // namespace

// dx = dy where the condition holds, else 0; for y vice versa; dcondition = 0
constinit const OpDef kWhere = {
    .name = "where",
    .aliases = {"_sparse_where"},
    .summary = "x where the condition is not 0, else y; the condition has their shape or one element per row",
    .inputs = {"condition", "x", "y"},
    .shape = whereShape,
    .dtype = whereDType,
    .inplace = kWhereInplace,
    .flags = {.isElementwise = true},
    .kernelTypes = kFloatingAndIntegers,
    .gradient =
        [](GradRule &g) {
          Value parts = g.fused(kBackwardWhere, {g.dy(0), g.x(0)});
          if (g.wants(0)) g.dx(0, g.emit(kZerosLike, {g.x(0)}));
          else g.noGrad(0);
          g.dx(1, g.at(parts, 0));
          g.dx(2, g.at(parts, 1));
        },
    .primitive = {.onnx = "Cast, Unsqueeze, Where", .c = "y[i] = condition[j] != 0 ? a[i] : b[i]"},
    .kernel = whereKernel,
    .piece = wherePiece,
};

namespace {

constinit const OpDef kBackwardWhere = {
    .name = "_backward_where",
    .summary = "gradient of where: dx = dy where the condition is not 0, else 0; d of y the other way round",
    .inputs = {"dy", "condition"},
    .outputs = {"dx", "dy"},
    .dtype =
        [](DTypeInference &t) {
          for (size_t i = 0; i < 2; ++i) t.sameInOut(0, i);
          t.sameInOut(0, 0);
        },
    .flags = {.isBackward = true, .isElementwise = true},
    .decompose =
        [](DecomposeRule &d) {
          Value zeros = d.emit(kZerosLike, {d.x(0)});
          if (d.wants(0)) d.y(0, d.emit(kWhere, {d.x(1), d.x(0), zeros}));
          if (d.wants(1)) d.y(1, d.emit(kWhere, {d.x(1), zeros, d.x(0)}));
        },
    .kernel = whereBackwardKernel,
    .piece = chooseAtBase<0>,
};

}  // namespace

constinit const OpFamily kWhereFamily = kOps<kWhere, kBackwardWhere>;

}  // namespace gradc
