// Reading of NPY and NPZ bindings. Tested by tests/tools/cli_test.cc
#include "tools/gradc/common/run_inputs.h"

#include "runtime/kernels/core/processors.h"

#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace gradc {

Expected<std::vector<NamedArray>> readBindings(const Options &options) {
  std::vector<NamedArray> bindings;
  StringSet<> taken;
  for (const KeyValue &item : options.inputFiles) {
    Expected<std::unique_ptr<MemoryBuffer>> file = readFile(item.value);
    if (!file) return file.takeError();
    Expected<Array> array = parseNpy((*file)->getBuffer(), item.value);
    if (!array) return array.takeError();
    if (taken.insert(item.key).second) bindings.push_back({item.key, std::move(*array)});
  }
  for (const std::string &path : options.archives) {
    Expected<std::unique_ptr<MemoryBuffer>> file = readFile(path);
    if (!file) return file.takeError();
    Expected<std::vector<NamedArray>> members = openNpz(std::move(*file), path);
    if (!members) return members.takeError();
    for (NamedArray &member : *members)
      if (taken.insert(member.name).second) bindings.push_back(std::move(member));
  }
  return bindings;
}

Expected<SessionOptions> sessionOptions(const Tool &tool, const Graph &graph) {
  const Options &options = tool.options;
  Expected<InferRequest> hints = resolveHints(tool, graph, graph);
  if (!hints) return hints.takeError();
  SessionOptions session;
  session.hints = std::move(*hints);
  session.infer.floatAs = options.floatAs;
  session.infer.unknownDim = options.unknownDim;
  session.initSeed = options.initSeed;
  session.exec.backend = options.backend;
  session.exec.threads = static_cast<unsigned>(options.threads);
  if (!options.threads) {
    Expected<unsigned> available = availableThreads();
    if (!available) return available.takeError();
    session.exec.threads = *available;
  }
  session.exec.fusion.elements = options.fuse == FuseChoice::All || options.fuse == FuseChoice::Elements;
  session.exec.fusion.norms = options.fuse == FuseChoice::All || options.fuse == FuseChoice::Norms;
  session.exec.maxSteps = options.maxIterations;
  session.exec.isTraining = options.isTraining;
  session.exec.seed = options.initSeed.value_or(0);
  return session;
}

}  // namespace gradc
