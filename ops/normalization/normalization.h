// Shared by batch, layer, group and instance normalization: output 0 is normalized data, outputs 1 and 2 are the
// statistics by which it is normalized.
#pragma once

#include "ir/rules/grad_rule.h"
#include "ops/kit/primitives.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace gradc {

/// Entries by shape. `data` and output 0 have the data's; vectors have that of γ and β, one number per channel or along
/// the axis; rows have that of the statistics, one per normalized row.
struct NormPorts {
  size_t data;
  llvm::ArrayRef<size_t> vectorInputs, vectorOutputs, rowInputs, rowOutputs;
};

/// The gradient: that of `fused` through output 0 and, for the data, also that through the statistics unless they are
/// constants. Either is called only if a gradient arrives there.
inline void normalizationGradient(GradRule &g, bool areConstants, llvm::function_ref<Value()> fused,
                                  llvm::function_ref<Value()> throughStatistics) {
  const bool hasDirect = !g.isZero(0), hasStatistics = (!g.isZero(1) || !g.isZero(2)) && g.wants(0) && !areConstants;
  Value dx;
  if (hasDirect) dx = fused();
  for (size_t i = hasStatistics ? 1 : 0; i < g.numInputs() && !hasDirect; ++i) g.noGrad(i);
  if (!hasStatistics) return;
  const Value extra = throughStatistics();
  g.dx(0, hasDirect ? g.emit(kElemwiseAdd, {dx, extra}) : extra);
}

}  // namespace gradc
