#include "ops/sequence/rnn_cells.h"

#include "ops/kit/primitives.h"

#include <algorithm>

namespace gradc {

Term clipped(const Term &x, const Term &, const CellRules &rules) {
  static constexpr Term::Operators kAtLeast = {nullptr, nullptr, &kMaximumScalar, &kMaximumScalar,
                                               [](double a, double b) { return std::max(a, b); }};
  static constexpr Term::Operators kAtMost = {nullptr, nullptr, &kMinimumScalar, &kMinimumScalar,
                                              [](double a, double b) { return std::min(a, b); }};
  return Term::combine(kAtMost, Term::combine(kAtLeast, x, *rules.clipMin), *rules.clipMax);
}

Term rectified(const Term &x, const Term &) { return Term::apply(kRelu, x); }

}  // namespace gradc
