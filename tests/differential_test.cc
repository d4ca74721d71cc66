// Random problems against forward evaluation in jets, and against themselves in every way that must not matter:
// docs/differential.md. GRADC_DIFFERENTIAL_GRAPHS says how many, GRADC_DIFFERENTIAL_SEED which is the first.
#include "tests/support/differential.h"
#include "tests/support/jets.h"

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
  const uint64_t first = numberFrom("GRADC_DIFFERENTIAL_SEED", 1), count = numberFrom("GRADC_DIFFERENTIAL_GRAPHS", 3000);
  int numFailed = 0;
  for (uint64_t seed = first; seed < first + count && numFailed < 3; ++seed) {
    Sketch sketch = drawSketch(seed);
    Problem problem = checkSketch(sketch);
    if (!problem) continue;
    ++numFailed;
    Sketch small = shrink(std::move(sketch), problem.kind);
    ADD_FAILURE() << "seed " << seed << " (GRADC_DIFFERENTIAL_SEED=" << seed << " GRADC_DIFFERENTIAL_GRAPHS=1), "
                  << problem.kind << ": " << problem.text << "\nmade smaller: " << checkSketch(small).text << "\n"
                  << dumpSketch(small);
  }
}

// A y that another y is computed from.
bool hasNestedHeads(const Sketch &sketch) {
  for (const SketchHead &outer : sketch.heads) {
    std::vector<bool> below(sketch.nodes.size());
    below[outer.y.node] = true;
    for (uint32_t n = outer.y.node + 1; n-- > 0;)
      if (below[n])
        for (SketchEntry e : sketch.nodes[n].inputs) below[e.node] = true;
    if (any_of(sketch.heads, [&](const SketchHead &h) { return h.y.node != outer.y.node && below[h.y.node]; })) return true;
  }
  return false;
}

bool isReadOften(const Sketch &sketch) {
  std::map<std::pair<uint32_t, uint32_t>, int> reads;
  for (const SketchNode &node : sketch.nodes)
    for (SketchEntry e : node.inputs) ++reads[{e.node, e.output}];
  return any_of(reads, [](const auto &row) { return row.second >= 8; });
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
  Expectation expected = expectedGradients(sketch);
  note(expected.error == ErrorKind::NotDifferentiable, "not differentiable");
  note(expected.error == ErrorKind::Unreachable, "unreachable");
  note(is_contained(expected.status, SlotStatus::None), "without gradient");
  note(any_of(expected.first, [](const Judged &j) { return any_of(j.values, [](double v) { return v != 0; }); }), "alive");
  note(any_of(expected.second, [](const Judged &j) { return any_of(j.values, [](double v) { return v != 0; }); }),
       "alive at the second order");
  return found;
}

TEST(Differential, DrawsWhatItIsFor) {
  const std::map<std::string, int> wanted = {
      {"second order", 300},        {"y below y", 150},   {"y that is x", 50},
      {"y twice", 50},              {"x twice", 50},      {"intermediate x", 150},
      {"later output as x", 15},    {"stopped x", 30},    {"cut x", 30},
      {"add", 200},                 {"null", 50},         {"retained", 200},
      {"entry as head gradient", 50}, {"chain", 20},      {"not differentiable", 10},
      {"unreachable", 10},          {"without gradient", 50}, {"alive", 500},
      {"alive at the second order", 100}};
  std::map<std::string, int> found;
  std::map<std::string, int> operators;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    Sketch sketch = drawSketch(seed);
    for (const std::string &feature : featuresOf(sketch)) ++found[feature];
    for (const SketchNode &node : sketch.nodes) ++operators[node.op];
  }
  for (const auto &[feature, least] : wanted) EXPECT_GE(found[feature], least) << feature;
  EXPECT_GE(operators.size(), 60u);
}

}  // namespace
}  // namespace gradc::testing
