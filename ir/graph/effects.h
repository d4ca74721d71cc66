// What a node does besides computing its outputs. Tested by tests/passes/requests_test.cc and
// tests/passes/gradient/body_gradient_test.cc
#pragma once

#include "ir/graph/context.h"

namespace gradc {

/// The attribute of a node that exists only for its shapes and types: it overwrites nothing and does not run. Gradients
/// of bodies have such nodes where a backward operator belongs to a forward node that overwrites inputs.
inline constexpr llvm::StringLiteral kShapeOnly = "__shape_only__";

/// Whether a node overwrites inputs, or has state outside its operands, and so runs even if nothing reads its outputs.
inline bool hasEffects(const NodeKind &kind) {
  return !kind.mutated.isEmpty() || (kind.op->flags.isStateful && !kind.attrs.get(kShapeOnly));
}

/// The kind for a node that exists only for its shapes and types: `kind` itself, or with the attribute above if it has
/// effects.
inline KindRef withoutEffects(Context &context, const KindRef &kind) {
  if (!hasEffects(*kind)) return kind;
  return llvm::cantFail(context.kindLike(*kind, context.withAttrs(kind->attrs, {{kShapeOnly, "True"}}), kind->bodies));
}

}  // namespace gradc
