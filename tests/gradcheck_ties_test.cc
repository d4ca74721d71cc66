// gradcheck where values are equal: every operator at a base point of a few whole numbers and halves, where ties and kinks abound.
#include "runtime/gradcheck/gradcheck.h"
#include "tests/support/conformance.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace llvm;

namespace gradc::testing {
namespace {

/// The values of differentiated inputs, rounded to multiples of 1 / `scale`: most are equal to others.
std::vector<NamedArray> tied(const SampleGraph &sample, double scale) {
  Bindings bindings = sample.bindings;
  for (const std::string &name : sample.variables)
    for (double &value : bindings.at(name).values) value = std::round(value * scale) / scale;
  std::vector<NamedArray> arrays;
  for (const auto &[name, array] : bindings)
    arrays.push_back({name, doubles(std::vector<int64_t>(array.shape.begin(), array.shape.end()), array.values)});
  return arrays;
}

/// Operators that jump or bend there, and have no piece: the implied loss of the first at its margin, the angle of the others
/// on the negative half axis and at (0, 0).
constexpr StringRef kWithoutPiece[] = {"SVMOutput", "_npi_arctan2", "_npi_arctan2_scalar"};
/// Operators whose gradient bends there and has no piece: the tip of a cone at (0, 0).
constexpr StringRef kOfFirstOrder[] = {"_hypot", "broadcast_hypot"};

TEST(GradcheckTies, RUN_03_EveryOperatorAtWholeNumbers) {
  size_t numPassed = 0;
  for (const Sample &row : allSamples()) {
    if (row.orders == 0 || is_contained(kWithoutPiece, StringRef(row.op))) continue;
    TestContext context;
    const SampleGraph sample(context, row);
    if (sample.variables.empty()) continue;
    for (double scale : {1.0, 2.0})
      for (uint32_t order = 1; order <= std::min(row.orders, 2u); ++order) {
        if (order == 2 && is_contained(kOfFirstOrder, StringRef(row.op))) continue;
        GradcheckOptions options;
        options.order = order;
        options.samples = 12;
        options.session.initSeed = 1;
        options.gradientOptions.isTraining = row.isTraining;
        options.gradientOptions.unused = UnusedPolicy::None;
        Expected<GradcheckReport> report = gradcheck(context, sample.graph, tied(sample, scale), options);
        if (!report) {  // whole numbers outside of the domain
          consumeError(report.takeError());
          continue;
        }
        const bool isFinite = report->notFinite.empty();
        numPassed += isFinite;
        for (const GradcheckRow &of : report->rows)
          if (isFinite) {
            EXPECT_EQ(of.failures, 0u) << row.op << " {" << row.attrs << "}, multiples of " << 1 / scale << ", order "
                                       << order << ": " << of.variable << ", " << of.worstError;
          }
      }
  }
  EXPECT_GT(numPassed, 5000u);
}

}  // namespace
}  // namespace gradc::testing
