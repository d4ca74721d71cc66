// Repeated differentiation. Tested by tests/passes/gradient/higher_order_test.cc
#pragma once

#include "passes/gradient/gradient.h"
#include "passes/gradient/higher_order/retain_inside.h"

namespace gradc {

/// Differentiates K times. Order k + 1 has every order-k gradient as a y, with ones as heads, and the same x.
/// `options.inference` is of `graph` and carried over to every order; `wrt` of the result is that of order K.
llvm::Expected<GradientResult> buildGradientOfOrder(Context &context, const Graph &graph,
                                                    const GradientRequest &request, const GradientOptions &options,
                                                    uint32_t order);

/// buildGradientOfOrder for a graph with marks: applies retainInside after the first order, so retained gradients are
/// of order 1.
llvm::Expected<GradientResult> buildGradientRetaining(Context &context, const Graph &graph,
                                                      const GradientRequest &request, const GradientOptions &options,
                                                      uint32_t order, llvm::ArrayRef<std::string> paths,
                                                      MoreOutputs *moreOutputs);

}  // namespace gradc
