// Measures a network on a set of examples, in inference mode, with parameters that another session owns.
//
// Every example counts once: those left after the whole batches run as a smaller batch. Tested by
// tests/runtime/trainer_test.cc
#pragma once

#include "runtime/session/session.h"
#include "runtime/training/objective.h"

namespace gradc {

class Evaluator {
 public:
  /// `graph` is the network with those labels of `objective` that are not variables as additional heads (withLabels);
  /// both must outlive the object. `options.initSeed` must be set: it fills what is not bound.
  Evaluator(Context &context, const Graph &graph, const Objective &objective, SessionOptions options)
      : context(context), graph(graph), objective(objective), options(std::move(options)) {}

  /// Infers shapes and types for batches of `batch` rows of `data`, whose elements are not read. `given` are the
  /// bindings other than the columns. Errors are those of Session::create.
  llvm::Error prepare(const Dataset &data, int64_t batch, llvm::ArrayRef<NamedArray> given);
  /// From now on each evaluation copies the values of these variables from `source`, a session of `sourceGraph`, which
  /// begins like the graph here. Both must outlive the object.
  void follow(const Session &source, const Graph &sourceGraph, std::vector<NodeId> variables) {
    followed = &source;
    followedGraph = &sourceGraph;
    followedVariables = std::move(variables);
  }
  /// The whole of `data`, `batch` rows at a time. BindingMismatch if a variable whose shape depends on the number of
  /// rows does not have one value throughout, and the last batch is smaller.
  llvm::Expected<Score> evaluate(Dataset &data, int64_t batch);

  /// Of the batches given to `prepare`.
  const Inference &inference() const { return *inferred; }
  /// Converts the columns of `data` to the types of their variables. BindingMismatch if its columns, row shapes or
  /// class numbers do not fit; errors of Dataset::convert.
  llvm::Error take(Dataset &data) const;

 private:
  struct Sized {
    int64_t batch;
    Session session;
  };
  /// The session, with the values of the source. Created on the first request: most training runs evaluate nothing.
  llvm::Expected<Session *> sessionFor(const Dataset &data, int64_t batch);
  SessionOptions optionsFor(const Dataset &data, int64_t batch) const;
  llvm::Error copyFollowed(NodeId n, Session &to) const;

  Context &context;
  const Graph &graph;
  const Objective &objective;
  SessionOptions options;
  std::optional<Inference> inferred;
  std::vector<Sized> sessions;
  std::vector<NamedArray> columns;  // one row of each column, for their names and shapes
  const Session *followed = nullptr;
  const Graph *followedGraph = nullptr;
  std::vector<NodeId> followedVariables;
};

/// `forward` with those labels of `objective` that are not variables as further heads.
llvm::Expected<Graph> withLabels(Context &context, const Graph &forward, const Objective &objective);
/// Zeros of one batch for every column, to be bound: their shapes take part in inference.
std::vector<NamedArray> emptyBatch(const Dataset &data, int64_t batch);
/// The variable each column feeds.
std::vector<NodeId> fedVariables(const Graph &graph, const Dataset &data);
/// Scores the batch that a session over `graph` has run. The heads of `graph` begin with those of withLabels.
Score scoreOf(const Objective &objective, const Graph &graph, Session &session, int64_t batch);

}  // namespace gradc
