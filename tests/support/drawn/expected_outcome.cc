// Which error a request has to end in and which x are used: from paths through the sketch alone.
// Tested by tests/networks/differential_test.cc
#include "tests/support/drawn/jets.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc::testing {
namespace {

class Paths {
 public:
  explicit Paths(const Sketch &sketch) : sketch(sketch) {
    for (const SketchNode &node : sketch.nodes) values.add(node, [](SketchEntry) { return false; });
  }

  bool isCut(SketchEntry e) const { return is_contained(sketch.noGrad, e); }
  bool isStopped(SketchEntry e) const { return is_contained(sketch.stop, e); }
  const JetTensor &tensor(SketchEntry e) const { return values.at(e); }
  /// P-09
  bool endsAtIntegers(SketchEntry e) const { return sketch.integers == IntegerPolicy::Stop && tensor(e).isInteger; }

  /// Whether an operator looks at an input in a way that has a gradient, be it zeros by definition (P-06).
  static bool isDifferentiated(const SketchNode &node, size_t input) {
    if (node.flow && node.flow->hasCount && input == 0) return false;
    return node.op != "_greater" && !node.overwrites(input) && !(node.op == "Embedding" && input == 0);
  }
  /// Whether a gradient that is not zero by structure can come from the output of a node to its inputs.
  static bool passes(const SketchNode &node, size_t input) {
    if (node.op == "where" && input == 0) return false;
    return isDifferentiated(node, input) && !is_contained({"BlockGrad", "sign", "zeros_like", "ones_like"}, node.op);
  }

  bool isAsked(SketchEntry e) const {
    auto is = [&](const SketchTarget &t) { return t.x == e && t.request != Request::Null; };
    return any_of(sketch.wrt, is) || any_of(sketch.retained, is);
  }

  // NG-06, NG-07: what reaches the y through cut entries alone is as unused as what does not reach them. P-05: waiting
  // counts where the policy says so.
  bool isConnected(uint32_t wanted) const {
    std::vector<bool> reached(sketch.nodes.size());
    auto reach = [&](SketchEntry e) {
      if (!isCut(e)) reached[e.node] = true;
    };
    for (const SketchHead &head : sketch.heads) reach(head.y);
    for (uint32_t n = static_cast<uint32_t>(sketch.nodes.size()); n-- > 0;) {
      if (!reached[n]) continue;
      for (SketchEntry e : sketch.nodes[n].inputs) reach(e);
      for (uint32_t dep : sketch.nodes[n].deps)
        if (sketch.controlOnly == ControlOnlyPolicy::Zeros) reached[dep] = true;
    }
    return reached[wanted];
  }

  /// By node and output: whether a gradient can be wanted there. P-06: on a path from an x, or anywhere.
  std::vector<std::vector<bool>> carrying() const {
    std::vector<std::vector<bool>> carries(sketch.nodes.size());
    for (uint32_t n = 0; n < sketch.nodes.size(); ++n) {
      const SketchNode &node = sketch.nodes[n];
      bool fromInputs = sketch.reach == ReachPolicy::WholeGraph;
      for (size_t i = 0; i < node.inputs.size(); ++i)
        fromInputs = fromInputs || (isDifferentiated(node, i) && carries[node.inputs[i].node][node.inputs[i].output]);
      for (uint32_t o = 0; o < node.numOutputs; ++o) {
        SketchEntry e{n, o};
        const bool ends = isStopped(e) || endsAtIntegers(e);
        carries[n].push_back(!isCut(e) && (isAsked(e) || (fromInputs && !ends)));
      }
    }
    return carries;
  }

  /// By node: whether a gradient that starts at some of these arrives at some output of it, and goes on to its inputs.
  std::vector<bool> visitedFrom(ArrayRef<SketchEntry> starts) const {
    const std::vector<std::vector<bool>> carries = carrying();
    std::vector<std::vector<bool>> arrives(sketch.nodes.size());
    for (uint32_t n = 0; n < sketch.nodes.size(); ++n) arrives[n].resize(sketch.nodes[n].numOutputs);
    for (SketchEntry e : starts)
      if (!isCut(e)) arrives[e.node][e.output] = true;
    std::vector<bool> isVisited(sketch.nodes.size());
    for (uint32_t n = static_cast<uint32_t>(sketch.nodes.size()); n-- > 0;) {
      const SketchNode &node = sketch.nodes[n];
      for (uint32_t o = 0; o < node.numOutputs; ++o)
        if (arrives[n][o] && !isStopped({n, o}) && !endsAtIntegers({n, o})) isVisited[n] = true;
      if (!isVisited[n]) continue;
      bool wantsAny = sketch.reach == ReachPolicy::WholeGraph;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const SketchEntry e = node.inputs[i];
        if (!passes(node, i) || !carries[e.node][e.output]) continue;
        arrives[e.node][e.output] = wantsAny = true;
      }
      isVisited[n] = wantsAny;
    }
    return isVisited;
  }

 private:
  const Sketch &sketch;
  SketchValues values;
};

std::vector<SketchEntry> ysOf(const Sketch &sketch) {
  std::vector<SketchEntry> list;
  for (const SketchHead &head : sketch.heads) list.push_back(head.y);
  return list;
}

bool hasSeed(const SketchHead &head) { return head.hasSeed || !head.seedName.empty(); }

// The y in turn, then all of them together (H-10).
std::optional<ErrorKind> errorOfHeads(const Sketch &sketch, const Paths &paths) {
  bool isLive = false;
  for (size_t i = 0; i < sketch.heads.size(); ++i) {
    const SketchHead &head = sketch.heads[i];
    auto isSame = [&](const SketchHead &other) { return other.y == head.y; };
    if (sketch.duplicates == DuplicatePolicy::Strict && any_of(ArrayRef(sketch.heads).take_front(i), isSame))
      return ErrorKind::DuplicateY;
    if (sketch.headPolicy == HeadPolicy::Required && !hasSeed(head)) return ErrorKind::MissingAttr;
    if (sketch.headPolicy == HeadPolicy::Scalar && !hasSeed(head) && sketch.hasTypes &&
        paths.tensor(head.y).jets.size() != 1)
      return ErrorKind::ImplicitHead;
    isLive = isLive || (!paths.isCut(head.y) && !paths.endsAtIntegers(head.y));
  }
  if (!isLive) return ErrorKind::NoLiveOutput;
  return std::nullopt;
}

std::optional<ErrorKind> errorOfTargets(const Sketch &sketch, const Paths &paths) {
  for (size_t i = 0; i < sketch.wrt.size(); ++i) {
    const SketchEntry x = sketch.wrt[i].x;
    if (sketch.nodeOf(x).isState) return ErrorKind::AuxX;  // MUT-02
    if (paths.endsAtIntegers(x)) return ErrorKind::NotRequiresGrad;
    if (sketch.duplicates != DuplicatePolicy::Strict) continue;
    auto isSame = [&](const SketchTarget &other) { return other.x == x; };
    if (any_of(ArrayRef(sketch.wrt).take_front(i), isSame)) return ErrorKind::DuplicateX;
    if (paths.isCut(x)) return ErrorKind::OptionConflict;
  }
  return std::nullopt;
}

// E-03, where the types are known only when the emitted graph is looked at.
bool hasLateImplicitHead(const Sketch &sketch, const Paths &paths) {
  return sketch.headPolicy == HeadPolicy::Scalar && !sketch.hasTypes &&
         any_of(sketch.heads,
                [&](const SketchHead &head) { return !hasSeed(head) && paths.tensor(head.y).jets.size() != 1; });
}

SlotStatus statusOf(const Sketch &sketch, const Paths &paths, SketchEntry x) {
  if (!paths.isCut(x) && paths.isConnected(x.node)) return SlotStatus::Grad;
  return sketch.unused == UnusedPolicy::None ? SlotStatus::None : SlotStatus::Zeros;
}

}  // namespace

std::optional<ErrorKind> expectedError(const Sketch &sketch) {
  const Paths paths(sketch);
  if (std::optional<ErrorKind> error = errorOfHeads(sketch, paths)) return error;
  if (std::optional<ErrorKind> error = errorOfTargets(sketch, paths)) return error;
  const std::vector<bool> visited = paths.visitedFrom(ysOf(sketch));
  for (uint32_t n = 0; n < sketch.nodes.size(); ++n)
    if (visited[n] && sketch.nodes[n].lacksGradient()) return ErrorKind::NotDifferentiable;
  for (const SketchTarget &target : withoutNull(sketch.wrt))
    if (sketch.unused == UnusedPolicy::Error && statusOf(sketch, paths, target.x) != SlotStatus::Grad)
      return ErrorKind::Unreachable;
  if (hasLateImplicitHead(sketch, paths)) return ErrorKind::ImplicitHead;
  return std::nullopt;
}

std::vector<SlotStatus> expectedStatus(const Sketch &sketch) {
  const Paths paths(sketch);
  std::vector<SlotStatus> list;
  for (const SketchTarget &target : withoutNull(sketch.wrt)) list.push_back(statusOf(sketch, paths, target.x));
  return list;
}

bool mayNeedOldVersion(const Sketch &sketch) {
  std::vector<uint32_t> latest(sketch.nodes.size());
  for (const SketchNode &node : sketch.nodes)
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.overwrites(i)) latest[node.inputs[i].node] = node.inputs[i].version;
  // The second order goes through the head gradients as well.
  std::vector<SketchEntry> starts = ysOf(sketch);
  for (const SketchHead &head : sketch.heads)
    if (head.hasSeed && sketch.order > 1) starts.push_back(head.seed);
  const std::vector<bool> visited = Paths(sketch).visitedFrom(starts);
  for (uint32_t n = 0; n < sketch.nodes.size(); ++n)
    for (size_t i = 0; visited[n] && i < sketch.nodes[n].inputs.size(); ++i) {
      const SketchEntry e = sketch.nodes[n].inputs[i];
      // A node that overwrites reads what was there before.
      if (e.version - sketch.nodes[n].overwrites(i) < latest[e.node]) return true;
    }
  return false;
}

std::vector<SketchTarget> withoutNull(ArrayRef<SketchTarget> targets) {
  std::vector<SketchTarget> kept(targets.begin(), targets.end());
  erase_if(kept, [](const SketchTarget &t) { return t.request == Request::Null; });
  return kept;
}

}  // namespace gradc::testing
