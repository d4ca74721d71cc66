// How a fused backward node corresponds to its forward node, as the forward operator's own gradient rule states it.
//
// The rule is run once per kind on placeholders (REG-02), with all gradients requested and all head gradients of
// visible outputs given. A backward node of such a forward node must match one of the nodes that it emits, in
// attributes and operands (INF-08, E-56). If none matches, the rule is run again with single requests or head gradients
// left out, or with only one of them: a host's rule may have an operator just for such a case.
#pragma once

#include "ir/base/dense_map.h"
#include "ir/graph/context.h"

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
  std::vector<BackwardLink> nodes;  // one per kind: what all emitted nodes of the kind have in common
  DenseMap<const NodeKind *, uint32_t> nodeOf;
  std::string failure;  // the error that stopped the rule
};

/// Summaries by forward kind, made on demand.
class RuleSummaries {
 public:
  explicit RuleSummaries(Context &context) : ctx(context) {}
  /// Empty for an operator without a gradient rule.
  const RuleSummary &of(const KindRef &kind);
  /// The link of a backward node to a forward node of these kinds; null when the forward rule emits no node of that
  /// operator with the same declared attributes.
  const BackwardLink *link(const KindRef &forward, const KindRef &backward);

 private:
  struct Row {
    KindRef kind;  // kept, so that no other kind gets its address
    RuleSummary summary;
    bool hasRareNodes = false;  // the summary includes the nodes of rare occasions
  };
  Row &rowOf(const KindRef &kind);

  static constexpr uint32_t kNone = 0xffffffff;
  Context &ctx;
  DenseMap<const NodeKind *, std::unique_ptr<Row>> summaries;
  DenseMap<std::pair<const NodeKind *, const NodeKind *>, uint32_t>
      links;  // (forward, backward) → position among the nodes
};

}  // namespace gradc
