// `gradc run`: executes a graph. Tested by tests/tools/cli_test.cc
#include "drawing/table.h"
#include "tools/gradc/common/run_inputs.h"
#include "tools/gradc/train/progress.h"
#include "tools/gradc/verbs/run_profile.h"
#include "tools/gradc/verbs/verbs.h"

#include "ir/base/error.h"
#include "runtime/arrays/elements.h"
#include "runtime/arrays/npz_writer.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Format.h"

#include <chrono>
#include <cmath>
#include <ctime>

using namespace llvm;

namespace gradc {
namespace {

struct Summary {
  double lowest = std::nan(""), highest = std::nan("");  // NaN unless some element is not
  double sum = 0;
  int64_t numNonFinite = 0;
};

Summary summarize(const TensorRef &tensor) {
  Summary summary;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    double value = readElement(tensor, i);
    if (!std::isfinite(value)) ++summary.numNonFinite;
    summary.lowest = std::fmin(summary.lowest, value);
    summary.highest = std::fmax(summary.highest, value);
    summary.sum += value;
  }
  return summary;
}

std::string report(std::vector<NamedArray> &outputs) {
  TextTable table({"output", "shape", "dtype", "lowest", "mean", "highest", "not finite"});
  for (NamedArray &output : outputs) {
    TensorRef tensor = output.array.ref();
    Summary summary = summarize(tensor);
    bool isEmpty = tensor.size() == 0;
    table.add({output.name, toString(ShapeRef(tensor.shape)), dtypeName(tensor.dtype).str(),
               isEmpty ? "-" : formatNumber(summary.lowest),
               isEmpty ? "-" : formatNumber(summary.sum / static_cast<double>(tensor.size())),
               isEmpty ? "-" : formatNumber(summary.highest), std::to_string(summary.numNonFinite)});
  }
  std::string text;
  raw_string_ostream os(text);
  table.print(os);
  return text;
}

/// Milliseconds of each step, by the clock and of all processors together.
struct StepTimes {
  std::vector<double> wall, processor;
};

Expected<StepTimes> runSteps(const RunFlags &flags, Session &session) {
  using Clock = std::chrono::steady_clock;
  Progress progress("running");
  StepTimes times;
  for (uint64_t i = 0; i < flags.repeat; ++i) {
    const Clock::time_point start = Clock::now();
    const std::clock_t processorStart = std::clock();
    if (Error error = session.run(flags.step + i)) return error;
    times.wall.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    times.processor.push_back(static_cast<double>(std::clock() - processorStart) * 1e3 / CLOCKS_PER_SEC);
  }
  return times;
}

void noteTimes(Tool &tool, StepTimes times, const Session &session) {
  llvm::sort(times.wall);
  llvm::sort(times.processor);
  const size_t middle = times.wall.size() / 2;
  std::string text;
  raw_string_ostream(text) << countOf(times.wall.size(), "step")
                           << format(": median %.3f ms, fastest %.3f ms, processor %.3f ms; ", times.wall[middle],
                                     times.wall.front(), times.processor[middle])
                           << session.plan().valueBytes << " bytes planned for values, bound "
                           << session.plan().valueBoundBytes << "; workspaces add "
                           << session.plan().plannedBytes - session.plan().valueBytes;
  tool.diagnostics.note(text);
}

/// The heads of a program of blocks are called by their variables. Outputs are the heads, then what operators
/// overwrite.
void nameAfterVariables(const Tool &tool, std::vector<NamedArray> &outputs) {
  const size_t number = tool.headNames.size();
  if (outputs.size() < number) return;
  StringSet<> taken;
  for (const NamedArray &output : ArrayRef(outputs).drop_front(number)) taken.insert(output.name);
  for (auto [name, output] : zip(tool.headNames, outputs))
    if (!taken.contains(name)) output.name = name;
}

/// Writes everything that the flags request; the files appear together, at the end.
Error writeResults(Tool &tool, const Graph &graph, Session &session) {
  const Options &options = tool.options;
  Expected<std::vector<NamedArray>> outputs = session.outputs();
  if (!outputs) return outputs.takeError();
  nameAfterVariables(tool, *outputs);
  std::vector<OutputFile> files;
  auto open = [&](StringRef path) -> Error {
    Expected<OutputFile> file = OutputFile::open(path);
    if (!file) return file.takeError();
    files.push_back(std::move(*file));
    return Error::success();
  };
  if (!options.run.outputsFile.empty()) {
    if (Error error = open(options.run.outputsFile)) return error;
    if (Error error = writeNpz(files.back().stream(), *outputs)) return error;
  }
  if (!options.run.profileFile.empty()) {
    if (Error error = open(options.run.profileFile)) return error;
    writeTrace(files.back().stream(), graph, session.timings());
  }
  bool wantsTable = options.run.outputsFile != "-" && options.run.profileFile != "-";
  if (wantsTable) {
    if (Error error = open(options.output)) return error;
    files.back().stream() << report(*outputs);
    if (!options.run.profileFile.empty()) files.back().stream() << '\n' << profileReport(graph, session.timings());
  }
  std::vector<OutputFile *> all;
  for (OutputFile &file : files) all.push_back(&file);
  return commitAll(all);
}

Expected<int> runRun(Tool &tool) {
  Expected<Graph> input = loadInOrder(tool);
  if (!input) return input.takeError();
  const Graph &graph = *input;
  Expected<std::vector<NamedArray>> bindings = readBindings(tool);
  if (!bindings) return bindings.takeError();
  Expected<SessionOptions> options = sessionOptions(tool, graph);
  if (!options) return options.takeError();
  Expected<Session> session = Session::create(tool.context, graph, std::move(*bindings), *options);
  if (!session) return session.takeError();
  for (const std::string &warning : session->warnings()) tool.diagnostics.warning(warning);
  if (!tool.options.run.profileFile.empty()) session->setProfiling(true);
  Expected<StepTimes> times = runSteps(tool.options.run, *session);
  if (!times) return times.takeError();
  if (Error error = writeResults(tool, graph, *session)) return error;
  if (tool.options.run.repeat > 1) noteTimes(tool, std::move(*times), *session);
  return 0;
}

constexpr StringRef kFlags[] = {"max-iterations", "input",       "inputs",      "init", "outputs", "train", "repeat",
                                "step",           "profile",     "backend",     "fuse", "threads", "shape", "dtype",
                                "output",         "unknown-dim", "error-limit", "diag", "help"};

}  // namespace

constinit const Verb kRun = {
    .name = "run",
    .arguments = "[FILE]",
    .summary = "execute a graph, forward or training",
    .description =
        "Plans the graph, gives every variable its value, runs it, and prints a table of the heads; --outputs "
        "writes them "
        "to an NPZ file. A forward head is called by its listed output name (softmax_output), a gradient head "
        "<variable>_grad.\n"
        "Values come from --input and --inputs; what is not given is an error, or drawn by --init SEED. An array of "
        "another floating type is converted. Where a gradient was emitted with --req NAME=add, the value given for "
        "NAME_grad is what it is added to.\n"
        "--dtype float64 runs everything in double precision; the file is not changed.",
    .examples = "gradc run train.json --train --inputs values.npz --outputs step.npz\n"
                "gradc run train.json --shape data=8,784 --init 1 --dtype float64\n"
                "gradc run model.json --inputs params.npz --input data=image.npy\n"
                "gradc run train.json --shape data=8,784 --init 1 --repeat 20 --profile trace.json",
    .flags = kFlags,
    .minFiles = 0,
    .maxFiles = 1,
    .run = runRun,
};

}  // namespace gradc
