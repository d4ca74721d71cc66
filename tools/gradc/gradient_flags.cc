// Entries of the command line as a gradient request. Tested by tests/cli_test.cc
#include "gradient_flags.h"

#include "ir/error.h"

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
    if (Error error = setTargets()) return error;
    if (Error error = setRetained()) return error;
    if (Error error = setRequests()) return error;
    if (Error error = setEntries(options.noGrad, request.noGrad)) return error;
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

  Error setHeads() {
    std::vector<Value> values;
    if (Error error = setEntries(options.of, values)) return error;
    if (options.of.empty()) values.assign(graph.heads().begin(), graph.heads().end());
    for (Value value : values) request.heads.push_back({value, std::nullopt, ""});
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
      if (info->kind != ErrorKind::UnknownName) return Error(std::move(info));
      head.seedName = name.str();
      return Error::success();
    });
  }

  /// Of a y listed twice, seeds go to its places in order (H-06).
  GradientHead *unseededHead(Value y) {
    for (GradientHead &head : request.heads)
      if (head.y == y && !head.seed && head.seedName.empty()) return &head;
    return nullptr;
  }

  Error setSeeds() {
    for (const KeyValue &seed : options.seeds) {
      Expected<Value> y = names.entry(seed.key);
      if (!y) return y.takeError();
      GradientHead *head = unseededHead(*y);
      if (!head)
        return Failure(ErrorKind::HeadCount, "--seed names '" + seed.key + "', which is not differentiated here")
            .at(y->node)
            .note("--of lists what is differentiated; without it these are the heads of the graph");
      if (Error error = setSeed(*head, seed.value)) return error;
    }
    return Error::success();
  }

  Error setTargets() {
    bool isAll = options.wrt.empty() || (options.wrt.size() == 1 && options.wrt[0] == "all" && !names.hasName("all"));
    if (isAll) {
      AllTargets all = allTargets(graph, &inference);
      request.wrt = std::move(all.targets);
      if (!all.skipped.empty()) tool.diagnostics.note("--wrt all leaves out " + join(all.skipped, ", "));
      return Error::success();
    }
    std::vector<Value> values;
    if (Error error = setEntries(options.wrt, values)) return error;
    for (Value value : values) request.wrt.push_back({value, Request::Write});
    return Error::success();
  }

  Error setRetained() {
    std::vector<Value> values;
    if (Error error = setEntries(options.retain, values)) return error;
    for (Value value : values) request.retained.push_back({value, Request::Write});
    return Error::success();
  }

  Error setRequests() {
    for (const KeyValue &item : options.requests) {
      Expected<Value> x = names.entry(item.key);
      if (!x) return x.takeError();
      bool isFound = false;
      for (std::vector<GradientTarget> *targets : {&request.wrt, &request.retained})
        for (GradientTarget &target : *targets) {
          if (target.x != *x) continue;
          target.request = *parseRequest(item.value);
          isFound = true;
        }
      if (!isFound)
        return Failure(ErrorKind::UnknownName, "--req names '" + item.key + "', whose gradient is not asked for")
            .at(x->node)
            .note("add it to --wrt or --retain");
    }
    return Error::success();
  }

  Tool &tool;
  const Options &options;
  const Graph &graph;
  const Inference &inference;
  NameIndex names;
  GradientRequest request;
};

}  // namespace

Expected<GradientRequest> resolveGradient(Tool &tool, const Graph &graph, const Inference &inference) {
  return RequestBuilder(tool, graph, inference).build();
}

}  // namespace gradc
