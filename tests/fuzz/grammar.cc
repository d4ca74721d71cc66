// New graphs and mutations of graphs. Tested by tests/networks/fuzz_corpus_test.cc
#include "tests/fuzz/grammar.h"

#include "llvm/Support/xxhash.h"

using namespace llvm;

namespace gradc::fuzz {
namespace {

constexpr size_t kManyNodes = 28;
constexpr size_t kManyTexts = 8192;

std::string choice(Dice &dice) { return "[\"int\", " + std::to_string(dice.below(1u << 30)) + "]"; }

GraphSketch drawSketch(const Donors &donors, Dice &dice, StringRef name) {
  GraphSketch sketch;
  sketch.setAttr("mxnet_version", dice.chance(85) ? "[\"int\", 20000]" : "[\"int\", 10901]");
  if (dice.chance(90)) sketch.setAttr(kChoiceKey, choice(dice));
  KnownShapes shapes;
  const size_t position = dice.below(3);
  for (size_t i = 0; i <= position; ++i) {
    const StringRef op = i == position ? name : dice.one<StringRef>(donors.names());
    Editor(donors, dice, sketch).splice(donors.draw(dice, op), shapes);
    if (i < position) shapes = inferSketch(donors.ops(), sketch);
  }
  return sketch;
}

/// One edit, undone when it makes a right graph wrong; a few tries.
void editWithCare(const Donors &donors, Dice &dice, GraphSketch &sketch) {
  const KnownShapes shapes = inferSketch(donors.ops(), sketch);
  for (int attempt = 0; attempt < 3; ++attempt) {
    GraphSketch edited = sketch;
    Editor editor(donors, dice, edited);
    if (dice.chance(50) && sketch.nodes.size() < kManyNodes)
      editor.splice(donors.draw(dice, dice.one<StringRef>(donors.names())), shapes);
    else editor.editGently();
    if (shapes.isComplete && !inferSketch(donors.ops(), edited).isComplete) continue;
    sketch = std::move(edited);
    return;
  }
}

}  // namespace

Grammar::Parsed &Grammar::parsed(StringRef text) const {
  const uint64_t key = xxh3_64bits(text);
  const auto found = cache.find(key);
  if (found != cache.end()) return found->second;
  if (cache.size() >= kManyTexts) cache.clear();
  return cache.try_emplace(key, Parsed{parseSketch(text), std::nullopt}).first->second;
}

std::string Grammar::draw(uint64_t seed, StringRef name) const {
  Dice dice(seed);
  return printSketch(drawSketch(donorGraphs, dice, name));
}

std::string Grammar::mutate(StringRef text, uint64_t seed) const {
  Dice dice(seed);
  std::optional<GraphSketch> sketch = parsed(text).sketch;
  if (!sketch || sketch->nodes.empty() || sketch->nodes.size() > 2 * kManyNodes || dice.chance(5))
    return draw(dice.next(), dice.one<StringRef>(donorGraphs.names()));
  if (sketch->nodes.size() > kManyNodes && sketch->heads.size() > 1) {
    sketch->heads = {dice.one<SketchEntry>(sketch->heads)};
    dropUnreached(*sketch);
  }
  if (dice.chance(20)) sketch->setAttr(kChoiceKey, choice(dice));
  if (dice.chance(carePercent)) editWithCare(donorGraphs, dice, *sketch);
  else
    for (size_t i = 1 + dice.below(3); i-- > 0;) Editor(donorGraphs, dice, *sketch).editRoughly();
  return printSketch(*sketch);
}

std::string Grammar::cross(StringRef left, StringRef right, uint64_t seed) const {
  Dice dice(seed);
  const std::optional<GraphSketch> part = parsed(right).sketch;
  Parsed &base = parsed(left);
  if (!base.sketch || !part) return mutate(left, seed);
  if (!base.shapes) base.shapes = inferSketch(donorGraphs.ops(), *base.sketch);
  GraphSketch sketch = *base.sketch;
  Editor(donorGraphs, dice, sketch).splice(*part, *base.shapes);
  return printSketch(sketch);
}

}  // namespace gradc::fuzz
