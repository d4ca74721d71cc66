// The simultaneous walk. Tested by tests/passes/diff_test.cc
#include "tools/diff/diff.h"

#include "ir/base/dense_map.h"
#include "ir/graph/bodies.h"

#include "llvm/ADT/SmallString.h"

using namespace llvm;

namespace gradc {
namespace {

using BodyPairs = DenseSet<std::pair<BodyKey, BodyKey>>;

class GraphDiff {
 public:
  GraphDiff(const Graph &left, const Graph &right, const DiffOptions &options, BodyPairs &comparedBodies)
      : left(left), right(right), options(options), comparedBodies(comparedBodies), partnerOfLeft(left.numNodes()),
        partnerOfRight(right.numNodes()) {}

  DiffResult run() {
    compareHeads();
    while (!pending.empty()) {
      Pair pair = pending.back();
      pending.pop_back();
      compareNodes(pair.left, pair.right);
    }
    return std::move(result);
  }

 private:
  struct Pair {
    NodeId left, right;
  };

  void report(NodeId l, NodeId r, const Twine &text) {
    if (result.differences.size() < options.limit) result.differences.push_back({l, r, text.str()});
    ++result.numDifferences;
  }

  static std::string countText(size_t a, size_t b) {
    return (Twine(a) + " on the left, " + Twine(b) + " on the right").str();
  }

  /// "node 'fc1' (FullyConnected)", as the left graph names it.
  std::string where(NodeId l) const { return left.describe(l); }

  void compareHeads() {
    ArrayRef<Value> l = left.heads(), r = right.heads();
    if (l.size() != r.size()) report(NodeId(), NodeId(), "number of heads: " + countText(l.size(), r.size()));
    size_t count = std::min(l.size(), r.size());
    std::vector<Pair> found;
    for (size_t i = 0; i < count; ++i) pairValues(l[i], r[i], "head " + std::to_string(i), found);
    pushReversed(found);
  }

  /// The walk uses a stack, so the pair to be compared first goes on top.
  void pushReversed(const std::vector<Pair> &found) { pending.insert(pending.end(), found.rbegin(), found.rend()); }

  void pairValues(Value l, Value r, const Twine &what, std::vector<Pair> &found) {
    if (!pairNodes(l.node, r.node, what, found)) return;
    if (l.index != r.index)
      report(l.node, r.node, what + ": output " + countText(l.index, r.index) + " of " + left.describe(l.node));
    if (l.version != r.version)
      report(l.node, r.node, what + ": version " + countText(l.version, r.version) + " of " + left.describe(l.node));
  }

  bool pairNodes(NodeId l, NodeId r, const Twine &what, std::vector<Pair> &found) {
    NodeId &ofLeft = partnerOfLeft[l.value], &ofRight = partnerOfRight[r.value];
    if (ofLeft == r) return true;
    if (ofLeft.isValid() || ofRight.isValid()) {
      report(l, r,
             what + ": " + left.describe(l) + " on the left, " + right.describe(r) +
                 " on the right, which are already paired with other nodes");
      return false;
    }
    ofLeft = r;
    ofRight = l;
    found.push_back({l, r});
    return true;
  }

  void compareNodes(NodeId l, NodeId r) {
    if (left.op(l) != right.op(r)) {
      report(l, r, left.describe(l) + " on the left, " + right.describe(r) + " on the right");
      return;
    }
    if (!options.ignoreNames && left.name(l) != right.name(r))
      report(l, r, where(l) + " on the left is called '" + right.name(r) + "' on the right");
    // Those of a known operator follow from its attributes.
    if (left.kind(l).op && left.kind(l).op->flags.isOpaque && left.numOutputs(l) != right.numOutputs(r))
      report(l, r, where(l) + ": number of outputs: " + countText(left.numOutputs(l), right.numOutputs(r)));
    compareAttrs(l, r);
    compareBodies(l, r);
    compareInputs(l, r);
  }

  void compareInputs(NodeId l, NodeId r) {
    ArrayRef<Value> lIn = left.inputs(l), rIn = right.inputs(r);
    if (lIn.size() != rIn.size()) report(l, r, where(l) + ": number of inputs: " + countText(lIn.size(), rIn.size()));
    std::vector<Pair> found;
    for (size_t i = 0; i < std::min(lIn.size(), rIn.size()); ++i)
      pairValues(lIn[i], rIn[i], where(l) + ": input " + std::to_string(i), found);
    ArrayRef<NodeId> lDeps = left.controlDeps(l), rDeps = right.controlDeps(r);
    if (lDeps.size() != rDeps.size())
      report(l, r, where(l) + ": number of control dependencies: " + countText(lDeps.size(), rDeps.size()));
    for (size_t i = 0; i < std::min(lDeps.size(), rDeps.size()); ++i)
      pairNodes(lDeps[i], rDeps[i], where(l) + ": control dependency " + std::to_string(i), found);
    pushReversed(found);
  }

  // Bodies nest at most 64 deep. Equal bodies are one object; a differing pair is compared where it is met first.
  void compareBodies(NodeId l, NodeId r) {
    ArrayRef<Graph> lBodies = left.bodies(l), rBodies = right.bodies(r);
    if (lBodies.size() != rBodies.size())
      report(l, r, where(l) + ": number of bodies: " + countText(lBodies.size(), rBodies.size()));
    for (size_t i = 0; i < std::min(lBodies.size(), rBodies.size()); ++i) {
      const BodyKey lKey = keyOf(lBodies[i]), rKey = keyOf(rBodies[i]);
      if (lKey == rKey || !comparedBodies.insert({lKey, rKey}).second) continue;
      GraphDiff inner(lBodies[i], rBodies[i], options, comparedBodies);
      DiffResult found = inner.run();
      const std::string path = where(l) + " > " + bodyName(lBodies.size(), i) + " > ";
      for (const Difference &difference : found.differences) {
        if (result.differences.size() < options.limit) result.differences.push_back({l, r, path + difference.text});
      }
      result.numDifferences += found.numDifferences;
    }
  }

  void reportAttr(NodeId l, NodeId r, const Twine &key, const Twine &values) {
    report(l, r, where(l) + ": attribute '" + key + "' " + values);
  }

  void compareAttrs(NodeId l, NodeId r) {
    const NodeKind &lKind = left.kind(l), &rKind = right.kind(r);
    if (lKind.attrs == rKind.attrs) return;
    ArrayRef<AttrSpec> specs = lKind.op ? lKind.op->attrs : ArrayRef<AttrSpec>();
    for (const AttrSpec &spec : specs) {
      SmallString<32> lText, rText;
      raw_svector_ostream lStream(lText), rStream(rText);
      spec.print(spec, lStream, lKind.parsed);
      spec.print(spec, rStream, rKind.parsed);
      if (lText != rText) reportAttr(l, r, spec.key, "is '" + lText + "' on the left, '" + rText + "' on the right");
    }
    compareHidden(l, r, lKind.op);
  }

  /// Compares attributes that the operator does not declare; both lists are sorted by key.
  void compareHidden(NodeId l, NodeId r, const OpDef *op) {
    ArrayRef<AttrText> lList = left.attrs(l).pairs(), rList = right.attrs(r).pairs();
    size_t i = 0, j = 0;
    while (i < lList.size() || j < rList.size()) {
      StringRef lKey = i < lList.size() ? lList[i].key : StringRef();
      StringRef rKey = j < rList.size() ? rList[j].key : StringRef();
      bool takesLeft = i < lList.size() && (j == rList.size() || lKey <= rKey);
      bool takesRight = j < rList.size() && (i == lList.size() || rKey <= lKey);
      StringRef key = takesLeft ? lKey : rKey;
      if (!op || !op->declares(key))
        compareHiddenPair(l, r, takesLeft ? &lList[i] : nullptr, takesRight ? &rList[j] : nullptr);
      i += takesLeft;
      j += takesRight;
    }
  }

  void compareHiddenPair(NodeId l, NodeId r, const AttrText *lPair, const AttrText *rPair) {
    if (lPair && rPair) {
      if (lPair->value == rPair->value) return;
      reportAttr(l, r, lPair->key, "is '" + lPair->value + "' on the left, '" + rPair->value + "' on the right");
      return;
    }
    const AttrText &only = lPair ? *lPair : *rPair;
    reportAttr(l, r, only.key,
               "is '" + only.value + "' on the " + (lPair ? "left" : "right") + ", absent on the " +
                   (lPair ? "right" : "left"));
  }

  const Graph &left, &right;
  const DiffOptions &options;
  BodyPairs &comparedBodies;
  std::vector<NodeId> partnerOfLeft, partnerOfRight;
  std::vector<Pair> pending;
  DiffResult result;
};

}  // namespace

DiffResult diffGraphs(const Graph &left, const Graph &right, const DiffOptions &options) {
  BodyPairs comparedBodies;
  return GraphDiff(left, right, options, comparedBodies).run();
}

}  // namespace gradc
