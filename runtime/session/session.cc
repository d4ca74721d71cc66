// Tested by tests/runtime/session_test.cc
#include "runtime/session/session.h"

#include "runtime/executor/failures.h"
#include "runtime/executor/run_errors.h"
#include "runtime/executor/tensor_keys.h"
#include "runtime/session/session_state.h"

using namespace llvm;

namespace gradc {

Session::Session(std::unique_ptr<State> state) : state(std::move(state)) {}
Session::Session(Session &&) = default;
Session::~Session() = default;

Expected<Session> Session::create(Context &context, const Graph &graph, std::vector<NamedArray> bindings,
                                  const SessionOptions &options) {
  return catching("to open a session", [&]() -> Expected<Session> {
    auto state = std::make_unique<State>();
    state->graph = graph;
    if (Error error = state->create(context, std::move(bindings), options)) return error;
    return Session(std::move(state));
  });
}

Expected<Inference> Session::inferFor(Context &context, const Graph &graph, std::vector<NamedArray> bindings,
                                      const SessionOptions &options) {
  return catching("to infer shapes", [&]() -> Expected<Inference> {
    State state;
    state.graph = graph;
    Expected<MatchedBindings> matched = state.match(context, std::move(bindings), options);
    if (!matched) return matched.takeError();
    return std::move(state.inference);
  });
}

Error Session::run(uint64_t step) {
  return catching("to run the graph", [&] { return state->run(step); });
}
const Inference &Session::inference() const { return state->inference; }
const MemoryPlan &Session::plan() const { return state->plan; }
const RequestTable &Session::requests() const { return state->requests; }
const std::vector<std::string> &Session::warnings() const { return state->warnings; }
void Session::setProfiling(bool on) { state->executor->setProfiling(on); }
ArrayRef<Executor::Timing> Session::timings() const { return state->executor->timings(); }
TensorRef Session::variable(NodeId n) { return state->hasVariable(n) ? state->look(state->variable(n)) : TensorRef(); }
TensorRef Session::head(size_t i) { return state->hasHead(i) ? state->look(state->head(i)) : TensorRef(); }

TensorRef Session::plainVariable(NodeId n) const {
  return state->hasVariable(n) ? state->variable(n).plain() : TensorRef();
}

Error Session::readVariable(NodeId n, const TensorRef &to) const {
  return catching("to read a variable", [&]() -> Error {
    if (Error error = checkIsVariable(state->graph, n, "a copy is requested of")) return error;
    return state->read(state->variable(n), to, state->graph.name(n));
  });
}
Error Session::readHead(size_t i, const TensorRef &to) const {
  return catching("to read a head", [&]() -> Error {
    if (Error error = checkIsHead(state->graph, i, "a copy is requested of")) return error;
    return state->read(state->head(i), to, state->graph.listedName(state->graph.heads()[i]));
  });
}

Error Session::bindVariable(NodeId n, TensorRef tensor) {
  return catching("to bind a variable", [&]() -> Error {
    SessionTensor bound(tensor, Layout::Plain);
    if (Error error = state->executor->bind(n, tensor)) return error;
    state->variable(n) = std::move(bound);
    return Error::success();
  });
}
Error Session::bindHead(size_t i, TensorRef tensor) {
  return catching("to bind a head", [&]() -> Error {
    SessionTensor bound(tensor, Layout::Plain);
    if (Error error = state->executor->bindHead(i, tensor)) return error;
    state->sharedWith[i] = NodeId();
    state->heads[i] = std::move(bound);
    return Error::success();
  });
}

Error Session::shareHead(size_t i, NodeId variable) {
  if (Error error = checkIsHead(state->graph, i)) return error;
  if (Error error = checkIsVariable(state->graph, variable)) return error;
  if (headLayout(i) != variableLayout(variable))  // they are equal where the value is computed element by element
    return Failure(ErrorKind::BindingMismatch, "head " + Twine(i) + " cannot be written over " +
                                                   state->graph.describe(variable) +
                                                   ": kernels keep them in different layouts")
        .at(variable);
  if (Error error = state->executor->bindHead(i, state->variable(variable).place())) return error;
  state->sharedWith[i] = variable;
  return Error::success();
}

Error Session::assignVariable(NodeId n, const Session &from) {
  return catching("to copy a variable", [&]() -> Error {
    for (const Graph &graph : {state->graph, from.state->graph})
      if (Error error = checkIsVariable(graph, n, "a copy is requested of")) return error;
    SessionTensor &to = state->variable(n), &source = from.state->variable(n);
    if (Error error = checkSame(to.place(), source.place(), state->graph.name(n))) return error;
    withThreads(state->threads, [&] { to.assign(source); });
    return Error::success();
  });
}

Layout Session::variableLayout(NodeId n) const {
  return state->hasVariable(n) ? state->variable(n).layout() : Layout::Plain;
}
Layout Session::headLayout(size_t i) const { return state->hasHead(i) ? state->head(i).layout() : Layout::Plain; }

Expected<std::vector<NamedArray>> Session::outputs() const {
  return catching("to copy the outputs", [&]() -> Expected<std::vector<NamedArray>> {
    std::vector<NodeId> aux;
    if (state->isTraining) aux = listInputs(state->graph).aux;
    Expected<std::vector<OutputKey>> keys = outputKeys(state->graph, state->table, aux);
    if (!keys) return keys.takeError();
    std::vector<NamedArray> arrays;
    for (const OutputKey &row : *keys) {
      const SessionTensor &source =
          row.from == OutputKey::From::Head ? state->head(row.head) : state->variable(row.aux);
      const TensorRef place = source.place();
      if (!place.data) continue;
      Array array{place.dtype, place.shape.vec(), std::vector<char>(place.bytes())};
      withThreads(state->threads, [&] { source.read(array.ref()); });
      arrays.push_back({row.key, std::move(array)});
    }
    return arrays;
  });
}

}  // namespace gradc
