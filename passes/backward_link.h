// How a fused backward node corresponds to its forward node, as the forward operator's own gradient rule states it.
//
// The rule is run once per kind on placeholders (REG-02), with everything wanted and every head gradient given: the
// backward nodes it emits, their attributes and their operands are what a backward node of such a forward node has to
// look like (INF-08, E-56). Where it emits no node like the one at hand, it is run again with a head gradient or a wish
// less each time: a host's rule may have an operator for such a case alone.
#pragma once

#include "ir/context.h"
#include "ir/dense_map.h"

#include <vector>

namespace gradc {

/// Entry `position` of a backward node has the shape and type of entry `of` of the forward node.
struct LinkedEntry {
  uint32_t position;
  uint32_t of;
  friend bool operator==(const LinkedEntry &, const LinkedEntry &) = default;
};

/// One backward node a rule emits.
struct BackwardLink {
  KindRef kind;
  std::vector<LinkedEntry> outputs;      // backward output → forward input
  std::vector<LinkedEntry> fromInputs;   // backward input → forward input
  std::vector<LinkedEntry> fromOutputs;  // backward input → forward output: the value, or its head gradient
};

struct RuleSummary {
  std::vector<BackwardLink> nodes;  // one per kind: of several nodes of a kind, what they have in common
  DenseMap<const NodeKind *, uint32_t> nodeOf;
  std::string failure;  // the mistake that the rule stopped at
};

/// Summaries by forward kind, made on demand.
class RuleSummaries {
 public:
  explicit RuleSummaries(Context &context) : ctx(context) {}
  /// Empty for an operator without a gradient rule.
  const RuleSummary &of(const KindRef &kind);
  /// The link of a backward node of this kind to a forward node of that one; null when the rule emits no node of the
  /// operator with the same declared attributes.
  const BackwardLink *link(const KindRef &forward, const KindRef &backward);

 private:
  struct Row {
    KindRef kind;  // kept, so that no other kind gets its address
    RuleSummary summary;
    bool hasRareNodes = false;  // the summary has the nodes of all runs
  };
  Row &rowOf(const KindRef &kind);

  static constexpr uint32_t kNone = 0xffffffff;
  Context &ctx;
  DenseMap<const NodeKind *, std::unique_ptr<Row>> summaries;
  DenseMap<std::pair<const NodeKind *, const NodeKind *>, uint32_t>
      links;  // (forward, backward) → position among the nodes
};

}  // namespace gradc
