// Phases: look up the operators (optimizer_operators), collect the parameters, find who reads them, append one step
// each, freeze. Tested by tests/passes/append_optimizer_test.cc
#include "passes/optimizer/append_optimizer.h"

#include "ir/base/error.h"
#include "ir/base/out_of_memory.h"
#include "ir/graph/graph_builder.h"
#include "ir/op/hidden_keys.h"
#include "passes/gradient/naming.h"
#include "passes/optimizer/optimizer_operators.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

// In the order of OptimizerKind.
constexpr OptimizerInfo kOptimizers[] = {
    {"sgd", 0.05, &OptimizerOps::sgd},
    {"adam", 0.001, &OptimizerOps::adam, true},
    {"nag", 0.05, &OptimizerOps::nag},
    {"signsgd", 0.01, &OptimizerOps::signSgd},
    {"signum", 0.01, &OptimizerOps::signum},
    {"rmsprop", 0.001, &OptimizerOps::rmsProp},
    {"rmspropalex", 0.001, &OptimizerOps::rmsPropAlex},
    {"adagrad", 0.01, &OptimizerOps::adaGrad},
    {"ftrl", 0.1, &OptimizerOps::ftrl},
    {"ftml", 0.0025, &OptimizerOps::ftml, true},
    {"adamw", 0.001, &OptimizerOps::adamW, true},
    {"lamb", 0.001, &OptimizerOps::lamb, true},
};
static_assert(std::size(kOptimizers) == kNumOptimizers);

class Appending {
 public:
  Appending(Context &context, const Graph &graph, const OptimizerOptions &options, const OptimizerOperators &operators)
      : context(context), graph(graph), options(options), operators(operators), builder(context, graph),
        namer(builder, graph, NamingStyle::Unique) {}

  Expected<TrainingGraph> run() {
    if (Error error = collect()) return error;
    indexReaders();
    if (!options.fixedRate) addNumbers();
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
    NodeId master;
  };

  Error collect() {
    Expected<std::optional<GradientTable>> table = readGradientTable(graph);
    if (!table) return table.takeError();
    if (!*table) return Failure(ErrorKind::UnsupportedOption, "the graph has no gradients for an optimizer step");
    ArrayRef<Value> heads = graph.heads();
    for (size_t i = 0; i < heads.size(); ++i) {
      const GradientTable::Head &head = (*table)->heads[i];
      if (head.kind == GradientTable::HeadKind::Forward) forwardHeads.push_back(heads[i]);
      if (head.kind != GradientTable::HeadKind::Grad) continue;
      if (head.order != 1 || !graph.isVariable(head.ofNode))
        return Failure(ErrorKind::UnsupportedOption, "head " + Twine(i) + " is the gradient of '" + head.of +
                                                         "' of order " + Twine(head.order) +
                                                         ", expected the first order and a variable");
      targets.push_back({head.ofNode, heads[i]});
    }
    return checkHeads();
  }

  /// A head that is the parameter itself would be the old or the new value, depending on memory.
  Error checkHeads() const {
    BitVector isHead(graph.numNodes());
    for (Value head : forwardHeads) isHead.set(head.node.value);
    for (const Target &target : targets)
      if (isHead[target.parameter.value])
        return Failure(ErrorKind::UnsupportedOption,
                       graph.describe(target.parameter) + " is a parameter to train, but also a head of the graph")
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

  Value addNumber(StringRef name) {
    const Value number = builder.addVariable("", context.attrs({{kShapeKey, "(1,)"}}));
    namer.name(number.node, "", name);
    return number;
  }

  void addNumbers() {
    rate = addNumber("learning_rate");
    if (operators.read(StepRole::StepNumber)) step = addNumber("step_number");
  }

  /// MXNet does not infer that the states of its optimizer operators are dense.
  Attrs stateAttrs() const {
    const AttrText rows[] = {{kInitKey, "[\"zero\", {}]"}, {kStorageKey, "0"}};
    return context.attrs(ArrayRef<AttrText>(rows).take_front(options.fixedRate ? 2 : 1));
  }

  Expected<NodeId> addNode(const OpDef &op, ArrayRef<Value> inputs, const Attrs &attrs, StringRef base,
                           StringRef suffix) {
    Expected<NodeId> node = builder.add(op, inputs, NodeSpec{"", attrs, NodeId()});
    if (node) namer.name(*node, base, suffix);
    return node;
  }

  /// sqrt(Σ v²), a single element.
  Expected<Value> addNorm(Value v, StringRef base, StringRef suffix) {
    const OptimizerOps &known = operators.known();
    for (const OpDef *op : {known.square, known.sum, known.sqrt}) {
      Expected<NodeId> node = addNode(*op, v, Attrs(), base, (suffix + (op == known.sqrt ? "" : "_" + op->name)).str());
      if (!node) return node.takeError();
      v = Value{*node, 0, 0};
    }
    return v;
  }

  DType typeOf(NodeId n) const { return n.value < options.types.size() ? options.types[n.value] : DType::Unknown; }
  bool isMixed(const Target &target) const { return isHalf(typeOf(target.parameter)); }

  /// The parameter in float32.
  Value addMaster(const Target &target, Step &taken) {
    const AttrText rows[] = {{kDTypeKey, "0"}, {kStorageKey, "0"}};
    const Value master =
        builder.addVariable("", context.attrs(ArrayRef<AttrText>(rows).take_front(options.fixedRate ? 2 : 1)));
    namer.name(master.node, graph.name(target.parameter), "_weight32");
    taken.master = master.node;
    taken.states.push_back(master.node);
    return master;
  }

  Expected<Value> addCast(Value v, DType type, StringRef base, StringRef suffix) {
    Expected<KindRef> kind = operators.known().cast(context, type);
    if (!kind) return kind.takeError();
    Expected<NodeId> node = addNode(*(*kind)->op, v, (*kind)->attrs, base, suffix);
    if (!node) return node.takeError();
    return Value{*node, 0, 0};
  }

  /// Stores the new value in the float32 copy, and yields it rounded.
  Expected<NodeId> roundStep(const Target &target, Value master, NodeId step) {
    const StringRef parameter = graph.name(target.parameter);
    Expected<NodeId> kept =
        addNode(*operators.known().assign, {master, Value{step, 0, 0}}, Attrs(), parameter, "_weight32_update");
    if (!kept) return kept.takeError();
    Expected<Value> rounded = addCast(Value{*kept, 0, 0}, typeOf(target.parameter), parameter, "_update");
    if (!rounded) return rounded.takeError();
    return rounded->node;
  }

  /// The operands of a step, by the names of the operator's inputs; states are made here.
  Expected<SmallVector<Value, 8>> operandsOf(const OpDef &op, const Attrs &attrs, const Target &target, Value weight,
                                             Value direction, Step &taken) {
    const StringRef parameter = graph.name(target.parameter);
    Expected<KindRef> kind = context.kind(op, attrs);
    if (!kind) return kind.takeError();
    SmallVector<Value, 8> inputs = {weight, direction};
    const ArrayRef<StringRef> names = op.inputs.names;
    for (size_t i = inputs.size(); i < names.size(); ++i) {
      const StepRole role = operators.known().role(names[i]);
      if (role == StepRole::Weight32) {
        inputs.push_back(addMaster(target, taken));
      } else if ((*kind)->isMutated(i)) {
        const Value state = builder.addVariable("", stateAttrs());
        namer.name(state.node, parameter, ("_" + names[i]).str());
        taken.states.push_back(state.node);
        inputs.push_back(state);
      } else if (role == StepRole::Rate || role == StepRole::StepNumber) {
        inputs.push_back(role == StepRole::Rate ? rate : step);
      } else {
        const bool isOfWeight = role == StepRole::WeightNorm;
        Expected<Value> norm =
            addNorm(isOfWeight ? weight : direction, parameter, isOfWeight ? "_norm" : "_direction_norm");
        if (!norm) return norm.takeError();
        inputs.push_back(*norm);
      }
    }
    return inputs;
  }

  Error addStep(const Target &target) {
    Step taken;
    Value weight{target.parameter, 0, 0}, direction = target.gradient;
    const bool usesMaster = isMixed(target) && !options.fixedRate;
    if (usesMaster) {
      weight = addMaster(target, taken);
      Expected<Value> wide = addCast(direction, DType::Float32, graph.name(target.parameter), "_grad32");
      if (!wide) return wide.takeError();
      direction = *wide;
    }
    for (size_t phase = 0; phase < operators.ops().size(); ++phase) {
      const OpDef *op = operators.ops()[phase];
      const bool isLast = phase + 1 == operators.ops().size();
      if (isMixed(target) && !usesMaster) {
        Expected<const OpDef *> mixed = operators.forHalf(phase);
        if (!mixed) return mixed.takeError();
        op = *mixed;
      }
      Expected<Attrs> attrs = operators.attrs(*op, graph, target.parameter);
      if (!attrs) return attrs.takeError();
      Expected<SmallVector<Value, 8>> inputs = operandsOf(*op, *attrs, target, weight, direction, taken);
      if (!inputs) return inputs.takeError();
      Expected<NodeId> node = addNode(*op, *inputs, *attrs, graph.name(target.parameter),
                                      !isLast      ? "_direction"
                                      : usesMaster ? "_step"
                                                   : "_update");
      if (!node) return node.takeError();
      taken.node = *node;
      direction = Value{*node, 0, 0};
    }
    if (usesMaster) {
      Expected<NodeId> rounded = roundStep(target, weight, taken.node);
      if (!rounded) return rounded.takeError();
      taken.node = *rounded;
    }
    const std::pair<uint32_t, uint32_t> from(target.parameter.value, 0);
    for (auto at = llvm::lower_bound(readers, from); at != readers.end() && at->first == from.first; ++at)
      builder.addControlDep(taken.node, NodeId(at->second));
    steps.push_back(std::move(taken));
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
    const NodeId oldRate = rate.node, oldStep = step.node;
    Expected<Frozen> frozen = std::move(builder).freeze(heads, {});
    if (!frozen) return frozen.takeError();
    GraphTable table = graph.table();
    table.forgetGradient();
    table.forgetEntries();
    remap(table, {ArrayRef(frozen->newId).take_front(graph.numNodes()), graph.columns().entryBegin}, frozen->graph);
    table.updates = UpdateNotes{std::move(updateOf), std::move(states)};
    TrainingGraph result{
        frozen->graph.withTable(std::move(table)), {}, NodeId(), NodeId(), static_cast<uint32_t>(forwardHeads.size())};
    if (oldRate.isValid()) result.rate = frozen->newId[oldRate.value];
    if (oldStep.isValid()) result.step = frozen->newId[oldStep.value];
    for (size_t i = 0; i < steps.size(); ++i) {
      TrainingGraph::Parameter row{frozen->newId[targets[i].parameter.value], heads.size() - 1 - i, {}, NodeId()};
      for (NodeId state : steps[i].states) row.states.push_back(frozen->newId[state.value]);
      if (steps[i].master.isValid()) row.master = frozen->newId[steps[i].master.value];
      result.parameters.push_back(std::move(row));
    }
    return result;
  }

  Context &context;
  const Graph &graph;
  const OptimizerOptions &options;
  const OptimizerOperators &operators;
  GraphBuilder builder;
  Namer namer;
  std::vector<Value> forwardHeads;
  std::vector<Target> targets;
  std::vector<std::pair<uint32_t, uint32_t>> readers;  // parameter, reader; sorted
  std::vector<Step> steps;                             // parallel to targets
  Value rate{NodeId(), 0, 0}, step{NodeId(), 0, 0};
};

}  // namespace

const OptimizerInfo &optimizerInfo(OptimizerKind kind) { return kOptimizers[static_cast<size_t>(kind)]; }

double rateCorrection(const OptimizerOptions &options, uint64_t t) {
  if (options.kind != OptimizerKind::Adam) return 1;
  const double steps = static_cast<double>(t);
  return std::sqrt(1 - std::pow(options.beta2.value_or(0.999), steps)) /
         (1 - std::pow(options.beta1.value_or(0.9), steps));
}

Expected<TrainingGraph> appendOptimizer(Context &context, const Graph &gradients, const OptimizerOptions &options) {
  return catchingBadAlloc("to append the optimizer", [&]() -> Expected<TrainingGraph> {
    Expected<OptimizerOperators> operators = OptimizerOperators::find(context, options);
    if (!operators) return operators.takeError();
    return Appending(context, gradients, options, *operators).run();
  });
}

}  // namespace gradc
