// Tested by tests/formats/blocks/backward/block_backward_test.cc
#include "formats/blocks/graph/op_function.h"

#include "formats/blocks/ops/op_row.h"
#include "ir/graph/context.h"
#include "passes/rewrite/rewriter.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr StringLiteral kSeed = "seed";
constexpr StringLiteral kSuffix = "@GRAD";

NodeId variableAt(const OpFunction &function, const OperandPlace &place) {
  const auto at = llvm::find(function.places, place);
  return at == function.places.end() ? NodeId() : NodeId(static_cast<uint32_t>(at - function.places.begin()));
}

class Splice {
 public:
  Splice(GraphBuilder &to, const OpFunction &function, const GradientResult &gradient, const SplicePorts &ports)
      : to(to), gradient(gradient), graph(gradient.graph), ports(ports), inFunction(graph.numNodes()),
        rewriter(to, graph) {
    for (uint32_t n = 0; n < function.graph.numNodes(); ++n) {
      const NodeId at = gradient.forwardIds.empty() ? NodeId(n) : gradient.forwardIds[n];
      if (at.isValid()) inFunction[at.value] = NodeId(n);
    }
  }

  std::vector<Value> run() {
    for (uint32_t n = 0; n < graph.numNodes(); ++n)
      if (!inFunction[n].isValid()) copy(NodeId(n));
    std::vector<Value> values;
    for (const GradientSlot &slot : gradient.wrt) values.push_back(read(slot.value));
    return values;
  }

 private:
  Value read(Value v) {
    const NodeId known = inFunction[v.node.value];
    if (!known.isValid()) return rewriter(v);
    Value found = graph.isVariable(v.node) ? ports.operand(known) : ports.value({known, v.index, 0});
    found.version = static_cast<uint16_t>(found.version + v.version);
    return found;
  }

  /// The value whose shape an ignored input gives.
  Value shapeOf(Value v) {
    const NodeId known = inFunction[v.node.value];
    if (!known.isValid()) return rewriter(v);
    if (graph.isVariable(v.node)) return ports.operand(known);  // any output of its node
    return {ports.node(known), v.index, v.version};
  }

  void copy(NodeId n) {
    const NodeKind &kind = graph.kind(n);
    ArrayRef<Value> given = graph.inputs(n);
    if (kind.isVariable()) {
      size_t number = 0;
      graph.name(n).drop_front(kSeed.size()).getAsInteger(10, number);
      return rewriter.replace(n, ports.seed(number), {});
    }
    // The gradient of an output already has its shape.
    if (kind.op == to.context().ops.wellKnown.identityLike && inFunction[given[1].node.value].isValid())
      return rewriter.replace(n, read(given[0]), {});
    SmallVector<Value, 8> operands;
    for (size_t i = 0; i < given.size(); ++i)
      operands.push_back(kind.isIgnored(i) ? shapeOf(given[i]) : read(given[i]));
    const NodeId copied = rewriter.draft(n, operands);
    for (NodeId dep : graph.controlDeps(n))  // the forward node comes first
      if (const NodeId known = inFunction[dep.value]; known.isValid())
        to.addControlDep(copied, graph.isVariable(dep) ? ports.operand(known).node : ports.node(known));
    rewriter.replace(n, copied);
  }

  GraphBuilder &to;
  const GradientResult &gradient;
  const Graph &graph;
  const SplicePorts &ports;
  std::vector<NodeId> inFunction;  // by node of the gradient
  GraphInsertion rewriter;
};

size_t levelOf(StringRef type) {
  size_t level = 0;
  while (type.consume_back("_grad")) ++level;
  return level;
}

}  // namespace

Expected<OpFunction> functionOf(Context &context, const BlockProgram &program, uint32_t block, size_t at,
                                const BlockOp &of, ArrayRef<NodeId> nodes) {
  const BlockOpRow *row = findBlockOp(program.text(of.type));
  if (!row) row = findGradientRow(program.text(of.type));
  GraphBuilder builder(context);
  std::vector<std::pair<OperandPlace, Value>> given;
  OpTranslation translation(builder, program, block, at, of, [&](StringRef slot, size_t i, TextId name) {
    const OperandPlace place{slot, i};
    for (const auto &[known, v] : given)
      if (known == place) return v;
    given.push_back({place, builder.addVariable(program.text(name), Attrs())});
    return given.back().second;
  });
  row->translate(translation);
  Expected<std::vector<OpTranslation::Written>> written = translation.finish();
  if (!written) return written.takeError();
  const uint32_t numNodes = builder.numNodes();
  // A result that is an operand unchanged, such as padding by nothing, has a gradient all the same.
  for (OpTranslation::Written &out : *written)
    if (builder.kind(out.value.node).isVariable())
      out.value = {cantFail(builder.add(*context.ops.wellKnown.copy, {out.value}, {""})), 0, 0};
  SmallVector<Value, 4> heads;
  for (const OpTranslation::Written &out : *written)
    if (!is_contained(heads, out.value)) heads.push_back(out.value);
  std::vector<bool> isVariable(numNodes);
  for (uint32_t n = 0; n < numNodes; ++n) isVariable[n] = builder.kind(NodeId(n)).isVariable();
  Expected<Frozen> frozen = std::move(builder).freeze(heads, {});
  if (!frozen) return frozen.takeError();
  OpFunction function{frozen->graph, {}, {}, {}, {}};
  const uint32_t numKept = frozen->graph.numNodes();
  function.places.resize(numKept);
  for (const auto &[place, v] : given)
    if (const NodeId n = frozen->newId[v.node.value]; n.isValid()) function.places[n.value] = place;
  if (!nodes.empty()) function.nodes.resize(numKept);
  size_t next = 0;
  for (uint32_t n = 0; n < numNodes && !nodes.empty(); ++n) {
    if (isVariable[n]) continue;
    if (const NodeId kept = frozen->newId[n]; kept.isValid()) function.nodes[kept.value] = nodes[next];
    ++next;
  }
  for (const OpTranslation::Written &out : *written)
    if (frozen->newId[out.value.node.value].isValid() && is_contained(heads, out.value))
      function.outputs.push_back({{out.slot, out.i}, (*frozen)(out.value)});
  return function;
}

Expected<GradientResult> gradientOfFunction(Context &context, const OpFunction &function, ArrayRef<OperandPlace> seeded,
                                            ArrayRef<OperandPlace> wanted) {
  GradientRequest request;
  for (auto [k, place] : enumerate(seeded))
    for (const OpFunction::Output &output : function.outputs)
      if (output.place == place) request.heads.push_back({output.value, std::nullopt, kSeed.str() + std::to_string(k)});
  for (const OperandPlace &place : wanted) request.wrt.push_back({Value{variableAt(function, place)}});
  GradientOptions options;
  options.unused = UnusedPolicy::Zeros;
  return buildGradient(context, function.graph, request, options);
}

std::vector<Value> splice(GraphBuilder &to, const OpFunction &function, const GradientResult &gradient,
                          const SplicePorts &ports) {
  return Splice(to, function, gradient, ports).run();
}

FormSlots slotsOf(const GradientForm &form) {
  FormSlots slots;
  const size_t level = levelOf(form.forward);
  for (const GradientForm::Slot &slot : form.inputs) {
    size_t depth = 0;
    for (StringRef rest = slot.source; rest.consume_back(kSuffix);) ++depth;
    const bool isGradient = depth > level;
    slots.inputs.push_back({slot.name, isGradient ? slot.source.drop_back(kSuffix.size()) : slot.source, isGradient});
  }
  for (const GradientForm::Slot &slot : form.outputs)
    slots.outputs.push_back({slot.name, slot.source.drop_back(kSuffix.size()), true});
  return slots;
}

namespace {

class GradientFunction {
 public:
  GradientFunction(Context &context, const GradientParts &of)
      : of(of), forward(of.forward), builder(context), skeletons(builder, forward.graph) {}

  Expected<OpFunction> run() {
    SplicePorts ports;
    ports.operand = [&](NodeId n) { return operand(n); };
    ports.value = [&](Value v) { return value(v); };
    ports.node = [&](NodeId n) { return skeleton(n); };
    ports.seed = [&](size_t k) { return given({slotOf(of.seeded[k].slot, true), of.seeded[k].i}); };
    const std::vector<Value> values = splice(builder, forward, of.gradient, ports);
    SmallVector<Value, 4> heads;
    for (Value v : values)
      if (!builder.kind(v.node).isVariable() && !is_contained(heads, v)) heads.push_back(v);
    std::vector<bool> isOwn(builder.numNodes());
    for (uint32_t n = 0; n < builder.numNodes(); ++n)
      isOwn[n] = !builder.kind(NodeId(n)).isVariable() && !shown.contains(n);
    Expected<Frozen> frozen = std::move(builder).freeze(heads, {});
    if (!frozen) return frozen.takeError();
    OpFunction made{frozen->graph, {}, {}, {}, {}};
    const uint32_t numKept = made.graph.numNodes();
    made.places.resize(numKept);
    made.constants.resize(numKept);
    made.nodes.resize(numKept);
    for (const auto &[place, v] : places)
      if (const NodeId n = frozen->newId[v.node.value]; n.isValid()) made.places[n.value] = place;
    for (const auto &[constant, v] : constants)
      if (const NodeId n = frozen->newId[v.node.value]; n.isValid()) made.constants[n.value] = constant;
    size_t next = 0;
    for (uint32_t n = 0; n < isOwn.size(); ++n) {
      const NodeId known = isOwn[n] ? of.nodes[next++] : shown.contains(n) ? forward.nodes[shown.lookup(n)] : NodeId();
      if (const NodeId kept = frozen->newId[n]; kept.isValid()) made.nodes[kept.value] = known;
    }
    for (auto [place, v] : zip(of.wanted, values))
      if (is_contained(heads, v)) made.outputs.push_back({{outputSlotOf(place.slot), place.i}, (*frozen)(v)});
    return made;
  }

 private:
  /// The operator's slot for slot `source` of the forward operator; empty: it has none.
  StringRef slotOf(StringRef source, bool isGradient) const {
    for (const FormSlots::Slot &slot : of.slots.inputs)
      if (slot.source == source && slot.isGradient == isGradient) return slot.name;
    return "";
  }
  bool isDifferentiated(StringRef slot) const {
    return any_of(of.next.outputs, [&](const FormSlots::Slot &next) { return next.source == slot; });
  }
  StringRef outputSlotOf(StringRef source) const {
    for (const FormSlots::Slot &slot : of.slots.outputs)
      if (slot.source == source) return slot.name;
    return "";
  }
  Value given(const OperandPlace &place) {
    for (const auto &[known, v] : places)
      if (known == place) return v;
    places.push_back({place, builder.addVariable(place.slot, Attrs())});
    return places.back().second;
  }
  Value constant(Value inBlock) {
    for (const auto &[known, v] : constants)
      if (known == inBlock) return v;
    constants.push_back({inBlock, builder.addVariable("constant", Attrs())});
    return constants.back().second;
  }
  Value operand(NodeId n) {
    if (forward.isConstant(n)) return constant(forward.constants[n.value]);
    const OperandPlace &place = forward.places[n.value];
    if (const StringRef slot = slotOf(place.slot, false); !slot.empty()) return given({slot, place.i});
    return constant(of.operand(place));
  }
  Value value(Value v) {
    for (const OpFunction::Output &output : forward.outputs)
      if (output.value == v)
        if (const StringRef slot = slotOf(output.place.slot, false); isDifferentiated(slot))
          return given({slot, output.place.i});
    return {skeleton(v.node), v.index, 0};  // not a constant: it may depend on operands
  }
  NodeId skeleton(NodeId wanted) {
    for (uint32_t n = 0; n <= wanted.value; ++n) {
      if (skeletonOf(NodeId(n)).isValid()) continue;
      if (forward.graph.isVariable(NodeId(n))) skeletons.detach(NodeId(n), Value{operand(NodeId(n)).node});
      else shown[skeletons.copyForShape(NodeId(n)).value] = n;
    }
    return skeletonOf(wanted);
  }
  NodeId skeletonOf(NodeId n) const { return skeletons(Value{n}).node; }

  const GradientParts &of;
  const OpFunction &forward;
  GraphBuilder builder;
  std::vector<std::pair<OperandPlace, Value>> places;
  std::vector<std::pair<Value, Value>> constants;
  GraphInsertion skeletons;            // of forward nodes
  DenseMap<uint32_t, uint32_t> shown;  // forward nodes, by their copies
};

}  // namespace

Expected<OpFunction> functionOfGradient(Context &context, const GradientParts &of) {
  return GradientFunction(context, of).run();
}

}  // namespace gradc
