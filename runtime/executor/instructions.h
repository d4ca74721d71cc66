// Makes the instructions of a planned graph. Tested by tests/runtime/executor_test.cc
#pragma once

#include "runtime/executor/instruction_list.h"

namespace gradc {

/// Where a body runs: its arena is part of its node's workspace, and its heads are bound before each run.
struct BodySite {
  char *arena = nullptr;
  llvm::BitVector partlyReadHeads;  // by head (runtime/executor/unwritten_rows.h)
};

/// The list for a plan that has been checked. Heads own zeroed buffers. TooLarge where nested bodies are used so often
/// that instructions would multiply without bound.
llvm::Expected<InstructionList> prepareInstructions(const Graph &graph, const Inference &inference,
                                                    const RequestTable &requests, const MemoryPlan &plan,
                                                    const ExecOptions &options, const BodySite *site = nullptr);

}  // namespace gradc
