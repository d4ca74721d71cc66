// Tested by tests/ops/conformance_test.cc
#include "tests/support/ops/differences.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;

namespace gradc::testing {

Expected<double> differenceAlong(MutableArrayRef<double> at, ArrayRef<double> direction, double step,
                                 function_ref<Expected<double>()> f) {
  const std::vector<double> base = at.vec();
  double sides[2];
  for (int side : {0, 1}) {
    for (size_t e = 0; e < base.size(); ++e) at[e] = base[e] + (side ? step : -step) * direction[e];
    Expected<double> value = f();
    llvm::copy(base, at.begin());
    if (!value) return value.takeError();
    sides[side] = *value;
  }
  return (sides[1] - sides[0]) / (2 * step);
}

std::vector<double> differences(MutableArrayRef<double> at, double step, function_ref<double()> f) {
  std::vector<double> found, direction(at.size(), 0);
  for (double &along : direction) {
    along = 1;
    found.push_back(cantFail(differenceAlong(at, direction, step, [&] { return Expected<double>(f()); })));
    along = 0;
  }
  return found;
}

double relativeDistance(ArrayRef<double> found, ArrayRef<double> expected) {
  if (found.size() != expected.size()) return HUGE_VAL;
  double scale = 0, worst = 0;
  for (double number : expected)
    if (std::isfinite(number)) scale = std::fmax(scale, std::abs(number));
  for (auto [a, b] : zip(found, expected)) {
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (!std::isfinite(a) || !std::isfinite(b)) return HUGE_VAL;
    worst = std::fmax(worst, std::abs(a - b) / scale);
  }
  return worst;
}

}  // namespace gradc::testing
