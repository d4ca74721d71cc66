// One input on its way through the harness. Shared by exercise.cc and exercise_run.cc.
#pragma once

#include "ir/error.h"
#include "ir/graph.h"
#include "passes/gradient/gradient.h"
#include "passes/infer.h"
#include "runtime/session.h"
#include "tests/fuzz/exercise.h"
#include "tests/support/dice.h"

namespace gradc::fuzz {

/// An error on one line, clipped.
std::string textOf(llvm::Error error);

struct Trial {
  Context &ctx;
  Level level;
  int64_t maxRunBytes;
  Tally &tally;
  bool wantsDiff = false;
  bool isListed = false;     // shapes come from lists in the file, which do not follow its nodes into other graphs
  bool zeroIsEmpty = false;  // in the shapes of the file
  UnknownDim unknownDim = UnknownDim::Auto;
  bool isUsual = true;  // nothing is drawn
  testing::Dice dice{0};
  std::string finding = {};  // the first

  void seed(uint64_t choice) { dice = testing::Dice(choice), isUsual = choice == 0; }
  void report(const llvm::Twine &what);
  /// Whether there is no error; an error must be of a kind that a user can cause.
  bool isFine(llvm::Error error, llvm::StringRef stage);
  void mustHold(llvm::Error error, llvm::StringRef stage);

  /// Whether `graph`, as the root of the program, can be written and read back.
  bool rereads(const Graph &graph, llvm::StringRef stage);
  std::optional<Inference> inferred(const Graph &graph, llvm::StringRef stage, bool mustBeComplete,
                                    const InferRequest &given = {});
  void checkPlanned(const Graph &graph, const Inference &inference, llvm::ArrayRef<Request> headRequests,
                    llvm::StringRef stage);
  void checkGraph(const Graph &graph, const Inference &inference, llvm::StringRef stage);
  void checkGradient(const Graph &graph, const Inference &inference, uint32_t order);
  void checkPasses(const Graph &graph, const Inference &inference);

  GradientRequest drawRequest(const Graph &graph, const Inference &inference);
  GradientOptions drawOptions();
  void checkDifferences(const Graph &graph, const SessionOptions &session);
  void checkRun(const Graph &graph, const Inference &inference, llvm::StringRef stage);
  void countNodes(const Graph &graph, Reached what);
  void countDifferentiated(const Graph &graph, const GradientRequest &request, const GradientOptions &options);
};

}  // namespace gradc::fuzz
