// Every file and line of testdata/fuzz/ through the fuzz harness, and what its grammar reaches. docs/fuzzing.md
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/edits.h"
#include "tests/fuzz/exercise.h"
#include "tests/fuzz/flow_donors.h"
#include "tests/fuzz/grammar.h"
#include "tests/fuzz/sketch.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"

#include <fstream>
#include <gtest/gtest.h>

using namespace llvm;

namespace gradc::fuzz {

/// What GoogleTest shows beside a case that fails.
void PrintTo(const CorpusFile &file, std::ostream *os) { *os << file.origin; }

namespace {

const Grammar &grammar() {
  static const Grammar object;
  return object;
}

class FuzzCorpus : public ::testing::TestWithParam<CorpusFile> {};

TEST_P(FuzzCorpus, HoldsAtEveryLevel) {
  Tally tally;
  EXPECT_EQ(exercise(grammar().donors().ops(), GetParam().text, ExerciseOptions(), tally), "");
}

INSTANTIATE_TEST_SUITE_P(Files, FuzzCorpus, ::testing::ValuesIn(readCorpus("testdata/fuzz")));

// Whole files, lines, and lines that quote text that is not JSON.
TEST(FuzzCorpusFiles, AreFilesAndLines) {
  const std::string folder = ::testing::TempDir() + "fuzz_corpus";
  ASSERT_FALSE(sys::fs::create_directories(folder));
  std::ofstream(folder + "/b.jsonl") << "{\"nodes\": []}\n\"[\\n\\u0001\"\n";
  std::ofstream(folder + "/a.json") << "{\n}\n";
  std::ofstream(folder + "/README") << "no graph\n";
  const std::vector<CorpusFile> files = readCorpus(folder);
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files[0].origin, folder + "/a.json");
  EXPECT_EQ(files[0].text, "{\n}\n");
  EXPECT_EQ(files[1].text, "{\"nodes\": []}");
  EXPECT_EQ(files[2].origin, folder + "/b.jsonl:2");
  EXPECT_EQ(files[2].text, "[\n\x01");
}

// Draws with fixed seeds, others for each name, or a few graphs that go with each would decide: each operator and alias
// appears, and most graphs are right.
TEST(FuzzGrammar, EveryOperatorIsDrawnAndMostGraphsInfer) {
  constexpr uint64_t kDraws = 3;
  StringSet<> drawn;
  std::string missing;
  size_t inferred = 0, total = 0;
  for (StringRef name : grammar().donors().names()) {
    size_t appearances = 0;
    for (uint64_t i = 0; i < kDraws; ++i) {
      const std::string text = grammar().draw(total, name);
      const std::optional<GraphSketch> sketch = parseSketch(text);
      ASSERT_TRUE(sketch) << text;
      appearances += llvm::any_of(sketch->nodes, [&](const SketchNode &node) { return node.op == name; });
      inferred += inferSketch(grammar().donors().ops(), *sketch).isComplete;
      ++total;
    }
    if (appearances < kDraws) missing += name.str() + " ";
  }
  EXPECT_EQ(missing, "");
  EXPECT_GE(inferred * 100, total * 60) << inferred << " of " << total;
}

// Donors whose bodies run are right, at every level, and mutations of them stay right often enough to be run.
TEST(FuzzGrammar, BodiesThatRunAreDonorsAndStayRight) {
  const std::vector<GraphSketch> flows = flowDonors();
  ExerciseOptions options;
  Tally tally;
  int numRight = 0, numChangedInside = 0;
  for (size_t i = 0; i < flows.size(); ++i) {
    EXPECT_TRUE(inferSketch(grammar().donors().ops(), flows[i]).isComplete) << printSketch(flows[i]);
    EXPECT_EQ(exercise(grammar().donors().ops(), printSketch(flows[i]), options, tally), "") << printSketch(flows[i]);
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const std::string text = grammar().mutate(printSketch(flows[i]), 20 * i + seed);
      const GraphSketch sketch = *parseSketch(text);
      for (const SketchNode &node : sketch.nodes)
        numChangedInside +=
            node.name == "flow" && !node.subgraphs.empty() && node.subgraphs != flows[i].nodes.back().subgraphs;
      numRight += inferSketch(grammar().donors().ops(), sketch).isComplete;
      EXPECT_EQ(exercise(grammar().donors().ops(), text, options, tally), "") << text;
    }
  }
  EXPECT_GE(numRight, static_cast<int>(8 * flows.size()));
  EXPECT_GE(numChangedInside, static_cast<int>(2 * flows.size()));
}

// What a mutation yields is a function of text and seed.
TEST(FuzzGrammar, MutationsAreReproducible) {
  std::string left = grammar().draw(1, "Convolution"), right = left;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    left = grammar().mutate(left, seed);
    right = grammar().mutate(right, seed);
    ASSERT_EQ(left, right) << seed;
  }
}

TEST(FuzzGrammar, SketchesKeepWhatAFileSays) {
  GraphSketch sketch = *parseSketch(
      R"json({"nodes": [{"op": "null", "name": "x", "attrs": {"__shape__": "(2,3)"}, "inputs": []},
         {"op": "vendor", "name": "\"", "inputs": [[0, 1, 2]], "control_deps": [0], "subgraphs": [{"nodes": []}]}],
         "arg_nodes": [0], "heads": [[1, 0]], "attrs": {"a": ["int", 1]}})json");
  ASSERT_EQ(sketch.nodes.size(), 2u);
  EXPECT_EQ(*sketch.nodes[0].attr("__shape__"), "(2,3)");
  EXPECT_EQ(sketch.nodes[1].name, "\"");
  EXPECT_EQ(sketch.nodes[1].inputs[0].version, 2);
  EXPECT_EQ(sketch.nodes[1].deps, std::vector<int64_t>{0});
  EXPECT_EQ(sketch.nodes[1].subgraphs.size(), 1u);
  EXPECT_EQ(sketch.attrs.size(), 1u);
  EXPECT_EQ(printSketch(*parseSketch(printSketch(sketch))), printSketch(sketch));
}

}  // namespace
}  // namespace gradc::fuzz
