// The last step of every sequence, and sequences in reverse: SequenceLast, SequenceReverse.
//
// Data is (time, batch, …); for SequenceLast also (batch, time, …), with axis 1. Lengths are truncated to integers and
// clamped to the number of steps; the last step of a sequence without steps is its first.
// Tested by tests/ops/network_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/sequence/lengths.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

struct SequenceParams {
  bool useSequenceLength = false;
  int64_t axis = 0;
};

constexpr AttrSpec kUseLength = attr<&SequenceParams::useSequenceLength>(
    "use_sequence_length", "False", "whether there is an input of lengths; without it sequences have all steps");
constexpr AttrSpec kAxis = ofAxis(attr<&SequenceParams::axis>("axis", "0", "the axis of time")).atLeast(0);
constexpr AttrSpec kLastAttrs[] = {kUseLength, kAxis.atMost(1)};
constexpr AttrSpec kReverseAttrs[] = {kUseLength, kAxis.atMost(0)};

uint32_t numInputs(const NodeKind &kind) { return kind.params<SequenceParams>().useSequenceLength ? 2 : 1; }

constexpr Domain kDomains[] = {Domain::Any, Domain::Length};

SmallVector<Value, 2> withLengths(GradRule &g, Value v) {
  SmallVector<Value, 2> operands = {v};
  if (g.numInputs() > 1) operands.push_back(g.x(1));
  return operands;
}

// The gradient is `Op` of the head gradient and the lengths, which have no gradient.
template <const OpDef &Op> void byHead(GradRule &g) {
  if (g.numInputs() > 1) g.noGrad(1);
  g.dx(0, Op.flags.isBackward ? g.fused(Op, withLengths(g, g.dy(0))) : g.emit(Op, withLengths(g, g.dy(0)), g.attrs()));
}

void refuseRank(ShapeInference &s, ShapeRef data) {
  s.fail("data has shape " + toString(data) + ", expected at least a time axis and a batch axis");
}

// Data, which is the input or (in the gradient) the output, has one axis more than its last steps.
void relateLast(ShapeInference &s, bool isForward) {
  const size_t time = static_cast<size_t>(s.params<SequenceParams>().axis), batch = 1 - time;
  auto data = [&] { return isForward ? s.in(0) : s.out(0); };
  auto last = [&] { return isForward ? s.out(0) : s.in(0); };
  auto state = [&](Dims whole, Dims steps) {
    isForward ? s.setIn(0, whole) : s.setOut(0, whole);
    isForward ? s.setOut(0, steps) : s.setIn(0, steps);
  };
  if (data().hasRank() && data().rank() < 2) return refuseRank(s, data());
  if (!data().hasRank() && !last().hasRank()) return;
  const size_t rank = data().hasRank() ? data().rank() : last().rank() + 1;
  if (rank < 2) return s.fail("the result has no axes, expected one of the batch");
  state(DimsBuffer(rank, kUnknownDim), DimsBuffer(rank - 1, kUnknownDim));
  if (s.hasFailed()) return;
  DimsBuffer whole(data().dims()), steps(last().dims());
  if (s.numInputs() > 1) {
    s.setIn(1, {std::max(whole[batch], steps[0])});
    if (s.hasFailed()) return;
    steps[0] = s.in(1)[0];
  }
  for (size_t i = 0; i + 1 < rank; ++i) {
    const size_t axis = i == 0 ? batch : i + 1;
    whole[axis] = steps[i] = std::max(whole[axis], steps[i]);
  }
  state(whole, steps);
  if (!s.hasFailed() && whole[time] == 0) s.fail("data has shape " + toString(data()) + ", expected at least one step");
}

// Where the last step of a sequence is in the data, in elements.
struct LastSteps {
  int64_t steps, batch, inner = 1;
  bool isTimeFirst;

  LastSteps(Dims data, int64_t axis) : steps(data[axis]), batch(data[1 - axis]), isTimeFirst(axis == 0) {
    for (int64_t dim : data.drop_front(2)) inner *= dim;
  }
  int64_t at(const KernelCall &call, int64_t n) const {
    int64_t last = steps - 1;
    if (call.in.size() > 1) last = std::max<int64_t>(sequenceLength(call.in[1], n, steps), 1) - 1;
    return (isTimeFirst ? last * batch + n : n * steps + last) * inner;
  }
};

// Copies the last steps of the data or, in the gradient, to them.
template <bool isForward> void copyLast(const KernelCall &call) {
  if (!call.wants(0)) return;
  const LastSteps of((isForward ? call.in[0] : call.out[0]).shape, call.params<SequenceParams>().axis);
  const size_t bytes = dtypeBytes(call.out[0].dtype), row = static_cast<size_t>(of.inner) * bytes;
  if (!isForward) writeZeros(call);
  for (int64_t n = 0; n < of.batch; ++n) {
    const size_t whole = static_cast<size_t>(of.at(call, n)) * bytes, last = static_cast<size_t>(n) * row;
    std::memcpy(call.out[0].as<char>() + (isForward ? last : whole),
                call.in[0].as<const char>() + (isForward ? whole : last), row);
  }
}

// True where an element of `data` belongs to the last step of its sequence.
Value isLastStep(DecomposeRule &d, Value data) {
  const bool isTimeFirst = d.params<SequenceParams>().axis == 0;
  const StringRef time = isTimeFirst ? "0" : "1", batch = isTimeFirst ? "1" : "0";
  auto asDouble = [&](Value v) { return d.emit(kCast, {v}, {{"dtype", "float64"}}); };
  const Value index = asDouble(d.emit(kIndexLike, {data}, {{"axis", time}}));
  Value last = d.emit(kMax, {index}, {{"axis", time}, {"keepdims", "True"}});
  if (d.numInputs() > 1) {
    Value length = asDouble(d.emit(kCast, {d.x(1)}, {{"dtype", "int64"}}));
    length = d.emit(kMaximumScalar, {d.emit(kMinusScalar, {length}, {{"scalar", "1"}})}, {{"scalar", "0"}});
    length = d.emit(kBroadcastAxisLike, {length, index}, {{"axis", batch}});
    const Value isWithin = d.emit(kBroadcastLesser, {length, last});
    last = d.emit(kWhere, {isWithin, length, d.emit(kBroadcastLike, {last, length})});
  }
  return d.emit(kBroadcastEqual, {index, last});
}

void decomposeLast(DecomposeRule &d) {
  const StringRef time = d.number(d.params<SequenceParams>().axis);
  if (d.numInputs() < 2) {
    const Value step = d.emit(kSliceAxis, {d.x(0)}, {{"axis", time}, {"begin", "-1"}, {"end", "None"}});
    return d.y(0, d.emit(kReshape, {step}, {{"shape", "(-3,-2)"}}));
  }
  const Value only = d.emit(kWhere, {isLastStep(d, d.x(0)), d.x(0), d.emit(kZerosLike, {d.x(0)})});
  d.y(0, d.emit(kSum, {only}, {{"axis", time}}));
}

void decomposeLastBackward(DecomposeRule &d) {
  const Value data = d.forwardInput(0);
  const StringRef time = d.number(d.params<SequenceParams>().axis);
  const Value dy = d.emit(kBroadcastLike, {d.emit(kExpandDims, {d.x(0)}, {{"axis", time}}), data});
  d.y(0, d.emit(kWhere, {isLastStep(d, data), dy, d.emit(kZerosLike, {dy})}));
}

// Operators of data and the lengths of sequences.
constexpr OpDef ofSequences(OpDef op) {
  op.params = paramsOf<SequenceParams>();
  op.dtype = [](DTypeInference &t) { t.sameInOut(0, 0); };
  op.stopped = {1};
  op.kernelTypes = kFloatingAndIntegers;
  op.domains = kDomains;
  return op;
}

extern const OpDef kSequenceLast, kSequenceReverse, kBackwardSequenceLast, kBackwardSequenceReverse;

constinit const OpDef kSequenceLast = ofSequences({
    .name = "SequenceLast",
    .summary = "y[n,…] = x[sequence_length[n] − 1,n,…], the last step of every sequence; with axis 1 time is the "
               "second axis",
    .inputs = {{"data", "sequence_length"}, numInputs},
    .attrs = kLastAttrs,
    .shape = [](ShapeInference &s) { relateLast(s, true); },
    .flags = {.movesElements = true},
    .gradient = byHead<kBackwardSequenceLast>,
    .decompose = decomposeLast,
    .kernel = copyLast<true>,
});

// Its adjoint extracts the last steps of the head gradient.
constinit const OpDef kBackwardSequenceLast = ofSequences({
    .name = "_backward_SequenceLast",
    .summary = "gradient of SequenceLast: dx = dy at the last step of every sequence, zeros elsewhere",
    .inputs = {{"ograd", "sequence_length"}, numInputs},
    .outputs = {"data_grad"},
    .attrs = kLastAttrs,
    .shape = [](ShapeInference &s) { relateLast(s, false); },
    .flags = {.isBackward = true},
    .gradient = byHead<kSequenceLast>,
    .decompose = decomposeLastBackward,
    .kernel = copyLast<false>,
});

void relateReverse(ShapeInference &s) {
  s.sameInOut(0, 0);
  if (s.hasFailed() || !s.in(0).hasRank()) return;
  DimsBuffer dims(s.in(0).dims());
  if (dims.size() < 2) return refuseRank(s, s.in(0));
  if (s.numInputs() < 2) return;
  s.setIn(1, {dims[1]});
  if (s.hasFailed()) return;
  dims[1] = s.in(1)[0];
  s.setIn(0, dims);
  s.setOut(0, dims);
}

void reverseKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const Dims shape = call.out[0].shape;
  const int64_t steps = shape[0], batch = shape[1];
  size_t row = dtypeBytes(call.out[0].dtype);
  for (int64_t dim : shape.drop_front(2)) row *= static_cast<size_t>(dim);
  for (int64_t n = 0; n < batch; ++n) {
    const int64_t length = call.in.size() > 1 ? sequenceLength(call.in[1], n, steps) : steps;
    for (int64_t t = 0; t < steps; ++t) {
      const int64_t from = t < length ? length - 1 - t : t;
      std::memcpy(call.out[0].as<char>() + static_cast<size_t>(t * batch + n) * row,
                  call.in[0].as<const char>() + static_cast<size_t>(from * batch + n) * row, row);
    }
  }
}

constinit const OpDef kSequenceReverse = ofSequences({
    .name = "SequenceReverse",
    .summary = "y[t,n,…] = x[l − 1 − t,n,…] where t < l = sequence_length[n], else x[t,n,…]",
    .inputs = {{"data", "sequence_length"}, numInputs},
    .attrs = kReverseAttrs,
    .shape = relateReverse,
    .flags = {.movesElements = true},
    .gradient = byHead<kBackwardSequenceReverse>,
    .primitive = {.onnx = "Cast, Max, Min, ReverseSequence; without lengths: Slice",
                  .c = "y[t,n,i] = x[t < len[n] ? len[n]-1-t : t, n, i]"},
    .kernel = reverseKernel,
});

constinit const OpDef kBackwardSequenceReverse = ofSequences({
    .name = "_backward_SequenceReverse",
    .summary = "gradient of SequenceReverse: dy in reverse",
    .inputs = {{"ograd", "sequence_length"}, numInputs},
    .outputs = {"data_grad"},
    .attrs = kReverseAttrs,
    .shape = relateReverse,
    .flags = {.isBackward = true, .movesElements = true},
    .gradient = byHead<kSequenceReverse>,
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kSequenceReverse, d.operands(), d.attrs())); },
    .kernel = reverseKernel,
});

}  // namespace

constinit const OpFamily kLastReverseFamily =
    kOps<kSequenceLast, kSequenceReverse, kBackwardSequenceLast, kBackwardSequenceReverse>;

}  // namespace gradc
