// What libFuzzer calls. docs/fuzzing.md; `./dev fuzz` sets the variables read here.
#include "ops/registry.h"
#include "tests/fuzz/array_files.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/exercise.h"
#include "tests/fuzz/grammar.h"
#include "tests/fuzz/programs/program_edits.h"
#include "tests/fuzz/programs/programs.h"

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

/// What a file is: levels `read`, `plan` and `run` are of graphs.
enum class FileKind : uint8_t { Graph, Arrays, Program };

struct Harness {
  FileKind kind = FileKind::Graph;
  OpRegistry ops;
  ExerciseOptions options;
  Tally tally;
  std::string tallyFile, keepFolder;
  llvm::StringRef input;  // the one at hand
  bool wasKept = false;

  Harness() {
    registerBuiltinOps(ops);
    if (const char *level = std::getenv("GRADC_FUZZ_LEVEL")) {
      if (llvm::StringRef(level) == "arrays") kind = FileKind::Arrays;
      if (llvm::StringRef(level) == "programs") kind = FileKind::Program;
      if (std::optional<Level> parsed = parseLevel(level)) options.level = *parsed;
    }
    if (const char *file = std::getenv("GRADC_FUZZ_TALLY")) tallyFile = file;
    if (const char *folder = std::getenv("GRADC_FUZZ_KEEP")) keepFolder = folder;
  }
  std::string finding() {
    ArrayTally arrays;
    if (kind == FileKind::Arrays) return exerciseArrays(input, arrays);
    return kind == FileKind::Program ? exerciseProgram(ops, input, options, tally)
                                     : exercise(ops, input, options, tally);
  }
  ~Harness() {
    if (!tallyFile.empty()) tally.addTo(tallyFile);
  }

  /// With GRADC_FUZZ_KEEP, a finding that leaves the process whole is written into that folder, one input per `what`,
  /// and the search goes on.
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

/// Sound programs. Made when the first mutation is requested.
const std::vector<std::string> &programs() {
  static const std::vector<std::string> texts = programSeeds();
  return texts;
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

/// With GRADC_FUZZ_EXPORT, writes a graph for each operator and the corpus into that folder, as seeds, or the files of
/// arrays or the programs at their levels, and ends the program.
extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  const char *folder = std::getenv("GRADC_FUZZ_EXPORT");
  if (!folder) return 0;
  if (harness().kind != FileKind::Graph) {
    const std::vector<std::string> seeds = harness().kind == FileKind::Arrays ? arraySeeds() : programs();
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
  const std::string finding = h.finding();
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
  testing::Dice dice(seed);
  size_t length = 0;
  switch (harness().kind) {
    case FileKind::Arrays:
      if (seed % 2) length = give(editedArrayFile(view(data, size).str(), dice), data, maxSize);
      break;
    case FileKind::Program:
      if (seed % kBytesEvery) length = give(editedProgram(view(data, size), programs(), dice), data, maxSize);
      break;
    case FileKind::Graph:
      if (seed % kBytesEvery) length = give(grammar().mutate(view(data, size), seed), data, maxSize);
      break;
  }
  return length ? length : LLVMFuzzerMutate(data, size, maxSize);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *left, size_t leftSize, const uint8_t *right,
                                            size_t rightSize, uint8_t *out, size_t maxSize, unsigned seed) {
  testing::Dice dice(seed);
  if (harness().kind == FileKind::Arrays)
    return give(editedArrayFile({view(left, leftSize).str(), view(right, rightSize).str()}, dice), out, maxSize);
  if (harness().kind == FileKind::Program)
    return give(joinedPrograms(view(left, leftSize), view(right, rightSize), dice), out, maxSize);
  return give(grammar().cross(view(left, leftSize), view(right, rightSize), seed), out, maxSize);
}
