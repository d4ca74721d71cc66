// Phases: collect the parameters, find who reads them, append one step each, freeze. Tested by
// tests/append_optimizer_test.cc
#include "passes/append_optimizer.h"

#include "ir/error.h"
#include "ir/graph_builder.h"
#include "passes/gradient/naming.h"
#include "passes/gradient/table.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

/// The operator of a step and what its states are called.
struct StepForm {
  StringRef op;
  ArrayRef<StringRef> states;
};

constexpr StringRef kMomentumStates[] = {"_mom"};
constexpr StringRef kAdamStates[] = {"_mean", "_var"};

StepForm formOf(const OptimizerOptions &options) {
  const bool isFixed = options.fixedRate.has_value();
  if (options.kind == OptimizerKind::Adam) return {isFixed ? "adam_update" : "_scheduled_adam_update", kAdamStates};
  if (options.momentum != 0) return {isFixed ? "sgd_mom_update" : "_scheduled_sgd_mom_update", kMomentumStates};
  return {isFixed ? "sgd_update" : "_scheduled_sgd_update", {}};
}

class Appending {
 public:
  Appending(Context &context, const Graph &graph, const OptimizerOptions &options)
      : context(context), graph(graph), options(options), form(formOf(options)), builder(context, graph),
        namer(builder, graph, NamingStyle::Unique) {}

  Expected<TrainingGraph> run() {
    if (Error error = collect()) return error;
    indexReaders();
    if (!options.fixedRate) addRate();
    for (const Target &target : targets)
      if (Error error = addStep(target)) return error;
    return finish();
  }

 private:
  struct Target {
    NodeId parameter;
    Value gradient;
  };
  struct Step {
    NodeId node;
    std::vector<NodeId> states;
  };

  Error collect() {
    Expected<std::optional<GradientTable>> table = readGradientTable(graph);
    if (!table) return table.takeError();
    if (!*table) return Failure(ErrorKind::UnsupportedOption, "the graph has no gradients to take a step along");
    ArrayRef<Value> heads = graph.heads();
    for (size_t i = 0; i < heads.size(); ++i) {
      const GradientTable::Head &head = (*table)->heads[i];
      if (head.kind == GradientTable::HeadKind::Forward) forwardHeads.push_back(heads[i]);
      if (head.kind != GradientTable::HeadKind::Grad) continue;
      if (head.order != 1 || !graph.isVariable(head.ofNode))
        return Failure(ErrorKind::UnsupportedOption,
                       "head " + Twine(i) + " is the gradient of '" + head.of + "' of order " + Twine(head.order) +
                           ", expected the first order and a variable");
      targets.push_back({head.ofNode, heads[i]});
    }
    return checkHeads();
  }

  /// A head that is the parameter itself would show the old value or the new one, as memory has it.
  Error checkHeads() const {
    BitVector isHead(graph.numNodes());
    for (Value head : forwardHeads) isHead.set(head.node.value);
    for (const Target &target : targets)
      if (isHead[target.parameter.value])
        return Failure(ErrorKind::UnsupportedOption,
                       graph.describe(target.parameter) + " is to be trained and is a head of the graph itself")
            .at(target.parameter);
    return Error::success();
  }

  /// Readers of parameters among the nodes that stay, as pairs sorted by parameter.
  void indexReaders() {
    BitVector isTarget(graph.numNodes()), isKept(graph.numNodes());
    for (const Target &target : targets) {
      isTarget.set(target.parameter.value);
      isKept.set(target.gradient.node.value);
    }
    for (Value head : forwardHeads) isKept.set(head.node.value);
    for (uint32_t n = graph.numNodes(); n-- > 0;) {
      if (!isKept.test(n)) continue;
      for (NodeId dep : graph.controlDeps(NodeId(n))) isKept.set(dep.value);
      for (Value input : graph.inputs(NodeId(n))) {
        isKept.set(input.node.value);
        if (isTarget.test(input.node.value)) readers.push_back({input.node.value, n});
      }
    }
    llvm::sort(readers);
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
  }

  void addRate() {
    rate = builder.addVariable("", context.attrs({{"__shape__", "(1,)"}}));
    namer.name(rate.node, "", "learning_rate");
  }

  /// A multiplier a variable carries; `fallback` where it has none.
  Expected<double> multiplier(NodeId variable, StringRef key, double fallback) const {
    std::optional<StringRef> text = graph.attrs(variable).get(key);
    double value = fallback;
    if (text && !to_float(*text, value))
      return Failure(ErrorKind::BadAttribute, "attribute '" + key + "' of " + graph.describe(variable) +
                                                  " is '" + *text + "', expected a number")
          .at(variable);
    return value;
  }

  double defaultDecay(NodeId variable) const {
    StringRef name = graph.name(variable);
    return options.decayRule == DecayRule::All || name.ends_with("_weight") || name.ends_with("_gamma") ? 1 : 0;
  }

  Expected<Attrs> stepAttrs(NodeId variable) const {
    Expected<double> decay = multiplier(variable, "__wd_mult__", defaultDecay(variable));
    if (!decay) return decay.takeError();
    Expected<double> factor = multiplier(variable, "__lr_mult__", 1);
    if (!factor) return factor.takeError();
    SmallVector<std::pair<StringRef, double>, 8> numbers = {{"wd", options.weightDecay * *decay},
                                                            {"rescale_grad", options.rescale},
                                                            {"clip_gradient", options.clip}};
    if (options.fixedRate) numbers.push_back({"lr", *options.fixedRate * *factor});
    else numbers.push_back({"rate_factor", *factor});
    if (options.kind == OptimizerKind::Adam)
      numbers.append({{"beta1", options.beta1}, {"beta2", options.beta2}, {"epsilon", options.epsilon}});
    else if (options.momentum != 0)
      numbers.push_back({"momentum", options.momentum});
    std::vector<std::string> texts;
    SmallVector<AttrText, 8> pairs;
    texts.reserve(numbers.size());
    for (auto [key, value] : numbers) {
      raw_string_ostream os(texts.emplace_back());
      printAttr(os, value);
      pairs.push_back({key, texts.back()});
    }
    return context.attrs(pairs);
  }

  /// MXNet cannot tell by itself that the states of its own operators are dense.
  Attrs stateAttrs() const {
    const AttrText rows[] = {{"__init__", "[\"zero\", {}]"}, {"__storage_type__", "0"}};
    return context.attrs(ArrayRef<AttrText>(rows).take_front(options.fixedRate ? 2 : 1));
  }

  Error addStep(const Target &target) {
    Step step;
    SmallVector<Value, 5> inputs = {Value{target.parameter, 0, 0}, target.gradient};
    for (StringRef suffix : form.states) {
      Value state = builder.addVariable("", stateAttrs());
      namer.name(state.node, graph.name(target.parameter), suffix);
      step.states.push_back(state.node);
      inputs.push_back(state);
    }
    if (rate.isValid()) inputs.push_back(rate);
    const OpDef *op = context.ops.find(form.op);
    if (!op) return Failure(ErrorKind::UnknownOp, "the registry has no operator '" + form.op + "'");
    Expected<Attrs> attrs = stepAttrs(target.parameter);
    if (!attrs) return attrs.takeError();
    Expected<NodeId> node = builder.add(*op, inputs, NodeSpec{"", *attrs, NodeId()});
    if (!node) return node.takeError();
    step.node = *node;
    namer.name(*node, graph.name(target.parameter), "_update");
    const std::pair<uint32_t, uint32_t> from(target.parameter.value, 0);
    for (auto at = llvm::lower_bound(readers, from); at != readers.end() && at->first == from.first; ++at)
      builder.addControlDep(*node, NodeId(at->second));
    steps.push_back(std::move(step));
    return Error::success();
  }

  Expected<TrainingGraph> finish() {
    std::vector<Value> heads = forwardHeads;
    std::vector<std::string> updateOf(heads.size()), states;
    for (size_t i = steps.size(); i-- > 0;) {
      heads.push_back(Value{steps[i].node, 0, 0});
      updateOf.push_back(graph.name(targets[i].parameter).str());
      for (NodeId state : steps[i].states) states.push_back(builder.name(state).str());
    }
    const NodeId oldRate = rate.node;
    Expected<Frozen> frozen = std::move(builder).freeze(heads, {});
    if (!frozen) return frozen.takeError();
    GraphTable table = graph.table();
    table.forgetGradient();
    table.forgetEntries();
    remap(table, {ArrayRef(frozen->newId).take_front(graph.numNodes()), graph.columns().entryBegin}, frozen->graph);
    table.updates = UpdateNotes{std::move(updateOf), std::move(states)};
    TrainingGraph result{frozen->graph.withTable(std::move(table)), {}, NodeId(), static_cast<uint32_t>(forwardHeads.size())};
    if (oldRate.isValid()) result.rate = frozen->newId[oldRate.value];
    for (size_t i = 0; i < steps.size(); ++i) {
      TrainingGraph::Parameter row{frozen->newId[targets[i].parameter.value], heads.size() - 1 - i, {}};
      for (NodeId state : steps[i].states) row.states.push_back(frozen->newId[state.value]);
      result.parameters.push_back(std::move(row));
    }
    return result;
  }

  Context &context;
  const Graph &graph;
  const OptimizerOptions &options;
  StepForm form;
  GraphBuilder builder;
  Namer namer;
  std::vector<Value> forwardHeads;
  std::vector<Target> targets;
  std::vector<std::pair<uint32_t, uint32_t>> readers;  // parameter, reader; sorted
  std::vector<Step> steps;                             // parallel to targets
  Value rate{NodeId(), 0, 0};
};

}  // namespace

Expected<TrainingGraph> appendOptimizer(Context &context, const Graph &gradients, const OptimizerOptions &options) {
  return Appending(context, gradients, options).run();
}

double rateCorrection(const OptimizerOptions &options, uint64_t t) {
  if (options.kind != OptimizerKind::Adam) return 1;
  const double steps = static_cast<double>(t);
  return std::sqrt(1 - std::pow(options.beta2, steps)) / (1 - std::pow(options.beta1, steps));
}

}  // namespace gradc
