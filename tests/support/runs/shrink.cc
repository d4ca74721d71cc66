// Making a failing problem smaller, greedily. Tested by tests/networks/differential_test.cc
#include "tests/support/drawn/jets.h"
#include "tests/support/runs/differential.h"

#include "llvm/ADT/STLExtras.h"

#include <utility>

using namespace llvm;

namespace gradc::testing {
namespace {

template <class F> void forEachEntry(Sketch &sketch, F &&visit) {
  for (std::vector<SketchNode> *nodes : {&sketch.nodes, &sketch.beside})
    for (SketchNode &node : *nodes) {
      for (SketchEntry &e : node.inputs) visit(e.node);
      for (uint32_t &dep : node.deps) visit(dep);
    }
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
    while (pass()) {}
    return std::move(best);
  }

 private:
  bool accept(Sketch candidate) {
    auto isNull = [](const SketchTarget &t) { return t.request == Request::Null; };
    if (candidate.heads.empty() || all_of(candidate.wrt, isNull) || !isEvaluable(candidate)) return false;
    Outcomes ignored;
    if (checkSketch(candidate, ignored).kind != kind) return false;
    best = std::move(candidate);
    return true;
  }

  static bool isEvaluable(const Sketch &sketch) {
    SketchValues values;
    return all_of(sketch.nodes,
                  [&](const SketchNode &node) { return values.add(node, [](SketchEntry) { return false; }); });
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
    changed |= simplify([](Sketch &s) { return std::exchange(s.reach, ReachPolicy::Ignore) != ReachPolicy::Ignore; });
    changed |= simplify(
        [](Sketch &s) { return std::exchange(s.duplicates, DuplicatePolicy::Allow) != DuplicatePolicy::Allow; });
    changed |= simplify(
        [](Sketch &s) { return std::exchange(s.controlOnly, ControlOnlyPolicy::Unused) != ControlOnlyPolicy::Unused; });
    // Later ones read earlier ones.
    changed |= simplify([](Sketch &s) { return !s.beside.empty() && (s.beside.pop_back(), true); });
    for (std::vector<SketchNode> Sketch::*nodes : {&Sketch::nodes, &Sketch::beside})
      for (size_t n = 0; n < (best.*nodes).size(); ++n)
        changed |= simplify([&](Sketch &s) { return !std::exchange((s.*nodes)[n].bodies, {}).empty(); });
    for (uint32_t n = static_cast<uint32_t>(best.nodes.size()); n-- > 0;) {
      // Without versions the order of states hangs on dependencies.
      if (best.hasVersions) changed |= simplify([&](Sketch &s) { return !std::exchange(s.nodes[n].deps, {}).empty(); });
      if (best.nodes[n].flow) changed |= shrinkFlow(n);
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
    forgetWrites(candidate, n);
    candidate.nodes.erase(candidate.nodes.begin() + n);
    bool isUsed = false;
    forEachEntry(candidate, [&](uint32_t &node) {
      isUsed |= node == n;
      node -= node > n;
    });
    return !isUsed && accept(std::move(candidate));
  }

  // Heads of bodies, and what nodes in them read, are replaced by what comes before.
  bool shrinkFlow(uint32_t n) {
    bool changed = false;
    const auto numBodies = best.nodes[n].flow->bodies.size();
    for (size_t b = 0; b < numBodies; ++b) {
      auto edit = [&](function_ref<bool(SketchBody &)> change) {
        return simplify([&](Sketch &s) {
          auto flow = std::make_shared<SketchFlow>(*s.nodes[n].flow);
          if (!change(flow->bodies[b])) return false;
          s.nodes[n].flow = std::move(flow);
          return true;
        });
      };
      const SketchBody &body = best.nodes[n].flow->bodies[b];
      // What no head needs any more would overwrite nothing.
      if (any_of(body.graph.nodes, [](const SketchNode &node) { return node.isState; })) continue;
      for (size_t h = 0, numHeads = body.heads.size(); h < numHeads; ++h)
        for (uint32_t to = 0; to < best.nodes[n].flow->bodies[b].heads[h].node; ++to)
          changed |= edit([&](SketchBody &made) { return made.heads[h] = {to, 0}, true; });
      for (uint32_t from = static_cast<uint32_t>(best.nodes[n].flow->bodies[b].graph.nodes.size()); from-- > 0;)
        for (size_t i = 0; i < best.nodes[n].flow->bodies[b].graph.nodes[from].inputs.size(); ++i)
          changed |= edit([&](SketchBody &made) { return bypass(made, from, made.graph.nodes[from].inputs[i]); });
    }
    return changed;
  }

  static bool bypass(SketchBody &body, uint32_t from, SketchEntry to) {
    bool changed = false;
    auto follow = [&](SketchEntry &e) {
      if (e.node == from) e = to, changed = true;
    };
    for (SketchNode &node : body.graph.nodes) llvm::for_each(node.inputs, follow);
    llvm::for_each(body.heads, follow);
    return changed;
  }

  static bool isOverwritten(const Sketch &sketch, uint32_t state, uint32_t except) {
    for (uint32_t n = 0; n < sketch.nodes.size(); ++n)
      for (size_t i = 0; i < sketch.nodes[n].inputs.size(); ++i)
        if (n != except && sketch.nodes[n].overwrites(i) && sketch.nodes[n].inputs[i].node == state) return true;
    return false;
  }

  // The versions that node n makes are made no longer: later ones move up.
  static void forgetWrites(Sketch &sketch, uint32_t n) {
    const std::vector<SketchEntry> inputs = sketch.nodes[n].inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!sketch.nodes[n].overwrites(i)) continue;
      for (SketchNode &node : sketch.nodes)
        for (SketchEntry &e : node.inputs) e.version -= e.node == inputs[i].node && e.version >= inputs[i].version;
    }
  }

  // A variable with the values the node has.
  static bool makeVariable(Sketch &sketch, uint32_t wanted) {
    SketchNode &node = sketch.nodes[wanted];
    if (node.isVariable() || node.numOutputs > 1) return false;
    SketchValues values;
    for (const SketchNode &each : sketch.nodes) values.add(each, [](SketchEntry) { return false; });
    forgetWrites(sketch, wanted);
    const JetTensor &tensor = values.outputsOf(wanted)[0];
    SketchNode variable;
    variable.shape = tensor.shape;
    variable.isInteger = tensor.isInteger;
    for (const Jet &jet : tensor.jets) variable.values.push_back(jet.v);
    node = std::move(variable);
    return true;
  }

  Sketch best;
  StringRef kind;
};

}  // namespace

Sketch shrink(Sketch sketch, StringRef kind) { return Shrinker(std::move(sketch), kind).run(); }

}  // namespace gradc::testing
