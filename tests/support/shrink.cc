// Making a failing problem smaller, greedily. Tested by tests/differential_test.cc
#include "tests/support/differential.h"
#include "tests/support/jets.h"

#include "llvm/ADT/STLExtras.h"

#include <utility>

using namespace llvm;

namespace gradc::testing {
namespace {

template <class F> void forEachEntry(Sketch &sketch, F &&visit) {
  for (SketchNode &node : sketch.nodes)
    for (SketchEntry &e : node.inputs) visit(e.node);
  for (SketchNode &node : sketch.nodes)
    for (uint32_t &dep : node.deps) visit(dep);
  for (SketchHead &head : sketch.heads) {
    visit(head.y.node);
    if (head.hasSeed) visit(head.seed.node);
  }
  for (std::vector<SketchTarget> *targets : {&sketch.wrt, &sketch.retained})
    for (SketchTarget &target : *targets) visit(target.x.node);
  for (std::vector<SketchEntry> *entries : {&sketch.stop, &sketch.noGrad})
    for (SketchEntry &e : *entries) visit(e.node);
}

class Shrinker {
 public:
  Shrinker(Sketch sketch, StringRef kind) : best(std::move(sketch)), kind(kind) {}

  Sketch run() {
    while (pass()) {
    }
    return std::move(best);
  }

 private:
  bool accept(Sketch candidate) {
    auto isNull = [](const SketchTarget &t) { return t.request == Request::Null; };
    if (candidate.heads.empty() || all_of(candidate.wrt, isNull)) return false;
    if (checkSketch(candidate).kind != kind) return false;
    best = std::move(candidate);
    return true;
  }

  template <class T> bool shorten(std::vector<T> Sketch::*list) {
    bool changed = false;
    for (size_t i = (best.*list).size(); i-- > 0;) {
      Sketch candidate = best;
      (candidate.*list).erase((candidate.*list).begin() + i);
      changed |= accept(std::move(candidate));
    }
    return changed;
  }

  bool pass() {
    bool changed = shorten(&Sketch::heads);
    changed |= shorten(&Sketch::wrt);
    changed |= shorten(&Sketch::retained);
    changed |= shorten(&Sketch::stop);
    changed |= shorten(&Sketch::noGrad);
    changed |= simplify([](Sketch &s) { return std::exchange(s.order, 1) != 1; });
    changed |= simplify([](Sketch &s) { return std::exchange(s.headPolicy, HeadPolicy::Ones) != HeadPolicy::Ones; });
    for (uint32_t n = static_cast<uint32_t>(best.nodes.size()); n-- > 0;) {
      changed |= simplify([&](Sketch &s) { return !std::exchange(s.nodes[n].deps, {}).empty(); });
      if (erase(n)) changed = true;
      else changed |= simplify([&](Sketch &s) { return makeVariable(s, n); });
    }
    return changed;
  }

  bool simplify(function_ref<bool(Sketch &)> edit) {
    Sketch candidate = best;
    return edit(candidate) && accept(std::move(candidate));
  }

  bool erase(uint32_t n) {
    Sketch candidate = best;
    candidate.nodes.erase(candidate.nodes.begin() + n);
    bool isUsed = false;
    forEachEntry(candidate, [&](uint32_t &node) {
      isUsed |= node == n;
      node -= node > n;
    });
    return !isUsed && accept(std::move(candidate));
  }

  // A variable with the values the node has.
  static bool makeVariable(Sketch &sketch, uint32_t wanted) {
    if (sketch.nodes[wanted].op.empty() || sketch.nodes[wanted].numOutputs > 1) return false;
    std::vector<std::vector<JetTensor>> values;
    for (const SketchNode &node : sketch.nodes) {
      SmallVector<const JetTensor *, 4> inputs;
      for (SketchEntry e : node.inputs) inputs.push_back(&values[e.node][e.output]);
      values.push_back(node.op.empty() ? std::vector<JetTensor>{variableTensor(node)} : evaluateNode(node, inputs));
    }
    SketchNode variable;
    variable.shape = values[wanted][0].shape;
    for (const Jet &jet : values[wanted][0].jets) variable.values.push_back(jet.v);
    sketch.nodes[wanted] = std::move(variable);
    return true;
  }

  Sketch best;
  StringRef kind;
};

}  // namespace

Sketch shrink(Sketch sketch, StringRef kind) { return Shrinker(std::move(sketch), kind).run(); }

}  // namespace gradc::testing
