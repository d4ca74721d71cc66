// One input on its way through the harness. Shared by exercise.cc and exercise_run.cc.
#pragma once

#include "ir/base/error.h"
#include "ir/graph/graph.h"
#include "passes/gradient/gradient.h"
#include "passes/inference/infer.h"
#include "runtime/session/session.h"
#include "tests/fuzz/exercise.h"
#include "tests/support/drawn/dice.h"

#include "llvm/ADT/StringMap.h"

namespace gradc::fuzz {

/// An error on one line, clipped.
std::string textOf(llvm::Error error);

/// Whether a body reshapes to a shape that only the reader of the value says. In the gradient that reader may be in the
/// body of another loop.
bool takesShapesFromReaders(const Graph &graph, bool isBody = false);

/// Variables by name; nothing where several have one name.
std::optional<llvm::StringMap<NodeId>> variablesOf(const Graph &graph);
/// What is known of the variables of a graph, for those of `lowered`; nothing where names repeat.
std::optional<InferRequest> knownOf(const Graph &graph, const Inference &inference, const Graph &lowered);
/// Whether a node draws random numbers, at any depth.
bool drawsNumbers(const Graph &graph);
/// Empty, or how far apart two tensors of numbers are, as sums of other orders are not. Nothing is said of what is not
/// finite.
std::string differenceOf(const TensorRef &a, const TensorRef &b);

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
  /// Heads of a run in training or inference form; nothing where the graph does not run.
  std::optional<std::vector<Array>> headsIn(bool isTraining, const Graph &graph, llvm::StringRef stage);
  /// The same heads, before and after a pass, in both forms: those of `pass` come first.
  void checkForms(const Graph &graph, const Graph &pass, llvm::StringRef stage);
  void checkLoweredGradient(const Graph &graph, const Inference &inference);
  void checkDifferences(const Graph &graph, const SessionOptions &session);
  /// Whether all shapes are known, and the values few enough to run.
  bool isSmall(const Inference &inference) const;
  void checkRun(const Graph &graph, const Inference &inference, llvm::StringRef stage);
  void countNodes(const Graph &graph, Reached what);
  void countDifferentiated(const Graph &graph, const GradientRequest &request, const GradientOptions &options);
};

}  // namespace gradc::fuzz
