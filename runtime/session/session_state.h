// What a Session has in memory. Tested by tests/runtime/session_test.cc
#pragma once

#include "runtime/executor/bindings.h"
#include "runtime/kernels/core/threads.h"
#include "runtime/kernels/kernel_set.h"
#include "runtime/session/session.h"
#include "runtime/session/session_tensor.h"

namespace gradc {

struct Session::State {
  Graph graph;
  std::optional<GradientTable> table;
  std::vector<Request> headRequests;
  bool isTraining = false;
  Inference inference;
  RequestTable requests;
  MemoryPlan plan;
  std::vector<uint32_t> slotOf;  // by node: index into variables
  std::vector<SessionTensor> variables, heads;
  std::vector<NodeId> sharedWith;  // by head: the variable whose memory it overwrites, else invalid
  unsigned threads = 1;
  std::vector<std::string> warnings;
  std::optional<Executor> executor;

  llvm::Error create(Context &context, std::vector<NamedArray> bindings, const SessionOptions &options);
  /// Matches arrays to variables, infers shapes and types, and checks that every array fits its variable.
  llvm::Expected<MatchedBindings> match(Context &context, std::vector<NamedArray> bindings,
                                        const SessionOptions &options);
  llvm::Error inferWith(Context &context, const MatchedBindings &matched, const SessionOptions &options);
  llvm::Error fillVariables(MatchedBindings &matched, const SessionOptions &options);
  llvm::Error checkMemory(const SessionOptions &options) const;
  llvm::Error checkVariables(const MatchedBindings &matched, const SessionOptions &options) const;
  llvm::Error checkVariable(NodeId n, const NamedArray *binding) const;
  /// By node: the variables in the caller's memory.
  std::vector<bool> callersVariables(const SessionOptions &options) const;
  /// Bytes of the variables and heads that are not in the caller's memory, and of what the plan needs.
  uint64_t ownBytes(const SessionOptions &options) const;
  uint64_t plannedBytes() const;
  llvm::Error planRun(Context &context, KernelSet &kernels, const SessionOptions &options);
  llvm::Error prepare(KernelSet &kernels, MatchedBindings &matched, const SessionOptions &options);
  KernelSet makeKernels(const SessionOptions &options) const;
  llvm::Expected<bool> isOtherPlanInFile(Context &context, PlanOptions options);
  llvm::Error makePlan(Context &context, KernelSet &kernels, const SessionOptions &options);
  llvm::Error bindVariables();
  llvm::Error addStarts(MatchedBindings &matched);

  bool hasVariable(NodeId n) const { return n.value < slotOf.size() && slotOf[n.value] != MatchedBindings::kNone; }
  bool hasHead(size_t i) const { return i < heads.size(); }
  // Only of those that the graph has.
  SessionTensor &variable(NodeId n) { return variables[slotOf[n.value]]; }
  SessionTensor &head(size_t i) { return sharedWith[i].isValid() ? variable(sharedWith[i]) : heads[i]; }
  TensorRef look(SessionTensor &source) {
    TensorRef tensor;
    withThreads(threads, [&] { tensor = source.look(); });
    return tensor;
  }
  /// Copies it row-major; an error calls it `name`.
  llvm::Error read(const SessionTensor &source, const TensorRef &to, llvm::StringRef name) const;
  llvm::Error run(uint64_t step);
};

/// E-71 unless the copy of one tensor fits into the other.
llvm::Error checkSame(const TensorRef &expected, const TensorRef &found, llvm::StringRef name);

}  // namespace gradc
