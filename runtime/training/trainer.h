// Training a network: the training graph, the arrays it reads and overwrites, and the steps.
//
//   Expected<Trainer> trainer = Trainer::create(context, network, std::move(examples), options);
//   while (trainer->step() < steps) { Expected<Trainer::Report> report = trainer->advance(); … }
//   Expected<Score> score = trainer->evaluate(heldOut);
//   trainer->writeCheckpoint(os);
//
// The network is differentiated, an optimizer is appended (passes/optimizer/append_optimizer.h), and one session runs
// the result with the new values of parameters in the memory of the old ones. Everything a step depends on is a
// function of the options, the step number and the arrays of the checkpoint, so a resumed run continues bit for bit.
// docs/training.md. Tested by tests/runtime/trainer_test.cc
#pragma once

#include "passes/optimizer/append_optimizer.h"
#include "runtime/session/session.h"
#include "runtime/training/dataset.h"
#include "runtime/training/objective.h"
#include "runtime/training/rate_schedule.h"

namespace gradc {

struct TrainerOptions {
  OptimizerOptions optimizer;  // `rescale` is a further factor unless hasOwnRescale is set
  /// False: gradients are divided by the batch size unless the losses already are means (Objective::isMean). True: they
  /// are only multiplied by optimizer.rescale.
  bool hasOwnRescale = false;
  /// Factor of gradients that the optimizer divides by again: otherwise small ones would be 0 in 16 bits.
  double lossScale = 1;
  RateSchedule schedule;
  int64_t batch = 64;               // rows; those left over at the end of an epoch are not trained on
  uint64_t seed = 0;                // of initial values and random operators
  std::optional<uint64_t> shuffle;  // seed of the order of examples; none: the given order
  /// Variables that keep their values bit for bit: parameters, and auxiliary states such as moving statistics, which
  /// operators then compute but do not keep.
  std::vector<std::string> frozen;
  std::vector<NamedArray> start;  // values of parameters; the others are drawn (runtime/session/initial_values.h)
  SessionOptions session;         // hints, inference, backend, threads; the rest is set by the trainer
};

class Trainer {
 public:
  /// Every column of `data` feeds the variable of its name. Errors are those of Session::create for the arrays, of
  /// buildGradient and appendOptimizer; BindingMismatch for a batch larger than the data and for class numbers the
  /// network does not have; UnknownName for a frozen variable that does not exist.
  static llvm::Expected<Trainer> create(Context &context, const Graph &network, Dataset data, TrainerOptions options);
  Trainer(Trainer &&);
  ~Trainer();

  struct Report {
    uint64_t step;   // steps taken so far, including this one
    uint64_t epoch;  // of this step, from 0
    double rate;     // learning rate of the schedule
    Score score;     // of the batch, before the step
  };
  llvm::Expected<Report> advance();
  uint64_t step() const;
  uint64_t stepsPerEpoch() const;
  Metric metric() const;
  /// Positions of heads of the network whose elements are summed though they do not look like losses
  /// (Objective::headsUnlikeLosses).
  llvm::ArrayRef<size_t> headsUnlikeLosses() const;
  /// Of a batch of the network.
  const Inference &forwardInference() const;
  /// Runs in inference mode. Columns must have the names of those trained on.
  llvm::Expected<Score> evaluate(Dataset &data);

  const TrainingGraph &training() const;
  /// The graph that the optimizer was appended to, and the options: for other forms of the same training graph.
  const Graph &gradients() const;
  const OptimizerOptions &optimizer() const;
  /// The session that takes the steps.
  Session &session();

  /// Parameters and auxiliary states by name, as `run --inputs` reads them.
  std::vector<NamedArray> parameters() const;
  /// These, the optimizer's states, and the state of the run (`gradc.…`).
  std::vector<NamedArray> checkpoint() const;
  /// The same as archives (NpzWriter, with its errors), one array in memory at a time.
  llvm::Error writeParameters(llvm::raw_ostream &os) const;
  llvm::Error writeCheckpoint(llvm::raw_ostream &os) const;
  /// Continues from a checkpoint. BindingMismatch, naming `place` and with nothing changed, for a checkpoint of another
  /// network, optimizer, batch size, seed or number of examples.
  llvm::Error resume(llvm::ArrayRef<NamedArray> checkpoint, llvm::StringRef place);

 private:
  struct State;
  explicit Trainer(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

}  // namespace gradc
