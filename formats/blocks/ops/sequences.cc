// Recurrent layers, masks of lengths, and the loss of sequences without alignment. Tested by
// tests/formats/blocks/paddle_values_test.cc
#include "formats/blocks/ops/op_row.h"

#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace gradc {
namespace {

// `WeightList` has the matrices of all cells, then their biases, layer by layer: concatenated, the parameters of RNN.
void rnn(OpTranslation &op) {
  const std::string mode = op.text("mode", "");
  const StringRef cell = StringSwitch<StringRef>(mode)
                             .Case("LSTM", "lstm")
                             .Case("GRU", "gru")
                             .Case("RNN_TANH", "rnn_tanh")
                             .Case("RNN_RELU", "rnn_relu")
                             .Default("");
  if (cell.empty())
    return op.unsupported("'mode' " + mode + " is not supported, expected LSTM, GRU, RNN_TANH or RNN_RELU");
  const int64_t layers = op.integer("num_layers", 1);
  const bool isBothWays = op.flag("is_bidirec", false), hasLengths = op.has("SequenceLength");
  const size_t numStates = cell == "lstm" ? 2 : 1;
  if (op.count("PreState") != numStates)
    return op.fail(ErrorKind::BadEntry, "slot 'PreState' has " + Twine(op.count("PreState")) + " operands, expected " +
                                            Twine(numStates) + " for " + mode);
  const int64_t numWeights = static_cast<int64_t>(op.count("WeightList")), perLayer = isBothWays ? 8 : 4;
  if (numWeights % perLayer != 0 || numWeights / perLayer != layers)
    return op.fail(ErrorKind::BadEntry, "slot 'WeightList' has " + Twine(op.count("WeightList")) +
                                            " operands, expected two matrices and two biases for each cell");
  std::vector<Value> flat = op.ins("WeightList");
  for (Value &w : flat) w = op.reshaped(w, {-1});
  std::vector<Value> inputs = {op.in("Input"), op.joined(flat, 0)};
  for (size_t i = 0; i < numStates; ++i) inputs.push_back(op.in("PreState", i));
  if (hasLengths) inputs.push_back(op.in("SequenceLength"));
  const bool isDropping = !op.flag("is_test", false);
  const Value y = op.emit("RNN", inputs,
                          {{"state_size", std::to_string(op.integer("hidden_size", 1))},
                           {"num_layers", std::to_string(layers)},
                           {"bidirectional", flagText(isBothWays)},
                           {"mode", cell.str()},
                           {"p", numberText(isDropping ? op.number("dropout_prob", 0) : 0)},
                           {"state_outputs", "True"},
                           {"use_sequence_length", flagText(hasLengths)}});
  op.out("Out", y);
  for (size_t i = 0; i < numStates; ++i) op.out("State", OpTranslation::output(y, static_cast<uint16_t>(i + 1)), i);
}

// The softmax is part of it. `norm_by_times` changes the gradient and not the loss.
void warpCtc(OpTranslation &op) {
  if (!op.has("LogitsLength") || !op.has("LabelLength"))
    return op.unsupported("lengths are expected as operands in slots 'LogitsLength' and 'LabelLength'");
  if (op.flag("norm_by_times", false)) return op.unsupported("'norm_by_times' is not supported");
  const int64_t blank = op.integer("blank", 0);
  if (blank != 0 && blank != op.dim("Logits", 2) - 1)
    return op.unsupported("'blank' " + Twine(blank) + " is not supported, expected the first or the last class");
  const Value logits = op.in("Logits");
  auto asFloat = [&](StringRef slot) { return op.emit("_cast_like", {op.in(slot), logits}); };
  const Value loss = op.emit("CTCLoss", {logits, asFloat("Label"), asFloat("LogitsLength"), asFloat("LabelLength")},
                             {{"use_data_lengths", "True"},
                              {"use_label_lengths", "True"},
                              {"blank_label", std::string(blank == 0 ? "first" : "last")}});
  op.out("Loss", op.emit("expand_dims", {loss}, {{"axis", "1"}}));
}

// 1 at the steps before each length, 0 from there on.
void sequenceMask(OpTranslation &op) {
  op.refuse({"MaxLenTensor"});
  int64_t number = op.integer("maxlen", -1);
  if (number < 0) number = op.dim("Y", -1);  // the largest length, which only the declaration tells
  const Value lengths = op.emit("expand_dims", {op.in("X")}, {{"axis", "-1"}}),
              steps = op.emit("_arange", {}, {{"start", "0"}, {"stop", std::to_string(number)}, {"dtype", "int64"}});
  op.out("Y", op.emit("Cast", {op.emit("broadcast_lesser", {op.emit("_cast_like", {steps, lengths}), lengths})},
                      {{"dtype", op.dtype("out_dtype")}}));
}

constexpr BlockOpRow kRows[] = {
    {"rnn", rnn},
    {"sequence_mask", sequenceMask},
    {"warpctc", warpCtc},
};

}  // namespace

ArrayRef<BlockOpRow> sequenceBlockOps() { return kRows; }

}  // namespace gradc
