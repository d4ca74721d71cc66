// Holds nodes in the bodies of loops, branches and calls constant at the base point.
//
// The first run records, in the order of execution, what later runs read in the same order: the decisions of loops and
// branches are among it, so that each run takes the same steps. Tested by
// tests/runtime/gradcheck/gradcheck_loops_test.cc
#pragma once

#include "runtime/arrays/npy.h"
#include "runtime/gradcheck/live_losses.h"

namespace gradc {

class HeldBodies final : public BodyHooks {
 public:
  HeldBodies(const Graph &function, const std::map<BodyKey, llvm::BitVector> &losses);

  void run(const Graph &body, NodeId n, const KernelCall &call, RunKernel kernel) override;
  void decide(const TensorRef &decision) override;
  /// Called before each run but the first.
  void hold();
  /// Drops what the bodies of a node recorded if the node will not run, because all its outputs are held constant.
  size_t numRecorded() const { return recorded.size(); }
  void forgetFrom(size_t first) { recorded.resize(first); }

  /// The implied losses of the last run with values held constant, one per run of a node.
  llvm::ArrayRef<double> losses() const { return lossValues; }
  /// Nodes and inputs of nodes, counted once however often they run; loops and branches that decide.
  uint32_t numPieces = 0, numHeld = 0, numInputs = 0, numDecisions = 0;
  /// Of the base point, with the path to the node (describeNotFinite).
  llvm::StringRef firstNotFinite() const { return notFinite; }

 private:
  void record(const TensorRef &value);
  TensorRef next();
  void recordRun(const Graph &body, NodeId n, const KernelCall &call, RunKernel kernel);
  void count(const Graph &body, NodeId n, const KernelCall &call);
  void noteNotFinite(const Graph &body, NodeId n, const KernelCall &call);
  bool isLiveLoss(const Graph &body, NodeId n) const;

  const std::vector<NestedGraph> graphs;
  const std::map<BodyKey, llvm::BitVector> &liveLosses;
  std::map<BodyKey, llvm::BitVector> isCounted;  // by node
  std::vector<Array> recorded;
  size_t position = 0;  // of the next value to read
  bool isHolding = false;
  std::vector<double> lossValues;
  std::string notFinite;
};

}  // namespace gradc
