// How a fused backward node corresponds to its forward node, as the forward operator's own gradient rule states it.
//
// The rule is run once per kind on placeholders (REG-02): what it emits, and which of its outputs it names as the
// gradient of which input, is the correspondence that inference needs (INF-08) and that keep-lists are read from (RC-04).
#pragma once

#include "ir/context.h"

#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace gradc {

/// Entry `position` of a backward node has the attributes of entry `of` of the forward node.
struct LinkedEntry {
  uint32_t position;
  uint32_t of;
};

/// One backward node a rule emits.
struct BackwardLink {
  const OpDef *op = nullptr;
  std::vector<LinkedEntry> outputs;  // backward output → forward input
  std::vector<LinkedEntry> heads;    // backward input that is a head gradient → forward output
};

struct RuleSummary {
  std::vector<BackwardLink> nodes;
  uint32_t inputsUsed = 0, outputsUsed = 0;  // keep-lists: bit i for x(i) and y(i); bit 31 stands for 31 and beyond
};

/// Summaries by forward kind, made on demand.
class RuleSummaries {
 public:
  explicit RuleSummaries(Context &context) : ctx(context) {}
  /// Empty for an operator without a gradient rule.
  const RuleSummary &of(KindId kind);

 private:
  Context &ctx;
  llvm::DenseMap<uint32_t, RuleSummary> summaries;
};

}  // namespace gradc
