// Makers of functions of one variable, element by element, and of their gradient operators.
//
//   constinit const OpDef kBackwardSin =
//       slope<[](auto dy, auto x) { return dy * cos(x); }>("_backward_sin", "x", "gradient of sin: dx = dy * cos(x)");
//   constinit const OpDef kSin = function<[](auto x) { return sin(x); }, kBackwardSin>(
//       {"sin"}, "y = sin(x)", {.onnx = "Sin", .c = "y[i] = sin(x[i])"});
//
// A gradient operator reads what MXNet's reads, the input x or the output y, so that only that one has to be kept
// (RC-04). Formulas are those of formula.h. Tested by tests/ops/elementwise_ops_test.cc
#pragma once

#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/formula.h"

namespace gradc {

/// y = F(x). `names`: the name and its aliases. Without gradient and lowering.
template <auto F> constexpr OpDef unary(NameList names, llvm::StringRef summary, llvm::ArrayRef<Domain> domains = {}) {
  OpDef op = asFunction(named(names, summary));
  op.domains = domains;
  op.kernel = mapFloating<F>;
  return op;
}

template <const OpDef &Backward> void gradientBy(GradRule &g) {
  const bool readsOutput = Backward.inputs.names.names[1] == "y";
  g.fused(Backward, {g.dy(0), readsOutput ? g.y(0) : g.x(0)});
}

/// y = F(x), a primitive.
template <auto F, const OpDef &Backward>
constexpr OpDef function(NameList names, llvm::StringRef summary, Primitive primitive,
                         llvm::ArrayRef<Domain> domains = {}) {
  OpDef op = unary<F>(names, summary, domains);
  op.gradient = gradientBy<Backward>;
  op.primitive = primitive;
  return op;
}

/// y = F(x), which decomposes to Formula(x).
template <auto F, const OpDef &Backward, auto Formula = F>
constexpr OpDef composed(NameList names, llvm::StringRef summary, llvm::ArrayRef<Domain> domains = {}) {
  OpDef op = unary<F>(names, summary, domains);
  op.gradient = gradientBy<Backward>;
  op.decompose = byFormula<Formula>;
  return op;
}

/// dx = F(dy, v), which decomposes to Formula(dy, v). v is "x" or "y", the function's input or output.
template <auto F, auto Formula = F>
constexpr OpDef slope(llvm::StringRef name, llvm::StringRef reads, llvm::StringRef summary,
                      llvm::ArrayRef<Domain> domains = {}) {
  OpDef op = asSlope(named({name}, summary));
  op.inputs = {"dy", reads};
  op.domains = domains;
  op.decompose = byFormula<Formula>;
  op.kernel = mapFloating<F>;
  return op;
}

/// The gradients of dx = dy · f'(x), First(dy, x), toward dy and x: they are formulas too, and so keep the digits that
/// differentiating First would lose where terms cancel or a square overflows. Second(x) is f''(x).
template <auto First, auto Second> void gradientOfSlope(GradRule &g) {
  Formula formula(g, Formula::Shapes::Equal);
  const Term head(formula, g.dy(0)), dy(formula, g.x(0)), x(formula, g.x(1));
  if (g.wants(0)) g.dx(0, First(head, x).value());
  if (g.wants(1)) g.dx(1, (head * dy * Second(x)).value());
}

/// dx = F(dy, x), which decomposes to First(dy, x), of a function whose second derivative is Second(x).
template <auto F, auto First, auto Second>
constexpr OpDef curvedSlope(llvm::StringRef name, llvm::StringRef summary, llvm::ArrayRef<Domain> domains = {}) {
  OpDef op = slope<F, First>(name, "x", summary, domains);
  op.gradient = gradientOfSlope<First, Second>;
  return op;
}

}  // namespace gradc
