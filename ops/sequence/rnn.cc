// RNN: layers of recurrent cells over a sequence (time, batch, features), in one or both directions, and its gradient.
//
// _backward_RNN has MXNet's operands, which do not include the lengths of sequences; with lengths the gradient is
// _RNN_grad. Both run the layers again; dropout draws what the forward node drew. Tested by tests/ops/rnn_test.cc

#include "ops/sequence/rnn.h"

#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/tensor/dim.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/sequence/rnn_kernel.h"
#include "ops/sequence/rnn_scan.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 31;
constexpr int64_t kMaxLayers = 256;  // each is a loop where RNN is decomposed

constexpr AttrSpec kAttrs[] = {
    required<&RnnParams::stateSize>("state_size", "elements of a cell's state").atLeast(1).atMost(kMaxSize),
    required<&RnnParams::numLayers>("num_layers", "number of stacked layers").atLeast(1).atMost(kMaxLayers),
    attr<&RnnParams::bidirectional>("bidirectional", "False",
                                    "whether each layer also reads the sequence from its end"),
    required<&RnnParams::mode>("mode", "the kind of cell"),
    attr<&RnnParams::p>("p", "0", "probability of an element between layers to be zeroed, in training")
        .atLeast(0)
        .atMost(1),
    attr<&RnnParams::stateOutputs>("state_outputs", "False", "whether the last states are outputs"),
    attr<&RnnParams::projectionSize>("projection_size", "None", "elements a state of lstm is projected to").atLeast(1),
    attr<&RnnParams::clipMin>("lstm_state_clip_min", "None", "the lowest value of a cell's state"),
    attr<&RnnParams::clipMax>("lstm_state_clip_max", "None", "the highest value of a cell's state"),
    attr<&RnnParams::clipNan>("lstm_state_clip_nan", "False", "whether clipping replaces NaN"),
    attr<&RnnParams::useSequenceLength>("use_sequence_length", "False", "whether there is an input of lengths"),
};

Error checkProjection(const RnnParams &p) {
  if (!p.projectionSize) return Error::success();
  if (!p.isLstm())
    return Failure(ErrorKind::BadAttribute, "attribute 'projection_size' is for mode lstm, and mode is " +
                                                enumNames(p.mode)[static_cast<size_t>(p.mode)]);
  if (*p.projectionSize <= p.stateSize) return Error::success();
  return Failure(ErrorKind::BadAttribute, "attribute 'projection_size' is " + Twine(*p.projectionSize) +
                                              ", expected at most 'state_size', " + Twine(p.stateSize));
}

Error checkClip(const RnnParams &p) {
  if (!p.clipMin && !p.clipMax) return Error::success();
  if (!p.isLstm())
    return Failure(ErrorKind::BadAttribute,
                   "attributes 'lstm_state_clip_min' and 'lstm_state_clip_max' are for mode lstm, "
                   "and mode is " +
                       enumNames(p.mode)[static_cast<size_t>(p.mode)]);
  if (!p.clipMin || !p.clipMax)
    return Failure(ErrorKind::BadAttribute,
                   "attributes 'lstm_state_clip_min' and 'lstm_state_clip_max' are given together or not at all");
  if (*p.clipMin <= *p.clipMax) return Error::success();
  return Failure(ErrorKind::BadAttribute, "attribute 'lstm_state_clip_min' exceeds 'lstm_state_clip_max'");
}

// The number of parameters except the first layer's weights of the input, and the number in a column of these.
struct ParameterCount {
  Dim fixed, perInput;

  explicit ParameterCount(const RnnParams &p) : fixed(0), perInput(0) {
    const Dim directions = p.numDirections(), layers = p.numLayers, output = p.outputSize();
    const Dim gates = Dim(numGates(p.mode)) * p.stateSize;
    perInput = directions * gates;
    const Dim projection = p.projectionSize ? Dim(*p.projectionSize) * p.stateSize : Dim(0);
    fixed = layers * directions * (gates * (output + 2) + projection) + (layers - 1) * perInput * directions * output;
  }
};

// So that positions in the vector of parameters are computed without overflow, also where no shape is known.
Error checkCount(const RnnParams &p) {
  const ParameterCount count(p);
  if (count.fixed + count.perInput <= Dim(kMaxElements)) return Error::success();
  return Failure(ErrorKind::BadAttribute, "attributes 'state_size' and 'num_layers' ask for more than 2^48 parameters");
}

bool drops(const NodeKind &kind) { return kind.params<RnnParams>().drops(); }

// MXNet holds p in single precision.
Error checkParams(const OpDef &, void *params) {
  RnnParams &p = *static_cast<RnnParams *>(params);
  p.p = roundToSingle(p.p);
  if (p.p == 1) return Failure(ErrorKind::BadAttribute, "attribute 'p' is 1, expected less than 1");
  for (auto check : {checkProjection, checkClip, checkCount})
    if (Error error = check(p)) return error;
  return Error::success();
}

// ---- shapes

// The operands of RNN, or of a gradient operator with the outputs of RNN among its inputs.
class RnnShapes {
 public:
  RnnShapes(ShapeInference &s, const RnnPorts &ports, bool isForward)
      : s(s), p(s.params<RnnParams>()), ports(ports), isForward(isForward) {}

  void unify() {
    for (int pass = 0; pass < 2 && !s.hasFailed(); ++pass) {
      relateRows();
      relateParameters();
      relateStates();
    }
  }

 private:
  // The input of state k and, in a gradient operator, the first of the inputs with its shape: its output, then the
  // head.
  size_t stateInput(int64_t k) const { return k == 0 ? ports.state : ports.stateCell; }
  size_t firstOutput(int64_t k) const { return k == 0 ? ports.stateHead - 1 : ports.cellHead - 1; }

  void setOutput(size_t k, Dims dims) {
    if (s.hasFailed()) return;
    if (isForward) return s.setOut(k, dims);
    const size_t at = k == 0 ? ports.head - 1 : firstOutput(static_cast<int64_t>(k) - 1);
    s.setIn(at, dims);
    if (!s.hasFailed()) s.setIn(at + 1, dims);
  }
  ShapeRef output(size_t k) const {
    if (isForward) return s.out(k);
    return s.in(k == 0 ? ports.head - 1 : firstOutput(static_cast<int64_t>(k) - 1));
  }

  void learn(int64_t &dim, ShapeRef from, size_t axis) {
    if (dim == kUnknownDim && from.hasRank() && from.rank() > axis) dim = from[axis];
  }

  // (time, batch, input) and (time, batch, directions · output)
  void relateRows() {
    s.setIn(0, {kUnknownDim, kUnknownDim, kUnknownDim});
    if (s.hasFailed()) return;
    DimsBuffer rows(s.in(0).dims());
    if (rows[2] == 0) return s.fail("data of shape " + toString(s.in(0)) + " has no features, expected at least one");
    const int64_t input = rows[2], width = (Dim(p.numDirections()) * p.outputSize()).inShape();
    for (size_t axis : {0, 1}) learn(rows[axis], output(0), axis);
    for (int64_t k = 0; k < p.numStates(); ++k) {
      learn(rows[1], s.in(stateInput(k)), 1);
      if (p.stateOutputs) learn(rows[1], output(static_cast<size_t>(k) + 1), 1);
    }
    if (ports.lengths != RnnPorts::kNone) learn(rows[1], s.in(ports.lengths), 0);
    s.setIn(0, {rows[0], rows[1], input});
    setOutput(0, {rows[0], rows[1], width});
    if (!s.hasFailed() && ports.lengths != RnnPorts::kNone) s.setIn(ports.lengths, {rows[1]});
  }

  void relateParameters() {
    if (s.hasFailed()) return;
    const ParameterCount count(p);
    const int64_t input = s.in(0)[2];
    s.setIn(1, {input == kUnknownDim ? kUnknownDim : (count.fixed + count.perInput * input).inShape()});
    if (s.hasFailed() || input != kUnknownDim || s.in(1)[0] == kUnknownDim) return;
    const Dim rest = Dim(s.in(1)[0]) - count.fixed;
    if (rest < 0 || count.perInput * (rest / count.perInput) != rest)
      return s.fail("parameters have " + Twine(s.in(1)[0]) + " elements, which fits no input size");
    s.setIn(0, {kUnknownDim, kUnknownDim, (rest / count.perInput).inShape()});
  }

  // (layers · directions, batch, elements), of the state and of the cell's
  void relateStates() {
    const int64_t cells = (Dim(p.numLayers) * p.numDirections()).inShape();
    for (int64_t k = 0; k < p.numStates() && !s.hasFailed(); ++k) {
      const int64_t dims[] = {cells, s.in(0)[1], k == 0 ? p.outputSize() : p.stateSize};
      s.setIn(stateInput(k), dims);
      if (p.stateOutputs) setOutput(static_cast<size_t>(k) + 1, dims);
    }
  }

  ShapeInference &s;
  const RnnParams &p;
  const RnnPorts ports;
  const bool isForward;
};

// Gradients have the shapes of their operands.
void backwardShape(ShapeInference &s, bool hasLengths) {
  const RnnPorts ports = RnnPorts::ofBackward(s.params<RnnParams>(), hasLengths);
  for (int pass = 0; pass < 2 && !s.hasFailed(); ++pass) {
    for (size_t o = 0; o < s.numOutputs() && !s.hasFailed(); ++o) s.sameInOut(o < 3 ? o : ports.stateCell, o);
    if (!s.hasFailed()) RnnShapes(s, ports, false).unify();
  }
}

// The lengths are of any type.
void relateTypes(DTypeInference &t, size_t lengths) {
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t i = 1; i < t.numInputs(); ++i)
      if (i != lengths) t.sameInIn(0, i);
    for (size_t o = 0; o < t.numOutputs(); ++o) t.sameInOut(0, o);
  }
}

// ---- numbers of ports

const RnnParams &paramsOfRnn(const NodeKind &kind) { return kind.params<RnnParams>(); }

uint32_t numInputs(const NodeKind &kind) {
  return static_cast<uint32_t>(2 + paramsOfRnn(kind).numStates() + paramsOfRnn(kind).useSequenceLength);
}
uint32_t numOutputs(const NodeKind &kind) {
  return static_cast<uint32_t>(paramsOfRnn(kind).stateOutputs ? 1 + paramsOfRnn(kind).numStates() : 1);
}
uint32_t numGradients(const NodeKind &kind) { return static_cast<uint32_t>(2 + paramsOfRnn(kind).numStates()); }
uint32_t numBackwardInputs(const NodeKind &kind) { return numGradients(kind) + 2 * numOutputs(kind); }

constexpr NameList kInputs = {"data", "parameters", "state", "state_cell", "sequence_length"};
constexpr NameList kGradients = {"data_grad", "parameters_grad", "state_grad", "state_cell_grad"};

bool isLengths(const NodeKind &kind, size_t input) { return input == RnnPorts::ofForward(paramsOfRnn(kind)).lengths; }
Domain domainOfInput(const NodeKind &kind, size_t input) {
  return isLengths(kind, input) ? Domain::Length : Domain::Any;
}

// The outputs of the forward node, which are not read because the layers run again.
bool isOutput(const NodeKind &kind, size_t input) {
  const RnnPorts ports = RnnPorts::ofBackward(paramsOfRnn(kind), false);
  return input + 1 == ports.head || input + 1 == ports.stateHead || input + 1 == ports.cellHead;
}

template <bool hasLengths> bool isOutputOrLengths(const NodeKind &kind, size_t input) {
  return isOutput(kind, input) || input == RnnPorts::ofBackward(paramsOfRnn(kind), hasLengths).lengths;
}
template <bool hasLengths> Domain domainOfOperand(const NodeKind &kind, size_t input) {
  return input == RnnPorts::ofBackward(paramsOfRnn(kind), hasLengths).lengths ? Domain::Length : Domain::Any;
}

/// A gradient operator, with or without an input of lengths.
template <bool hasLengths> constexpr OpDef backward(StringRef name, StringRef summary) {
  OpDef op = named({name}, summary);
  op.inputs = {{}, [](const NodeKind &kind) { return numBackwardInputs(kind) + hasLengths; }, true};
  op.outputs = {kGradients, numGradients};
  op.attrs = kAttrs;
  op.params = paramsOf<RnnParams>();
  op.check = checkParams;
  op.shape = [](ShapeInference &s) {
    if (s.params<RnnParams>().useSequenceLength && !hasLengths)
      return s.fail("has no input of the lengths of sequences");
    backwardShape(s, hasLengths);
  };
  op.dtype = [](DTypeInference &t) { relateTypes(t, RnnPorts::ofBackward(t.params<RnnParams>(), hasLengths).lengths); };
  op.ignored = isOutput;
  op.stopped = isOutputOrLengths<hasLengths>;
  op.flags.isBackward = true;
  op.flags.isRandom = true;
  op.draws = drops;
  op.readsForm = drops;
  op.domains = domainOfOperand<hasLengths>;
  op.decompose = [](DecomposeRule &d) { decomposeRnnGradient(d, hasLengths); };
  op.kernel = [](const KernelCall &call) { rnnBackward(call, hasLengths); };
  op.piece = [](const PieceCall &call) { rnnBackwardPiece(call, hasLengths); };
  op.workspace = [](const NodeKind &kind, ArrayRef<TensorRef> in, ArrayRef<TensorRef>) {
    return rnnWorkspace(kind, in, true);
  };
  return op;
}

constinit const OpDef kBackwardRnn =
    backward<false>("_backward_RNN", "gradients of RNN, which runs again, from those of its outputs");
constinit const OpDef kRnnGrad =
    backward<true>("_RNN_grad", "gradients of RNN, which runs again, for sequences of different lengths");

void rnnGradient(GradRule &g) {
  const RnnParams &p = g.params<RnnParams>();
  const RnnPorts ports = RnnPorts::ofForward(p);
  SmallVector<Value, 12> operands = {g.x(0), g.x(1), g.x(2), g.y(0), g.dy(0)};
  auto add = [&](size_t output) {
    if (p.stateOutputs) operands.append({g.y(output), g.dy(output)});
  };
  add(1);
  if (p.isLstm()) {
    operands.push_back(g.x(ports.stateCell));
    add(2);
  }
  if (!p.useSequenceLength) return void(g.fused(kBackwardRnn, operands));
  operands.push_back(g.x(ports.lengths));
  g.noGrad(ports.lengths);
  g.fused(kRnnGrad, operands);
}

constinit const OpDef kRnn = {
    .name = "RNN",
    .aliases = {"_npx_rnn"},
    .summary =
        "layers of recurrent cells over a sequence: h' = cell(W·x + b, U·h + c), of mode lstm, gru, tanh or relu",
    .inputs = {kInputs, numInputs},
    .outputs = {{"output", "state_output", "statecell_output"}, numOutputs},
    .attrs = kAttrs,
    .params = paramsOf<RnnParams>(),
    .check = checkParams,
    .shape = [](ShapeInference &s) { RnnShapes(s, RnnPorts::ofForward(s.params<RnnParams>()), true).unify(); },
    .dtype = [](DTypeInference &t) { relateTypes(t, RnnPorts::ofForward(t.params<RnnParams>()).lengths); },
    .stopped = isLengths,
    .flags = {.isRandom = true},
    .draws = drops,
    .readsForm = drops,
    .domains = domainOfInput,
    .gradient = rnnGradient,
    .decompose = decomposeRnn,
    .kernel = rnnForward,
    .piece = rnnForwardPiece,
    .workspace = [](const NodeKind &kind, ArrayRef<TensorRef> in,
                    ArrayRef<TensorRef>) { return rnnWorkspace(kind, in, false); },
};

}  // namespace

RnnPorts RnnPorts::ofForward(const RnnParams &p) {
  RnnPorts ports;
  size_t next = 3;
  if (p.isLstm()) ports.stateCell = next++;
  if (p.useSequenceLength) ports.lengths = next++;
  return ports;
}

RnnPorts RnnPorts::ofBackward(const RnnParams &p, bool hasLengths) {
  RnnPorts ports;
  ports.head = 4;
  size_t next = 5;
  if (p.stateOutputs) {
    ports.stateHead = next + 1;
    next += 2;
  }
  if (p.isLstm()) {
    ports.stateCell = next++;
    if (p.stateOutputs) {
      ports.cellHead = next + 1;
      next += 2;
    }
  }
  if (hasLengths) ports.lengths = next;
  return ports;
}

constinit const OpFamily kRnnFamily = kOps<kRnn, kBackwardRnn, kRnnGrad>;

}  // namespace gradc
