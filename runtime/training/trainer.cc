// Phases of `Trainer::create`: infer the network by itself, which finds mistakes in the arrays; build the gradients of
// what is trained; append the optimizer; open a session of the whole. Tested by tests/runtime/trainer_test.cc
#include "runtime/arrays/npz_writer.h"
#include "runtime/training/trainer.h"

#include "runtime/executor/failures.h"

#include "formats/json/writer.h"
#include "ir/base/error.h"
#include "runtime/arrays/elements.h"
#include "runtime/executor/tensor_keys.h"
#include "runtime/training/checkpoint.h"
#include "runtime/training/evaluator.h"
#include "runtime/session/initial_values.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/xxhash.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

uint64_t hashOf(const Graph &graph) {
  std::string text;
  raw_string_ostream os(text);
  writeJson(os, graph);
  os.flush();
  return xxh3_64bits(text);
}

}  // namespace

struct Trainer::State {
  State(Context &context, const Graph &network, Dataset examples, TrainerOptions given)
      : context(context), options(std::move(given)), data(std::move(examples)), objective(network) {}

  Context &context;
  TrainerOptions options;
  Dataset data;
  Objective objective;
  Graph forward;  // the network, with labels after its heads
  std::optional<Evaluator> evaluator;
  Graph gradients;
  TrainingGraph training;
  std::optional<Session> session;
  std::vector<std::string> keys;  // of the training graph's variables
  std::vector<NodeId> fed;        // by column
  std::vector<NodeId> lasting;    // parameters, auxiliary states and frozen variables, then states of the optimizer
  size_t numParameters = 0;       // how many of these are the network's
  std::vector<std::pair<NodeId, Array>> frozenStates;  // auxiliary states, with their fixed values
  std::vector<size_t> unlikeLosses;
  RunState run;
  StringMap<char> given;        // names of options.start
  std::vector<uint32_t> order;  // of examples, in orderedEpoch
  uint64_t orderedEpoch = ~uint64_t{0};

  Error create(const Graph &network);
  Error prepareEvaluator();
  Expected<GradientRequest> gradientRequest();
  Error checkGiven(const GradientRequest &request) const;
  Error differentiate(size_t numHeads);
  Error openSession();
  void initialize();
  void keepFrozenStates();
  void updateFrozenStates();
  void restoreFrozenStates();
  Error checkNames() const;
  Error shareMemory();
  std::vector<LastingArray> lastingArrays();
  NamedArray copyOf(NodeId n) const;
  std::vector<NamedArray> copies(size_t count) const;
  Error write(NpzWriter &writer, size_t count) const;
  uint64_t stepsPerEpoch() const { return static_cast<uint64_t>(data.size() / options.batch); }
  Error loadBatch(uint64_t epoch, uint64_t position);
  void setNumbers(double rate, uint64_t t);
};

Error Trainer::State::create(const Graph &network) {
  if (Error error = options.schedule.check()) return error;
  if (options.batch < 1 || options.batch > data.size())
    return Failure(ErrorKind::BindingMismatch, "the batch size is " + Twine(options.batch) + ", expected 1 to " +
                                                   Twine(data.size()) + ", the number of examples");
  Expected<Graph> extended = withLabels(context, network, objective);
  if (!extended) return extended.takeError();
  forward = *extended;
  if (Error error = prepareEvaluator()) return error;
  if (Error error = differentiate(network.heads().size())) return error;
  if (Error error = evaluator->take(data)) return error;
  if (Error error = openSession()) return error;
  initialize();
  keepFrozenStates();
  if (Error error = checkNames()) return error;
  return shareMemory();
}

Error Trainer::State::prepareEvaluator() {
  SessionOptions plain = options.session;
  plain.initSeed = options.seed;
  plain.exec.isTraining = false;
  evaluator.emplace(context, forward, objective, std::move(plain));
  return evaluator->prepare(data, options.batch, options.start);
}

/// With respect to every argument that can carry a gradient and is neither fed nor frozen.
Expected<GradientRequest> Trainer::State::gradientRequest() {
  StringMap<bool> excluded;  // whether it is a variable of the graph
  for (size_t c = 0; c < data.numColumns(); ++c) excluded[data.name(c)] = true;
  for (const std::string &name : options.frozen) excluded[name] = false;
  const std::vector<std::string> names = variableKeys(forward);
  GradientRequest request;
  for (const GradientTarget &target : allTargets(forward, &evaluator->inference()).targets)
    if (!excluded.count(names[target.x.node.value])) request.wrt.push_back(target);
  for (const std::string &name : names)
    if (StringMap<bool>::iterator at = excluded.find(name); at != excluded.end()) at->second = true;
  for (const std::string &name : options.frozen)
    if (!excluded[name]) return Failure(ErrorKind::UnknownName, "the graph has no variable '" + name + "' to freeze");
  if (request.wrt.empty()) return Failure(ErrorKind::EmptyXs, "the graph has no parameter to train");
  return request;
}

/// Values of a variable that receives no gradient, such as a label, must not be made up.
Error Trainer::State::checkGiven(const GradientRequest &request) const {
  std::vector<bool> hasValue(forward.numNodes());
  for (const GradientTarget &target : request.wrt) hasValue[target.x.node.value] = true;
  for (NodeId n : fedVariables(forward, data)) hasValue[n.value] = true;
  for (NodeId n : listInputs(forward).aux) hasValue[n.value] = true;
  const std::vector<std::string> names = variableKeys(forward);
  StringSet<> own;  // frozen, or with a given value
  for (const std::string &name : options.frozen) own.insert(name);
  for (const NamedArray &array : options.start) own.insert(array.name);
  for (uint32_t id = 0; id < forward.numNodes(); ++id) {
    if (!forward.isVariable(NodeId(id)) || hasValue[id] || own.contains(names[id]) ||
        forward.attrs(NodeId(id)).get("__init__"))
      continue;
    return Failure(ErrorKind::BindingMissing, forward.describe(NodeId(id)) +
                                                  " has no value: it is not a parameter, and no "
                                                  "array is fed to it")
        .at(NodeId(id));
  }
  return Error::success();
}

Error Trainer::State::differentiate(size_t numHeads) {
  Expected<GradientRequest> request = gradientRequest();
  if (!request) return request.takeError();
  if (Error error = checkGiven(*request)) return error;
  for (size_t i = 0; i < numHeads; ++i) request->heads.push_back({forward.heads()[i], std::nullopt, ""});
  GradientOptions gradient;
  gradient.unused = UnusedPolicy::None;
  gradient.inference = &evaluator->inference();
  gradient.lossScale = options.lossScale;
  Expected<GradientResult> result = buildGradient(context, forward, *request, gradient);
  if (!result) return result.takeError();
  gradients = result->graph;

  SmallVector<TensorRef, 4> heads;  // without data
  for (Value head : forward.heads().take_front(numHeads)) {
    const EntryId e = forward.entry(head);
    heads.push_back({nullptr, evaluator->inference().dtype[e], evaluator->inference().shapeOf(e).dims()});
  }
  BitVector isTrained(forward.numNodes());
  for (const GradientTarget &target : request->wrt) isTrained.set(target.x.node.value);
  unlikeLosses = objective.headsUnlikeLosses(forward, heads, options.batch, isTrained);
  if (!options.hasOwnRescale && !objective.isMean(heads))
    options.optimizer.rescale /= static_cast<double>(options.batch);
  options.optimizer.rescale /= options.lossScale;
  // By node, not by entry: loops in the gradient graph have more outputs, which renumbers entries.
  for (uint32_t n = 0; n < forward.numNodes(); ++n)
    options.optimizer.types.push_back(evaluator->inference().dtype[forward.firstEntry(NodeId(n))]);
  Expected<TrainingGraph> appended = appendOptimizer(context, gradients, options.optimizer);
  if (!appended) return appended.takeError();
  training = std::move(*appended);
  if (training.parameters.empty()) return Failure(ErrorKind::EmptyXs, "no parameter of the graph influences its heads");
  return Error::success();
}

Error Trainer::State::openSession() {
  SessionOptions whole = options.session;
  whole.initSeed = options.seed;
  whole.exec.isTraining = true;
  whole.exec.seed = options.seed;
  std::vector<NamedArray> bindings = emptyBatch(data, options.batch);
  for (NamedArray &array : options.start) {
    given[array.name] = 0;
    bindings.push_back(std::move(array));
  }
  Expected<Session> created = Session::create(context, training.graph, std::move(bindings), whole);
  if (!created) return created.takeError();
  session.emplace(std::move(*created));
  keys = variableKeys(training.graph);
  fed = fedVariables(training.graph, data);
  run.batch = static_cast<uint64_t>(options.batch);
  run.examples = static_cast<uint64_t>(data.size());
  run.seed = options.seed;
  run.shuffle = options.shuffle.value_or(0);
  run.isShuffled = options.shuffle.has_value();
  run.graph = hashOf(training.graph);
  return Error::success();
}

/// Lists the persistent variables, and initializes those that were not given.
void Trainer::State::initialize() {
  std::vector<bool> isState(training.graph.numNodes());
  for (const TrainingGraph::Parameter &parameter : training.parameters)
    for (NodeId state : parameter.states) isState[state.value] = true;
  const Initializer initializer(training.graph, session->inference(), options.seed);
  for (uint32_t id = 0; id < forward.numNodes(); ++id) {
    const NodeId n(id);
    if (!training.graph.isVariable(n) || llvm::is_contained(fed, n)) continue;
    lasting.push_back(n);
    if (!given.count(keys[id])) initializer.fillParameter(n, session->variable(n));
  }
  for (const TrainingGraph::Parameter &parameter : training.parameters)
    if (parameter.master.isValid())
      convertElements(session->variable(parameter.variable), session->variable(parameter.master));
  numParameters = lasting.size();
  for (uint32_t id = 0; id < isState.size(); ++id)
    if (isState[id]) lasting.push_back(NodeId(id));
}

/// Operators overwrite their auxiliary states. What is frozen gets its value back after each step.
void Trainer::State::keepFrozenStates() {
  frozenStates.clear();
  for (NodeId n : listInputs(training.graph).aux)
    if (llvm::is_contained(options.frozen, keys[n.value])) frozenStates.push_back({n, copyOf(n).array});
}

/// Without allocation: nothing fails after a checkpoint was taken.
void Trainer::State::updateFrozenStates() {
  for (auto &[n, value] : frozenStates) convertElements(session->variable(n), value.ref());
}

void Trainer::State::restoreFrozenStates() {
  for (auto &[n, value] : frozenStates) convertElements(value.ref(), session->variable(n));
}

/// Found out now, and not by the first checkpoint.
Error Trainer::State::checkNames() const {
  for (NodeId n : lasting)
    if (isRunNumber(keys[n.value]))
      return Failure(ErrorKind::AmbiguousName,
                     training.graph.describe(n) + " has the name under which a checkpoint keeps a number of the run")
          .at(n);
  return Error::success();
}

/// New values overwrite the old ones. Only here may heads do that: an optimizer step may compute in place, and runs
/// after all other readers of its parameter. The evaluator copies values by id, because the forward nodes come first in
/// the training graph.
Error Trainer::State::shareMemory() {
  for (const TrainingGraph::Parameter &parameter : training.parameters)
    if (Error error = session->shareHead(parameter.head, parameter.variable)) return error;
  std::vector<NodeId> variables;
  for (uint32_t id = 0; id < forward.numNodes(); ++id) {
    const NodeId n(id);
    assert(training.graph.name(n) == forward.name(n) && "the network is a prefix of its training graph");
    if (forward.isVariable(n) && !llvm::is_contained(fed, n)) variables.push_back(n);
  }
  evaluator->follow(*session, training.graph, std::move(variables));
  return Error::success();
}

/// May be read and written until the next step.
std::vector<LastingArray> Trainer::State::lastingArrays() {
  std::vector<LastingArray> arrays;
  for (NodeId n : lasting) arrays.push_back({keys[n.value], session->variable(n)});
  return arrays;
}

NamedArray Trainer::State::copyOf(NodeId n) const {
  const EntryId e = training.graph.firstEntry(n);
  Array array{session->inference().dtype[e], session->inference().shapeOf(e).dims().vec(), {}};
  array.bytes.resize(array.ref().bytes());
  cantFail(session->readVariable(n, array.ref()));
  return {keys[n.value], std::move(array)};
}

/// Of the first `count` persistent variables.
std::vector<NamedArray> Trainer::State::copies(size_t count) const {
  std::vector<NamedArray> arrays;
  for (NodeId n : ArrayRef(lasting).take_front(count)) arrays.push_back(copyOf(n));
  return arrays;
}

/// Copies only what kernels keep in another layout, one variable at a time.
Error Trainer::State::write(NpzWriter &writer, size_t count) const {
  for (NodeId n : ArrayRef(lasting).take_front(count)) {
    const TensorRef plain = session->plainVariable(n);
    if (Error error = plain.data ? writer.add(keys[n.value], plain) : writer.add(keys[n.value], copyOf(n).array.view()))
      return error;
  }
  return Error::success();
}

Error Trainer::State::loadBatch(uint64_t epoch, uint64_t position) {
  if (epoch != orderedEpoch) order = epochOrder(data.size(), options.shuffle, epoch);
  orderedEpoch = epoch;
  const size_t batch = static_cast<size_t>(options.batch);
  const ArrayRef<uint32_t> rows = ArrayRef<uint32_t>(order).slice(position * batch, batch);
  for (size_t c = 0; c < fed.size(); ++c)
    if (Error error = data.gather(c, rows, session->variable(fed[c]))) return error;
  return Error::success();
}

void Trainer::State::setNumbers(double rate, uint64_t t) {
  if (training.rate.isValid()) writeElement(session->variable(training.rate), 0, rate);
  if (training.step.isValid()) writeElement(session->variable(training.step), 0, static_cast<double>(t));
}

Trainer::Trainer(std::unique_ptr<State> state) : state(std::move(state)) {}
Trainer::Trainer(Trainer &&) = default;
Trainer::~Trainer() = default;

Expected<Trainer> Trainer::create(Context &context, const Graph &network, Dataset data, TrainerOptions options) {
  return catching("to prepare training", [&]() -> Expected<Trainer> {
    auto state = std::make_unique<State>(context, network, std::move(data), std::move(options));
    if (Error error = state->create(network)) return error;
    return Trainer(std::move(state));
  });
}

Expected<Trainer::Report> Trainer::advance() {
  return catching("to take a step", [&]() -> Expected<Report> {
    State &s = *state;
    const uint64_t epoch = s.run.step / s.stepsPerEpoch();
    if (Error error = s.loadBatch(epoch, s.run.step % s.stepsPerEpoch())) return error;
    const uint64_t t = s.run.step + 1;
    const double rate = s.options.schedule.at(t);
    s.setNumbers(rate * rateCorrection(s.options.optimizer, t), t);
    Error failed = s.session->run(s.run.step);
    s.restoreFrozenStates();
    if (failed) return failed;
    s.run.step = t;
    return Report{t, epoch, rate, scoreOf(s.objective, s.training.graph, *s.session, s.options.batch)};
  });
}

uint64_t Trainer::step() const { return state->run.step; }
uint64_t Trainer::stepsPerEpoch() const { return state->stepsPerEpoch(); }
Metric Trainer::metric() const { return state->objective.metric(); }
ArrayRef<size_t> Trainer::headsUnlikeLosses() const { return state->unlikeLosses; }
const Inference &Trainer::forwardInference() const { return state->evaluator->inference(); }
const TrainingGraph &Trainer::training() const { return state->training; }
const Graph &Trainer::gradients() const { return state->gradients; }
const OptimizerOptions &Trainer::optimizer() const { return state->options.optimizer; }
Session &Trainer::session() { return *state->session; }

Expected<Score> Trainer::evaluate(Dataset &data) {
  return catching("to evaluate", [&] { return state->evaluator->evaluate(data, state->options.batch); });
}

std::vector<NamedArray> Trainer::parameters() const { return state->copies(state->numParameters); }

std::vector<NamedArray> Trainer::checkpoint() const {
  std::vector<NamedArray> arrays = state->copies(state->lasting.size());
  for (NamedArray &number : runNumbers(state->run)) arrays.push_back(std::move(number));
  return arrays;
}

Error Trainer::writeParameters(raw_ostream &os) const {
  return catching("to write parameters", [&]() -> Error {
    NpzWriter writer(os);
    if (Error error = state->write(writer, state->numParameters)) return error;
    return writer.finish();
  });
}

Error Trainer::writeCheckpoint(raw_ostream &os) const {
  return catching("to write a checkpoint", [&]() -> Error {
    NpzWriter writer(os);
    if (Error error = state->write(writer, state->lasting.size())) return error;
    for (const NamedArray &number : runNumbers(state->run))
      if (Error error = writer.add(number.name, number.array.view())) return error;
    return writer.finish();
  });
}

Error Trainer::resume(ArrayRef<NamedArray> checkpoint, StringRef place) {
  return catching("to resume", [&]() -> Error {
    Expected<uint64_t> step = takeCheckpoint(checkpoint, state->lastingArrays(), state->run, place);
    if (!step) return step.takeError();
    state->run.step = *step;
    state->updateFrozenStates();
    return Error::success();
  });
}

}  // namespace gradc
