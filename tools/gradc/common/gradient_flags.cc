// The rows of the flags, then what their entries mean in a graph. Tested by tests/tools/cli_test.cc
#include "tools/gradc/common/gradient_flags.h"

#include "drawing/table.h"
#include "tools/gradc/common/flag_values.h"

#include "ir/base/dense_map.h"
#include "ir/base/error.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

bool setRequest(Options &options, const Flag &, StringRef text) {
  if (!appendPair(options.grad.requests, text)) return false;
  return parseRequest(options.grad.requests.back().value).has_value();
}

bool setSumCap(Options &options, const Flag &, StringRef text) {
  return !text.getAsInteger(10, options.grad.options.sumCap) && options.grad.options.sumCap > 0;
}

bool setUnused(Options &options, const Flag &flag, StringRef text) {
  if (!choose(flag, text, options.grad.options.unused)) return false;
  options.grad.forbidsUnused |= options.grad.options.unused == UnusedPolicy::Error;
  return true;
}

bool setStrict(Options &options, const Flag &, StringRef) {
  options.grad.options.duplicates = DuplicatePolicy::Strict;
  return true;
}

// Enumerators follow the order of the choices.
constexpr Flag kFlags[] = {
    {"of", "ENTRY,...", "what to differentiate (default: every head of the graph)",
     [](Options &o, const Flag &, StringRef v) { return append(o.grad.of, v); }},
    {"wrt", "NAME,...|all", "what to differentiate with respect to (default: all, every floating argument)",
     [](Options &o, const Flag &, StringRef v) {
       o.grad.wrt.push_back(v.str());
       return true;
     }},
    {"loss-scale", "S",
     "multiply every gradient by S, above 0: head gradients are S instead of 1, gradients of losses are multiplied",
     [](Options &o, const Flag &, StringRef v) {
       return parseNumber(v, o.grad.options.lossScale) && o.grad.options.lossScale > 0;
     }},
    {"seed", "ENTRY=NAME", "head gradient of ENTRY: the entry NAME if there is one, else a new variable of that name",
     [](Options &o, const Flag &, StringRef v) { return appendPair(o.grad.seeds, v); }},
    {"heads", "ones|scalar|input|required",
     "head gradient of entries without --seed: ones; ones for scalars only; a new variable each; refuse (default ones)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.grad.options.headPolicy); }},
    {"unused", "error|none|zeros", "gradient of an x that no y depends on (default error)", setUnused},
    {"control-only", "unused|zeros",
     "how to treat an x connected only by control dependencies: unused, or reached with a gradient of zeros "
     "(default unused)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.grad.options.controlOnly); }},
    {"reach", "path|whole-graph",
     "which operators must have a gradient: those between an x and a y, or all that some y depends on (default path)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.grad.options.reach); }},
    {"integers", "stop|permissive",
     "integers and bools: stop: they carry no gradient; permissive: types are not examined (default stop)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.grad.options.integers); }},
    {"zero-terms", "drop|keep",
     "a gradient that is zero by definition of an operator: leave it out, or compute with it, so that 0 times inf "
     "is nan "
     "(default drop)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.grad.options.zeroTerms); }},
    {"only-inputs", "true|false",
     "false, which would also add to the gradients of every leaf, is not available (default true)",
     [](Options &o, const Flag &f, StringRef v) { return chooseFirst(f, v, o.grad.onlyInputs); }},
    {"overwritten", "save|error",
     "a gradient that reads a variable as it was before an operator overwrote it: save a copy, or refuse (default "
     "save)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.grad.options.overwritten); }},
    {"parameters", "NAME,...",
     "of a program of blocks: the parameters that get gradients (default: all that are trainable)",
     [](Options &o, const Flag &, StringRef v) { return append(o.grad.parameters, v); }},
    {"max-iterations", "N",
     "most steps that a loop may run; more are an error (default: 10000 for the loops of a program of blocks, for "
     "those of "
     "a graph only its own bound)",
     [](Options &o, const Flag &, StringRef v) {
       return parsePositive(v, o.maxIterations.emplace()) && *o.maxIterations <= INT32_MAX;
     }},
    {"no-grad", "ENTRY,...", "no gradient flows into these entries, as if each were stopped where it is read",
     [](Options &o, const Flag &, StringRef v) { return append(o.grad.noGrad, v); }},
    {"stop", "ENTRY,...", "treat these entries as constants",
     [](Options &o, const Flag &, StringRef v) { return append(o.grad.stop, v); }},
    {"retain", "ENTRY,...", "also emit the gradients of these intermediate entries, after those of the x",
     [](Options &o, const Flag &, StringRef v) { return append(o.grad.retain, v); }},
    {"req", "NAME=write|add|null",
     "what `run` does with a gradient: overwrite the given value, add to it, or skip the gradient; repeatable",
     setRequest},
    {"mode", "train|infer", "form of batch norm, dropout and the like that is differentiated (default train)",
     [](Options &o, const Flag &f, StringRef v) { return chooseFirst(f, v, o.grad.options.isTraining); }},
    {"sum-cap", "N", "sum fewer than N contributions at once, chain additions from N on (default 8)", setSumCap},
    {"chain", "from-cap|up-to-cap",
     "which sums become chains of additions: of --sum-cap contributions and more, or of up to --sum-cap (default "
     "from-cap)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.grad.options.chain); }},
    {"order", "K", "order of differentiation, 1 to 16 (default 1); every order's gradients become heads",
     [](Options &o, const Flag &, StringRef v) { return parsePositive(v, o.grad.order) && o.grad.order <= 16; }},
    {"naming", "unique|mxnet|nnvm|fluid",
     "naming scheme of generated nodes; nnvm also sums any number of contributions at once (default unique)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.grad.options.naming); }},
    {"dialect", "gradc|mxnet|primitives",
     "mxnet: only operators that MXNet 1.9.1 loads and runs; primitives: only those of 'gradc ops --primitives' "
     "(default gradc)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.grad.dialect); }},
    {"emit", "combined|gradient",
     "combined: forward heads, then gradients; gradient: gradients alone (default combined)",
     [](Options &o, const Flag &f, StringRef v) { return choose(f, v, o.grad.options.gradientOnly); }},
    {"strict", "", "refuse repeated x and y, and an x that is also in --no-grad", setStrict},
    {"recompute", "POLICY", "recompute forward values instead of keeping them (not available yet)",
     [](Options &o, const Flag &, StringRef v) {
       o.grad.recompute = v.str();
       return true;
     }},
};
static_assert(static_cast<int>(HeadPolicy::Required) == 3 && static_cast<int>(UnusedPolicy::Zeros) == 2 &&
              static_cast<int>(OverwrittenPolicy::Error) == 1 && static_cast<int>(NamingStyle::Fluid) == 3 &&
              static_cast<int>(ControlOnlyPolicy::Zeros) == 1 && static_cast<int>(ReachPolicy::WholeGraph) == 1 &&
              static_cast<int>(IntegerPolicy::Permissive) == 1 && static_cast<int>(ZeroPolicy::Keep) == 1 &&
              static_cast<int>(ChainPolicy::UpToCap) == 1 && static_cast<int>(Dialect::Primitives) == 2);

class RequestBuilder {
 public:
  RequestBuilder(Tool &tool, const Graph &graph, const Inference &inference)
      : tool(tool), flags(tool.options.grad), graph(graph), inference(inference), names(graph) {}

  Expected<GradientRequest> build() {
    if (Error error = setHeads()) return error;
    if (Error error = setSeeds()) return error;
    if (Error error = setEntries(flags.noGrad, request.noGrad)) return error;
    if (Error error = setTargets()) return error;
    if (Error error = setRetained()) return error;
    if (Error error = setRequests()) return error;
    if (Error error = setEntries(flags.stop, request.stop)) return error;
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
    for (const KeyValue &seed : flags.seeds) given += seed.key == text;
    return Failure(ErrorKind::HeadCount, "--seed gives " + countOf(given, "head gradient") + " for '" + text +
                                             "', which appears " + countOf(places, "time") +
                                             " among the outputs differentiated")
        .at(y.node)
        .note("--of lists what is differentiated; without it these are the heads of the graph");
  }

  Error setHeads() {
    std::vector<Value> values;
    if (Error error = setEntries(flags.of, values)) return error;
    if (flags.of.empty()) values.assign(graph.heads().begin(), graph.heads().end());
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
    for (const KeyValue &seed : flags.seeds) {
      Expected<Value> y = names.entry(seed.key);
      if (!y) return y.takeError();
      GradientHead *head = unseededHead(*y);
      if (!head) return tooManySeeds(*y, seed.key);
      if (Error error = setSeed(*head, seed.value)) return error;
    }
    return Error::success();
  }

  Error setTargets() {
    bool isAll = flags.wrt.empty() || (flags.wrt.size() == 1 && flags.wrt[0] == "all" && !names.hasName("all"));
    if (isAll) {
      AllTargets all = allTargets(graph, &inference);
      if (flags.options.unused == UnusedPolicy::Error) leaveOutCut(all);
      request.wrt = std::move(all.targets);
      if (!all.skipped.empty()) tool.diagnostics.note("--wrt all leaves out " + join(all.skipped, ", "));
      if (!request.wrt.empty() || !flags.retain.empty() || request.heads.empty()) return Error::success();
      return Failure(ErrorKind::NoInputs, "no argument of the graph can get a gradient: --wrt all finds none");
    }
    if (flags.wrt.size() == 1 && flags.wrt[0].empty()) return Error::success();  // E-07 where nothing is retained
    std::vector<Value> values;
    if (Error error = setEntries(flags.wrt, values)) return error;
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
    if (Error error = setEntries(flags.retain, values)) return error;
    for (Value value : values) request.retained.push_back({value, Request::Write});
    return Error::success();
  }

  Error setRequests() {
    if (flags.requests.empty()) return Error::success();
    DenseMap<uint32_t, SmallVector<GradientTarget *, 1>> targetsOf;
    for (std::vector<GradientTarget> *targets : {&request.wrt, &request.retained})
      for (GradientTarget &target : *targets) targetsOf[graph.entry(target.x).value].push_back(&target);
    for (const KeyValue &item : flags.requests) {
      Expected<Value> x = names.entry(item.key);
      if (!x) return x.takeError();
      const auto targets = targetsOf.find(graph.entry(*x).value);
      if (targets == targetsOf.end())
        return Failure(ErrorKind::UnknownName, "--req names '" + item.key + "', whose gradient is not requested")
            .at(x->node)
            .note("add it to --wrt or --retain");
      for (GradientTarget *target : targets->second) target->request = *parseRequest(item.value);
    }
    return Error::success();
  }

  Tool &tool;
  const GradFlags &flags;
  const Graph &graph;
  const Inference &inference;
  NameIndex names;
  GradientRequest request;
  DenseMap<uint32_t, SmallVector<size_t, 1>> unseeded;  // by entry: places among the ys, in reverse order
};

}  // namespace

ArrayRef<Flag> gradFlags() { return kFlags; }

Expected<GradientRequest> resolveGradient(Tool &tool, const Graph &graph, const Inference &inference) {
  return RequestBuilder(tool, graph, inference).build();
}

}  // namespace gradc
