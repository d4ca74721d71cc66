// Tested by tests/tools/train_cli_test.cc
#include "tools/gradc/common/run_inputs.h"
#include "tools/gradc/train/train_setup.h"

#include "ir/base/error.h"
#include "runtime/executor/tensor_keys.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace gradc {
namespace {

std::vector<FeedName> feedNames(ArrayRef<KeyValue> flags) {
  std::vector<FeedName> feeds;
  for (const KeyValue &flag : flags) feeds.push_back({flag.key, flag.value});
  return feeds;
}

/// Arrays of the file that have names of variables.
std::vector<FeedName> sameNames(const Graph &graph, ArrayRef<NamedArray> arrays) {
  std::vector<FeedName> feeds;
  for (const std::string &name : variableKeys(graph))
    if (!name.empty() && llvm::any_of(arrays, [&](const NamedArray &array) { return array.name == name; }))
      feeds.push_back({name, name});
  return feeds;
}

Error checkFeeds(const Graph &graph, ArrayRef<FeedName> feeds, StringRef place) {
  if (feeds.empty())
    return Failure(ErrorKind::BindingMissing, "no array of '" + place + "' has the name of a variable of the graph")
        .note("--feed VARIABLE=ARRAY says which array a variable reads");
  const NameIndex names(graph);
  for (const FeedName &feed : feeds) {
    Expected<NodeId> variable = names.variable(feed.variable);
    if (!variable) return variable.takeError();
  }
  return Error::success();
}

Error setUpEvaluation(Tool &tool, ArrayRef<FeedName> feeds, std::vector<NamedArray> arrays, TrainSetup &setup) {
  const TrainFlags &flags = tool.options.train;
  if (flags.evalData.empty() && flags.evalFeeds.empty()) return Error::success();
  const std::string &place = flags.evalData.empty() ? flags.data : flags.evalData;
  if (!flags.evalData.empty()) {
    Expected<std::vector<NamedArray>> read = readArchive(tool, place);
    if (!read) return read.takeError();
    arrays = std::move(*read);
  }
  std::vector<FeedName> own = feedNames(flags.evalFeeds);
  std::vector<FeedName> inOrder;  // in the order of the columns trained on, which the given ones replace
  for (const FeedName &feed : feeds) {
    std::vector<FeedName>::iterator at =
        llvm::find_if(own, [&](const FeedName &name) { return name.variable == feed.variable; });
    inOrder.push_back(at == own.end() ? feed : *at);
    if (at != own.end()) own.erase(at);
  }
  if (!own.empty())
    return Failure(ErrorKind::Usage,
                   "'--eval-feed' names '" + own.front().variable + "', which '--feed' does not feed");
  Expected<Dataset> selected = Dataset::select(std::move(arrays), inOrder, place);
  if (!selected) return selected.takeError();
  setup.heldOut = std::move(*selected);
  return Error::success();
}

Error setSteps(const TrainFlags &flags, TrainSetup &setup) {
  if (flags.epochs && flags.steps)
    return Failure(ErrorKind::Usage, "'--epochs' and '--steps' both set the length of the training; give one of them");
  const uint64_t perEpoch = static_cast<uint64_t>(setup.examples.size()) / flags.batch;
  setup.steps = flags.steps ? *flags.steps : SaturatingMultiply(flags.epochs.value_or(1), perEpoch);
  return Error::success();
}

}  // namespace

Expected<TrainSetup> setUpTraining(Tool &tool, const Graph &graph) {
  const TrainFlags &flags = tool.options.train;
  if (flags.data.empty()) return Failure(ErrorKind::Usage, "'gradc train' needs '--data FILE.npz', the examples");
  TrainSetup setup;
  Expected<std::vector<NamedArray>> arrays = readArchive(tool, flags.data);
  if (!arrays) return arrays.takeError();
  const std::vector<FeedName> feeds = flags.feeds.empty() ? sameNames(graph, *arrays) : feedNames(flags.feeds);
  if (Error error = checkFeeds(graph, feeds, flags.data)) return error;
  Expected<Dataset> examples = Dataset::select(*arrays, feeds, flags.data);
  if (!examples) return examples.takeError();
  setup.examples = std::move(*examples);
  if (Error error = setUpEvaluation(tool, feeds, std::move(*arrays), setup)) return error;
  if (Error error = setSteps(flags, setup)) return error;

  Expected<SessionOptions> session = sessionOptions(tool, graph);
  if (!session) return session.takeError();
  Expected<std::vector<NamedArray>> start = readBindings(tool);
  if (!start) return start.takeError();
  TrainerOptions &options = setup.options;
  options.session = std::move(*session);
  options.start = std::move(*start);
  options.optimizer = flags.optimizer;
  for (const KeyValue &attr : flags.optimizerAttrs) options.optimizer.attrs.push_back({attr.key, attr.value});
  options.hasOwnRescale = flags.hasOwnRescale;
  options.lossScale = tool.options.grad.options.lossScale;
  options.schedule = flags.schedule;
  options.schedule.rate = flags.rate.value_or(optimizerInfo(flags.optimizer.kind).rate);
  options.schedule.total = setup.steps;
  options.batch = static_cast<int64_t>(flags.batch);
  options.seed = tool.options.session.initSeed.value_or(0);
  if (!flags.isInOrder) options.shuffle = flags.shuffle.value_or(options.seed);
  const NameIndex names(graph);
  for (const std::string &list : flags.frozen) {
    SmallVector<StringRef, 4> parts;
    if (names.hasName(list)) parts.push_back(list);
    else StringRef(list).split(parts, ',', -1, false);
    for (StringRef part : parts) options.frozen.push_back(part.str());
  }
  return setup;
}

}  // namespace gradc
