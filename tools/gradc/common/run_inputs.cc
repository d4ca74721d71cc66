// Reading of bindings. Tested by tests/tools/cli_test.cc
#include "tools/gradc/common/run_inputs.h"

#include "runtime/arrays/archive.h"
#include "runtime/kernels/core/processors.h"

#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace gradc {

Expected<std::vector<NamedArray>> readArchive(Tool &tool, StringRef path) {
  Expected<std::unique_ptr<MemoryBuffer>> file = readFile(path);
  if (!file) return file.takeError();
  std::vector<std::string> notes;
  Expected<std::vector<NamedArray>> arrays = openArchive(std::move(*file), path, notes);
  for (const std::string &note : notes) tool.diagnostics.note(note);
  return arrays;
}

Expected<std::vector<NamedArray>> readBindings(Tool &tool) {
  const SessionFlags &flags = tool.options.session;
  std::vector<NamedArray> bindings;
  StringSet<> taken;
  for (const KeyValue &item : flags.inputFiles) {
    Expected<std::unique_ptr<MemoryBuffer>> file = readFile(item.value);
    if (!file) return file.takeError();
    Expected<Array> array = parseNpy((*file)->getBuffer(), item.value);
    if (!array) return array.takeError();
    if (taken.insert(item.key).second) bindings.push_back({item.key, std::move(*array)});
  }
  for (const std::string &path : flags.archives) {
    Expected<std::vector<NamedArray>> members = readArchive(tool, path);
    if (!members) return members.takeError();
    for (NamedArray &member : *members)
      if (taken.insert(member.name).second) bindings.push_back(std::move(member));
  }
  return bindings;
}

Expected<SessionOptions> sessionOptions(const Tool &tool, const Graph &graph) {
  const Options &options = tool.options;
  const SessionFlags &flags = options.session;
  Expected<InferRequest> hints = resolveHints(tool, graph, graph);
  if (!hints) return hints.takeError();
  SessionOptions session;
  session.hints = std::move(*hints);
  session.infer = options.types.inferOptions();
  session.initSeed = flags.initSeed;
  session.exec.backend = flags.backend;
  session.exec.threads = static_cast<unsigned>(flags.threads);
  if (!flags.threads) {
    Expected<unsigned> available = availableThreads();
    if (!available) return available.takeError();
    session.exec.threads = *available;
  }
  session.exec.fusion.elements = flags.fuse == FuseChoice::All || flags.fuse == FuseChoice::Elements;
  session.exec.fusion.norms = flags.fuse == FuseChoice::All || flags.fuse == FuseChoice::Norms;
  session.exec.maxSteps = options.maxIterations;
  session.exec.isTraining = flags.isTraining;
  session.exec.seed = flags.initSeed.value_or(0);
  return session;
}

}  // namespace gradc
