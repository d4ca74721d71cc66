// Requests for gradients of test graphs, by name, and their results.
#pragma once

#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

#include "llvm/Support/ErrorHandling.h"

namespace gradc::testing {

/// The gradients of the entries `ys` toward `xs`.
inline GradientRequest requestOf(const TestGraph &g, llvm::ArrayRef<llvm::StringRef> ys,
                                 llvm::ArrayRef<llvm::StringRef> xs) {
  GradientRequest request = wrt(g, xs);
  for (llvm::StringRef y : ys) request.heads.push_back({g.at(y), std::nullopt, ""});
  return request;
}

/// The result of buildGradient for a request; stops the test program on an error.
inline GradientResult built(TestGraph &g, const GradientRequest &request, const GradientOptions &options) {
  llvm::Expected<GradientResult> result = buildGradient(g.context, g, request, options);
  if (!result) llvm::report_fatal_error(llvm::StringRef(describeError(result.takeError())));
  return std::move(*result);
}

}  // namespace gradc::testing
