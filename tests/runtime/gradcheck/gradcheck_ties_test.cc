// gradcheck where values are equal: every operator at a base point of a few whole numbers and halves, where ties and
// kinks abound.
#include "runtime/gradcheck/gradcheck.h"
#include "tests/support/ops/conformance.h"
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

/// The implied loss bends at its margin and has no piece.
constexpr StringRef kWithoutPiece[] = {"SVMOutput"};

/// With a number where the others have none: the tip of the cone and the center of the angles.
const Sample kOfZero[] = {{"_hypot_scalar", "scalar=0", {{6}}},
                          {"_npi_arctan2_scalar", "scalar=0", {{6}}},
                          {"_npi_rarctan2_scalar", "scalar=0", {{6}}}};

TEST(GradcheckTies, RUN_03_EveryOperatorAtWholeNumbers) {
  size_t numPassed = 0;
  std::vector<Sample> samples = allSamples();
  append_range(samples, kOfZero);
  for (const Sample &row : samples) {
    if (row.orders == 0 || is_contained(kWithoutPiece, StringRef(row.op))) continue;
    TestContext context;
    const SampleGraph sample(context, row);
    if (sample.variables.empty()) continue;
    for (double scale : {1.0, 2.0})
      for (uint32_t order = 1; order <= std::min(row.orders, 2u); ++order) {
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
