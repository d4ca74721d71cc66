// The losses whose gradients a gradient graph computes: those that a head gradient reaches, in bodies too.
#pragma once

#include "runtime/gradcheck/check_problem.h"

#include "ir/graph/bodies.h"

#include "llvm/ADT/BitVector.h"

#include <map>

namespace gradc {

struct LiveLosses {
  std::vector<NodeId> nodes;                  // of the function
  std::map<BodyKey, llvm::BitVector> inside;  // by node of a body, over all places that use the body
  /// A loss in a body whose label is computed, or carried from step to step. As the loss itself does not read it, its
  /// value is not saved. Empty: none.
  std::string withoutLabel;
};

LiveLosses findLosses(const CheckProblem &problem);

}  // namespace gradc
