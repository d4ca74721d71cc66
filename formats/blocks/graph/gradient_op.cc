// Tested by tests/formats/blocks/backward/block_backward_test.cc
#include "formats/blocks/graph/gradient_op.h"

#include "formats/blocks/graph/block_body.h"
#include "formats/blocks/graph/forward_search.h"
#include "formats/blocks/graph/op_function.h"
#include "formats/blocks/ops/op_row.h"
#include "formats/blocks/program/gradient_names.h"
#include "ir/graph/context.h"
#include "ir/graph/effects.h"
#include "passes/rewrite/rewriter.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

/// A node that computes nothing and has the shapes of node `n` of the forward block. Copies everything that the node
/// depends on, down to variables, in id order: the inputs of a node precede it.
NodeId skeleton(BlockReader &reader, NodeId n) {
  const GraphBuilder &forward = reader.forwardReader()->builder;
  std::vector<uint32_t> pending = {n.value}, needed;
  DenseSet<uint32_t> seen;
  while (!pending.empty()) {
    const uint32_t at = pending.back();
    pending.pop_back();
    if (reader.skeletons.contains(at) || !seen.insert(at).second) continue;
    needed.push_back(at);
    for (Value v : forward.inputs(NodeId(at))) pending.push_back(v.node.value);
  }
  llvm::sort(needed);
  for (uint32_t at : needed) {
    const KindRef &kind = forward.kindHandle(NodeId(at));
    if (kind->isVariable()) {
      reader.skeletons[at] = reader.forwardVariable({NodeId(at), 0, 0}).node;
      continue;
    }
    SmallVector<Value, 8> operands;
    for (Value v : forward.inputs(NodeId(at)))
      operands.push_back({reader.skeletons.lookup(v.node.value), v.index, v.version});
    reader.skeletons[at] = reader.builder.addKind(withoutEffects(reader.context, kind), operands, NodeId());
  }
  return reader.skeletons.lookup(n.value);
}

/// Reads one gradient operator for the reader of its block.
class GradientOpReader {
 public:
  GradientOpReader(BlockReader &reader, size_t at) : reader(reader), program(reader.program), at(at) {}

  Expected<bool> read() {
    const std::optional<GradientForm> form = formOfGradient(program.text(op().type));
    if (!form) return false;
    slots = slotsOf(*form);
    forwardType = form->forward;
    if (Error error = findForward()) return error;
    if (linked) return readLinked();
    return findBlockOp(forwardType) ? readAlone() : Expected<bool>(false);
  }

  /// The operator itself as a function of its operands, for its gradient, whose slots are `next`. Everything else that
  /// it reads is constant.
  Expected<OpFunction> asFunction(const FormSlots &next) {
    if (findGradientRow(program.text(op().type)))
      return functionOf(reader.context, program, reader.index, at, op(), {});
    const GradientForm form = *formOfGradient(program.text(op().type));
    slots = slotsOf(form);
    forwardType = form.forward;
    if (Error error = findForward()) return error;
    if (linked != &reader)
      return failureAt(program, reader.index, at, ErrorKind::NotDifferentiable,
                       "the gradient of '" + program.text(op().type) + "' is not available here");
    Expected<OpFunction> function = forwardFunction();
    if (!function) return function.takeError();
    findRequest(*function);
    if (seeded.empty())
      return failureAt(program, reader.index, at, ErrorKind::NotDifferentiable, "it reads no gradient of an output");
    Expected<GradientResult> made = gradientOfFunction(reader.context, *function, seeded, wanted);
    if (!made) return blameOp(program, reader.index, at, made.takeError());
    auto operandOf = [&](const OperandPlace &place) { return operandOfForward(place); };
    return functionOfGradient(reader.context, {slots, next, *function, *made, seeded, wanted, operandOf,
                                               nodesOf(reader, static_cast<uint32_t>(at))});
  }

  void record(uint32_t firstNode, std::vector<Value> inputs) {
    const std::optional<StringRef> text = gradientForm(program.text(op().type));
    if (!text || text->empty() || *text == "none") return;
    const std::optional<GradientForm> form = formOfGradient(parseGradientForm("", *text).type);
    if (!form) return;
    if (reader.records.size() < at + 1) reader.records.resize(reader.program.blocks[reader.index].ops.size());
    // A variable that this operator was the first to read has a value only now.
    size_t number = 0;
    forEachVariable(op().inputs, [&](TextId name) {
      Value &v = inputs[number++];
      if (!v.isValid() && !writes(name)) v = ForwardSearch::valueOf(reader, name);
    });
    BlockReader::OpRecord &made = reader.records[at];
    made = {firstNode, reader.builder.numNodes(), std::move(inputs), {}};
    forEachVariable(op().outputs, [&](TextId name) { made.outputs.push_back(ForwardSearch::valueOf(reader, name)); });
    ForwardSearch::add(reader, at, slotsOf(*form));
  }

  /// A row reads its operands; a gradient operator may name values that were never written.
  std::vector<Value> inputs() {
    const bool isRow = findBlockOp(program.text(op().type));
    std::vector<Value> values;
    forEachVariable(op().inputs, [&](TextId name) {
      values.push_back(isRow && name != kEmptyName ? reader.read(name) : ForwardSearch::valueOf(reader, name));
    });
    return values;
  }

 private:
  const BlockOp &op() const { return reader.op(at); }

  bool writes(TextId name) const {
    return any_of(op().outputs, [&](const BlockSlot &slot) { return is_contained(slot.variables, name); });
  }

  // 1. The forward operator.

  Error findForward() {
    Expected<ForwardSearch::Found> found = ForwardSearch(reader, at, slots, forwardType).find();
    if (!found) return found.takeError();
    linked = found->in;
    forward = found->op;
    return Error::success();
  }

  // 2. Its function, as a separate graph.

  // 3. Its gradient: which outputs have one, and which operands' gradients are requested.

  void findRequest(const OpFunction &function) {
    for (const FormSlots::Slot &slot : slots.inputs) {
      if (!slot.isGradient) continue;
      for (auto [i, name] : enumerate(program.variables(op().inputs, slot.name))) {
        const OperandPlace place{slot.source, i};
        const bool isComputed =
            llvm::any_of(function.outputs, [&](const OpFunction::Output &out) { return out.place == place; });
        if (name == kEmptyName || !isComputed) continue;
        seeded.push_back(place);
        seeds.push_back(name);
      }
    }
    for (const FormSlots::Slot &slot : slots.outputs)
      for (auto [i, name] : enumerate(program.variables(op().outputs, slot.name))) {
        if (name == kEmptyName) continue;
        const OperandPlace place{slot.source, i};
        requested.push_back({name, place});
        if (llvm::is_contained(function.places, place)) wanted.push_back(place);
      }
  }

  /// `operandAt`: an invalid value where the forward operator has no operand.
  Expected<bool> writeGradients(const OpFunction &function, SplicePorts ports,
                                function_ref<Value(const OperandPlace &)> operandAt) {
    findRequest(function);
    std::vector<Value> values;
    if (!seeded.empty() && !wanted.empty()) {
      Expected<GradientResult> made = gradientOfFunction(reader.context, function, seeded, wanted);
      if (!made) return blameOp(program, reader.index, at, made.takeError());
      ports.seed = [&](size_t k) { return reader.read(seeds[k]); };
      values = splice(reader.builder, function, *made, ports);
    }
    for (const auto &[name, place] : requested) {
      const auto known = llvm::find(wanted, place);
      Value v;
      if (known != wanted.end() && !values.empty()) v = values[static_cast<size_t>(known - wanted.begin())];
      else if (const Value of = operandAt(place); of.isValid()) v = reader.emit("zeros_like", {of});
      else
        return failureAt(program, reader.index, at, ErrorKind::BadEntry,
                         "'" + program.text(name) + "' would be the gradient of operand " + Twine(place.i) +
                             " in slot '" + place.slot + "' of '" + forwardType + "', which has no such operand");
      const DeclaredName to = reader.declared(name);
      reader.write(to, reader.stopped(to, v, at));
    }
    return true;
  }

  /// The nodes of an operator that was read.
  static std::vector<NodeId> nodesOf(const BlockReader &in, uint32_t number) {
    std::vector<NodeId> nodes;
    for (uint32_t n = in.records[number].firstNode; n < in.records[number].endNode; ++n)
      if (!in.builder.kind(NodeId(n)).isVariable()) nodes.push_back(NodeId(n));
    return nodes;
  }

  Expected<OpFunction> forwardFunction() {
    const bool isRow = findBlockOp(forwardType) != nullptr;
    Expected<OpFunction> function = isRow ? functionOf(reader.context, program, linked->index, forward,
                                                       linked->op(forward), nodesOf(*linked, forward))
                                          : GradientOpReader(*linked, forward).asFunction(slots);
    if (!function) return function.takeError();
    for (uint32_t n = 0; n < function->graph.numNodes(); ++n)
      if (const OperandPlace &place = function->places[n]; !place.slot.empty() && !operandOfForward(place).isValid())
        return failureAt(program, linked->index, forward, ErrorKind::BadEntry,
                         "operand " + Twine(place.i) + " in slot '" + place.slot + "' has no value");
    return function;
  }

  /// Invalid if the forward operator has no such operand.
  Value operandOfForward(const OperandPlace &place) const {
    ArrayRef<Value> values = ForwardSearch::valuesIn(*linked, forward, place.slot);
    return place.i < values.size() ? values[place.i] : Value();
  }

  Expected<bool> readLinked() {
    Expected<OpFunction> function = forwardFunction();
    if (!function) return function.takeError();
    const bool isHere = linked == &reader;
    auto operandAt = [&](const OperandPlace &place) {
      const Value v = operandOfForward(place);
      return isHere || !v.isValid() ? v : reader.forwardVariable(v);
    };
    SplicePorts ports;
    ports.operand = [&](NodeId n) {
      return function->isConstant(n) ? function->constants[n.value] : operandAt(function->places[n.value]);
    };
    if (function->nodes.empty()) return writeFromCopy(*function, std::move(ports), operandAt);
    ports.value = [&](Value v) {
      const Value computed{function->nodes[v.node.value], v.index, 0};
      return isHere ? computed : reader.forwardVariable(computed);
    };
    ports.node = [&](NodeId n) {
      return isHere ? function->nodes[n.value] : skeleton(reader, function->nodes[n.value]);
    };
    return writeGradients(*function, std::move(ports), operandAt);
  }

  // Computes the forward operator again from the operands that are there. graphOfBlocks sees to the texts.
  Expected<bool> readAlone() {
    BlockOp of = op();
    of.type = program.texts.find(forwardType);
    of.inputs.clear();
    of.outputs.clear();
    for (const FormSlots::Slot &slot : slots.inputs)
      if (ArrayRef<TextId> names = program.variables(op().inputs, slot.name); !names.empty())
        (slot.isGradient ? of.outputs : of.inputs)
            .push_back({program.texts.find(slot.source), {names.begin(), names.end()}});
    for (const FormSlots::Slot &slot : slots.outputs)
      if (!program.variables(op().outputs, slot.name).empty() && program.variables(of.inputs, slot.source).empty())
        return false;
    Expected<OpFunction> function = functionOf(reader.context, program, reader.index, at, of, {});
    if (!function) {
      consumeError(function.takeError());
      return false;
    }
    auto operandAt = [&](const OperandPlace &place) {
      ArrayRef<TextId> names = program.variables(of.inputs, place.slot);
      return place.i < names.size() && names[place.i] != kEmptyName ? reader.read(names[place.i]) : Value();
    };
    SplicePorts ports;
    ports.operand = [&](NodeId n) { return operandAt(function->places[n.value]); };
    return writeFromCopy(*function, std::move(ports), operandAt);
  }

  /// Computes the function's nodes, which the block does not have.
  Expected<bool> writeFromCopy(const OpFunction &function, SplicePorts ports,
                               function_ref<Value(const OperandPlace &)> operandAt) {
    const Graph &graph = function.graph;
    GraphInsertion rewriter(reader.builder, graph);
    for (uint32_t n = 0; n < graph.numNodes(); ++n) {
      if (graph.isVariable(NodeId(n))) continue;
      for (Value v : graph.inputs(NodeId(n)))
        if (graph.isVariable(v.node) && !rewriter(v.node).isValid())
          rewriter.replace(v.node, ports.operand(v.node), {});
      rewriter.copy(NodeId(n));
    }
    ports.value = [&](Value v) { return rewriter(v); };
    ports.node = [&](NodeId n) { return rewriter(n); };
    return writeGradients(function, std::move(ports), operandAt);
  }

  BlockReader &reader;
  const BlockProgram &program;
  const size_t at;
  FormSlots slots;
  StringRef forwardType;
  BlockReader *linked = nullptr;  // has the forward operator
  uint32_t forward = 0;
  std::vector<OperandPlace> seeded, wanted;
  std::vector<TextId> seeds;                               // parallel to seeded
  std::vector<std::pair<TextId, OperandPlace>> requested;  // gradients, and the operands they belong to
};

}  // namespace

Expected<bool> readGradientOp(BlockReader &reader, size_t at) { return GradientOpReader(reader, at).read(); }

std::vector<Value> inputsForGradient(BlockReader &reader, size_t at) { return GradientOpReader(reader, at).inputs(); }

void recordForGradient(BlockReader &reader, size_t at, uint32_t firstNode, std::vector<Value> inputs) {
  GradientOpReader(reader, at).record(firstNode, std::move(inputs));
}

}  // namespace gradc
