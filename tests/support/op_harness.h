// Runs and differentiates small expressions of operators straight through their OpDefs: no passes, no planner, no
// executor, so that a failure points at an operator. Everything is float64; memory is one buffer per entry.
//
//   OpHarness h;
//   Value x = h.variable({2, 3}, {…});
//   Value y = h.apply("Activation", {x}, {{"act_type", "tanh"}});
//   h.values(y);  h.checkGradients(y, 2);
#pragma once

#include "ir/grad_rule.h"
#include "ir/kernel.h"

#include <map>
#include <vector>

namespace gradc::testing {

struct HarnessTensor {
  std::vector<int64_t> shape;
  DType dtype = DType::Float64;
  std::vector<double> data;  // storage; as int32_t where dtype says so

  TensorRef ref() { return {data.data(), dtype, shape}; }
};

class OpHarness {
 public:
  OpHarness();

  Context &context() { return ctx; }
  Value variable(std::vector<int64_t> shape, std::vector<double> data);
  /// Values that follow a fixed sequence in (-1, 1) without ties.
  Value variable(std::vector<int64_t> shape, uint64_t seed);
  Value apply(llvm::StringRef op, llvm::ArrayRef<Value> inputs, llvm::ArrayRef<AttrText> attrs);
  static Value at(Value v, size_t output) { return {v.node, static_cast<uint16_t>(output), 0}; }

  /// The values of an entry; every node is run once per call, in id order. Ignored inputs reach kernels without data.
  std::vector<double> values(Value v);
  std::vector<int64_t> shape(Value v);
  /// Output 0 of the node's piece kernel, with the values of `base` as the inputs at the base point.
  std::vector<double> pieceValues(Value v, llvm::ArrayRef<Value> base);
  /// A variable's storage, to change or to look at after a run.
  std::vector<double> &storage(Value variable) { return tensors[variable.node.value][0].data; }
  bool canDecompose(Value v) const { return builder.kind(v.node).op && builder.kind(v.node).op->decompose; }
  /// Replaces a fused node's outputs by its decomposition; invalid where that needs more than the operands.
  Value decomposed(Value v);
  /// Gradients of Σ seed·y toward the variables, as entries; invalid where nothing flows.
  std::vector<Value> gradients(llvm::ArrayRef<Value> ys, llvm::ArrayRef<Value> seeds, llvm::ArrayRef<Value> xs);
  /// Central differences against the gradients of orders 1…order toward every variable of `xs`, at every element.
  void checkGradients(llvm::ArrayRef<Value> ys, llvm::ArrayRef<Value> xs, unsigned order);

  bool isTraining = true;
  RandomKey random{7, 0, 0};

 private:
  void run();
  void runNode(NodeId n);
  double project(llvm::ArrayRef<Value> ys, llvm::ArrayRef<Value> seeds);

  Context ctx;
  GraphBuilder builder;
  std::map<uint32_t, std::vector<HarnessTensor>> tensors;  // by node, one per output
  std::map<std::pair<uint32_t, uint16_t>, Value> shapedLike;  // gradient entry → what it is the gradient of
};

}  // namespace gradc::testing
