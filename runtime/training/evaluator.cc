// Runs batches through sessions, one per batch size. Tested by tests/runtime/trainer_test.cc
#include "runtime/training/evaluator.h"

#include "ir/base/error.h"
#include "ir/graph/graph_builder.h"
#include "runtime/executor/bindings.h"
#include "runtime/executor/tensor_keys.h"

#include <cstring>

using namespace llvm;

namespace gradc {

Expected<Graph> withLabels(Context &context, const Graph &forward, const Objective &objective) {
  SmallVector<Value, 8> heads(forward.heads());
  for (Value label : objective.labels())
    if (!forward.isVariable(label.node)) heads.push_back(label);
  if (heads.size() == forward.heads().size()) return forward;
  GraphBuilder builder(context, forward);
  Expected<Frozen> frozen = std::move(builder).freeze(heads, {});
  if (!frozen) return frozen.takeError();
  return frozen->graph;
}

std::vector<NamedArray> emptyBatch(const Dataset &data, int64_t batch) {
  std::vector<NamedArray> arrays;
  for (size_t c = 0; c < data.numColumns(); ++c) {
    Array array{data.column(c).dtype, {batch}, {}};
    array.shape.insert(array.shape.end(), data.rowShape(c).begin(), data.rowShape(c).end());
    array.bytes.resize(array.ref().bytes());
    arrays.push_back({data.name(c).str(), std::move(array)});
  }
  return arrays;
}

std::vector<NodeId> fedVariables(const Graph &graph, const Dataset &data) {
  const std::vector<std::string> keys = variableKeys(graph);
  std::vector<NodeId> variables(data.numColumns());
  for (uint32_t id = 0; id < graph.numNodes(); ++id)
    for (size_t c = 0; c < data.numColumns() && graph.isVariable(NodeId(id)); ++c)
      if (data.name(c) == keys[id]) variables[c] = NodeId(id);
  return variables;
}

Score scoreOf(const Objective &objective, const Graph &graph, Session &session, int64_t batch) {
  SmallVector<TensorRef, 4> heads, labels;
  for (size_t i = 0; i < objective.numHeads(); ++i) heads.push_back(session.head(i));
  size_t next = objective.numHeads();
  for (Value label : objective.labels())
    labels.push_back(graph.isVariable(label.node) ? session.variable(label.node) : session.head(next++));
  return objective.score(heads, labels, batch);
}

Error Evaluator::take(Dataset &data) const {
  if (data.numColumns() != columns.size())
    return Failure(ErrorKind::BindingMismatch, "the evaluation examples feed " + Twine(data.numColumns()) +
                                                   " variables, the training examples " + Twine(columns.size()));
  for (size_t c = 0; c < columns.size(); ++c) {
    if (data.name(c) != columns[c].name)
      return Failure(ErrorKind::BindingMismatch, "the evaluation examples feed '" + data.name(c) +
                                                     "' where the training examples feed '" + columns[c].name + "'");
    const Dims expected = Dims(columns[c].array.shape).drop_front();
    if (data.rowShape(c) != expected)
      return bindingMismatch(data.name(c), "rows of shape " + toString(ShapeRef(expected)),
                             toString(ShapeRef(data.rowShape(c))));
  }
  const std::vector<NodeId> fed = fedVariables(graph, data);
  for (size_t c = 0; c < fed.size(); ++c)
    if (Error error = data.convert(c, inferred->dtype[graph.firstEntry(fed[c])])) return error;
  return objective.checkLabels(graph, *inferred, data);
}

Error Evaluator::prepare(const Dataset &data, int64_t batch, ArrayRef<NamedArray> given) {
  std::vector<NamedArray> bindings = emptyBatch(data, batch);
  for (const NamedArray &array : given)
    bindings.push_back({array.name, Array{array.array.dtype, array.array.shape, {}}});
  Expected<Inference> inference = Session::inferFor(context, graph, std::move(bindings), options);
  if (!inference) return inference.takeError();
  inferred = std::move(*inference);
  columns = emptyBatch(data, 1);
  return Error::success();
}

/// With the shapes of training for variables whose shape does not follow from the examples: those that were given. One
/// at a time, because others may follow from it.
SessionOptions Evaluator::optionsFor(const Dataset &data, int64_t batch) const {
  SessionOptions own = options;
  InferRequest request = options.hints;
  const std::vector<NodeId> fed = fedVariables(graph, data);
  for (size_t c = 0; c < fed.size(); ++c) {
    DimsBuffer dims = {batch};
    dims.append(data.rowShape(c).begin(), data.rowShape(c).end());
    request.shapes.push_back({fed[c], dims});
  }
  InferOptions partial = options.infer;
  partial.allowUnknown = true;
  Expected<Inference> known = infer(context, graph, request, partial);
  for (size_t i = 0; known && i < followedVariables.size(); ++i) {
    const NodeId n = followedVariables[i];
    if (known->isKnownShape(graph.firstEntry(n))) continue;
    const Dims dims = followed->inference().shapeOf(followedGraph->firstEntry(n)).dims();
    request.shapes.push_back({n, DimsBuffer(dims.begin(), dims.end())});
    own.hints.shapes.push_back(request.shapes.back());
    known = infer(context, graph, request, partial);
  }
  if (!known) consumeError(known.takeError());  // Session::create has the better message
  return own;
}

Expected<Session *> Evaluator::sessionFor(const Dataset &data, int64_t batch) {
  auto isOfBatch = [&](const Sized &sized) { return sized.batch == batch; };
  std::vector<Sized>::iterator at = llvm::find_if(sessions, isOfBatch);
  if (at == sessions.end()) {
    Expected<Session> session = Session::create(context, graph, emptyBatch(data, batch), optionsFor(data, batch));
    if (!session)
      return amend(session.takeError(), [&](GradcError &info) {
        info.notes.push_back({"while preparing a batch of " + std::to_string(batch) + " to evaluate " +
                                  std::to_string(data.size()) + " examples",
                              {}});
      });
    sessions.push_back({batch, std::move(*session)});
    at = std::prev(sessions.end());
  }
  if (followed)
    for (NodeId n : followedVariables)
      if (Error error = copyFollowed(n, at->session)) return error;
  return &at->session;
}

/// A begin state has rows for a whole batch: which of them belong to a smaller one is unknown, unless all are equal.
Error Evaluator::copyFollowed(NodeId n, Session &to) const {
  const ShapeRef expected = followed->inference().shapeOf(followedGraph->firstEntry(n));
  const ShapeRef found = to.inference().shapeOf(graph.firstEntry(n));
  if (found.dims() == expected.dims()) return to.assignVariable(n, *followed);
  const TensorRef target = to.variable(n);
  Array source{target.dtype, expected.dims().vec(), {}};
  source.bytes.resize(source.ref().bytes());
  if (Error error = followed->readVariable(n, source.ref())) return error;
  const size_t width = dtypeBytes(target.dtype);
  const StringRef bytes(source.bytes.data(), source.bytes.size());
  if (bytes.empty() || bytes.drop_front(width) != bytes.drop_back(width))
    return Failure(ErrorKind::BindingMismatch, graph.describe(n) + " has shape " + toString(expected) +
                                                   " in training and " + toString(found) +
                                                   " in the last batch of an evaluation")
        .at(n)
        .note("only a variable that has one value throughout can change its shape; evaluate whole batches");
  for (int64_t i = 0; i < target.size(); ++i)
    std::memcpy(target.as<char>() + static_cast<size_t>(i) * width, bytes.data(), width);
  return Error::success();
}

Expected<Score> Evaluator::evaluate(Dataset &data, int64_t batch) {
  if (Error error = take(data)) return error;
  const std::vector<uint32_t> order = epochOrder(data.size(), std::nullopt, 0);
  const std::vector<NodeId> fed = fedVariables(graph, data);
  Score total;
  Session *session = nullptr;
  for (int64_t first = 0; first < data.size(); first += batch) {
    const int64_t rows = std::min(batch, data.size() - first);
    if (first == 0 || rows != batch) {
      Expected<Session *> found = sessionFor(data, rows);
      if (!found) return found.takeError();
      session = *found;
    }
    ArrayRef<uint32_t> part = ArrayRef<uint32_t>(order).slice(static_cast<size_t>(first), static_cast<size_t>(rows));
    for (size_t c = 0; c < fed.size(); ++c)
      if (Error error = data.gather(c, part, session->variable(fed[c]))) return error;
    if (Error error = session->run(0)) return error;
    total.add(scoreOf(objective, graph, *session, rows));
  }
  return total;
}

}  // namespace gradc
