// Entries of the command line as a gradient request. Tested by tests/tools/cli_test.cc
#include "drawing/table.h"
#include "tools/gradc/common/gradient_flags.h"

#include "ir/base/dense_map.h"
#include "ir/base/error.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

class RequestBuilder {
 public:
  RequestBuilder(Tool &tool, const Graph &graph, const Inference &inference)
      : tool(tool), options(tool.options), graph(graph), inference(inference), names(graph) {}

  Expected<GradientRequest> build() {
    if (Error error = setHeads()) return error;
    if (Error error = setSeeds()) return error;
    if (Error error = setEntries(options.noGrad, request.noGrad)) return error;
    if (Error error = setTargets()) return error;
    if (Error error = setRetained()) return error;
    if (Error error = setRequests()) return error;
    if (Error error = setEntries(options.stop, request.stop)) return error;
    return std::move(request);
  }

 private:
  Error setEntries(ArrayRef<std::string> lists, std::vector<Value> &out) {
    Expected<std::vector<Value>> values = names.entries(lists);
    if (!values) return values.takeError();
    out = std::move(*values);
    return Error::success();
  }

  /// The error for a surplus seed: the number of seeds, and of places among the outputs (E-37).
  Error tooManySeeds(Value y, StringRef text) {
    size_t places = count_if(request.heads, [&](const GradientHead &head) { return head.y == y; }), given = 0;
    for (const KeyValue &seed : options.seeds) given += seed.key == text;
    return Failure(ErrorKind::HeadCount, "--seed gives " + countOf(given, "head gradient") + " for '" + text +
                                             "', which appears " + countOf(places, "time") +
                                             " among the outputs differentiated")
        .at(y.node)
        .note("--of lists what is differentiated; without it these are the heads of the graph");
  }

  Error setHeads() {
    std::vector<Value> values;
    if (Error error = setEntries(options.of, values)) return error;
    if (options.of.empty()) values.assign(graph.heads().begin(), graph.heads().end());
    for (Value value : values) request.heads.push_back({value, std::nullopt, ""});
    for (size_t i = values.size(); i-- > 0;) unseeded[graph.entry(values[i]).value].push_back(i);
    return Error::success();
  }

  /// The seed named by the user: an entry of the graph if there is one, else a variable to be made (H-02).
  Error setSeed(GradientHead &head, StringRef name) {
    Expected<Value> value = names.entry(name);
    if (value) {
      head.seed = *value;
      return Error::success();
    }
    return handleErrors(value.takeError(), [&](std::unique_ptr<GradcError> info) -> Error {
      if (info->kind != ErrorKind::UnknownName && info->kind != ErrorKind::BadType) return Error(std::move(info));
      head.seedName = name.str();
      return Error::success();
    });
  }

  /// The next place of y without a seed: if y is listed twice, seeds go to its places in order (H-06).
  GradientHead *unseededHead(Value y) {
    SmallVector<size_t, 1> &places = unseeded[graph.entry(y).value];
    return places.empty() ? nullptr : &request.heads[places.pop_back_val()];
  }

  Error setSeeds() {
    for (const KeyValue &seed : options.seeds) {
      Expected<Value> y = names.entry(seed.key);
      if (!y) return y.takeError();
      GradientHead *head = unseededHead(*y);
      if (!head) return tooManySeeds(*y, seed.key);
      if (Error error = setSeed(*head, seed.value)) return error;
    }
    return Error::success();
  }

  Error setTargets() {
    bool isAll = options.wrt.empty() || (options.wrt.size() == 1 && options.wrt[0] == "all" && !names.hasName("all"));
    if (isAll) {
      AllTargets all = allTargets(graph, &inference);
      if (options.gradient.unused == UnusedPolicy::Error) leaveOutCut(all);
      request.wrt = std::move(all.targets);
      if (!all.skipped.empty()) tool.diagnostics.note("--wrt all leaves out " + join(all.skipped, ", "));
      if (!request.wrt.empty() || !options.retain.empty() || request.heads.empty()) return Error::success();
      return Failure(ErrorKind::NoInputs, "no argument of the graph can get a gradient: --wrt all finds none");
    }
    if (options.wrt.size() == 1 && options.wrt[0].empty()) return Error::success();  // E-07 where nothing is retained
    std::vector<Value> values;
    if (Error error = setEntries(options.wrt, values)) return error;
    for (Value value : values) request.wrt.push_back({value, Request::Write});
    return Error::success();
  }

  /// `all` means what can get a gradient, and a variable in --no-grad cannot. If unused variables are not an error, it
  /// stays and its slot has a status.
  void leaveOutCut(AllTargets &all) {
    BitVector isCut(graph.numEntries());
    for (Value v : request.noGrad) isCut.set(graph.entry(v).value);
    llvm::erase_if(all.targets, [&](const GradientTarget &target) {
      if (!isCut[graph.entry(target.x).value]) return false;
      all.skipped.push_back("'" + graph.name(target.x.node).str() + "' (in --no-grad)");
      return true;
    });
  }

  Error setRetained() {
    std::vector<Value> values;
    if (Error error = setEntries(options.retain, values)) return error;
    for (Value value : values) request.retained.push_back({value, Request::Write});
    return Error::success();
  }

  Error setRequests() {
    if (options.requests.empty()) return Error::success();
    DenseMap<uint32_t, SmallVector<GradientTarget *, 1>> asked;
    for (std::vector<GradientTarget> *targets : {&request.wrt, &request.retained})
      for (GradientTarget &target : *targets) asked[graph.entry(target.x).value].push_back(&target);
    for (const KeyValue &item : options.requests) {
      Expected<Value> x = names.entry(item.key);
      if (!x) return x.takeError();
      const auto targets = asked.find(graph.entry(*x).value);
      if (targets == asked.end())
        return Failure(ErrorKind::UnknownName, "--req names '" + item.key + "', whose gradient is not requested")
            .at(x->node)
            .note("add it to --wrt or --retain");
      for (GradientTarget *target : targets->second) target->request = *parseRequest(item.value);
    }
    return Error::success();
  }

  Tool &tool;
  const Options &options;
  const Graph &graph;
  const Inference &inference;
  NameIndex names;
  GradientRequest request;
  DenseMap<uint32_t, SmallVector<size_t, 1>> unseeded;  // by entry: places among the ys, in reverse order
};

}  // namespace

Expected<GradientRequest> resolveGradient(Tool &tool, const Graph &graph, const Inference &inference) {
  return RequestBuilder(tool, graph, inference).build();
}

}  // namespace gradc
