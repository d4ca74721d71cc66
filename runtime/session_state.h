// What a Session has in memory. Tested by tests/session_test.cc
#pragma once

#include "runtime/argument.h"
#include "runtime/bindings.h"
#include "runtime/kernels/kernel_set.h"
#include "runtime/kernels/threads.h"
#include "runtime/session.h"

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
  std::vector<Argument> variables, heads;
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
  llvm::Error prepare(Context &context, MatchedBindings &matched, const SessionOptions &options);
  KernelSet makeKernels(const SessionOptions &options) const;
  llvm::Expected<bool> isOtherPlanInFile(Context &context, PlanOptions options);
  llvm::Error makePlan(Context &context, KernelSet &kernels, const SessionOptions &options);
  llvm::Error bindVariables();
  llvm::Error addStarts(MatchedBindings &matched);

  Argument &variable(NodeId n) { return variables[slotOf[n.value]]; }
  Argument &head(size_t i) { return sharedWith[i].isValid() ? variable(sharedWith[i]) : heads[i]; }
  TensorRef look(Argument &argument) {
    TensorRef tensor;
    withThreads(threads, [&] { tensor = argument.look(); });
    return tensor;
  }
  llvm::Error run(uint64_t step);
};

}  // namespace gradc
