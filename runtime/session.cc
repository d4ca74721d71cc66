// Tested by tests/session_test.cc
#include "runtime/session.h"

#include "runtime/failures.h"
#include "runtime/keys.h"
#include "runtime/run_errors.h"
#include "runtime/session_state.h"

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
TensorRef Session::variable(NodeId n) { return state->look(state->variable(n)); }
TensorRef Session::head(size_t i) { return state->look(state->head(i)); }

TensorRef Session::plainVariable(NodeId n) const { return state->variable(n).plain(); }

void Session::readVariable(NodeId n, const TensorRef &to) const {
  withThreads(state->threads, [&] { state->variable(n).read(to); });
}
void Session::readHead(size_t i, const TensorRef &to) const {
  withThreads(state->threads, [&] { state->head(i).read(to); });
}

Error Session::bindVariable(NodeId n, TensorRef tensor) {
  return catching("to bind a variable", [&]() -> Error {
    Argument argument(tensor, Layout::Plain);
    if (Error error = state->executor->bind(n, tensor)) return error;
    state->variable(n) = std::move(argument);
    return Error::success();
  });
}
Error Session::bindHead(size_t i, TensorRef tensor) {
  return catching("to bind a head", [&]() -> Error {
    Argument argument(tensor, Layout::Plain);
    if (Error error = state->executor->bindHead(i, tensor)) return error;
    state->sharedWith[i] = NodeId();
    state->heads[i] = std::move(argument);
    return Error::success();
  });
}

Error Session::shareHead(size_t i, NodeId variable) {
  if (Error error = checkIsHead(state->graph, i)) return error;
  if (Error error = checkIsVariable(state->graph, variable)) return error;
  assert(headLayout(i) == variableLayout(variable) && "what computes the new value works element by element");
  if (Error error = state->executor->bindHead(i, state->variable(variable).place())) return error;
  state->sharedWith[i] = variable;
  return Error::success();
}

void Session::assignVariable(NodeId n, const Session &from) {
  withThreads(state->threads, [&] { state->variable(n).assign(from.state->variable(n)); });
}

Layout Session::variableLayout(NodeId n) const { return state->variable(n).layout(); }
Layout Session::headLayout(size_t i) const { return state->head(i).layout(); }

Expected<std::vector<NamedArray>> Session::outputs() const {
  return catching("to copy the outputs", [&]() -> Expected<std::vector<NamedArray>> {
    std::vector<NodeId> aux;
    if (state->isTraining) aux = listInputs(state->graph).aux;
    Expected<std::vector<OutputKey>> keys = outputKeys(state->graph, state->table, aux);
    if (!keys) return keys.takeError();
    std::vector<NamedArray> arrays;
    for (const OutputKey &row : *keys) {
      const Argument &argument = row.from == OutputKey::From::Head ? state->head(row.head) : state->variable(row.aux);
      const TensorRef place = argument.place();
      if (!place.data) continue;
      Array array{place.dtype, place.shape.vec(), std::vector<char>(place.bytes())};
      withThreads(state->threads, [&] { argument.read(array.ref()); });
      arrays.push_back({row.key, std::move(array)});
    }
    return arrays;
  });
}

}  // namespace gradc
