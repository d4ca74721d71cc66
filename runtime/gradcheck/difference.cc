// Recording the base point and evaluating near it. Tested by tests/runtime/gradcheck/gradcheck_test.cc
#include "runtime/gradcheck/difference.h"

#include "runtime/arrays/elements.h"
#include "runtime/gradcheck/held.h"
#include "runtime/gradcheck/held_bodies.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

/// The values that make up the scalar at one point.
struct Sample {
  std::vector<std::vector<double>> heads;  // per output of the problem
  std::vector<double> losses;              // per live loss node, and per run of one in a body
};

}  // namespace

struct ScalarFunction::State {
  const CheckProblem &problem;
  Session &session;
  std::vector<std::vector<double>> projections;
  Overrides overrides;
  EntryMap<Array> recorded;                                  // base values of entries that overrides need
  BitVector needed, heldEntry;                               // by entry
  std::vector<std::pair<uint32_t, uint32_t>> stoppedInputs;  // node, input: read at the base point
  std::vector<NodeId> aux;
  std::vector<Array> auxValues;  // at the base point
  const LiveLosses losses;
  std::vector<double> lossValues;  // of losses.nodes
  HeldBodies bodies;
  std::optional<Executor> executor;
  Sample now, previous;
  HeldCounts counts;
  std::string firstNotFinite;
  size_t recordedInBodies = 0;  // until the last node that ran

  State(const CheckProblem &problem, Session &session)
      : problem(problem), session(session), overrides{std::vector<NodeOverride>(graph().numNodes()), nullptr},
        recorded(graph(), Array()), needed(graph().numEntries()), heldEntry(graph().numEntries()),
        aux(listInputs(graph()).aux), losses(findLosses(problem)), lossValues(losses.nodes.size()),
        bodies(graph(), losses.inside) {}

  const Graph &graph() const { return problem.function; }
  EntryId output(NodeId n, size_t i) const { return EntryId(graph().firstEntry(n).value + i); }
  /// Only floating values vary; pieces compute in no other type.
  bool readsFloating(NodeId n) const {
    return any_of(graph().inputs(n), [&](Value v) { return isFloating(session.inference().dtype[graph().entry(v)]); });
  }

  bool isWhollyHeld(NodeId n) const {
    if (overrides.nodes[n.value].kind != NodeOverride::Kind::Hold) return false;
    for (size_t i = 0; i < graph().numOutputs(n); ++i)
      if (!heldEntry.test(output(n, i).value) && session.requests().request[output(n, i)] != Request::Null)
        return false;
    return true;
  }

  void chooseOverrides();
  void holdStopped();
  Error recordBase(const ExecOptions &options);
  void record(EntryId e, const TensorRef &tensor);
  void recordNode(NodeId n, ArrayRef<TensorRef> outputs);
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
    bool holdsAny = isHeld(graph(), n);
    for (size_t i = 0; i < graph().numOutputs(n); ++i) {
      if (isHeld(graph(), n)) heldEntry.set(output(n, i).value);
      holdsAny |= heldEntry.test(output(n, i).value);
    }
    if (holdsAny) {
      overrides.nodes[id].kind = NodeOverride::Kind::Hold;
      counts.outputs += !op.flags.hasNoGradient;
      for (size_t i = 0; i < graph().numOutputs(n); ++i)
        if (heldEntry.test(output(n, i).value)) needed.set(output(n, i).value);
    } else if (op.piece && readsFloating(n)) {
      overrides.nodes[id].kind = NodeOverride::Kind::Piece;
      ++counts.pieces;
      for (Value v : graph().inputs(n)) needed.set(graph().entry(v).value);
    }
  }
}

/// Labels, lengths, positions: such an input is read at its base value, though the variable that it depends on moves.
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
      if (!isHeldInput(kind, i)) continue;
      stoppedInputs.push_back({id, static_cast<uint32_t>(i)});
      needed.set(e);
    }
  }
}

void ScalarFunction::State::record(EntryId e, const TensorRef &tensor) {
  if (!needed[e.value] || !tensor.data) return;
  const char *bytes = tensor.as<char>();
  recorded[e] = Array{tensor.dtype, tensor.shape.vec(), std::vector<char>(bytes, bytes + tensor.bytes())};
  recorded[e].bytes.reserve(1);
}

void ScalarFunction::State::recordNode(NodeId n, ArrayRef<TensorRef> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) record(output(n, i), outputs[i]);
  if (isWhollyHeld(n)) bodies.forgetFrom(recordedInBodies);
  recordedInBodies = bodies.numRecorded();
  // A node in its bodies comes before the node itself.
  if (firstNotFinite.empty()) firstNotFinite = bodies.firstNotFinite();
  if (firstNotFinite.empty()) firstNotFinite = describeNotFinite(graph(), n, outputs);
}

Error ScalarFunction::State::recordBase(const ExecOptions &options) {
  for (NodeId n : aux) {
    TensorRef tensor = session.variable(n);
    auxValues.push_back(
        {tensor.dtype, tensor.shape.vec(), std::vector<char>(tensor.as<char>(), tensor.as<char>() + tensor.bytes())});
  }
  for (uint32_t id = 0; id < graph().numNodes(); ++id)
    if (graph().isVariable(NodeId(id))) recordNode(NodeId(id), session.variable(NodeId(id)));
  ExecOptions recording = options;
  const Overrides ofBodies{{}, &bodies};
  recording.overrides = &ofBodies;
  recording.monitorUser = this;
  recording.monitor = [](void *user, NodeId n, ArrayRef<TensorRef> outputs) {
    static_cast<State *>(user)->recordNode(n, outputs);
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
    NodeOverride &replaced = overrides.nodes[id];
    if (replaced.kind == NodeOverride::Kind::Piece)
      for (Value v : graph().inputs(NodeId(id))) replaced.base.push_back(recorded[graph().entry(v)].ref());
    if (replaced.kind == NodeOverride::Kind::Hold)
      for (size_t i = 0; i < graph().numOutputs(NodeId(id)); ++i)
        replaced.base.push_back(recorded[output(NodeId(id), i)].ref());
  }
  for (auto [n, i] : stoppedInputs) {
    const ArrayRef<Value> inputs = graph().inputs(NodeId(n));
    overrides.nodes[n].inputs.resize(inputs.size());
    overrides.nodes[n].inputs[i] = recorded[graph().entry(inputs[i])].ref();
  }
  for (size_t i = 0; i < lossValues.size(); ++i) overrides.nodes[losses.nodes[i].value].impliedLoss = &lossValues[i];
}

Error ScalarFunction::State::prepare(const ExecOptions &options) {
  ExecOptions replacing = options;
  overrides.bodies = &bodies;
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
  s.bodies.hold();
  if (Error error = s.executor->run(0)) return error;
  s.now.losses = s.lossValues;
  append_range(s.now.losses, s.bodies.losses());
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

HeldCounts ScalarFunction::held() const {
  HeldCounts counts = state->counts;
  counts.pieces += state->bodies.numPieces;
  counts.outputs += state->bodies.numHeld;
  counts.inputs = static_cast<uint32_t>(state->stoppedInputs.size()) + state->bodies.numInputs;
  counts.decisions = state->bodies.numDecisions;
  return counts;
}
StringRef ScalarFunction::firstNotFinite() const { return state->firstNotFinite; }
StringRef ScalarFunction::lossWithoutLabel() const { return state->losses.withoutLabel; }

}  // namespace gradc
