#include "tools/gradc/reference/input_facts.h"

#include "tools/gradc/reference/missing_order.h"
#include "tools/gradc/reference/operator_facts.h"

#include "ir/base/error.h"
#include "passes/inference/infer.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr uint32_t kLargestRank = 6;

struct Meaning {
  StringRef name, text;
};
/// Sorted by name.
constexpr Meaning kMeanings[] = {
    {"A", "left factor: one matrix, or one for each element of the leading axes"},
    {"B", "right factor, as many matrices as A"},
    {"C", "what is added to the product, of its shape"},
    {"a", "values"},
    {"attention", "weights of the keys for each query"},
    {"base", "values where nothing is scattered to"},
    {"beta", "shift: one number for each channel, group or element of the normalized axis"},
    {"bias", "number added to each output feature or filter"},
    {"condition", "where x is taken: elements that are not 0"},
    {"crop_like", "a tensor with the height and width of the result"},
    {"d", "state of the optimizer: the last denominator"},
    {"data", "values; of layers, examples along the first axis"},
    {"data_lengths", "how many steps of each sequence count"},
    {"delta", "state of the optimizer: the last step"},
    {"g", "phase 1's direction, or the running mean of gradients"},
    {"gamma", "scale: one number for each channel, group or element of the normalized axis; of LeakyReLU the slope"},
    {"grad", "gradient of the weight"},
    {"high", "end of the interval, one for each distribution"},
    {"history", "state of the optimizer: the sum of squared gradients"},
    {"index", "position along the axis, one for each element of the result"},
    {"index_vector", "rows to overwrite"},
    {"indices", "positions; fractions are cut off"},
    {"keys_values", "keys and values of every head, interleaved"},
    {"label", "what the data is compared with: class numbers, or targets"},
    {"label_lengths", "how many labels of each sequence count"},
    {"length", "how many elements of each row count"},
    {"lhs", "left operand"},
    {"like", "a tensor with the wanted shape or type"},
    {"low", "start of the interval, one for each distribution"},
    {"lr", "learning rate, a single number"},
    {"mean", "state of the optimizer: the running mean of gradients"},
    {"mom", "state of the optimizer: momentum"},
    {"moving_mean", "running mean of each channel, overwritten in training"},
    {"moving_var", "running variance of each channel, overwritten in training"},
    {"mu", "means, one for each distribution"},
    {"n", "state of the optimizer: the running mean, or the sum, of squared gradients"},
    {"new_tensor", "rows that take the place of the listed ones"},
    {"ograd", "gradient of the output"},
    {"old_tensor", "the tensor whose rows are replaced"},
    {"parameters", "weights of all layers and directions, then their biases, in one vector"},
    {"positions", "positions along the axis"},
    {"queries", "queries of every head"},
    {"queries_keys_values", "queries, keys and values of every head, interleaved"},
    {"r1", "norm of the weight"},
    {"r2", "norm of phase 1's direction"},
    {"rescale_grad", "factor of the gradient, a single number; the step is left out unless it is finite and not 0"},
    {"rhs", "right operand"},
    {"sequence_length", "how many steps of each sequence count"},
    {"shape_like", "a tensor with the wanted lengths"},
    {"sigma", "standard deviations, one for each distribution"},
    {"state", "the value before; of RNN, one for each layer and direction"},
    {"state_cell", "cell states of LSTM, one for each layer and direction"},
    {"t", "number of the step, from 1"},
    {"updates", "values to scatter"},
    {"v", "values to sum, repeat or scatter; of optimizers a state, the running mean of squared gradients"},
    {"value", "the new value"},
    {"values", "values"},
    {"var", "state of the optimizer: the running mean of squared gradients"},
    {"weight", "weights; of optimizers, the ones to update"},
    {"weight32", "the weight in float32, overwritten"},
    {"x", "elements where the condition holds; in other operators a tensor with the wanted shape"},
    {"y", "where the condition does not hold"},
    {"z", "state of the optimizer: the accumulated direction"},
};

/// Whether the operator takes a tensor of this rank as input `input` when nothing else is known.
bool takesRank(Context &context, const Graph &graph, uint32_t input, uint32_t rank) {
  InferOptions partial;
  partial.allowUnknown = true;
  partial.unknownDim = UnknownDim::MinusOne;
  Expected<Inference> known = infer(context, graph, {{{NodeId(input), DimsBuffer(rank, kUnknownDim)}}, {}}, partial);
  if (known) return true;
  consumeError(known.takeError());
  return false;
}

std::string ranksText(ArrayRef<uint32_t> ranks) {
  // If only scalars are accepted, the reason is an attribute at its default.
  if (ranks.empty() || ranks.back() == 0) return "";
  if (ranks.size() == kLargestRank + 1) return "any rank";
  const bool isRun = ranks.back() - ranks.front() + 1 == ranks.size();
  const std::string first = "rank " + std::to_string(ranks.front());
  if (isRun && ranks.back() == kLargestRank) return first + " or more";
  if (isRun && ranks.size() > 2) return first + " to " + std::to_string(ranks.back());
  return first + join(map_range(ranks.drop_front(), [](uint32_t r) { return " or " + std::to_string(r); }), "");
}

}  // namespace

std::string inputsText(Context &context, const OpDef &op) {
  Expected<KindRef> kind = sampleKind(context, op);
  Expected<Graph> graph = kind ? sampleGraph(context, *kind) : kind.takeError();
  if (op.inputs.isVariadic || !graph) {
    consumeError(graph.takeError());
    return portsText(op.inputs);
  }
  std::string text;
  for (uint32_t i = 0; i < op.inputs.names.count; ++i) {
    SmallVector<uint32_t, 8> ranks;
    for (uint32_t rank = 0; i < (*kind)->numInputs && rank <= kLargestRank; ++rank)
      if (takesRank(context, *graph, i, rank)) ranks.push_back(rank);
    const std::string inner = ranksText(ranks);
    text += (i ? ", " : "") + op.inputs.names.names[i].str() + (inner.empty() ? "" : " (" + inner + ")");
  }
  if (text.empty()) text = "none";
  return op.inputs.number ? text + "; how many depends on the attributes" : text;
}

StringRef meaningOfInput(StringRef name) {
  const Meaning *at =
      llvm::lower_bound(kMeanings, name, [](const Meaning &row, StringRef key) { return row.name < key; });
  return at != std::end(kMeanings) && at->name == name ? at->text : StringRef();
}

}  // namespace gradc
