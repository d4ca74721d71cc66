// Gradients against central differences in float64, order after order.
//
// The scalar of order 1 is a fixed random projection of the heads; a head that is a loss contributes its implied loss
// instead, a head that holds its output contributes nothing. The gradient graph with its head gradients as variables is
// itself a graph, so order k + 1 checks the order-k graph the same way, toward the variables and the head gradients
// (HO-06).
#pragma once

#include "tests/support/ops/differences.h"
#include "tests/support/ops/naive.h"

namespace gradc::testing {

struct DerivativeOptions {
  uint32_t orders = 2;
  size_t coordinates = 6;  // tried per variable, besides one direction
  double step = 1e-5;      // times max(1, |x|)
  double rtol = 1e-6, atol = 1e-8;
  NaiveOptions run;
};

/// What is wrong, and how much was checked: shapes, values and calls that could have been wrong.
struct Findings {
  std::vector<std::string> problems;
  size_t numChecked = 0;
};

/// Problems say where gradient and difference disagree, or what failed.
Findings checkDerivatives(Context &context, const Graph &graph, std::vector<std::string> variables, Bindings bindings,
                          const DerivativeOptions &options);

/// The graph checked at `order` (1: the gradients of the first order). Its heads are only gradients toward `variables`,
/// which is extended by the head variables that it makes, named "p<order>_<i>". Shapes are those of the bindings, if
/// there are any.
llvm::Expected<Graph> derivativeGraph(Context &context, const Graph &graph, std::vector<std::string> &variables,
                                      uint32_t order, const Bindings *bindings = nullptr,
                                      const InferOptions &types = InferOptions());

/// A number of (-1.2, 1.2), at least 0.1 away from 0; the same for equal arguments.
double drawNumber(uint64_t stream, uint64_t index);

}  // namespace gradc::testing
