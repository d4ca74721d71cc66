// Phases of `create`: match bindings to variables, infer with their shapes, fill memory, plan, prepare.
// Tested by tests/runtime/session_test.cc
#include "runtime/session/session_state.h"

#include "ir/base/error.h"
#include "ir/base/release.h"
#include "passes/order/order_mutation.h"
#include "runtime/arrays/elements.h"
#include "runtime/executor/machine_memory.h"
#include "runtime/executor/run_errors.h"
#include "runtime/executor/unwritten_rows.h"
#include "runtime/fusion/form_groups.h"
#include "runtime/session/initial_values.h"

#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace gradc {
namespace {

bool isOtherPlan(const Graph &graph, const MemoryPlan &plan) {
  const std::optional<PlanNotes> &given = graph.table().plan;
  if (!given) return false;
  for (uint32_t e = 0; e < given->places.size(); ++e)
    if (plan.offset[EntryId(e)] >= 0 && given->places[e].offset != plan.offset[EntryId(e)]) return true;
  return false;
}

/// 0 where the shape is not known.
uint64_t bytesOf(const Inference &inference, EntryId e) {
  if (!inference.isKnownShape(e)) return 0;
  return SaturatingMultiply<uint64_t>(static_cast<uint64_t>(inference.elements(e)), dtypeBytes(inference.dtype[e]));
}

/// The node with the largest tensor among those that are computed and the variables that are not the caller's. Loops
/// fill only as many rows of their stacks as they run steps, and results of element-wise nodes may exist only piece by
/// piece.
std::pair<uint64_t, NodeId> largestTensor(const Graph &graph, const Inference &inference, const RequestTable &requests,
                                          const std::vector<bool> &isCallers) {
  std::pair<uint64_t, NodeId> most{0, NodeId()};
  for (uint32_t id = 0; id < graph.numNodes(); ++id) {
    const NodeId n(id);
    const NodeKind &kind = graph.kind(n);
    if (kind.flow || (!kind.isVariable() && kind.op->flags.isElementwise)) continue;
    for (uint32_t o = 0; o < kind.numOutputs; ++o) {
      const EntryId e(graph.firstEntry(n).value + o);
      const bool counts = graph.isVariable(n) ? !isCallers[id] : requests.request[e] != Request::Null;
      if (const uint64_t bytes = counts ? bytesOf(inference, e) : 0; bytes > most.first) most = {bytes, n};
    }
  }
  return most;
}

}  // namespace

Expected<MatchedBindings> Session::State::match(Context &context, std::vector<NamedArray> bindings,
                                                const SessionOptions &options) {
  if (Error error = checkColumns(graph, options.exec)) return error;
  if (Error error = checkMemory(options)) return error;
  if (Error error = checkMutationOrder(graph, options.exec.schedule)) return error;
  Expected<std::optional<GradientTable>> read = readGradientTable(graph);
  if (!read) return read.takeError();
  table = std::move(*read);
  isTraining = options.exec.isTraining;
  headRequests = options.exec.headRequests.vec();
  if (headRequests.empty() && table)
    for (const GradientTable::Head &head : table->heads) headRequests.push_back(head.request);
  Expected<MatchedBindings> matched = matchBindings(graph, table, headRequests, std::move(bindings));
  if (!matched) return matched.takeError();
  if (Error error = inferWith(context, *matched, options)) return error;
  if (Error error = checkVariables(*matched, options)) return error;
  return matched;
}

Error Session::State::create(Context &context, std::vector<NamedArray> bindings, const SessionOptions &options) {
  Expected<MatchedBindings> matched = match(context, std::move(bindings), options);
  if (!matched) return matched.takeError();
  KernelSet kernels;
  if (Error error = planRun(context, kernels, options)) return error;
  if (Error error = fillVariables(*matched, options)) return error;
  return prepare(kernels, *matched, options);
}

Error Session::State::inferWith(Context &context, const MatchedBindings &matched, const SessionOptions &options) {
  InferRequest request = options.hints;
  for (const ShapeHint &hint : request.shapes) {
    const NodeId n = hint.variable;  // `infer` refuses those that the graph does not have
    const size_t at = n.value < matched.arrayOf.size() ? matched.arrayOf[n.value] : MatchedBindings::kNone;
    if (at == MatchedBindings::kNone || agrees(ShapeRef(hint.dims), matched.arrays[at].array.shape)) continue;
    return bindingMismatch(matched.arrays[at].name, "shape " + toString(ShapeRef(hint.dims)),
                           toString(ShapeRef(matched.arrays[at].array.shape)));
  }
  for (const VariableMemory &given : options.variableMemory)
    request.shapes.push_back({given.variable, DimsBuffer(given.tensor.shape.begin(), given.tensor.shape.end())});
  for (uint32_t id = 0; id < graph.numNodes(); ++id)
    if (matched.arrayOf[id] != MatchedBindings::kNone) {
      const std::vector<int64_t> &shape = matched.arrays[matched.arrayOf[id]].array.shape;
      request.shapes.push_back({NodeId(id), DimsBuffer(shape.begin(), shape.end())});
    }
  Expected<Inference> result = infer(context, graph, request, options.infer);
  if (!result) return explainConflict(context, graph, matched, options.hints, options.infer, result.takeError());
  inference = std::move(*result);
  return Error::success();
}

/// Whether the caller's memory is for variables and heads of this graph. What it holds is checked by the executor, when
/// it is bound.
Error Session::State::checkMemory(const SessionOptions &options) const {
  for (const VariableMemory &given : options.variableMemory)
    if (Error error = checkIsVariable(graph, given.variable)) return error;
  std::vector<bool> hasMemory(graph.heads().size());
  for (const HeadMemory &given : options.headMemory) {
    if (Error error = checkIsHead(graph, given.head)) return error;
    if (hasMemory[given.head])
      return Failure(ErrorKind::AmbiguousName, "head " + Twine(given.head) + " is given memory twice");
    hasMemory[given.head] = true;
  }
  return Error::success();
}

Error Session::State::checkVariables(const MatchedBindings &matched, const SessionOptions &options) const {
  std::vector<bool> hasMemory(graph.numNodes());
  for (const VariableMemory &given : options.variableMemory) {
    const NodeId n = given.variable;
    if (hasMemory[n.value] || matched.arrayOf[n.value] != MatchedBindings::kNone)
      return Failure(ErrorKind::AmbiguousName, graph.describe(n) + " is bound twice").at(n);
    hasMemory[n.value] = true;
  }
  std::vector<StringRef> missing;
  NodeId firstMissing;
  for (uint32_t id = 0; id < graph.numNodes(); ++id) {
    const NodeId n(id);
    if (!graph.isVariable(n) || hasMemory[id]) continue;
    const NamedArray *binding = matched.binding(n);
    if (!binding && !options.initSeed) {
      if (missing.empty()) firstMissing = n;
      missing.push_back(graph.name(n));
    } else if (Error error = checkVariable(n, binding)) {
      return error;
    }
  }
  if (missing.empty()) return Error::success();
  return Failure(ErrorKind::BindingMissing, Twine(missing.size() == 1 ? "variable " : "variables ") +
                                                quotedList(missing) + (missing.size() == 1 ? " is" : " are") +
                                                " not bound")
      .at(firstMissing)
      .remedy(Remedy::DrawMissingValues, "SessionOptions::initSeed fills what is not given");
}

Error Session::State::checkVariable(NodeId n, const NamedArray *binding) const {
  const EntryId e = graph.firstEntry(n);
  const ShapeRef shape = inference.shapeOf(e);
  const DType dtype = inference.dtype[e];
  if (!shape.isFullyKnown() || dtype == DType::Unknown) return unknownTensor(graph, inference, n, e);
  if (binding && (!agrees(shape, binding->array.shape) || !isConvertible(binding->array.dtype, dtype)))
    return bindingMismatch(binding->name, describeTensor(shape, dtype),
                           describeTensor(ShapeRef(binding->array.shape), binding->array.dtype));
  return Error::success();
}

Error Session::State::fillVariables(MatchedBindings &matched, const SessionOptions &options) {
  std::optional<Initializer> initializer;
  if (options.initSeed) initializer.emplace(graph, inference, *options.initSeed);
  slotOf.assign(graph.numNodes(), MatchedBindings::kNone);
  for (const VariableMemory &given : options.variableMemory) {
    slotOf[given.variable.value] = static_cast<uint32_t>(variables.size());
    variables.emplace_back(given.tensor, Layout::Plain);
  }
  for (uint32_t id = 0; id < graph.numNodes(); ++id) {
    const NodeId n(id);
    if (!graph.isVariable(n) || slotOf[id] != MatchedBindings::kNone) continue;
    slotOf[id] = static_cast<uint32_t>(variables.size());
    const EntryId e = graph.firstEntry(n);
    Expected<SessionTensor> tensor =
        SessionTensor::create(inference.dtype[e], inference.shapeOf(e).dims(), graph.describe(n));
    if (!tensor) return amend(tensor.takeError(), [&](GradcError &error) { error.place.node = n; });
    if (NamedArray *binding = matched.binding(n)) {
      if (Error error = readElements(*binding)) return error;
      convertElements(binding->array.ref(), tensor->place());
      release(binding->array.bytes);
    } else {
      initializer->fill(n, tensor->place());
    }
    variables.push_back(std::move(*tensor));
  }
  return Error::success();
}

/// A plan in the file is for nodes that run one by one. Workspaces do not move the values, so the plan does not depend
/// on the kernels it was made for.
Expected<bool> Session::State::isOtherPlanInFile(Context &context, PlanOptions options) {
  if (!graph.table().plan) return false;
  if (!options.groups || options.groups->groups.empty()) return isOtherPlan(graph, plan);
  options.groups = nullptr;
  Expected<MemoryPlan> apart = planMemory(context, graph, inference, requests, options);
  if (!apart) return apart.takeError();
  return isOtherPlan(graph, *apart);
}

Error Session::State::makePlan(Context &context, KernelSet &kernels, const SessionOptions &options) {
  PlanOptions planOptions;
  planOptions.allowInplace = options.allowInplace;
  planOptions.schedule = options.exec.schedule;
  if (!kernels.isEmpty()) {
    planOptions.workspaceOf = KernelSet::planWorkspace;
    planOptions.workspaceReader = KernelSet::planReader;
    planOptions.user = &kernels;
    planOptions.groups = &kernels.fusion().memory;
  }
  Expected<MemoryPlan> planned = planMemory(context, graph, inference, requests, planOptions);
  if (!planned) return planned.takeError();
  plan = std::move(*planned);
  Expected<bool> isOther = isOtherPlanInFile(context, planOptions);
  if (!isOther) return isOther.takeError();
  if (*isOther) warnings.push_back("the memory plan in the file does not fit this run; planned again");
  return Error::success();
}

KernelSet Session::State::makeKernels(const SessionOptions &options) const {
  if (options.exec.backend != Backend::Auto) return KernelSet();
  KernelSetOptions kernelOptions;
  kernelOptions.isTraining = options.exec.isTraining;
  kernelOptions.forms = options.exec.forms;
  kernelOptions.threads = options.exec.threads;
  kernelOptions.allowLayouts = !options.exec.monitor && !options.exec.overrides;
  kernelOptions.movesArguments = true;
  kernelOptions.keepsTapes = !options.exec.overrides;
  std::vector<EntryId> plain;
  for (const VariableMemory &given : options.variableMemory) plain.push_back(graph.firstEntry(given.variable));
  for (const HeadMemory &given : options.headMemory) plain.push_back(graph.entry(graph.heads()[given.head]));
  kernelOptions.plainEntries = plain;
  KernelSet kernels = KernelSet::create(graph, inference, requests, kernelOptions);
  const bool isSeen = options.exec.monitor || options.exec.overrides;
  const FusionOptions fusion = isSeen ? FusionOptions::none() : options.exec.fusion;
  kernels.fuse(formGroups({graph, inference, requests, kernels, kernelOptions, options.exec.schedule, fusion}));
  return kernels;
}

Error Session::State::bindVariables() {
  for (uint32_t id = 0; id < graph.numNodes(); ++id)
    if (slotOf[id] != MatchedBindings::kNone)
      if (Error error = executor->bind(NodeId(id), variable(NodeId(id)).place())) return error;
  return Error::success();
}

Error Session::State::addStarts(MatchedBindings &matched) {
  for (StartValue &start : matched.starts) {
    TensorRef to = head(start.head).look();
    TensorRef given = start.array.array.ref();
    if (to.shape != given.shape || !isConvertible(given.dtype, to.dtype))
      return bindingMismatch(start.array.name, describeTensor(ShapeRef(to.shape), to.dtype),
                             describeTensor(ShapeRef(given.shape), given.dtype));
    if (Error error = readElements(start.array)) return error;
    convertElements(start.array.array.ref(), to);
    release(start.array.array.bytes);
  }
  return Error::success();
}

std::vector<bool> Session::State::callersVariables(const SessionOptions &options) const {
  std::vector<bool> isCallers(graph.numNodes());
  for (const VariableMemory &given : options.variableMemory) isCallers[given.variable.value] = true;
  return isCallers;
}

uint64_t Session::State::ownBytes(const SessionOptions &options) const {
  const std::vector<bool> isCallers = callersVariables(options);
  uint64_t sum = 0;
  for (uint32_t id = 0; id < graph.numNodes(); ++id)
    if (graph.isVariable(NodeId(id)) && !isCallers[id])
      sum = SaturatingAdd(sum, bytesOf(inference, graph.firstEntry(NodeId(id))));
  std::vector<bool> hasMemory(graph.heads().size());
  for (const HeadMemory &given : options.headMemory) hasMemory[given.head] = true;
  for (size_t i = 0; i < hasMemory.size(); ++i)
    if (!hasMemory[i] && (headRequests.empty() || headRequests[i] != Request::Null))
      sum = SaturatingAdd(sum, bytesOf(inference, graph.entry(graph.heads()[i])));
  return sum;
}

/// What a loop may leave untouched does not count.
uint64_t Session::State::plannedBytes() const {
  const size_t spare =
      plan.flows.empty() ? 0 : bytesOfPartlyWrittenStacks(graph, inference, loopsToClear(graph, BitVector()));
  return plan.plannedBytes - std::min<uint64_t>(spare, plan.plannedBytes);
}

/// Kernels and plan. A session that can never have its memory is refused first: kernels prepare tables as long as their
/// tensors.
Error Session::State::planRun(Context &context, KernelSet &kernels, const SessionOptions &options) {
  threads = options.exec.threads;
  requests = countRequests(graph, headRequests);
  const auto [most, at] = largestTensor(graph, inference, requests, callersVariables(options));
  if (most)
    if (Error error = checkMachineHas(most, graph.describe(at)))
      return amend(std::move(error), [node = at](GradcError &info) { info.place.node = node; });
  const uint64_t own = ownBytes(options);
  if (Error error = checkMachineHas(own, "the session")) return error;
  kernels = makeKernels(options);
  if (Error error = makePlan(context, kernels, options)) return error;
  return checkMachineHas(SaturatingAdd(own, plannedBytes()), "the session");
}

Error Session::State::prepare(KernelSet &kernels, MatchedBindings &matched, const SessionOptions &options) {
  auto layoutOf = [&](Value v) { return kernels.isEmpty() ? Layout::Plain : kernels.layout(graph.entry(v)); };
  for (uint32_t id = 0; id < graph.numNodes(); ++id)
    if (slotOf[id] != MatchedBindings::kNone) variable(NodeId(id)).setLayout(layoutOf(Value{NodeId(id)}));
  std::vector<Layout> headLayouts;
  for (Value v : graph.heads()) headLayouts.push_back(layoutOf(v));

  std::vector<void *> headMemory(headLayouts.size(), nullptr);
  for (const HeadMemory &given : options.headMemory) headMemory[given.head] = given.tensor.data;
  ExecOptions exec = options.exec;
  exec.headRequests = headRequests;
  exec.headMemory = headMemory;
  exec.kernels = kernels.isEmpty() ? nullptr : &kernels;
  Expected<Executor> created = Executor::create(graph, inference, requests, plan, exec);
  if (!created) return created.takeError();
  executor.emplace(std::move(*created));
  for (size_t i = 0; i < headLayouts.size(); ++i) heads.emplace_back(executor->head(i), headLayouts[i]);
  sharedWith.assign(heads.size(), NodeId());
  if (Error error = bindVariables()) return error;
  for (const HeadMemory &given : options.headMemory)
    if (Error error = executor->bindHead(given.head, given.tensor)) return error;
  return addStarts(matched);
}

Error checkSame(const TensorRef &expected, const TensorRef &found, StringRef name) {
  if (expected.shape == found.shape && expected.dtype == found.dtype) return Error::success();
  return bindingMismatch(name, describeTensor(ShapeRef(expected.shape), expected.dtype),
                         describeTensor(ShapeRef(found.shape), found.dtype));
}

Error Session::State::read(const SessionTensor &source, const TensorRef &to, StringRef name) const {
  const TensorRef from = source.place();
  if (Error error = checkSame(from, to, name)) return error;
  if (!to.data && to.bytes() != 0)
    return Failure(ErrorKind::BindingMismatch, "the address for a copy of '" + name + "' is null");
  if (!from.data) return Failure(ErrorKind::BindingMismatch, "'" + name + "' is not computed: its request is 'null'");
  withThreads(threads, [&] { source.read(to); });
  return Error::success();
}

Error Session::State::run(uint64_t step) {
  auto isAdded = [&](size_t i) { return !headRequests.empty() && headRequests[i] == Request::Add; };
  withThreads(threads, [&] {
    for (SessionTensor &variable : variables) variable.prepareRun();
    for (size_t i = 0; i < heads.size(); ++i)
      if (isAdded(i)) head(i).prepareRun();
  });
  if (Error error = executor->run(step)) return error;
  for (size_t i = 0; i < heads.size(); ++i) head(i).noteWritten();
  return Error::success();
}

}  // namespace gradc
