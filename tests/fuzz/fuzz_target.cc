// What libFuzzer calls. docs/fuzzing.md; `./dev fuzz` sets the variables read here.
#include "ops/registry.h"
#include "tests/fuzz/array_files.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/exercise.h"
#include "tests/fuzz/grammar.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/xxhash.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

using namespace gradc;
using namespace gradc::fuzz;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {

struct Harness {
  bool readsArrays = false;  // level `arrays`: files of arrays, not graphs
  OpRegistry ops;
  ExerciseOptions options;
  Tally tally;
  std::string tallyFile, keepFolder;
  llvm::StringRef input;  // the one at hand
  bool wasKept = false;

  Harness() {
    registerBuiltinOps(ops);
    if (const char *level = std::getenv("GRADC_FUZZ_LEVEL")) {
      readsArrays = llvm::StringRef(level) == "arrays";
      if (std::optional<Level> parsed = parseLevel(level)) options.level = *parsed;
    }
    if (const char *file = std::getenv("GRADC_FUZZ_TALLY")) tallyFile = file;
    if (const char *folder = std::getenv("GRADC_FUZZ_KEEP")) keepFolder = folder;
  }
  ~Harness() {
    if (!tallyFile.empty()) tally.addTo(tallyFile);
  }

  /// With GRADC_FUZZ_KEEP, a finding that leaves the process whole is written into that folder, one input per `what`, and
  /// the search goes on.
  void keep(llvm::StringRef what, llvm::StringRef message) {
    wasKept = true;
    if (keepFolder.empty()) return;
    const std::string path = keepFolder + "/kept-" + llvm::utohexstr(llvm::xxh3_64bits(what), true);
    if (std::ifstream(path + ".txt")) return;
    std::ofstream(path + ".txt") << message.str() << '\n';
    std::ofstream(path + ".json") << input.str();
  }
};

Harness &harness() {
  static Harness object;
  return object;
}

/// Made when the first mutation is requested: replaying needs none.
const Grammar &grammar() {
  constexpr int kCare = 60, kCareWhenReading = 10;
  static const Grammar object(harness().options.level == Level::Read ? kCareWhenReading : kCare);
  return object;
}

/// What findings of one kind share: no numbers, nothing quoted.
std::string sketchOfMessage(llvm::StringRef message) {
  std::string sketch;
  bool isQuoted = false;
  for (char c : message) {
    if (c == '\'') isQuoted = !isQuoted;
    if (!isQuoted && !llvm::isDigit(c) && !llvm::StringRef("(),?-").contains(c)) sketch += c;
  }
  return sketch;
}

size_t give(const std::string &text, uint8_t *data, size_t maxSize) {
  if (text.size() > maxSize) return 0;
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

llvm::StringRef view(const uint8_t *data, size_t size) { return {reinterpret_cast<const char *>(data), size}; }

}  // namespace

/// With GRADC_FUZZ_EXPORT, writes a graph for each operator and the corpus into that folder, as seeds, or the files of arrays
/// at level `arrays`, and ends the program.
extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  const char *folder = std::getenv("GRADC_FUZZ_EXPORT");
  if (!folder) return 0;
  if (harness().readsArrays) {
    const std::vector<std::string> seeds = arraySeeds();
    for (size_t i = 0; i < seeds.size(); ++i)
      std::ofstream(std::string(folder) + "/seed" + std::to_string(i), std::ios::binary) << seeds[i];
    std::exit(0);
  }
  llvm::StringSet<> seen;
  for (const GraphSketch &sketch : grammar().donors().all()) {
    const size_t before = seen.size();
    for (const SketchNode &node : sketch.nodes) seen.insert(node.op);
    if (seen.size() == before) continue;
    std::ofstream(std::string(folder) + "/donor" + std::to_string(before) + ".json") << printSketch(sketch);
  }
  const std::vector<CorpusFile> files = readCorpus("testdata/fuzz");
  for (size_t i = 0; i < files.size(); ++i)
    std::ofstream(std::string(folder) + "/corpus" + std::to_string(i) + ".json") << files[i].text;
  std::exit(0);
}

// Called by the sanitizer's runtime for undefined behaviour that is reported and survived.
extern "C" void __ubsan_get_current_report_data(const char **kind, const char **message, const char **file,
                                                unsigned *line, unsigned *column, char **address);
extern "C" void __ubsan_on_report() {
  const char *kind = "", *message = "", *file = "";
  unsigned line = 0, column = 0;
  char *address = nullptr;
  __ubsan_get_current_report_data(&kind, &message, &file, &line, &column, &address);
  const std::string place = std::string(file) + ":" + std::to_string(line) + ":" + std::to_string(column);
  harness().keep(place + ": " + kind, place + ": " + message);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Harness &h = harness();
  h.input = view(data, size);
  h.wasKept = false;
  ArrayTally arrays;
  const std::string finding =
      h.readsArrays ? exerciseArrays(h.input, arrays) : exercise(h.ops, h.input, h.options, h.tally);
  if (!finding.empty()) {
    std::fprintf(stderr, "finding: %s\n", finding.c_str());
    if (h.keepFolder.empty()) std::abort();
    h.keep(sketchOfMessage(finding), finding);
  }
  h.input = {};               // libFuzzer's own mutations of it are not an input
  return h.wasKept ? -1 : 0;  // -1: not for the corpus
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize, unsigned seed) {
  constexpr unsigned kBytesEvery = 12;
  if (harness().readsArrays) {
    const std::string seedText = view(data, size).str();
    testing::Dice dice(seed);
    const size_t length = seed % 2 ? give(editedArrayFile(seedText, dice), data, maxSize) : 0;
    return length ? length : LLVMFuzzerMutate(data, size, maxSize);
  }
  if (seed % kBytesEvery == 0) return LLVMFuzzerMutate(data, size, maxSize);
  const size_t length = give(grammar().mutate(view(data, size), seed), data, maxSize);
  return length ? length : LLVMFuzzerMutate(data, size, maxSize);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *left, size_t leftSize, const uint8_t *right,
                                            size_t rightSize, uint8_t *out, size_t maxSize, unsigned seed) {
  if (harness().readsArrays) {
    testing::Dice dice(seed);
    return give(editedArrayFile({view(left, leftSize).str(), view(right, rightSize).str()}, dice), out, maxSize);
  }
  return give(grammar().cross(view(left, leftSize), view(right, rightSize), seed), out, maxSize);
}
