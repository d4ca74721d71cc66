// Differentiates small expressions of operators directly by their rules, without the gradient pass, and runs them in
// the naive interpreter (naive.h), so that a failure points at an operator. Everything is float64.
//
//   OpHarness h;
//   Value x = h.variable({2, 3}, {…});
//   Value y = h.apply("Activation", {x}, {{"act_type", "tanh"}});
//   h.values(y);  h.checkGradients(y, 2);
#pragma once

#include "ir/rules/grad_rule.h"
#include "tests/support/ops/naive.h"
#include "tests/support/test_graph.h"

namespace gradc::testing {

class OpHarness {
 public:
  OpHarness();

  Context &context() { return ctx; }
  Value variable(std::vector<int64_t> shape, std::vector<double> data);
  /// Values that follow a fixed sequence in (-1, 1) without ties.
  Value variable(std::vector<int64_t> shape, uint64_t seed);
  Value apply(llvm::StringRef op, llvm::ArrayRef<Value> inputs, llvm::ArrayRef<AttrText> attrs);
  static Value at(Value v, size_t output) { return {v.node, static_cast<uint16_t>(output), 0}; }

  /// The values of an entry; every node is run once per call, in id order.
  std::vector<double> values(Value v);
  std::vector<int64_t> shape(Value v);
  /// Output 0 of the node's piece kernel, with the values of `base` as the inputs at the base point.
  std::vector<double> pieceValues(Value v, llvm::ArrayRef<Value> base);
  /// A variable's values, to change before a run or, if operators overwrite it, to read after one.
  std::vector<double> &storage(Value variable) { return bindings.at(builder.name(variable.node).str()).values; }
  bool canDecompose(Value v) const { return builder.kind(v.node).op && builder.kind(v.node).op->decompose; }
  /// Replaces a fused node's outputs by its decomposition; invalid if that needs more than the operands.
  Value decomposed(Value v);
  /// Gradients of Σ seed·y toward the variables, as entries; invalid where there is none.
  std::vector<Value> gradients(llvm::ArrayRef<Value> ys, llvm::ArrayRef<Value> seeds, llvm::ArrayRef<Value> xs);
  /// Central differences against the gradients of orders 1…order toward every variable of `xs`, at every element.
  void checkGradients(llvm::ArrayRef<Value> ys, llvm::ArrayRef<Value> xs, unsigned order);

  bool isTraining = true;

 private:
  NaiveRun run();
  double project(llvm::ArrayRef<Value> ys, llvm::ArrayRef<Value> seeds);

  TestContext ctx;
  GraphBuilder builder;
  Bindings bindings;  // of the variables, which are named by their ids
};

}  // namespace gradc::testing
