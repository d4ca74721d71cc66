// Builds or finds the pair of graphs a gradient check compares. Tested by tests/runtime/gradcheck/gradcheck_test.cc
#include "runtime/gradcheck/check_problem.h"

#include "ir/base/dense_map.h"
#include "ir/base/error.h"
#include "ir/graph/graph_builder.h"
#include "runtime/executor/tensor_keys.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace gradc {
namespace {

/// Of several variables with one name, the last: what a gradient adds comes after what it was made for.
StringMap<NodeId> variablesByName(const Graph &graph) {
  StringMap<NodeId> found;
  for (uint32_t id = 0; id < graph.numNodes(); ++id)
    if (graph.isVariable(NodeId(id))) found[graph.name(NodeId(id))] = NodeId(id);
  return found;
}

/// By entry: the first head that is this entry.
DenseMap<uint32_t, size_t> headsByEntry(const Graph &graph) {
  DenseMap<uint32_t, size_t> found;
  for (size_t i = 0; i < graph.heads().size(); ++i) found.try_emplace(graph.entry(graph.heads()[i]).value, i);
  return found;
}

/// Appends those of `values` to `heads`, entries of `graph`, that are not among them.
void addMissing(const Graph &graph, ArrayRef<Value> values, SmallVectorImpl<Value> &heads) {
  BitVector isHead(graph.numEntries());
  for (Value head : heads) isHead.set(graph.entry(head).value);
  for (Value v : values) {
    if (isHead[graph.entry(v).value]) continue;
    isHead.set(graph.entry(v).value);
    heads.push_back(v);
  }
}

/// `graph` with those `values` as further heads that are not heads yet. They are entries of it, so ids stay.
Expected<Graph> withHeads(Context &context, const Graph &graph, ArrayRef<Value> values) {
  SmallVector<Value, 8> heads(graph.heads().begin(), graph.heads().end());
  addMissing(graph, values, heads);
  if (heads.size() == graph.heads().size()) return graph;
  Expected<Frozen> frozen = GraphBuilder(context, graph).freeze(heads, {});
  if (!frozen) return frozen.takeError();
  return frozen->graph;
}

std::vector<Value> entriesOf(ArrayRef<GradientHead> heads) {
  std::vector<Value> values;
  for (const GradientHead &head : heads) values.push_back(head.y);
  return values;
}

class ProblemMaker {
 public:
  ProblemMaker(Context &context, const Graph &graph, const GradcheckOptions &options)
      : ctx(context), graph(graph), options(options) {}

  Expected<CheckProblem> make() {
    problem.hints = options.session.hints;
    Expected<std::optional<GradientTable>> table = readGradientTable(graph);
    if (!table) return table.takeError();
    Error error = *table ? takeEmitted(**table) : differentiate();
    if (error) return error;
    if (Error wrong = keepLabels()) return wrong;
    nameTargets();
    return std::move(problem);
  }

 private:
  // ---- a forward model

  Error differentiate() {
    GradientRequest request = options.gradient;
    GradientOptions gradientOptions = options.gradientOptions;
    gradientOptions.headPolicy = HeadPolicy::Input;
    gradientOptions.gradientOnly = false;
    Expected<Inference> inference = inferPartly(graph);
    if (!inference) return inference.takeError();
    gradientOptions.inference = &*inference;
    if (request.wrt.empty()) {
      request.wrt = allTargets(graph, &*inference).targets;
      gradientOptions.unused = UnusedPolicy::None;
    }
    request.retained.clear();
    if (request.heads.empty())
      for (Value y : graph.heads()) request.heads.push_back({y, std::nullopt, ""});
    for (const std::vector<Value> *list : {&request.noGrad, &request.stop})
      problem.held.insert(problem.held.end(), list->begin(), list->end());
    Expected<Graph> function = withHeads(ctx, graph, entriesOf(request.heads));
    if (!function) return function.takeError();
    problem.function = *function;
    for (uint32_t order = 1; order <= options.order; ++order) {
      if (order > 1 && request.heads.empty()) break;  // all gradients vanish, and so do those of higher order
      if (Error error = differentiateOnce(request, gradientOptions, order)) return error;
    }
    return Error::success();
  }

  Expected<Inference> inferPartly(const Graph &function) {
    InferOptions partial = options.session.infer;
    partial.allowUnknown = true;
    return infer(ctx, function, problem.hints, partial);
  }

  /// Raises `problem` by one order; differentiates `request.heads` and replaces them by the gradients.
  Error differentiateOnce(GradientRequest &request, GradientOptions &gradientOptions, uint32_t order) {
    if (order > 1) {
      problem.function = problem.gradients;
      Expected<Inference> inference = inferPartly(problem.function);
      if (!inference) return inference.takeError();
      gradientOptions.inference = &known.emplace(std::move(*inference));
      gradientOptions.unused = UnusedPolicy::None;
      for (const CheckProblem::Output &output : problem.outputs)
        if (output.seed.isValid()) problem.lowerSeeds.push_back(output.seed);
    }
    for (size_t i = 0; i < request.heads.size(); ++i) {
      request.heads[i].seed = std::nullopt;
      request.heads[i].seedName = "_check" + std::to_string(order) + "_head_grad_" + std::to_string(i);
    }
    Expected<GradientResult> result = buildGradient(ctx, problem.function, request, gradientOptions);
    if (!result) return result.takeError();
    problem.gradients = result->graph;
    if (!result->forwardIds.empty())
      if (Error error = followForward(result->forwardIds, request)) return error;
    problem.outputs.clear();
    const DenseMap<uint32_t, size_t> headOf = headsByEntry(problem.function);
    const StringMap<NodeId> variables = variablesByName(problem.gradients);
    for (size_t i = 0; i < request.heads.size(); ++i)
      problem.outputs.push_back(
          {headOf.at(problem.function.entry(request.heads[i].y).value), variables.lookup(result->seedNames[i]), true});
    takeSlots(request, *result);
    request.heads.clear();
    for (const CheckProblem::Target &target : problem.targets)
      if (target.head >= 0) request.heads.push_back({problem.gradients.heads()[target.head], std::nullopt, ""});
    return Error::success();
  }

  /// Versions were saved, so forward nodes have other ids in the gradient graph; from here on its forward part is the
  /// function.
  Error followForward(ArrayRef<NodeId> newId, GradientRequest &request) {
    auto follow = [&](Value &v) { v.node = newId[v.node.value]; };
    for (GradientTarget &target : request.wrt) follow(target.x);
    for (GradientHead &head : request.heads) follow(head.y);
    for (std::vector<Value> *list : {&request.noGrad, &request.stop, &problem.held}) llvm::for_each(*list, follow);
    for (NodeId &seed : problem.lowerSeeds) seed = newId[seed.value];
    for (ShapeHint &hint : problem.hints.shapes) hint.variable = newId[hint.variable.value];
    for (DTypeHint &hint : problem.hints.dtypes) hint.variable = newId[hint.variable.value];
    ArrayRef<Value> heads = problem.gradients.heads().take_front(problem.function.heads().size());
    Expected<Frozen> frozen = GraphBuilder(ctx, problem.gradients).freeze(heads, {});
    if (!frozen) return frozen.takeError();
    problem.function = frozen->graph;
    return Error::success();
  }

  // A variable that is listed twice has two gradients, and is one target: it is moved once.
  void takeSlots(const GradientRequest &request, const GradientResult &result) {
    problem.targets.clear();
    DenseSet<uint32_t> taken;
    int64_t head = static_cast<int64_t>(problem.function.heads().size());
    for (size_t i = 0; i < request.wrt.size(); ++i) {
      CheckProblem::Target target;
      target.x = request.wrt[i].x;
      if (result.wrt[i].value.isValid()) target.head = head++;
      if (taken.insert(target.x.node.value).second) problem.targets.push_back(std::move(target));
    }
  }

  // ---- an emitted graph

  Error takeEmitted(const GradientTable &table) {
    uint32_t order = 0;
    for (const GradientTable::Head &head : table.heads) order = std::max(order, head.order);
    SmallVector<Value, 16> below;
    std::vector<Value> ys;
    for (size_t i = 0; i < table.heads.size(); ++i) {
      if (table.heads[i].order >= order) continue;
      below.push_back(graph.heads()[i]);
      if (table.heads[i].order + 1 == order && table.heads[i].kind != GradientTable::HeadKind::Retained)
        ys.push_back(graph.heads()[i]);
    }
    if (order == 0)
      return Failure(ErrorKind::UnsupportedOption,
                     "the emitted graph has no gradients to check: no x that was requested has one");
    if (below.empty())
      return Failure(ErrorKind::UnsupportedOption,
                     "the graph has no forward heads its gradients could be checked against")
          .remedy(Remedy::KeepForwardHeads, "emit it with its forward heads");
    if (!options.gradient.heads.empty()) ys = entriesOf(options.gradient.heads);
    // The heads of lower orders come first, so the graph of these heads is a prefix of the whole.
    addMissing(graph, ys, below);
    Expected<Frozen> frozen = GraphBuilder(ctx, graph).freeze(below, {});
    if (!frozen) return frozen.takeError();
    problem.function = frozen->graph;
    problem.gradients = graph;
    for (Value v : graph.table().constants)
      if (Value held = (*frozen)(v); held.isValid()) problem.held.push_back(held);
    const DenseMap<uint32_t, size_t> headOf = headsByEntry(problem.function);
    const std::vector<NodeId> seeds = seedsOf(table, ys);
    for (auto [y, seed] : zip(ys, seeds))
      problem.outputs.push_back({headOf.at(problem.function.entry((*frozen)(y)).value), seed, false});
    for (size_t i = 0; i < table.heads.size(); ++i)
      if (table.heads[i].order == order && table.heads[i].kind == GradientTable::HeadKind::Grad)
        if (Error error = takeHead(table.heads[i], i)) return error;
    return Error::success();
  }

  /// The head-gradient variable of each y, invalid where it has none. The table lists them in the order of the y, those
  /// of lower orders first, under names that several y may share.
  std::vector<NodeId> seedsOf(const GradientTable &table, ArrayRef<Value> ys) const {
    const StringMap<NodeId> variables = variablesByName(graph);
    StringMap<SmallVector<StringRef, 1>> seedsByName;
    for (const auto &[variable, of] : table.headGradOf) seedsByName[of].push_back(variable);
    std::vector<NodeId> seeds(ys.size());
    for (size_t i = ys.size(); i-- > 0;) {
      SmallVector<StringRef, 1> &left = seedsByName[graph.listedName(ys[i])];
      if (!left.empty()) seeds[i] = variables.lookup(left.pop_back_val());
    }
    return seeds;
  }

  Error takeHead(const GradientTable::Head &head, size_t index) {
    if (!head.ofNode.isValid() || !graph.isVariable(head.ofNode) || head.ofNode.value >= problem.function.numNodes())
      return Failure(ErrorKind::UnsupportedOption, "head " + Twine(index) + " is the gradient of '" + head.of +
                                                       "', which is not a variable of the forward part");
    CheckProblem::Target target;
    target.x = Value{head.ofNode};
    target.head = static_cast<int64_t>(index);
    if (!isRequested(target.x)) return Error::success();
    problem.targets.push_back(std::move(target));
    return Error::success();
  }

  bool isRequested(Value x) const {
    return options.gradient.wrt.empty() ||
           any_of(options.gradient.wrt, [&](const GradientTarget &target) { return target.x.node == x.node; });
  }

  // ---- both

  /// An implied loss reads its label, which the operator itself may ignore: made a head, the label is computed anyway.
  /// It is a constant for the gradient, so it is held; a label that a gradient also flows through cannot be held.
  Error keepLabels() {
    std::vector<Value> labels;
    for (uint32_t id = 0; id < problem.function.numNodes(); ++id) {
      const NodeKind &kind = problem.function.kind(NodeId(id));
      if (kind.isVariable() || !kind.op->impliedLoss) continue;
      ArrayRef<Value> inputs = problem.function.inputs(NodeId(id));
      for (size_t i = 0; i < inputs.size(); ++i)
        if (kind.isStopped(i) && !problem.function.isVariable(inputs[i].node)) labels.push_back(inputs[i]);
    }
    if (labels.empty()) return Error::success();
    if (Error error = checkLabels(labels)) return error;
    llvm::append_range(problem.held, labels);
    Expected<Graph> kept = withHeads(ctx, problem.function, labels);
    if (!kept) return kept.takeError();
    problem.function = *kept;
    return Error::success();
  }

  Error checkLabels(ArrayRef<Value> labels) const {
    const Graph &function = problem.function;
    BitVector isLabel(function.numEntries());
    for (Value label : labels) isLabel.set(function.entry(label).value);
    for (uint32_t id = 0; id < function.numNodes(); ++id) {
      ArrayRef<Value> inputs = function.inputs(NodeId(id));
      for (size_t i = 0; i < inputs.size(); ++i)
        if (isLabel.test(function.entry(inputs[i]).value) && !function.kind(NodeId(id)).isStopped(i))
          return Failure(ErrorKind::UnsupportedOption,
                         "'" + Twine(function.listedName(inputs[i])) +
                             "' is the label of a loss, and a gradient flows through it to " +
                             function.describe(NodeId(id)) +
                             "; gradcheck cannot hold it for one and vary it for the other")
              .at(NodeId(id));
    }
    return Error::success();
  }

  void nameTargets() {
    std::vector<std::string> names = variableKeys(problem.function);
    const OpDef *zeros = ctx.ops.wellKnown.zerosLike;
    for (CheckProblem::Target &target : problem.targets) {
      target.name = names[target.x.node.value];
      target.isStructuralZero =
          target.head < 0 || problem.gradients.op(problem.gradients.heads()[target.head].node) == zeros;
    }
  }

  Context &ctx;
  const Graph &graph;
  const GradcheckOptions &options;
  CheckProblem problem;
  std::optional<Inference> known;  // of the problem's function, from the second order on
};

}  // namespace

Expected<CheckProblem> makeCheckProblem(Context &context, const Graph &graph, const GradcheckOptions &options) {
  return ProblemMaker(context, graph, options).make();
}

}  // namespace gradc
