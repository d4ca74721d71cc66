// Turns graph, requests and plan into instructions. Phases: place every entry, list the steps that fill heads, emit
// instructions, connect their views. Linear. Tested by tests/runtime/executor_test.cc
#include "runtime/executor/instructions.h"

#include "ir/base/error.h"
#include "ir/graph/bodies.h"
#include "ir/graph/body_flow.h"
#include "ir/rules/inference.h"
#include "passes/order/requests.h"
#include "runtime/executor/body_runner.h"
#include "runtime/executor/run_errors.h"
#include "runtime/executor/unwritten_rows.h"
#include "runtime/kernels/core/widened_kernel.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace gradc {
namespace {

struct StepPlan {
  uint32_t after;  // the step of the schedule that computes the entry
  EntryId entry;
  uint32_t head;
  bool isAdd;
};

class Preparation {
 public:
  Preparation(const Graph &graph, const Inference &inference, const RequestTable &requests, const MemoryPlan &plan,
              const ExecOptions &options, const BodySite *site)
      : graph(graph), requests(requests), plan(plan), options(options), site(site), schedule(options.schedule),
        ordinals(graph), scratchShapes(*inference.shapes), isRead(graph.numEntries()) {
    if (!plan.flows.empty()) isCleared = loopsToClear(graph, site ? site->partlyReadHeads : BitVector());
    list.graph = graph;
    list.inference = inference;
    list.address = EntryMap<char *>(graph, nullptr);
    if (options.forms.empty()) list.random.seed = options.seed;
    takeKernels(inference);
  }

  Expected<InstructionList> run() {
    markReads();
    if (!site)
      if (Error error = checkUses(plan.flows)) return error;
    arena = site ? site->arena : options.arena;
    if (!site && !arena)
      if (Error error =
              own(allocateBuffer(plan.plannedBytes, sparePlanned(), "the memory plan"), plan.plannedBytes, arena))
        return error;
    if (Error error = placeHeads()) return error;
    if (Error error = placeEntries()) return error;
    if (!options.kernels)
      if (Error error = placeKernelScratch()) return error;
    for (const KernelSet::Tape &tape : list.kernels.tapes())
      list.kernels.kernel(tape.backward)->takeTape(arena + plan.workspace[tape.forward]);
    for (uint32_t step = 0; step < graph.numNodes(); ++step)
      if (Error error = emit(step)) return error;
    finishSteps();
    collectVariables();
    list.group();
    list.shrinkToFit();
    return std::move(list);
  }

 private:
  void takeKernels(const Inference &inference) {
    if (options.backend == Backend::Reference) return;
    // Hooks may run the piece of a node in place of its kernel, in the workspace that the plan has for the reference
    // kernel.
    if (site && options.overrides && options.overrides->bodies) return;
    if (options.kernels) {
      list.kernels = std::move(*options.kernels);
      return;
    }
    KernelSetOptions kernelOptions;
    kernelOptions.isTraining = options.isTraining;
    kernelOptions.forms = options.forms;
    kernelOptions.threads = options.threads;
    kernelOptions.allowLayouts = !options.monitor && !options.overrides;
    list.kernels = KernelSet::create(graph, inference, requests, kernelOptions);
  }

  /// For kernels that are not in the plan. Nodes run one after the other, so all share this memory.
  Error placeKernelScratch() {
    size_t most = 0;
    for (uint32_t id = 0; id < graph.numNodes(); ++id) most = std::max(most, list.kernels.workspaceBytes(NodeId(id)));
    return most ? own(most, "the workspace of kernels", kernelScratch) : Error::success();
  }

  Request headRequest(size_t i) const {
    return options.headRequests.empty() ? Request::Write : options.headRequests[i];
  }
  bool isKnown(EntryId e) const { return list.inference.isKnownShape(e) && list.inference.dtype[e] != DType::Unknown; }
  const NodeOverride *overrideOf(NodeId n) const {
    if (site || !options.overrides || options.overrides->nodes.empty()) return nullptr;
    const NodeOverride &given = options.overrides->nodes[n.value];
    return given.kind == NodeOverride::Kind::None && given.inputs.empty() ? nullptr : &given;
  }

  size_t sparePlanned() const {
    return isCleared.empty() ? 0 : bytesOfPartlyWrittenStacks(graph, list.inference, isCleared);
  }

  /// Takes memory that the list owns from here on, and sets `to` to it.
  template <class T> Error own(size_t bytes, const Twine &what, T *&to) {
    return own(allocateBuffer(bytes, what), bytes, to);
  }
  template <class T> Error own(Expected<Buffer> buffer, size_t bytes, T *&to) {
    if (!buffer) return buffer.takeError();
    to = buffer->get();
    list.buffers.push_back(std::move(*buffer));
    list.ownedBytes += alignTo(bytes, kPlanAlignment);
    return Error::success();
  }
  template <class T> Error own(EntryId e, const Twine &what, NodeId n, T *&to) {
    return amend(own(list.tensor(e).bytes(), what, to), [&](GradcError &error) { error.place.node = n; });
  }

  bool isSkipped(NodeId n) const { return graph.isVariable(n) || hasNothingToDo(graph, requests, list.inference, n); }

  void markReads() {
    for (uint32_t id = 0; id < graph.numNodes(); ++id) {
      if (isSkipped(NodeId(id))) continue;
      const NodeKind &kind = graph.kind(NodeId(id));
      ArrayRef<Value> inputs = graph.inputs(NodeId(id));
      for (size_t i = 0; i < inputs.size(); ++i)
        if (!kind.isIgnored(i)) isRead.set(graph.entry(inputs[i]).value);
    }
  }

  /// An entry is computed in the buffer of its first head with the request Write; its other heads get steps.
  Error placeHeads() {
    ArrayRef<Value> heads = graph.heads();
    assert(options.headRequests.empty() || options.headRequests.size() == heads.size());
    list.heads.resize(heads.size());
    list.headEntry.resize(heads.size());
    for (uint32_t i = 0; i < heads.size(); ++i) {
      EntryId e = graph.entry(heads[i]);
      Request request = headRequest(i);
      if (request == Request::Null) continue;
      if (!isKnown(e)) return unknownTensor(graph, list.inference, heads[i].node, e);
      list.heads[i] = list.tensor(e);
      list.heads[i].data = site ? &unbound : options.headMemory.empty() ? nullptr : options.headMemory[i];
      if (!list.heads[i].data)
        if (Error error = own(e, "head '" + graph.listedName(heads[i]) + "'", heads[i].node, list.heads[i].data))
          return error;
      bool isAdd = request == Request::Add;
      if (isAdd && list.inference.dtype[e] == DType::Bool)
        return Failure(ErrorKind::UnsupportedOption, "head " + Twine(i) + " is " + dtypeName(list.inference.dtype[e]) +
                                                         ", which request 'add' cannot accumulate")
            .at(heads[i].node);
      bool isFree = plan.offset[e] == kExternal && !graph.isVariable(heads[i].node) && !list.address[e];
      if (isFree && !isAdd) {
        list.address[e] = static_cast<char *>(list.heads[i].data);
        list.headEntry[i] = e;
      } else {
        steps.push_back({schedule.stepOf(heads[i].node), e, i, isAdd});
      }
    }
    llvm::sort(steps, [](const StepPlan &a, const StepPlan &b) {
      return std::tie(a.after, a.entry, a.head) < std::tie(b.after, b.entry, b.head);
    });
    return Error::success();
  }

  Error placeEntries() {
    size_t scratchBytes = 0;
    for (uint32_t id = 0; id < graph.numNodes(); ++id) {
      if (graph.isVariable(NodeId(id))) continue;
      size_t scratch = 0;
      for (uint32_t i = 0; i < graph.numOutputs(NodeId(id)); ++i) {
        EntryId e(graph.firstEntry(NodeId(id)).value + i);
        if (requests.request[e] == Request::Null) continue;
        if (!isKnown(e)) return unknownTensor(graph, list.inference, NodeId(id), e);
        if (plan.offset[e] >= 0) list.address[e] = arena + plan.offset[e];
        if (list.address[e] || plan.offset[e] == kInside) continue;
        if (isRead.test(e.value)) {
          if (Error error = own(e, graph.describe(NodeId(id)), NodeId(id), list.address[e])) return error;
          continue;
        }
        inScratch.push_back({e, scratch});
        scratch += alignTo(list.tensor(e).bytes(), kPlanAlignment);
      }
      scratchBytes = std::max(scratchBytes, scratch);
    }
    // Results that only an addition reads are dead once their node is done, so all nodes share this memory.
    if (inScratch.empty()) return Error::success();
    char *memory = nullptr;
    if (Error error = own(scratchBytes, "results that are added to heads", memory)) return error;
    for (auto [e, offset] : inScratch) list.address[e] = memory + offset;
    return Error::success();
  }

  Error checkComputable(NodeId n, DType stored, DType given, bool isFirst) const {
    return amend(gradc::checkComputable(graph.kind(n), stored, given, isFirst, graph.describe(n)),
                 [&](GradcError &error) { error.place.node = n; });
  }

  void addOperand(EntryId e) {
    list.operands.push_back(list.tensor(e));
    list.operandEntry.push_back(e);
  }

  Error addOperands(NodeId n) {
    const NodeKind &kind = graph.kind(n);
    ArrayRef<Value> inputs = graph.inputs(n);
    for (size_t i = 0; i < inputs.size(); ++i) {
      EntryId e = graph.entry(inputs[i]);
      addOperand(e);
      list.requests.push_back(Request::Null);
      // Kernels look at the shapes of operands whose contents they ignore.
      if (kind.isIgnored(i) && list.inference.isKnownShape(e)) continue;
      if (!isKnown(e)) return unknownTensor(graph, list.inference, inputs[i].node, e);
      if (Error error =
              checkComputable(n, list.inference.dtype[e], kernelInputType(kind, i, list.inference.dtype[e]), i == 0))
        return error;
    }
    for (uint32_t i = 0; i < graph.numOutputs(n); ++i) {
      EntryId e(graph.firstEntry(n).value + i);
      // Nothing is written to an output without elements, so no kernel loops over the operands for it.
      const bool isEmpty = list.inference.elements(e) == 0;
      Request request = isEmpty ? Request::Null : requests.request[e];
      addOperand(e);
      if (request != Request::Null)
        if (Error error =
                checkComputable(n, list.inference.dtype[e], kernelOutputType(kind, list.inference.dtype[e]), i == 0))
          return error;
      // In a fused group an output may take over the operand of another member; this node does not see that as in
      // place.
      auto isTakenOver = [&](Value v) { return graph.entry(v) == plan.inplaceOf[e]; };
      bool isInPlace =
          request != Request::Null && plan.inplaceOf[e].isValid() && plan.offset[e] >= 0 && any_of(inputs, isTakenOver);
      list.requests.push_back(request == Request::Null ? request : isInPlace ? Request::InPlace : Request::Write);
    }
    return Error::success();
  }

  Error emit(uint32_t step) {
    const NodeId n = schedule.nodeAt(step);
    if (isSkipped(n)) return Error::success();
    const NodeKind &kind = graph.kind(n);
    Instruction instruction;
    instruction.node = n;
    instruction.kind = &kind;
    if (const NodeOverride *replaced = overrideOf(n)) list.needExtras(instruction).replaced = replaced;
    else instruction.fast = list.kernels.kernel(n);
    if (!kind.op->kernel && !instruction.fast) return noKernel(graph, n);
    instruction.isTraining = options.forms.empty() ? options.isTraining : options.forms[n.value].isTraining;
    const RandomKey key =
        options.forms.empty() ? RandomKey{options.seed, 0, ordinals.of(n)} : options.forms[n.value].random;
    if (RandomOrdinals::draws(kind) || key.seed != list.random.seed || key.step || key.ordinal)
      list.needExtras(instruction).random = key;
    if (plan.workspace[n] >= 0) instruction.workspace = arena + plan.workspace[n];
    if (instruction.fast && !options.kernels) instruction.workspace = kernelScratch;
    instruction.firstOperand = static_cast<uint32_t>(list.operands.size());
    instruction.numInputs = static_cast<uint32_t>(graph.inputs(n).size());
    if (Error error = addOperands(n)) return error;
    if (Error error = widen(n, instruction)) return error;
    if (Error error = checkShapes(n)) return error;
    if (kind.flow)
      if (Error error = addBodies(n, list.needExtras(instruction))) return error;
    if (kind.flow && isCleared[n.value]) instruction.fast = addKernel(clearingKernel());
    instruction.firstStep = static_cast<uint32_t>(list.steps.size());
    for (; nextStep < steps.size() && steps[nextStep].after <= step; ++nextStep) takeStep(steps[nextStep]);
    instruction.lastStep = static_cast<uint32_t>(list.steps.size());
    list.instructions.push_back(instruction);
    return Error::success();
  }

  // Not inlined, like what follows: bodies nest, and so do the frames of `emit`.
  /// A node with 16-bit operands but no fast kernel gets a kernel that wraps its reference kernel.
  LLVM_ATTRIBUTE_NOINLINE Error widen(NodeId n, Instruction &instruction) {
    if (instruction.fast || !hasHalf(graph, list.inference, n)) return Error::success();
    const size_t numIn = graph.inputs(n).size(), numOut = graph.numOutputs(n);
    KernelSite site;
    site.kind = &graph.kind(n);
    site.in = ArrayRef(list.operands).take_back(numIn + numOut).take_front(numIn);
    site.out = ArrayRef(list.operands).take_back(numOut);
    site.requests = ArrayRef(list.requests).take_back(numOut);
    const Widening widening(*site.kind, site.in, site.out, site.requests);
    if (!widening.isNeeded()) return Error::success();
    if (overrideOf(n))
      return Failure(ErrorKind::DTypeWidth,
                     graph.describe(n) + " works on 16-bit numbers, but its piece kernel does not")
          .at(n)
          .remedy(Remedy::RunAsAnotherType, "run it as another type, such as float64");
    instruction.fast = addKernel(WidenedKernel::create(site, widening, [](const KernelSite &) { return nullptr; }));
    return Error::success();
  }
  PreparedKernel *addKernel(std::unique_ptr<PreparedKernel> kernel) {
    list.wrapped.push_back(std::move(kernel));
    return list.wrapped.back().get();
  }

  // Bodies of one node run one at a time: they share the workspace after the kernel's own bytes.
  LLVM_ATTRIBUTE_NOINLINE Error addBodies(NodeId n, InstructionExtras &extras) {
    const FlowPlan *flow = findFlowPlan(plan.flows, n);
    if (!flow)
      return Failure(ErrorKind::InferMissing,
                     "shapes inside " + graph.describe(n) + " are not known, which running it requires")
          .at(n);
    BodySite inside{plan.workspace[n] >= 0 ? arena + plan.workspace[n] + flow->ownBytes : nullptr, {}};
    extras.firstRunner = static_cast<uint32_t>(list.runners.size());
    extras.numRunners = static_cast<uint32_t>(flow->bodies.size());
    for (uint32_t b = 0; b < flow->bodies.size(); ++b) {
      if (!isCleared[n.value]) inside.partlyReadHeads = partlyReadHeads(graph.kind(n), b);
      Expected<PreparedBody> body = prepareBody(graph, n, b, *flow->bodies[b], options, inside);
      if (!body) return withinBody(body.takeError(), graph, n, b);
      list.ownedBytes += body->ownedBytes;
      list.runnerList.push_back(body->runner.get());
      list.runners.push_back(std::move(body->runner));
    }
    return Error::success();
  }

  /// No kernel runs on operands that its operator refuses. Inference should have refused them, so the error is
  /// Internal.
  LLVM_ATTRIBUTE_NOINLINE Error checkShapes(NodeId n) {
    SmallVector<ShapeId, 8> in, out;
    for (Value v : graph.inputs(n)) in.push_back(list.inference.shape[graph.entry(v)]);
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o)
      out.push_back(list.inference.shape[EntryId(graph.firstEntry(n).value + o)]);
    const std::string refusal = refusalOf(scratchShapes, graph.kind(n), in, out);
    if (refusal.empty()) return Error::success();
    return Failure(ErrorKind::Internal, "operator '" + graph.opName(n) + "', " + graph.describe(n) +
                                            ", cannot run on its operands: " + refusal)
        .at(n);
  }

  void takeStep(const StepPlan &step) {
    // Variables may be mutated until the end, so their steps wait.
    if (isVariableEntry(step)) return finalSteps.push_back(step);
    list.steps.push_back({step.head, static_cast<uint32_t>(stepEntries.size()), step.isAdd});
    stepEntries.push_back(step.entry);
  }
  bool isVariableEntry(const StepPlan &step) const { return graph.isVariable(graph.heads()[step.head].node); }

  void finishSteps() {
    for (; nextStep < steps.size(); ++nextStep) takeStep(steps[nextStep]);
    list.firstFinalStep = static_cast<uint32_t>(list.steps.size());
    for (const StepPlan &step : finalSteps) {
      list.steps.push_back({step.head, static_cast<uint32_t>(stepEntries.size()), step.isAdd});
      stepEntries.push_back(step.entry);
      isRead.set(step.entry.value);
    }
    uint32_t first = static_cast<uint32_t>(list.operands.size());
    for (HeadStep &step : list.steps) step.from += first;
    for (EntryId e : stepEntries) addOperand(e);
  }

  void collectVariables() {
    for (uint32_t id = 0; id < graph.numNodes(); ++id)
      if (graph.isVariable(NodeId(id)) && isRead.test(graph.firstEntry(NodeId(id)).value))
        list.neededVariables.push_back(NodeId(id));
  }

  const Graph &graph;
  const RequestTable &requests;
  const MemoryPlan &plan;
  const ExecOptions &options;
  const BodySite *const site;  // null: the graph is not a body
  const Schedule &schedule;
  const RandomOrdinals ordinals;
  InstructionList list;
  ShapeTable scratchShapes;  // a copy of the inference's, which shape functions may extend
  BitVector isCleared;       // by node (runtime/executor/unwritten_rows.h); empty: none
  BitVector isRead;          // by an instruction at a position that is not ignored, or by a final step
  char unbound = 0;          // placeholder address of heads that are bound later
  char *arena = nullptr;
  char *kernelScratch = nullptr;
  std::vector<StepPlan> steps, finalSteps;
  size_t nextStep = 0;
  std::vector<EntryId> stepEntries;
  std::vector<std::pair<EntryId, size_t>> inScratch;  // entries, and their offsets in shared memory
};

}  // namespace

Expected<InstructionList> prepareInstructions(const Graph &graph, const Inference &inference,
                                              const RequestTable &requests, const MemoryPlan &plan,
                                              const ExecOptions &options, const BodySite *site) {
  // On the heap, because preparation recurses as deep as bodies are nested.
  return std::make_unique<Preparation>(graph, inference, requests, plan, options, site)->run();
}

}  // namespace gradc
