// Recording the base point and evaluating near it. Tested by tests/gradcheck_test.cc
#include "runtime/gradcheck/difference.h"

#include "runtime/elements.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

/// The values that make up the scalar at one point.
struct Sample {
  std::vector<std::vector<double>> heads;  // per output of the problem
  std::vector<double> losses;              // per live loss node
};

bool isLoss(const OpDef &op) { return op.impliedLoss != nullptr; }

/// Constants for the gradient: BlockGrad, losses, and steps such as comparisons, which a difference may cross.
bool isHeld(const OpDef &op) { return op.flags.isConstantInGradcheck || op.flags.hasNoGradient || isLoss(op); }

}  // namespace

struct ScalarFunction::State {
  const CheckProblem &problem;
  Session &session;
  std::vector<std::vector<double>> projections;
  std::vector<NodeOverride> overrides;                       // by node
  EntryMap<Array> recorded;                                  // base values of entries that overrides need
  BitVector needed, heldEntry;                               // by entry
  std::vector<std::pair<uint32_t, uint32_t>> stoppedInputs;  // node, input: read at the base point
  std::vector<NodeId> aux;
  std::vector<Array> auxValues;  // at the base point
  std::vector<NodeId> lossNodes;
  std::vector<double> lossValues;
  std::optional<Executor> executor;
  Sample now, previous;
  uint32_t numPieces = 0, numHeld = 0;

  State(const CheckProblem &problem, Session &session)
      : problem(problem), session(session), overrides(graph().numNodes()), recorded(graph(), Array()),
        needed(graph().numEntries()), heldEntry(graph().numEntries()), aux(listInputs(graph()).aux) {}

  const Graph &graph() const { return problem.function; }
  EntryId output(NodeId n, size_t i) const { return EntryId(graph().firstEntry(n).value + i); }
  /// Only floating values vary; pieces compute in no other type.
  bool readsFloating(NodeId n) const {
    return any_of(graph().inputs(n), [&](Value v) { return isFloating(session.inference().dtype[graph().entry(v)]); });
  }

  void chooseOverrides();
  void holdStopped();
  void findLosses();
  Error recordBase(const ExecOptions &options);
  void record(EntryId e, const TensorRef &tensor);
  void connect();
  Error prepare(const ExecOptions &options);
  void restoreAux();
};

/// Decides which nodes are replaced, and which entries' base values that needs.
void ScalarFunction::State::chooseOverrides() {
  for (Value v : problem.held)
    if (!graph().isVariable(v.node)) heldEntry.set(graph().entry(v).value);
  for (uint32_t id = 0; id < graph().numNodes(); ++id) {
    NodeId n(id);
    if (graph().isVariable(n)) continue;
    const OpDef &op = *graph().op(n);
    bool holdsAny = isHeld(op);
    for (size_t i = 0; i < graph().numOutputs(n); ++i) {
      if (isHeld(op)) heldEntry.set(output(n, i).value);
      holdsAny |= heldEntry.test(output(n, i).value);
    }
    if (holdsAny) {
      overrides[id].kind = NodeOverride::Kind::Hold;
      numHeld += !op.flags.hasNoGradient;
      for (size_t i = 0; i < graph().numOutputs(n); ++i)
        if (heldEntry.test(output(n, i).value)) needed.set(output(n, i).value);
    } else if (op.piece && readsFloating(n)) {
      overrides[id].kind = NodeOverride::Kind::Piece;
      ++numPieces;
      for (Value v : graph().inputs(n)) needed.set(graph().entry(v).value);
    }
  }
}

/// Labels, lengths, positions: where no gradient flows into an input, the operator reads its base value, though the variable
/// that it depends on moves. Bodies read what they read.
void ScalarFunction::State::holdStopped() {
  BitVector moves(graph().numEntries());
  for (const CheckProblem::Target &target : problem.targets) moves.set(graph().entry(target.x).value);
  for (uint32_t id = 0; id < graph().numNodes(); ++id) {
    const NodeKind &kind = graph().kind(NodeId(id));
    if (kind.isVariable()) continue;
    ArrayRef<Value> inputs = graph().inputs(NodeId(id));
    for (size_t i = 0; i < inputs.size(); ++i) {
      const uint32_t e = graph().entry(inputs[i]).value;
      if (!moves[e]) continue;
      for (size_t o = 0; o < graph().numOutputs(NodeId(id)); ++o) moves.set(output(NodeId(id), o).value);
      const bool isRead = !kind.isIgnored(i) || isLoss(*kind.op);
      if (!kind.isStopped(i) || kind.isMutated(i) || kind.flow || !isRead) continue;
      stoppedInputs.push_back({id, static_cast<uint32_t>(i)});
      needed.set(e);
    }
  }
}

/// Finds loss nodes that a head gradient reaches: backwards from the outputs over edges that carry gradient.
void ScalarFunction::State::findLosses() {
  BitVector isLive(graph().numNodes()), isConstant(graph().numEntries());
  for (Value v : problem.held) isConstant.set(graph().entry(v).value);
  for (const CheckProblem::Output &out : problem.outputs)
    if (const Value y = graph().heads()[out.head]; !isConstant[graph().entry(y).value]) isLive.set(y.node.value);
  for (uint32_t id = graph().numNodes(); id-- > 0;) {
    NodeId n(id);
    if (!isLive[id] || graph().isVariable(n)) continue;
    const NodeKind &kind = graph().kind(n);
    if (isLoss(*kind.op)) lossNodes.push_back(n);
    else if (isHeld(*kind.op)) continue;
    ArrayRef<Value> inputs = graph().inputs(n);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!kind.isStopped(i) && !kind.isIgnored(i) && !isConstant[graph().entry(inputs[i]).value])
        isLive.set(inputs[i].node.value);
  }
  lossValues.assign(lossNodes.size(), 0);
}

void ScalarFunction::State::record(EntryId e, const TensorRef &tensor) {
  if (!needed[e.value] || !tensor.data) return;
  const char *bytes = tensor.as<char>();
  recorded[e] = Array{tensor.dtype, tensor.shape.vec(), std::vector<char>(bytes, bytes + tensor.bytes())};
  recorded[e].bytes.reserve(1);
}

Error ScalarFunction::State::recordBase(const ExecOptions &options) {
  for (NodeId n : aux) {
    TensorRef tensor = session.variable(n);
    auxValues.push_back(
        {tensor.dtype, tensor.shape.vec(), std::vector<char>(tensor.as<char>(), tensor.as<char>() + tensor.bytes())});
  }
  for (uint32_t id = 0; id < graph().numNodes(); ++id)
    if (graph().isVariable(NodeId(id))) record(graph().firstEntry(NodeId(id)), session.variable(NodeId(id)));
  ExecOptions recording = options;
  recording.monitorUser = this;
  recording.monitor = [](void *user, NodeId n, ArrayRef<TensorRef> outputs) {
    State &self = *static_cast<State *>(user);
    for (size_t i = 0; i < outputs.size(); ++i) self.record(self.output(n, i), outputs[i]);
  };
  Expected<Executor> base =
      Executor::create(graph(), session.inference(), session.requests(), session.plan(), recording);
  if (!base) return base.takeError();
  for (uint32_t id = 0; id < graph().numNodes(); ++id)
    if (graph().isVariable(NodeId(id)))
      if (Error error = base->bind(NodeId(id), session.variable(NodeId(id)))) return error;
  return base->run(0);
}

/// Points the overrides at the recorded values.
void ScalarFunction::State::connect() {
  for (uint32_t id = 0; id < graph().numNodes(); ++id) {
    NodeOverride &replaced = overrides[id];
    if (replaced.kind == NodeOverride::Kind::Piece)
      for (Value v : graph().inputs(NodeId(id))) replaced.base.push_back(recorded[graph().entry(v)].ref());
    if (replaced.kind == NodeOverride::Kind::Hold)
      for (size_t i = 0; i < graph().numOutputs(NodeId(id)); ++i)
        replaced.base.push_back(recorded[output(NodeId(id), i)].ref());
  }
  for (auto [n, i] : stoppedInputs) {
    const ArrayRef<Value> inputs = graph().inputs(NodeId(n));
    overrides[n].inputs.resize(inputs.size());
    overrides[n].inputs[i] = recorded[graph().entry(inputs[i])].ref();
  }
  for (size_t i = 0; i < lossNodes.size(); ++i) overrides[lossNodes[i].value].impliedLoss = &lossValues[i];
}

Error ScalarFunction::State::prepare(const ExecOptions &options) {
  ExecOptions replacing = options;
  replacing.overrides = &overrides;
  Expected<Executor> created =
      Executor::create(graph(), session.inference(), session.requests(), session.plan(), replacing);
  if (!created) return created.takeError();
  executor.emplace(std::move(*created));
  for (uint32_t id = 0; id < graph().numNodes(); ++id)
    if (graph().isVariable(NodeId(id)))
      if (Error error = executor->bind(NodeId(id), session.variable(NodeId(id)))) return error;
  return Error::success();
}

void ScalarFunction::State::restoreAux() {
  for (size_t i = 0; i < aux.size(); ++i) convertElements(auxValues[i].ref(), session.variable(aux[i]));
}

ScalarFunction::ScalarFunction(std::unique_ptr<State> state) : state(std::move(state)) {}
ScalarFunction::ScalarFunction(ScalarFunction &&) = default;
ScalarFunction::~ScalarFunction() = default;

Expected<ScalarFunction> ScalarFunction::create(const CheckProblem &problem, Session &session,
                                                std::vector<std::vector<double>> projections,
                                                const ExecOptions &options) {
  auto state = std::make_unique<State>(problem, session);
  state->projections = std::move(projections);
  state->chooseOverrides();
  state->holdStopped();
  state->findLosses();
  if (Error error = state->recordBase(options)) return error;
  state->restoreAux();
  state->connect();
  if (Error error = state->prepare(options)) return error;
  return ScalarFunction(std::move(state));
}

Error ScalarFunction::evaluate() {
  State &s = *state;
  std::swap(s.now, s.previous);
  s.restoreAux();
  if (Error error = s.executor->run(0)) return error;
  s.now.losses = s.lossValues;
  s.now.heads.resize(s.problem.outputs.size());
  for (size_t k = 0; k < s.problem.outputs.size(); ++k) {
    TensorRef head = s.executor->head(s.problem.outputs[k].head);
    s.now.heads[k].clear();
    for (int64_t i = 0, size = isFloating(head.dtype) ? head.size() : 0; i < size; ++i)
      s.now.heads[k].push_back(readElement(head, i));
  }
  return Error::success();
}

double ScalarFunction::differenceFromPrevious() const {
  const State &s = *state;
  double sum = 0;
  for (size_t k = 0; k < s.now.heads.size(); ++k)
    for (size_t i = 0; i < s.now.heads[k].size(); ++i) {
      double weight = s.projections[k].empty() ? 1 : s.projections[k][i];
      sum += weight * (s.now.heads[k][i] - s.previous.heads[k][i]);
    }
  for (size_t i = 0; i < s.now.losses.size(); ++i) sum += s.now.losses[i] - s.previous.losses[i];
  return sum;
}

uint32_t ScalarFunction::numHeldPieces() const { return state->numPieces; }
uint32_t ScalarFunction::numHeldOutputs() const { return state->numHeld; }

}  // namespace gradc
