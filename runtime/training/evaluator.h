// How good a network is on a set of examples, in inference form, with parameters that live elsewhere.
//
// Every example counts once: what is left after the whole batches runs as a smaller batch. Tested by tests/trainer_test.cc
#pragma once

#include "runtime/gradcheck/objective.h"
#include "runtime/session.h"

namespace gradc {

class Evaluator {
 public:
  /// `graph` is the network with the labels of `objective` that are no variables as heads behind its own (withLabels);
  /// both outlive the object. `options.initSeed` must be set: it fills what is not bound.
  Evaluator(Context &context, const Graph &graph, const Objective &objective, SessionOptions options)
      : context(context), graph(graph), objective(objective), options(std::move(options)) {}

  /// Infers shapes and types for batches of `batch` rows of `data`, whose columns are converted to the types of their
  /// variables. Errors as Session::create has them, `given` being the bindings apart from the columns.
  llvm::Error prepare(Dataset &data, int64_t batch, llvm::ArrayRef<NamedArray> given);
  /// From now on each evaluation starts with what these variables hold in `source`, whose graph begins like this one and
  /// which outlives the object.
  void follow(const Session &source, std::vector<NodeId> variables) {
    followed = &source;
    followedVariables = std::move(variables);
  }
  /// The whole of `data`, `batch` rows at a time.
  llvm::Expected<Score> evaluate(Dataset &data, int64_t batch);

  /// For the batches of `prepare`.
  const Inference &inference() const { return *inferred; }
  /// Whether `data` can be evaluated: the columns, row shapes and class numbers. BindingMismatch when not.
  llvm::Error check(const Dataset &data) const;

 private:
  struct Sized {
    int64_t batch;
    Session session;
  };
  /// With the values of the source. Made when first requested: most training runs evaluate nothing.
  llvm::Expected<Session *> sessionFor(const Dataset &data, int64_t batch);
  void convertColumns(Dataset &data) const;

  Context &context;
  const Graph &graph;
  const Objective &objective;
  SessionOptions options;
  std::optional<Inference> inferred;
  std::vector<Sized> sessions;
  std::vector<NamedArray> columns;  // one row of each column, for their names and shapes
  const Session *followed = nullptr;
  std::vector<NodeId> followedVariables;
};

/// `forward` with the labels of `objective` that are no variables as further heads.
llvm::Expected<Graph> withLabels(Context &context, const Graph &forward, const Objective &objective);
/// Zeros of one batch for every column, to be bound: their shapes take part in inference.
std::vector<NamedArray> emptyBatch(const Dataset &data, int64_t batch);
/// The variable each column feeds.
std::vector<NodeId> fedVariables(const Graph &graph, const Dataset &data);
/// Scores the batch that a session over `graph` has run; its heads begin like those of withLabels.
Score scoreOf(const Objective &objective, const Graph &graph, Session &session, int64_t batch);

}  // namespace gradc
