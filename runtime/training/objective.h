// The loss that training minimizes, and the quality of the result, computed from the heads of a network.
//
// A head of an operator with an implied loss (SoftmaxOutput, the regression outputs, MakeLoss) contributes that loss
// (`impliedLoss`), computed from the head and the label. The logits of a probability are taken to be its logarithm. Any
// other head contributes the sum of its elements, whose gradient is the ones that a head without loss gets; heads that
// no gradient flows into contribute nothing. docs/training.md has the table. Tested by tests/runtime/objective_test.cc
#pragma once

#include "passes/inference/infer.h"
#include "runtime/training/dataset.h"
#include "runtime/training/softmax_score.h"

#include "llvm/ADT/BitVector.h"

namespace gradc {

enum class Metric : uint8_t { None, Accuracy, MeanSquare, MeanAbsolute };
/// "accuracy", "mse", "mae"; empty for None.
llvm::StringRef metricName(Metric metric);

/// Sums over batches.
struct Score {
  double lossSum = 0, rows = 0;  // loss of the mean example times rows
  double metricSum = 0, metricCount = 0;

  double loss() const { return lossSum / rows; }
  double metric() const { return metricSum / metricCount; }
  void add(const Score &other);
};

class Objective {
 public:
  explicit Objective(const Graph &forward);

  /// Values that are needed besides the heads: the label of each loss, without duplicates.
  llvm::ArrayRef<Value> labels() const { return labelValues; }
  /// Of the network.
  size_t numHeads() const { return headCount; }
  /// Of the first head that has one.
  Metric metric() const { return metricKind; }
  /// Whether every loss already is a mean over the batch, by its attribute `normalization` or as a single number.
  /// Otherwise the reported loss and the gradient are divided by the batch size.
  bool isMean(llvm::ArrayRef<TensorRef> heads) const;
  /// Heads whose elements are summed, but that do not look like losses: neither a single number nor one number per
  /// example, or the latter computed from a trained variable directly, as the output of a last layer is. `isTrained`:
  /// by node.
  std::vector<size_t> headsUnlikeLosses(const Graph &forward, llvm::ArrayRef<TensorRef> heads, int64_t batch,
                                        const llvm::BitVector &isTrained) const;
  /// `heads` are those of the network, `labels` parallel to `labels()`.
  Score score(llvm::ArrayRef<TensorRef> heads, llvm::ArrayRef<TensorRef> labels, int64_t batch) const;
  /// BindingMismatch if a column that feeds a label directly contains a class number that the network does not have.
  llvm::Error checkLabels(const Graph &forward, const Inference &inference, const Dataset &data) const;

 private:
  /// How to get from a head back to an input of its operator from which the loss can be computed.
  enum class Undo : uint8_t { Sum, Identity, Log, Logit };
  struct Term {
    size_t head;
    const NodeKind *kind;  // null: the sum of the head
    size_t label;          // into labelValues, or kNoLabel
    Undo undo;
    bool isMean;  // unless undo is Sum
  };
  static constexpr size_t kNoLabel = ~size_t{0};

  void addHead(const Graph &forward, size_t head);
  const Term *softmaxFedBy(const Graph &forward, llvm::StringRef variable) const;
  double loss(const Term &term, const TensorRef &head, const TensorRef *label) const;
  SoftmaxScore softmaxScore(const Term &term, const TensorRef &head, const TensorRef &label) const;
  void addMetric(const TensorRef &head, const TensorRef &label, Score &score) const;

  std::vector<Term> terms;
  std::vector<Value> labelValues;
  Metric metricKind = Metric::None;
  size_t metricTerm = 0;
  size_t headCount = 0;
};

}  // namespace gradc
