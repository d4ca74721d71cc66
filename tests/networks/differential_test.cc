// Random problems against forward evaluation in jets, and against themselves in every way that must not matter:
// docs/differential.md. GRADC_DIFFERENTIAL_GRAPHS says how many, GRADC_DIFFERENTIAL_SEED which is the first.
#include "tests/support/drawn/jets.h"
#include "tests/support/runs/differential.h"

#include "llvm/ADT/STLExtras.h"

#include "gtest/gtest.h"

#include <cstdlib>
#include <map>

using namespace llvm;

namespace gradc::testing {
namespace {

uint64_t numberFrom(const char *variable, uint64_t otherwise) {
  const char *text = std::getenv(variable);
  return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// Stops after a few: each failure is a minute of reading.
TEST(Differential, RUN_02_RandomGraphsAgreeWithJetsAndWithThemselves) {
  const uint64_t first = numberFrom("GRADC_DIFFERENTIAL_SEED", 1),
                 count = numberFrom("GRADC_DIFFERENTIAL_GRAPHS", 3000);
  int numFailed = 0;
  Outcomes outcomes;
  for (uint64_t seed = first; seed < first + count && numFailed < 3; ++seed) {
    Sketch sketch = drawSketch(seed);
    Problem problem = checkSketch(sketch, outcomes);
    if (!problem) continue;
    ++numFailed;
    Sketch small = shrink(std::move(sketch), problem.kind);
    ADD_FAILURE() << "seed " << seed << " (GRADC_DIFFERENTIAL_SEED=" << seed << " GRADC_DIFFERENTIAL_GRAPHS=1), "
                  << problem.kind << ": " << problem.text << "\nmade smaller: " << checkSketch(small, outcomes).text
                  << "\n"
                  << dumpSketch(small);
  }
  if (count < 1000) return;
  EXPECT_GE(outcomes.numLowered, static_cast<int>(count / 2));
  EXPECT_GE(outcomes.numRefused, static_cast<int>(count / 100));
}

// A y that another y is computed from.
bool hasNestedHeads(const Sketch &sketch) {
  for (const SketchHead &outer : sketch.heads) {
    std::vector<bool> below(sketch.nodes.size());
    below[outer.y.node] = true;
    for (uint32_t n = outer.y.node + 1; n-- > 0;)
      if (below[n])
        for (SketchEntry e : sketch.nodes[n].inputs) below[e.node] = true;
    if (any_of(sketch.heads, [&](const SketchHead &h) { return h.y.node != outer.y.node && below[h.y.node]; }))
      return true;
  }
  return false;
}

bool isReadOften(const Sketch &sketch) {
  std::map<std::pair<uint32_t, uint32_t>, int> reads;
  for (const SketchNode &node : sketch.nodes)
    for (SketchEntry e : node.inputs) ++reads[{e.node, e.output}];
  return any_of(reads, [](const auto &row) { return row.second >= 8; });
}

using Note = function_ref<void(bool has, const char *name)>;

bool waits(const Sketch &sketch) {
  return any_of(sketch.nodes, [](const SketchNode &node) { return !node.deps.empty(); });
}

// Whether the policy makes a difference to some x.
bool changesStatus(Sketch sketch) {
  const std::vector<SlotStatus> plain = expectedStatus(sketch);
  sketch.controlOnly = ControlOnlyPolicy::Unused;
  return expectedStatus(sketch) != plain;
}
bool changesError(Sketch sketch) {
  const std::optional<ErrorKind> plain = expectedError(sketch);
  sketch.reach = ReachPolicy::Ignore;
  return expectedError(sketch) != plain;
}

void notePolicies(const Sketch &sketch, Note note) {
  note(waits(sketch), "control dependencies");
  note(sketch.controlOnly == ControlOnlyPolicy::Zeros && changesStatus(sketch), "x that some y only waits for");
  note(sketch.reach == ReachPolicy::WholeGraph, "whole graph");
  note(sketch.reach == ReachPolicy::WholeGraph && changesError(sketch), "refused for the whole graph");
  note(sketch.duplicates == DuplicatePolicy::Strict, "strict");
  note(sketch.headPolicy == HeadPolicy::Input, "head gradients as inputs");
  note(!sketch.isTraining, "inference");
}

void noteStates(const Sketch &sketch, Note note) {
  SketchValues values;
  for (const SketchNode &node : sketch.nodes) values.add(node, [](SketchEntry) { return false; });
  bool isRead = false, isReadLate = false, isWrittenTwice = false, hasIntegers = false;
  for (uint32_t n = 0; n < sketch.nodes.size(); ++n) {
    const SketchNode &node = sketch.nodes[n];
    isWrittenTwice = isWrittenTwice || (node.isState && values.latestVersion(n) > 1);
    hasIntegers = hasIntegers || (!node.isVariable() && values.at({n, 0}).isInteger);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const SketchEntry e = node.inputs[i];
      if (!sketch.nodeOf(e).isState || node.overwrites(i)) continue;
      isRead = isRead || e.version < values.latestVersion(e.node);
      isReadLate = isReadLate || e.version > 0;
    }
  }
  note(isRead, "read before a write");
  note(isReadLate, "read after a write");
  note(isWrittenTwice, "written twice");
  note((isRead || isReadLate) && !sketch.hasVersions, "states without versions");
  note(mayNeedOldVersion(sketch) && !expectedError(sketch), "old version needed");
  note(hasIntegers, "whole numbers");
  note(hasIntegers && sketch.order == 2, "whole numbers at the second order");
  note(hasIntegers && sketch.integers == IntegerPolicy::Permissive, "whole numbers permitted");
}

void noteBodies(const Sketch &sketch, Note note) {
  std::map<uint32_t, int> owners;
  bool isNested = false, hasStates = false;
  for (const std::vector<SketchNode> *nodes : {&sketch.nodes, &sketch.beside})
    for (const SketchNode &node : *nodes)
      for (uint32_t body : node.bodies) {
        ++owners[body];
        isNested |= any_of(sketch.bodies[body].nodes, [](const SketchNode &inner) { return !inner.bodies.empty(); });
        hasStates |= any_of(sketch.bodies[body].nodes, [](const SketchNode &inner) { return inner.isState; });
      }
  auto hasBodies = [](const SketchNode &node) { return !node.bodies.empty(); };
  note(any_of(sketch.nodes, hasBodies) && !expectedError(sketch), "bodies");
  note(isNested, "bodies within bodies");
  note(hasStates, "states in a body");
  note(any_of(owners, [](const auto &row) { return row.second > 1; }), "a body of several nodes");
  note(!sketch.beside.empty() && !expectedError(sketch), "unknown operators beside");
  note(any_of(sketch.beside,
              [&](const SketchNode &node) {
                return any_of(node.inputs, [&](SketchEntry e) { return e.node >= sketch.nodes.size(); });
              }),
       "unknown operators in a row");
}

void noteFlows(const Sketch &sketch, Note note) {
  constexpr const char *kForms[] = {"scan", "while", "branch", "call"};
  for (const SketchNode &node : sketch.nodes) {
    if (!node.flow) continue;
    const SketchFlow &flow = *node.flow;
    const SketchBody &body = flow.bodies.back();
    note(true, kForms[static_cast<size_t>(flow.form)]);
    note(hasFlows(body.graph), "loops, branches and calls inside one another");
    note(is_contained(flow.isMutated, true), "overwritten inside");
    note(hasIntegersInside(sketch), "whole numbers inside");
    const bool isLoop = flow.form == SketchFlow::Form::Scan || flow.form == SketchFlow::Form::While;
    note(isLoop && flow.length == 0, "loops without steps");
    note(isLoop && flow.numStates > 0, "states");
    note(flow.hasCount, "steps counted at run time");
    note(flow.isReverse, "loops from the last row on");
    note(sketch.order == 2 && !expectedError(sketch), "second order through bodies that run");
  }
}

std::vector<std::string> featuresOf(const Sketch &sketch) {
  std::vector<std::string> found;
  auto note = [&](bool has, const char *name) {
    if (has) found.push_back(name);
  };
  auto isX = [&](SketchEntry e) { return any_of(sketch.wrt, [&](const SketchTarget &t) { return t.x == e; }); };
  auto asks = [&](Request r) { return any_of(sketch.wrt, [&](const SketchTarget &t) { return t.request == r; }); };
  note(sketch.order == 2, "second order");
  note(hasNestedHeads(sketch), "y below y");
  note(any_of(sketch.heads, [&](const SketchHead &h) { return isX(h.y); }), "y that is x");
  note(sketch.heads.size() > 1 && sketch.heads[0].y == sketch.heads[1].y, "y twice");
  note(sketch.wrt.size() > 1 && sketch.wrt[0].x == sketch.wrt[1].x, "x twice");
  note(any_of(sketch.wrt, [&](const SketchTarget &t) { return !sketch.nodes[t.x.node].op.empty(); }), "intermediate x");
  note(any_of(sketch.wrt, [&](const SketchTarget &t) { return t.x.output > 0; }), "later output as x");
  note(any_of(sketch.stop, isX), "stopped x");
  note(any_of(sketch.noGrad, isX), "cut x");
  note(asks(Request::Add), "add");
  note(asks(Request::Null), "null");
  note(!sketch.retained.empty(), "retained");
  note(any_of(sketch.heads, [](const SketchHead &h) { return h.hasSeed; }), "entry as head gradient");
  note(isReadOften(sketch), "chain");
  notePolicies(sketch, note);
  noteStates(sketch, note);
  noteBodies(sketch, note);
  noteFlows(sketch, note);
  Expectation expected = expectedGradients(sketch);
  const std::pair<ErrorKind, const char *> errors[] = {{ErrorKind::NotDifferentiable, "not differentiable"},
                                                       {ErrorKind::Unreachable, "unreachable"},
                                                       {ErrorKind::AuxX, "state as x"},
                                                       {ErrorKind::NotRequiresGrad, "whole numbers as x"},
                                                       {ErrorKind::NoLiveOutput, "no live y"},
                                                       {ErrorKind::ImplicitHead, "scalar refused"},
                                                       {ErrorKind::MissingAttr, "head gradient missing"},
                                                       {ErrorKind::DuplicateX, "x twice refused"},
                                                       {ErrorKind::DuplicateY, "y twice refused"},
                                                       {ErrorKind::OptionConflict, "cut x refused"}};
  for (const auto &[kind, name] : errors) note(expected.error == kind, name);
  note(is_contained(expected.status, SlotStatus::None), "without gradient");
  note(any_of(expected.first, [](const Judged &j) { return any_of(j.values, [](double v) { return v != 0; }); }),
       "alive");
  note(any_of(expected.second, [](const Judged &j) { return any_of(j.values, [](double v) { return v != 0; }); }),
       "alive at the second order");
  return found;
}

TEST(Differential, DrawsWhatItIsFor) {
  const std::map<std::string, int> wanted = {{"second order", 900},
                                             {"y below y", 450},
                                             {"y that is x", 150},
                                             {"y twice", 150},
                                             {"x twice", 150},
                                             {"intermediate x", 450},
                                             {"later output as x", 45},
                                             {"stopped x", 90},
                                             {"cut x", 90},
                                             {"add", 600},
                                             {"null", 150},
                                             {"retained", 600},
                                             {"entry as head gradient", 150},
                                             {"chain", 60},
                                             {"not differentiable", 30},
                                             {"unreachable", 30},
                                             {"without gradient", 150},
                                             {"alive", 1500},
                                             {"alive at the second order", 300},
                                             {"control dependencies", 600},
                                             {"x that some y only waits for", 15},
                                             {"whole graph", 300},
                                             {"refused for the whole graph", 5},
                                             {"strict", 90},
                                             {"head gradients as inputs", 300},
                                             {"inference", 300},
                                             {"read before a write", 100},
                                             {"read after a write", 150},
                                             {"written twice", 150},
                                             {"states without versions", 60},
                                             {"old version needed", 60},
                                             {"whole numbers", 150},
                                             {"whole numbers at the second order", 60},
                                             {"whole numbers permitted", 30},
                                             {"state as x", 5},
                                             {"whole numbers as x", 3},
                                             {"no live y", 30},
                                             {"scalar refused", 15},
                                             {"head gradient missing", 10},
                                             {"x twice refused", 15},
                                             {"y twice refused", 10},
                                             {"cut x refused", 2},
                                             {"bodies", 150},
                                             {"bodies within bodies", 60},
                                             {"states in a body", 30},
                                             {"a body of several nodes", 150},
                                             {"unknown operators beside", 150},
                                             {"unknown operators in a row", 60},
                                             {"scan", 300},
                                             {"while", 100},
                                             {"branch", 100},
                                             {"call", 100},
                                             {"loops, branches and calls inside one another", 60},
                                             {"overwritten inside", 20},
                                             {"whole numbers inside", 40},
                                             {"loops without steps", 60},
                                             {"states", 200},
                                             {"steps counted at run time", 60},
                                             {"loops from the last row on", 60},
                                             {"second order through bodies that run", 150}};
  std::map<std::string, int> found;
  std::map<std::string, int> operators;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Sketch sketch = drawSketch(seed);
    for (const std::string &feature : featuresOf(sketch)) ++found[feature];
    for (const SketchNode &node : sketch.nodes) ++operators[node.op];
  }
  for (const auto &[feature, least] : wanted) EXPECT_GE(found[feature], least) << feature;
  EXPECT_GE(operators.size(), 68u);
}

}  // namespace
}  // namespace gradc::testing
