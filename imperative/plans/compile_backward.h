// From a tape to a plan. Tested by tests/imperative/memory/imperative_cache_test.cc
#pragma once

#include "imperative/plans/plan.h"

namespace gradc {

/// Deterministic for one structure and request. `shapes` must outlive the plan. Errors of the request (E-01 … E-15,
/// E-38 …) and of operators (E-02) name the user's tensors and calls, those at a call with its site and origin.
llvm::Expected<std::unique_ptr<Plan>> compileBackward(Context &context, TapeShapes &shapes, const Collected &collected,
                                                      const BackwardRequest &request, const SignatureOptions &options,
                                                      bool keepsSource);

}  // namespace gradc
