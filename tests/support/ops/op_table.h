// Operators checked against a table: values and gradients at given points, derivatives of every order by differences.
#pragma once

#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

#include <string>
#include <utility>
#include <vector>

namespace gradc::testing {

struct OpTensor {
  std::vector<int64_t> shape;
  std::vector<double> values;
};

/// One line of a table. The head gradient at element i of the output is ((7i mod 5) - 1.5) / 2.
struct OpRow {
  std::string op;
  std::vector<std::pair<std::string, std::string>> attrs;
  std::vector<OpTensor> inputs;
  std::vector<int64_t> shape;                  // of output 0
  std::vector<double> values;                  // of output 0
  std::vector<std::vector<double>> gradients;  // of every input
};

/// y = op(x0, x1, …) and its bindings.
struct OpCase {
  explicit OpCase(const OpRow &row);

  TestContext context;
  Graph graph;
  Bindings bindings;
  std::vector<std::string> names;
};

/// Values, shape and gradients of the row, to a relative 1e-14 of the largest element.
void checkRow(const OpRow &row);

/// Gradients of orders 1 … `order` of Σ y · c, c fixed, toward the inputs `wrt`, against central differences at every
/// element. Only op, attrs and inputs of the row are used.
void checkDerivatives(const OpRow &row, llvm::ArrayRef<llvm::StringRef> wrt, uint32_t order);

/// Only shape inference, in both directions: "(2,?) ? -> ?" becomes "(2,3) (3,) -> (2,3)", or the failure's text.
std::string inferShapes(llvm::StringRef op, llvm::ArrayRef<AttrText> attrs, llvm::StringRef shapes);

/// Elementwise, to `tolerance` of the largest finite expected magnitude; infinities and NaN have to be the same.
void expectClose(llvm::ArrayRef<double> found, llvm::ArrayRef<double> expected, double tolerance);

}  // namespace gradc::testing
