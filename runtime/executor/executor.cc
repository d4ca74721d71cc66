// Binding memory to an instruction list and running it. Tested by tests/runtime/executor_test.cc
#include "runtime/arrays/elements.h"
#include "runtime/executor/bindings.h"
#include "runtime/executor/executor.h"
#include "runtime/executor/failures.h"
#include "runtime/executor/head_ranges.h"
#include "runtime/executor/instructions.h"
#include "runtime/executor/run_errors.h"
#include "runtime/executor/timing_log.h"
#include "runtime/kernels/core/threads.h"
#include "runtime/kernels/table.h"

#include "ir/base/error.h"
#include "ir/tensor/half.h"
#include "passes/gradient/gradient.h"

#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

/// "the gradient of 'x'", "head 'y_output'".
std::string headName(const Graph &graph, size_t i) {
  Expected<std::optional<GradientTable>> table = readGradientTable(graph);
  if (!table) consumeError(table.takeError());
  else if (*table && (*table)->heads[i].kind != GradientTable::HeadKind::Forward)
    return "the gradient of '" + (*table)->heads[i].of + "'";
  return "head '" + graph.listedName(graph.heads()[i]) + "'";
}

/// Reference kernels read and write row-major, dense memory. Those with the role Elements accept any order, and images
/// of one pixel have only one.
[[maybe_unused]] bool suitsReference(const KernelCall &call) {
  auto suits = [&](const TensorRef &tensor) {
    if (tensor.isRowMajorDense()) return true;
    if (tensor.storage != StorageKind::Dense) return false;
    const bool isOnePixel = tensor.layout == Layout::ChannelsLast && numPixels(tensor.shape) == 1;
    return isOnePixel || referenceRole(*call.kind->op) == LayoutRole::Elements;
  };
  return all_of(call.in, suits) && all_of(call.out, suits);
}

void executeReference(const KernelCall &call) {
  assert(suitsReference(call));
  call.kind->op->kernel(call);
}

bool hasSameOrder(const TensorRef &expected, const TensorRef &found) {
  return expected.layout == found.layout && expected.storage == found.storage;
}

bool isAligned(const TensorRef &tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data) % std::max<size_t>(dtypeBytes(tensor.dtype), 1) == 0;
}

bool isMissing(const TensorRef &tensor) { return !tensor.data && tensor.bytes() != 0; }

bool fits(const TensorRef &expected, const TensorRef &found) {
  return expected.dtype == found.dtype && expected.shape == found.shape && hasSameOrder(expected, found) &&
         isAligned(found) && !isMissing(found);
}

std::string misfit(const TensorRef &expected, const TensorRef &found) {
  auto describe = [&](const TensorRef &tensor) {
    const std::string text = describeTensor(ShapeRef(tensor.shape), tensor.dtype);
    if (hasSameOrder(expected, found)) return text;
    return (text + " " + layoutName(tensor.layout) + " " + storageName(tensor.storage)).str();
  };
  if (expected.dtype == found.dtype && expected.shape == found.shape && isMissing(found)) return "the address is null";
  if (!isAligned(found))
    return "the address is not a multiple of the " + utostr(dtypeBytes(found.dtype)) + " bytes of an element";
  return "expected " + describe(expected) + ", got " + describe(found);
}

/// Tables of another graph have rows for other entries.
Error checkTables(const Graph &graph, const Inference &inference, const RequestTable &requests,
                  const MemoryPlan &plan) {
  const size_t least = std::min({inference.shape.size(), inference.dtype.size(), requests.request.size(),
                                 plan.offset.size(), plan.inplaceOf.size()});
  if (least >= graph.numEntries() && plan.workspace.size() >= graph.numNodes()) return Error::success();
  return Failure(ErrorKind::BadPlan, "the inference, the requests or the plan are of another graph");
}

}  // namespace

void runReplaced(const NodeOverride &replaced, const KernelCall &given, RunKernel kernel) {
  const OpDef &op = *given.kind->op;
  SmallVector<TensorRef, 8> in(given.in);
  for (size_t i = 0; i < replaced.inputs.size(); ++i)
    if (replaced.inputs[i].data) in[i] = replaced.inputs[i];
  KernelCall call = given;
  call.in = in;
  if (replaced.impliedLoss) *replaced.impliedLoss = op.impliedLoss(call);
  if (replaced.kind == NodeOverride::Kind::Piece) {
    PieceCall piece;
    static_cast<KernelCall &>(piece) = call;
    piece.base = replaced.base;
    return op.piece(piece);
  }
  if (replaced.kind == NodeOverride::Kind::None) return kernel(call);
  bool isComputed = false;
  for (size_t i = 0; i < call.out.size(); ++i) isComputed |= call.wants(i) && !replaced.base[i].data;
  if (isComputed) kernel(call);
  for (size_t i = 0; i < call.out.size(); ++i)
    if (call.wants(i) && replaced.base[i].data) copyBytes(replaced.base[i], call.out[i]);
}

struct Executor::State {
  InstructionList list;
  FailureSlot failure;
  std::optional<HeadRanges> ranges;     // made by the first `bindHead`
  std::vector<uint32_t> instructionOf;  // by node; filled by the first `bindState`
  unsigned threads = 1;
  bool hasForms = false;
  bool isStale = true;  // addresses changed since the operands were resolved
  bool isProfiling = false;
  TimingLog log;
  void (*monitor)(void *, NodeId, ArrayRef<TensorRef>) = nullptr;
  void *monitorUser = nullptr;

  void takeSteps(uint32_t first, uint32_t last) {
    for (uint32_t i = first; i < last; ++i) {
      const HeadStep &step = list.steps[i];
      if (step.isAdd) addElements(list.operands[step.from], list.heads[step.head]);
      else copyBytes(list.operands[step.from], list.heads[step.head]);
    }
  }

  static void compute(const Instruction &instruction, const KernelCall &call) {
    if (instruction.fast) instruction.fast->run(call);
    else executeReference(call);
  }

  /// Returns how many instructions it ran.
  uint32_t execute(const Instruction &instruction) {
    const InstructionExtras *extras = list.extrasOf(instruction);
    if (extras && extras->group) return executeGroup(instruction, *extras);
    const KernelCall call = list.call(instruction);
    if (extras && extras->replaced)
      runReplaced(*extras->replaced, call, [&](const KernelCall &replaced) { compute(instruction, replaced); });
    else compute(instruction, call);
    if (monitor) monitor(monitorUser, instruction.node, call.out);
    takeSteps(instruction.firstStep, instruction.lastStep);
    return 1;
  }

  /// Only the last member has head steps.
  uint32_t executeGroup(const Instruction &first, const InstructionExtras &extras) {
    const ArrayRef<Instruction> members(&first, extras.numMembers);
    extras.group->kernel->run(list, members);
    takeSteps(members.back().firstStep, members.back().lastStep);
    return extras.numMembers;
  }

  /// Keeps `node` at the node being executed, or at the first of its group.
  void executeAll(uint64_t step, NodeId &node) {
    if (!hasForms) list.setRandom(list.random.seed, step);
    if (isProfiling) log.restart();
    for (size_t i = 0; i < list.instructions.size();) {
      const Instruction &instruction = list.instructions[i];
      node = instruction.node;
      const uint32_t number = isProfiling ? log.begin(list, instruction, {}) : 0;
      i += execute(instruction);
      if (failure.hasFailed()) return;
      if (isProfiling) log.end(number, instruction);
    }
    takeSteps(list.firstFinalStep, static_cast<uint32_t>(list.steps.size()));
  }

  HeadRanges &needRanges() {
    if (ranges) return *ranges;
    BitVector isAdded(static_cast<unsigned>(list.heads.size()));
    for (const HeadStep &step : list.steps)
      if (step.isAdd) isAdded.set(step.head);
    return ranges.emplace(list.heads, std::move(isAdded));
  }

  // REQ-09: two heads that are both added to one buffer leave the sum there; else one would overwrite the other.
  Error checkAlias(size_t i, const TensorRef &tensor) {
    const std::optional<size_t> other = needRanges().conflict(i, tensor);
    if (!other) return Error::success();
    return Failure(ErrorKind::BufferAlias, headName(list.graph, std::min(i, *other)) + " and " +
                                               headName(list.graph, std::max(i, *other)) +
                                               " would share memory, but not both have the request 'add'");
  }

  Error checkBound() const {
    for (NodeId n : list.neededVariables)
      if (!list.address[list.graph.firstEntry(n)])
        return Failure(ErrorKind::BindingMissing, list.graph.describe(n) + " is not bound").at(n);
    return Error::success();
  }
};

Executor::Executor(std::unique_ptr<State> state) : state(std::move(state)) {}
Executor::Executor(Executor &&) = default;
Executor::~Executor() = default;

Expected<Executor> Executor::create(const Graph &graph, const Inference &inference, const RequestTable &requests,
                                    const MemoryPlan &plan, const ExecOptions &options) {
  PlanOptions planOptions;
  planOptions.schedule = options.schedule;
  if (options.kernels) {
    planOptions.workspaceOf = KernelSet::planWorkspace;
    planOptions.workspaceReader = KernelSet::planReader;
    planOptions.user = options.kernels;
    planOptions.groups = &options.kernels->fusion().memory;
  }
  return catching("to prepare the graph", [&]() -> Expected<Executor> {
    if (Error error = checkColumns(graph, options)) return error;
    if (Error error = checkTables(graph, inference, requests, plan)) return error;
    if (Error error = checkPlan(graph, inference, requests, plan, planOptions)) return error;
    Expected<InstructionList> list = prepareInstructions(graph, inference, requests, plan, options);
    if (!list) return list.takeError();
    auto state = std::make_unique<State>();
    state->list = std::move(*list);
    state->list.setFailure(state->failure.address());
    state->hasForms = !options.forms.empty();
    state->threads = options.threads;
    state->monitor = options.monitor;
    state->monitorUser = options.monitorUser;
    return Executor(std::move(state));
  });
}

Error Executor::bind(NodeId variable, TensorRef tensor) {
  const Graph &graph = state->list.graph;
  if (Error error = checkIsVariable(graph, variable)) return error;
  EntryId e = graph.firstEntry(variable);
  TensorRef expected = state->list.tensor(e);
  if (!fits(expected, tensor))
    return Failure(ErrorKind::BindingMismatch, graph.describe(variable) + ": " + misfit(expected, tensor)).at(variable);
  state->list.address[e] = static_cast<char *>(tensor.data);
  state->isStale = true;
  return Error::success();
}

Error Executor::bindHead(size_t i, TensorRef tensor) {
  InstructionList &list = state->list;
  if (Error error = checkIsHead(list.graph, i)) return error;
  TensorRef &head = list.heads[i];
  if (!head.data)
    return Failure(ErrorKind::BindingSurplus, "head " + Twine(i) + " is not computed: its request is 'null'");
  if (!fits(head, tensor)) return Failure(ErrorKind::BindingMismatch, "head " + Twine(i) + ": " + misfit(head, tensor));
  if (Error error = catching("to bind a head", [&] { return state->checkAlias(i, tensor); })) return error;
  state->ranges->move(i, head, tensor);
  head.data = tensor.data;
  if (list.headEntry[i].isValid()) list.address[list.headEntry[i]] = static_cast<char *>(tensor.data);
  state->isStale = true;
  return Error::success();
}

Error Executor::bindState(NodeId node, void *object) {
  if (node.value >= state->list.graph.numNodes())
    return Failure(ErrorKind::BindingSurplus, "a state is given for a node that the graph does not have");
  std::vector<Instruction> &instructions = state->list.instructions;
  std::vector<uint32_t> &instructionOf = state->instructionOf;
  if (instructionOf.empty()) {
    instructionOf.resize(state->list.graph.numNodes(), NodeId::kNone);
    for (uint32_t i = 0; i < instructions.size(); ++i) instructionOf[instructions[i].node.value] = i;
  }
  const uint32_t i = instructionOf[node.value];
  if (i != NodeId::kNone)
    state->list.needExtras(instructions[i]).state = object;  // else no output of the node is requested
  return Error::success();
}

Error Executor::run(uint64_t step) {
  if (state->isStale) {
    if (Error error = state->checkBound()) return error;
    state->list.resolve();
    state->isStale = false;
  }
  NodeId node;
  const unsigned threads = state->list.kernels.isEmpty() ? 1 : state->threads;
  auto execute = [&]() -> Error {
    withThreads(threads, [&] { state->executeAll(step, node); });
    return amend(state->failure.take(), [&](GradcError &error) {
      if (!error.place.node.isValid()) error.place.node = node;
      error.notes.push_back({"while running " + state->list.graph.describe(node)});
    });
  };
  auto atNode = [&](Failure failure) {
    return node.isValid() ? std::move(failure).at(node).note("while running " + state->list.graph.describe(node))
                          : std::move(failure);
  };
  return catching("to run the graph", execute, atNode);
}

TensorRef Executor::head(size_t i) const { return i < state->list.heads.size() ? state->list.heads[i] : TensorRef(); }
size_t Executor::arenaBytes() const { return state->list.ownedBytes; }

void Executor::setProfiling(bool on) {
  state->isProfiling = on;
  state->log.restart();
  for (const std::unique_ptr<MovableRunner> &runner : state->list.runners) runner->recordTimes(nullptr, 0);
}

ArrayRef<Executor::Timing> Executor::timings() const { return state->log.timings; }

}  // namespace gradc
