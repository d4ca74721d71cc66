// Replays testdata/fuzz/ and draws a fixed number of graphs, for `./dev fuzz --coverage`: fuzz_coverage JOB JOBS TALLY
//
// Graphs are drawn for each operator until it was run and differentiated often enough, in rounds, with seeds that
// follow from round and operator alone; a job has every JOBS-th operator and file.
#include "ops/registry.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/exercise.h"
#include "tests/fuzz/grammar.h"

#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

using namespace llvm;
using namespace gradc;
using namespace gradc::fuzz;

namespace {

constexpr uint64_t kEnough = 1000, kMostRounds = 4000;

struct Job {
  Grammar grammar;
  Tally tally;
  size_t executed = 0;
  bool hasFailed = false;

  void take(StringRef text, StringRef origin) {
    const std::string finding = exercise(grammar.donors().ops(), text, ExerciseOptions(), tally);
    ++executed;
    if (finding.empty()) return;
    hasFailed = true;
    errs() << "finding: " << finding << " (" << origin << ")\n" << text;
  }
  bool hasEnough(const OpDef &op) const {
    return tally.of(op.name, Reached::Run) >= kEnough && tally.of(op.name, Reached::Differentiated) >= kEnough;
  }
  /// Any of its names; every third graph is edited as well.
  void drawFor(const OpDef &op, uint64_t seed) {
    const ArrayRef<StringRef> aliases = op.aliases;
    const size_t name = seed % (aliases.size() + 1);
    std::string text = grammar.draw(seed, name == 0 ? op.name : aliases[name - 1]);
    if (seed % 3 == 0) text = grammar.mutate(text, seed);
    take(text, op.name);
  }
};

}  // namespace

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  const size_t number = std::strtoul(argv[1], nullptr, 10), jobs = std::strtoul(argv[2], nullptr, 10);
  Job job;
  const std::vector<CorpusFile> files = readCorpus("testdata/fuzz");
  for (size_t i = number; i < files.size(); i += jobs) job.take(files[i].text, files[i].origin);
  const std::vector<const OpDef *> ops = job.grammar.donors().ops().all();
  for (const OpDef *op : ops) job.tally.list(*op);
  for (uint64_t round = 0; round < kMostRounds; ++round)
    for (size_t i = number; i < ops.size(); i += jobs)
      if (!job.hasEnough(*ops[i])) job.drawFor(*ops[i], round * ops.size() + i);
  outs() << job.executed << " graphs\n";
  return job.tally.addTo(argv[3]) && !job.hasFailed ? 0 : 1;
}
