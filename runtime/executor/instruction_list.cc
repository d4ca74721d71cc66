#include "runtime/executor/instruction_list.h"

#include "ir/base/error.h"
#include "ir/base/release.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {

Error checkComputable(const NodeKind &kind, DType stored, DType given, bool isFirst, const Twine &who) {
  const DTypeSet types = kind.op->kernelTypes;
  if (types.contains(given) || !isFirst) return Error::success();
  return Failure(ErrorKind::DTypeWidth,
                 who + " works on " + dtypeName(stored) + ", but its kernel computes in " + types.names())
      .remedy(Remedy::RunAsAnotherType, "run it as another type, such as float32");
}

RandomOrdinals::RandomOrdinals(const Graph &graph) : graph(graph) {
  for (uint32_t id = 0; id < graph.numNodes(); ++id) {
    const NodeKind &kind = graph.kind(NodeId(id));
    if ((kind.draws && !kind.op->flags.isBackward) || kind.drawsInBodies) nodes.push_back(NodeId(id));
  }
}

// By id, so that a node draws the same wherever the schedule puts it.
uint64_t RandomOrdinals::of(NodeId n) const {
  const NodeKind &kind = graph.kind(n);
  if (!draws(kind)) return 0;
  if (!kind.op->flags.isBackward || kind.drawsInBodies) return llvm::lower_bound(nodes, n) - nodes.begin();
  // A backward operator that draws again must draw what its forward node drew.
  ArrayRef<NodeId> deps = graph.controlDeps(n);
  return deps.empty() ? 0 : llvm::lower_bound(nodes, deps[0]) - nodes.begin();
}

TensorRef InstructionList::tensor(EntryId e) const {
  if (!inference.isKnownShape(e)) return {address[e], inference.dtype[e], {}};
  const Layout layout = kernels.isEmpty() ? Layout::Plain : kernels.layout(e);
  return {address[e], inference.dtype[e], inference.shapeOf(e).dims(), layout};
}

void InstructionList::resolve() {
  for (size_t i = 0; i < operands.size(); ++i) operands[i].data = address[operandEntry[i]];
}

void InstructionList::setFailure(Error *slot) {
  failure = slot;
  for (const std::unique_ptr<MovableRunner> &runner : runners) runner->setFailure(slot);
}

InstructionExtras &InstructionList::needExtras(Instruction &instruction) {
  if (instruction.extras == Instruction::kNone) {
    instruction.extras = static_cast<uint32_t>(extras.size());
    extras.push_back({.random = random});
  }
  return extras[instruction.extras];
}

void InstructionList::group() {
  auto next = instructions.begin();
  for (const FusedGroup &fused : kernels.fusion().groups) {
    next = std::find_if(next, instructions.end(), [&](const Instruction &i) { return i.node == fused.nodes.front(); });
    assert(next + static_cast<ptrdiff_t>(fused.nodes.size()) <= instructions.end());
    InstructionExtras &extras = needExtras(*next);
    extras.group = &fused;
    extras.numMembers = static_cast<uint32_t>(fused.nodes.size());
    next += extras.numMembers;
  }
}

void InstructionList::shrinkToFit() {
  instructions.shrink_to_fit();
  extras.shrink_to_fit();
  operands.shrink_to_fit();
  operandEntry.shrink_to_fit();
  requests.shrink_to_fit();
}

void InstructionList::addExtras(const InstructionExtras &extras, KernelCall &call) const {
  call.random = extras.random;
  call.state = extras.state;
  call.bodies = ArrayRef(runnerList).slice(extras.firstRunner, extras.numRunners);
  for (uint32_t r = 0; r < extras.numRunners; ++r) runners[extras.firstRunner + r]->startNode();
}

void InstructionList::setRandom(uint64_t seed, uint64_t step) {
  random.seed = seed;
  random.step = step;
  for (InstructionExtras &rare : extras) {
    rare.random.seed = seed;
    rare.random.step = step;
  }
}

void InstructionList::trim(ShapeTable &shapes) {
  std::vector<std::optional<Dims>> known;  // by id in the inference's table
  auto dimsOf = [&](EntryId e) {
    const ShapeId id = inference.shape[e];
    if (id.value >= known.size()) known.resize(id.value + 1);
    std::optional<Dims> &dims = known[id.value];
    if (!dims) dims = shapes[*shapes.intern(inference.shapeOf(e).dims())].dims();
    return *dims;
  };
  for (auto [i, operand] : enumerate(operands))
    if (inference.isKnownShape(operandEntry[i])) operand.shape = dimsOf(operandEntry[i]);
  for (auto [h, head] : enumerate(heads))
    if (head.data) head.shape = dimsOf(graph.entry(graph.heads()[h]));
  kinds = graph.kinds().vec();
  graph = Graph();
  inference = Inference();
  release(neededVariables);
}

ArenaPlaces::ArenaPlaces(const InstructionList &list, const MemoryPlan &plan, char *arena)
    : entries(list.graph.numEntries()), at(arena) {
  for (uint32_t e = 0; e < entries.size(); ++e)
    if (plan.offset[EntryId(e)] >= 0 && list.address[EntryId(e)]) entries.set(e);
  uint32_t runner = 0;
  for (uint32_t i = 0; i < list.instructions.size(); ++i) {
    const Instruction &instruction = list.instructions[i];
    const int64_t offset = plan.workspace[instruction.node];
    // A fast kernel that is not in the plan has its workspace elsewhere.
    if (offset >= 0 && instruction.workspace == arena + offset) workspaces.push_back({i, offset});
    if (!instruction.kind->flow) continue;
    const FlowPlan &flow = *findFlowPlan(plan.flows, instruction.node);
    for (size_t b = 0; b < flow.bodies.size(); ++b, ++runner)
      if (offset >= 0) bodies.push_back({runner, offset + flow.ownBytes});
  }
  workspaces.shrink_to_fit();
}

void ArenaPlaces::move(InstructionList &list, char *arena) {
  const auto shift = reinterpret_cast<uintptr_t>(arena) - reinterpret_cast<uintptr_t>(at);
  for (unsigned e : entries.set_bits()) {
    char *&address = list.address[EntryId(e)];
    address = reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(address) + shift);
  }
  at = arena;
  for (const Place &place : workspaces) list.instructions[place.of].workspace = arena + place.offset;
  for (const Place &place : bodies) list.runners[place.of]->moveArena(arena + place.offset);
}

size_t ArenaPlaces::heapBytes() const {
  return (workspaces.capacity() + bodies.capacity()) * sizeof(Place) + entries.getMemorySize();
}

}  // namespace gradc
