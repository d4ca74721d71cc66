// Losses and metrics of heads. Tested by tests/runtime/objective_test.cc
#include "runtime/training/objective.h"

#include "ir/base/error.h"
#include "ir/rules/kernel.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/loss/softmax_loss.h"
#include "runtime/arrays/elements.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

/// Replaces a probability of zero, about the smallest normal float32, so that a loss stays finite.
constexpr double kLeastProbability = 1e-38;

Array asDouble(const TensorRef &tensor) {
  Array array{DType::Float64, tensor.shape.vec(), std::vector<char>(static_cast<size_t>(tensor.size()) * 8)};
  array.bytes.reserve(1);
  convertElements(tensor, array.ref());
  return array;
}

bool isMeanBy(const NodeKind &kind) {
  std::optional<StringRef> text = kind.attrs.get("normalization");
  return text && (*text == "batch" || *text == "valid");
}

Metric metricOf(const NodeKind &kind) {
  if (kind.op->name == "SoftmaxOutput" || kind.op->name == "LogisticRegressionOutput") return Metric::Accuracy;
  if (kind.op->name == "LinearRegressionOutput") return Metric::MeanSquare;
  return kind.op->name == "MAERegressionOutput" ? Metric::MeanAbsolute : Metric::None;
}

bool isClassNumber(double label, const SoftmaxOutputParams &params, int64_t classes) {
  if (params.useIgnore && label == params.ignoreLabel) return true;
  return label == std::floor(label) && label >= 0 && label < static_cast<double>(classes);
}

}  // namespace

StringRef metricName(Metric metric) {
  switch (metric) {
    case Metric::None: return "";
    case Metric::Accuracy: return "accuracy";
    case Metric::MeanSquare: return "mse";
    case Metric::MeanAbsolute: return "mae";
  }
  llvm_unreachable("all metrics are listed");
}

void Score::add(const Score &other) {
  lossSum += other.lossSum;
  rows += other.rows;
  metricSum += other.metricSum;
  metricCount += other.metricCount;
}

Objective::Objective(const Graph &forward) : headCount(forward.heads().size()) {
  for (size_t i = 0; i < forward.heads().size(); ++i) addHead(forward, i);
}

void Objective::addHead(const Graph &forward, size_t head) {
  const Value value = forward.heads()[head];
  const NodeKind &kind = forward.kind(value.node);
  if (kind.isVariable() || value.index != 0) return;
  if (!kind.op->impliedLoss) {
    if (!kind.op->flags.isConstantInGradcheck && !kind.op->flags.hasNoGradient)
      terms.push_back({head, nullptr, kNoLabel, Undo::Sum, false});
    return;
  }
  const StringRef name = kind.op->name;
  Term term{head, &kind, kNoLabel, Undo::Identity, isMeanBy(kind)};
  if (name == "SoftmaxOutput") term.undo = Undo::Log;
  if (name == "LogisticRegressionOutput") term.undo = Undo::Logit;
  if (kind.numInputs > 1) {
    const Value label = forward.inputs(value.node)[1];
    term.label = static_cast<size_t>(llvm::find(labelValues, label) - labelValues.begin());
    if (term.label == labelValues.size()) labelValues.push_back(label);
  }
  if (metricKind == Metric::None && term.label != kNoLabel) {
    metricKind = metricOf(kind);
    metricTerm = terms.size();
  }
  terms.push_back(term);
}

bool Objective::isMean(ArrayRef<TensorRef> heads) const {
  return !terms.empty() && llvm::all_of(terms, [&](const Term &term) {
    return term.undo == Undo::Sum ? heads[term.head].size() == 1 : term.isMean;
  });
}

std::vector<size_t> Objective::headsUnlikeLosses(const Graph &forward, ArrayRef<TensorRef> heads, int64_t batch,
                                                 const BitVector &isTrained) const {
  std::vector<size_t> found;
  for (const Term &term : terms) {
    const TensorRef &head = heads[term.head];
    if (term.undo != Undo::Sum || head.size() == 1) continue;
    const bool isPerExample = head.size() == batch && head.shape[0] == batch;
    const bool isLayer = llvm::any_of(forward.inputs(forward.heads()[term.head].node),
                                      [&](Value input) { return isTrained[input.node.value]; });
    if (!isPerExample || isLayer) found.push_back(term.head);
  }
  return found;
}

double Objective::loss(const Term &term, const TensorRef &head, const TensorRef *label) const {
  Array values = asDouble(head), labels;
  double *x = values.ref().as<double>();
  const int64_t size = head.size();
  if (term.undo == Undo::Sum) {
    double sum = 0;
    for (int64_t i = 0; i < size; ++i) sum += x[i];
    return sum;
  }
  for (int64_t i = 0; i < size && term.undo == Undo::Logit; ++i)
    x[i] = std::log(std::max(x[i], kLeastProbability)) - std::log(std::max(1 - x[i], kLeastProbability));
  SmallVector<TensorRef, 2> in = {values.ref()};
  if (label) {
    labels = asDouble(*label);
    in.push_back(labels.ref());
  }
  KernelCall call;
  call.kind = term.kind;
  call.in = in;
  return term.kind->op->impliedLoss(call);
}

SoftmaxScore Objective::softmaxScore(const Term &term, const TensorRef &head, const TensorRef &label) const {
  Array wide, labels = asDouble(label);
  TensorRef probabilities = head;
  if (!isFloatingKernelType(head.dtype)) {
    wide = asDouble(head);
    probabilities = wide.ref();
  }
  return scoreSoftmax(term.kind->params<SoftmaxOutputParams>(), probabilities, labels.ref());
}

void Objective::addMetric(const TensorRef &head, const TensorRef &label, Score &score) const {
  for (int64_t i = 0; i < head.size(); ++i) {
    const double y = readElement(head, i), wanted = readElement(label, i);
    if (metricKind == Metric::Accuracy) score.metricSum += (y > 0.5) == (wanted > 0.5) ? 1 : 0;
    else score.metricSum += metricKind == Metric::MeanSquare ? (y - wanted) * (y - wanted) : std::abs(y - wanted);
  }
  score.metricCount += static_cast<double>(head.size());
}

Score Objective::score(ArrayRef<TensorRef> heads, ArrayRef<TensorRef> labels, int64_t batch) const {
  Score score;
  for (const Term &term : terms) {
    const TensorRef *label = term.label == kNoLabel ? nullptr : &labels[term.label];
    const bool isMetric = metricKind != Metric::None && &term == &terms[metricTerm];
    if (term.undo == Undo::Log) {
      const SoftmaxScore softmax = softmaxScore(term, heads[term.head], *label);
      score.lossSum += softmax.loss;
      if (isMetric) score.metricSum = softmax.numRight, score.metricCount = softmax.numCounted;
    } else {
      score.lossSum += loss(term, heads[term.head], label);
      if (isMetric) addMetric(heads[term.head], *label, score);
    }
  }
  if (isMean(heads)) score.lossSum *= static_cast<double>(batch);
  score.rows = static_cast<double>(batch);
  return score;
}

const Objective::Term *Objective::softmaxFedBy(const Graph &forward, StringRef variable) const {
  for (const Term &term : terms) {
    if (!term.kind || term.kind->op->name != "SoftmaxOutput") continue;
    const NodeId label = labelValues[term.label].node;
    if (forward.isVariable(label) && forward.name(label) == variable) return &term;
  }
  return nullptr;
}

Error Objective::checkLabels(const Graph &forward, const Inference &inference, const Dataset &data) const {
  for (size_t c = 0; c < data.numColumns(); ++c) {
    const Term *term = softmaxFedBy(forward, data.name(c));
    if (!term) continue;
    const EntryId output = forward.entry(forward.heads()[term->head]);
    const bool isProbability = inference.shape[output] == inference.shape[forward.entry(labelValues[term->label])];
    if (isProbability || !inference.isKnownShape(output)) continue;
    const SoftmaxOutputParams &params = term->kind->params<SoftmaxOutputParams>();
    const int64_t classes = SoftmaxRows(params, inference.shapeOf(output).dims()).classes;
    const TensorRef column = data.column(c);
    for (int64_t i = 0; i < column.size(); ++i) {
      const double number = readElement(column, i);
      if (isClassNumber(number, params, classes)) continue;
      std::string text;
      raw_string_ostream os(text);
      printAttr(os, number);
      return Failure(ErrorKind::BindingMismatch, "'" + data.name(c) + "' is " + text + " in row " +
                                                     Twine(i / (column.size() / data.size())) +
                                                     ", expected a class number from 0 to " + Twine(classes - 1));
    }
  }
  return Error::success();
}

}  // namespace gradc
