// Request validation. Tested by tests/passes/gradient/gradient_errors_test.cc
#include "passes/gradient/checks.h"

#include "ir/base/dense_map.h"
#include "ir/base/error.h"
#include "passes/gradient/select.h"
#include "passes/inference/head_checks.h"
#include "passes/inference/infer.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

/// "'a_output' (int32), 'b_output' (a constant) and 3 more"
std::string describeHeads(const Graph &graph, ArrayRef<GradientHead> heads, function_ref<std::string(Value)> why) {
  constexpr size_t kNamed = 10;
  std::string text;
  for (const GradientHead &head : heads.take_front(kNamed))
    text += (text.empty() ? "'" : ", '") + graph.listedName(head.y) + "' (" + why(head.y) + ")";
  if (heads.size() > kNamed) text += " and " + utostr(heads.size() - kNamed) + " more";
  return text;
}

class RequestChecker {
 public:
  RequestChecker(const Graph &graph, const GradientRequest &request, const GradientOptions &options)
      : graph(graph), options(options), checked(request) {}

  Expected<GradientRequest> run() {
    if (checked.heads.empty())
      for (Value y : graph.heads()) checked.heads.push_back({y, std::nullopt, ""});
    if (checked.heads.empty())
      return Failure(ErrorKind::MissingAttr, "no output to differentiate (ys): the graph has no heads");
    if (checked.wrt.empty() && checked.retained.empty())
      return Failure(ErrorKind::EmptyXs, "no variable to differentiate with respect to (xs): the list is empty");
    if (Error error = checkRanges()) return error;
    noGrad.resize(graph.numEntries());
    for (Value v : checked.noGrad) noGrad.set(graph.entry(v).value);
    if (Error error = checkHeads()) return error;
    if (Error error = checkTargets()) return error;
    if (Error error = dropNullRequests()) return error;
    return std::move(checked);
  }

 private:
  Error checkRange(Value v) {
    if (v.node.value >= graph.numNodes())
      return Failure(ErrorKind::ForeignEntry, "the request names node " + Twine(v.node.value) + ", the graph has " +
                                                  Twine(graph.numNodes()) + " nodes");
    if (v.index < graph.numOutputs(v.node)) return Error::success();
    return Failure(ErrorKind::BadEntry, "output " + Twine(v.index) + " of " + graph.describe(v.node) +
                                            " is requested, but the node has " + Twine(graph.numOutputs(v.node)))
        .at(v.node);
  }

  // E-51: the gradient graph reads what the request names, if only for the shape of zeros. Inference refuses sparse
  // values only if something reads them.
  Error checkDense(Value v) {
    if (Error error = checkRange(v)) return error;
    const StorageKind storage = options.inference ? options.inference->storage[graph.entry(v)] : StorageKind::Dense;
    if (storage == StorageKind::Dense) return Error::success();
    return Failure(ErrorKind::Storage, "the request names '" + graph.listedName(v) + "', which has storage " +
                                           storageName(storage) + ", expected dense")
        .at(v.node);
  }

  Error checkRanges() {
    for (const GradientHead &head : checked.heads) {
      if (Error error = checkDense(head.y)) return error;
      if (head.seed)
        if (Error error = checkDense(*head.seed)) return error;
    }
    for (const std::vector<GradientTarget> *targets : {&checked.wrt, &checked.retained})
      for (const GradientTarget &target : *targets)
        if (Error error = checkDense(target.x)) return error;
    for (const std::vector<Value> *values : {&checked.noGrad, &checked.stop, &checked.taps})
      for (Value v : *values)
        if (Error error = checkRange(v)) return error;
    return Error::success();
  }

  DType dtypeOf(Value v) const { return options.inference ? options.inference->dtype[graph.entry(v)] : DType::Unknown; }
  bool isInteger(Value v) const {
    return options.integers == IntegerPolicy::Stop && dtypeOf(v) != DType::Unknown && !isFloating(dtypeOf(v));
  }

  bool isMarked(Value v) const { return isMarkedStopped(graph, v.node); }
  bool isCut(Value v) const { return noGrad[graph.entry(v).value] || isMarked(v); }

  Error checkHeads() {
    DenseSet<uint32_t> seen;
    bool anyLive = false;
    for (size_t i = 0; i < checked.heads.size(); ++i) {
      const GradientHead &head = checked.heads[i];
      if (!seen.insert(graph.entry(head.y).value).second && options.duplicates == DuplicatePolicy::Strict)
        return Failure(ErrorKind::DuplicateY, "the outputs name '" + graph.listedName(head.y) + "' twice")
            .at(head.y.node);
      anyLive = anyLive || (!isInteger(head.y) && !isCut(head.y));
      if (Error error = checkSeed(head, i)) return error;
    }
    if (anyLive) return Error::success();
    return Failure(ErrorKind::NoLiveOutput, "no output that is differentiated carries gradient: " +
                                                describeHeads(graph, checked.heads, [&](Value y) {
                                                  return isInteger(y) ? dtypeName(dtypeOf(y)).str()
                                                                      : std::string("in the no-gradient set");
                                                }));
  }

  Error checkSeed(const GradientHead &head, size_t i) {
    const bool isGiven = head.seed || !head.seedName.empty();
    if (!head.seed && (isGiven || options.headPolicy == HeadPolicy::Ones || options.headPolicy == HeadPolicy::Input))
      return Error::success();
    std::string name = graph.listedName(head.y);
    if (!isGiven && options.headPolicy == HeadPolicy::Required)
      return Failure(ErrorKind::MissingAttr, "output " + Twine(i + 1) + ", '" + name + "', has no head gradient")
          .at(head.y.node)
          .remedy(Remedy::GiveOrChooseHeads, "give one, or choose another HeadPolicy", name);
    if (!options.inference) return Error::success();
    return checkHeadPair(graph, *options.inference, {static_cast<uint32_t>(i), head.y, head.seed.value_or(Value())});
  }

  Error checkTargets() {
    std::vector<NodeId> mutators = listMutators(graph);
    BitVector seen(graph.numEntries());
    for (size_t i = 0; i < checked.wrt.size(); ++i) {
      Value x = checked.wrt[i].x;
      uint32_t e = graph.entry(x).value;
      const bool isStrict = options.duplicates == DuplicatePolicy::Strict;
      if ((seen[e] && isStrict) || (noGrad[e] && isStrict) || mutators[x.node.value].isValid() || isInteger(x) ||
          isMarked(x))
        return badTarget(i, mutators[x.node.value], seen[e]);
      seen.set(e);
    }
    DenseSet<uint32_t> marked;
    for (const GradientTarget &target : checked.retained)
      if (!marked.insert(graph.entry(target.x).value).second)
        return Failure(ErrorKind::AlreadyMarked, "intermediate '" + graph.listedName(target.x) + "' is retained twice")
            .at(target.x.node);
    return Error::success();
  }

  Error badTarget(size_t i, NodeId mutator, bool isRepeated) {
    Value x = checked.wrt[i].x;
    std::string name = graph.listedName(x);
    std::string position = "x number " + std::to_string(i + 1) + ", '" + name + "'";
    if (mutator.isValid())
      return Failure(ErrorKind::AuxX,
                     position + ", is an auxiliary state: " + graph.describe(mutator) + " overwrites it")
          .at(x.node);
    if (isInteger(x))
      return Failure(ErrorKind::NotRequiresGrad,
                     position + ", has type " + dtypeName(dtypeOf(x)) + " and carries no gradient")
          .at(x.node);
    if (isMarked(x))
      return Failure(ErrorKind::NotRequiresGrad, position + ", is marked __stop_gradient__ and carries no gradient")
          .at(x.node);
    if (isRepeated)
      return Failure(ErrorKind::DuplicateX, "the gradient of '" + name + "' is requested twice").at(x.node);
    return Failure(ErrorKind::OptionConflict, "'" + name + "' is requested and also in the no-gradient set").at(x.node);
  }

  // REQ-02: a target with a null request is not requested.
  Error dropNullRequests() {
    auto isNull = [](const GradientTarget &target) { return target.request == Request::Null; };
    llvm::erase_if(checked.wrt, isNull);
    llvm::erase_if(checked.retained, isNull);
    if (!checked.wrt.empty() || !checked.retained.empty()) return Error::success();
    return Failure(ErrorKind::NoInputs,
                   "every variable has the request 'null': nothing to differentiate with respect to");
  }

  const Graph &graph;
  const GradientOptions &options;
  GradientRequest checked;
  BitVector noGrad;  // by entry
};

}  // namespace

Expected<GradientRequest> checkRequest(const Graph &graph, const GradientRequest &request,
                                       const GradientOptions &options) {
  return RequestChecker(graph, request, options).run();
}

Error checkNotConstant(const Graph &graph, ArrayRef<GradientHead> heads) {
  BitVector reached = ancestorsOf(graph, heads);
  if (any_of(reached.set_bits(), [&](unsigned n) { return graph.isVariable(NodeId(n)); })) return Error::success();
  const std::string names = describeHeads(graph, heads, [](Value) { return "a constant"; });
  return Failure(ErrorKind::NoLiveOutput, "no output that is differentiated carries gradient: " + names)
      .at(heads.front().y.node);
}

}  // namespace gradc
