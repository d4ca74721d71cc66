// What libFuzzer calls. docs/fuzzing.md; `./dev fuzz` sets the variables read here.
#include "ops/registry.h"
#include "tests/fuzz/exercise.h"
#include "tests/fuzz/grammar.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

using namespace gradc;
using namespace gradc::fuzz;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {

struct Harness {
  OpRegistry ops;
  ExerciseOptions options;
  Tally tally;
  std::string tallyFile;

  Harness() {
    registerBuiltinOps(ops);
    if (const char *level = std::getenv("GRADC_FUZZ_LEVEL"))
      if (std::optional<Level> parsed = parseLevel(level)) options.level = *parsed;
    if (const char *file = std::getenv("GRADC_FUZZ_TALLY")) tallyFile = file;
  }
  ~Harness() {
    if (!tallyFile.empty()) tally.addTo(tallyFile);
  }
};

Harness &harness() {
  static Harness object;
  return object;
}

/// Made when the first mutation is asked for: replaying needs none.
const Grammar &grammar() {
  static const Grammar object;
  return object;
}

size_t give(const std::string &text, uint8_t *data, size_t maxSize) {
  if (text.size() > maxSize) return 0;
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

llvm::StringRef view(const uint8_t *data, size_t size) { return {reinterpret_cast<const char *>(data), size}; }

}  // namespace

/// With GRADC_FUZZ_EXPORT, writes what the grammar starts from into that folder, as seeds, and ends the program.
extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  const char *folder = std::getenv("GRADC_FUZZ_EXPORT");
  if (!folder) return 0;
  size_t number = 0;
  for (const GraphSketch &sketch : grammar().donors().all())
    std::ofstream(std::string(folder) + "/donor" + std::to_string(number++) + ".json") << printSketch(sketch);
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string finding = exercise(harness().ops, view(data, size), harness().options, harness().tally);
  if (finding.empty()) return 0;
  std::fprintf(stderr, "finding: %s\n", finding.c_str());
  std::abort();
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize, unsigned seed) {
  constexpr unsigned kBytesEvery = 12;
  if (seed % kBytesEvery == 0) return LLVMFuzzerMutate(data, size, maxSize);
  const size_t length = give(grammar().mutate(view(data, size), seed), data, maxSize);
  return length ? length : LLVMFuzzerMutate(data, size, maxSize);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *left, size_t leftSize, const uint8_t *right, size_t rightSize,
                                            uint8_t *out, size_t maxSize, unsigned seed) {
  return give(grammar().cross(view(left, leftSize), view(right, rightSize), seed), out, maxSize);
}
