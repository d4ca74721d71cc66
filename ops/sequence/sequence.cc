// SequenceMask: other values beyond the end of each sequence.
//
// Data is (time, batch, …), or (batch, time, …) with axis 1. Tested by tests/ops/sequence_ops_test.cc
#include "ir/base/number.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/sequence/lengths.h"

using namespace llvm;

namespace gradc {
namespace {

struct SequenceMaskParams {
  bool useSequenceLength = false;
  double value = 0;
  int64_t axis = 0;
};

constexpr AttrSpec kMaskAttrs[] = {
    attr<&SequenceMaskParams::useSequenceLength>("use_sequence_length", "False",
                                                 "whether there is an input of lengths; without it y = x"),
    attr<&SequenceMaskParams::value>("value", "0", "what elements beyond a sequence's end become"),
    ofAxis(attr<&SequenceMaskParams::axis>("axis", "0", "the axis of time")).atLeast(0).atMost(1),
};

// MXNet holds the value in single precision.
Error checkMask(const OpDef &, void *params) {
  SequenceMaskParams &p = *static_cast<SequenceMaskParams *>(params);
  p.value = roundToSingle(p.value);
  return Error::success();
}

uint32_t numSequenceInputs(const NodeKind &kind) { return kind.params<SequenceMaskParams>().useSequenceLength ? 2 : 1; }

void maskShape(ShapeInference &s) {
  s.sameInOut(0, 0);
  if (s.hasFailed() || !s.in(0).hasRank()) return;
  const size_t batchAxis = s.params<SequenceMaskParams>().axis == 0 ? 1 : 0;
  DimsBuffer dims(s.in(0).dims());
  if (dims.size() < 2)
    return s.fail("data has shape " + toString(s.in(0)) + ", expected at least a time axis and a batch axis");
  if (s.numInputs() < 2) return;
  s.setIn(1, {dims[batchAxis]});
  if (s.hasFailed()) return;
  dims[batchAxis] = s.in(1)[0];
  s.setIn(0, dims);
  s.setOut(0, dims);
}

void maskWith(const KernelCall &call, double value) {
  if (!call.wants(0)) return;
  const Dims dims = call.out[0].shape;
  if (call.in.size() < 2) return copyBytes(call);
  const bool isTimeFirst = call.params<SequenceMaskParams>().axis == 0;
  int64_t inner = 1;
  for (size_t i = 2; i < dims.size(); ++i) inner *= dims[i];
  const int64_t numBlocks = inner == 0 ? 0 : dims[0] * dims[1];
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.in[0].as<const T>(), rest = convertNumber<T>(value);
    T *y = call.out[0].as<T>();
    for (int64_t block = 0; block < numBlocks; ++block) {
      const int64_t a = block / dims[1], b = block % dims[1];
      const int64_t time = isTimeFirst ? a : b, length = sequenceLength(call.in[1], isTimeFirst ? b : a, time + 1);
      const bool beyond = time >= length;
      for (int64_t i = block * inner; i < (block + 1) * inner; ++i) y[i] = beyond ? rest : x[i];
    }
  });
}

// Lengths as integers, (1, batch, 1, …) or (batch, 1, …), compared with the index of time.
void decomposeMask(DecomposeRule &d, double value) {
  const Value x = d.x(0);
  if (d.numInputs() < 2) return d.y(0, d.emit(kCopy, {x}));
  const bool isTimeFirst = d.params<SequenceMaskParams>().axis == 0;
  Value lengths = d.emit(kCast, {d.x(1)}, {{"dtype", "int64"}});
  if (isTimeFirst) lengths = d.emit(kExpandDims, {lengths}, {{"axis", "0"}});
  for (size_t axis = isTimeFirst ? 2 : 1, rank = d.rank(x); axis < rank; ++axis)
    lengths = d.emit(kExpandDims, {lengths}, {{"axis", "-1"}});
  const Value time = d.emit(kIndexLike, {x}, {{"axis", isTimeFirst ? "0" : "1"}});
  const Value rest = d.emit(kPlusScalar, {d.emit(kZerosLike, {x})}, {{"scalar", d.number(value)}});
  d.y(0, d.emit(kWhere, {d.emit(kBroadcastGreater, {lengths, time}), x, rest}));
}

extern const OpDef kSequenceMask;

constexpr Domain kMaskDomains[] = {Domain::Any, Domain::Length};

// The same operator on head gradients, with zeros beyond the end.
Value maskHeads(GradRule &g) {
  const SequenceMaskParams &p = g.params<SequenceMaskParams>();
  if (!p.useSequenceLength) return g.dy(0);
  const AttrText attrs[] = {{"axis", g.number(p.axis)}, {"use_sequence_length", "True"}};
  return g.emit(kSequenceMask, {g.dy(0), g.x(1)}, g.context().attrs(ArrayRef<AttrText>(attrs)));
}

constexpr OpDef masking(OpDef op) {
  op.attrs = kMaskAttrs;
  op.params = paramsOf<SequenceMaskParams>();
  op.check = checkMask;
  op.shape = maskShape;
  op.dtype = [](DTypeInference &t) { t.sameInOut(0, 0); };
  op.inplace = kInplaceFirst;
  op.stopped = {1};
  op.domains = kMaskDomains;
  return op;
}

// Linear in dy; the mask does not depend on it.
constinit const OpDef kBackwardSequenceMask = masking({
    .name = "_backward_SequenceMask",
    .summary = "gradient of SequenceMask: dx = dy within a sequence, 0 beyond its end",
    .inputs = {{"ograd", "sequence_length"}, numSequenceInputs},
    .outputs = {"data_grad"},
    .flags = {.isBackward = true},
    .gradient =
        [](GradRule &g) {
          if (g.numInputs() > 1) g.noGrad(1);
          g.dx(0, maskHeads(g));
        },
    .decompose = [](DecomposeRule &d) { decomposeMask(d, 0); },
    .kernel = [](const KernelCall &call) { maskWith(call, 0); },
});

constinit const OpDef kSequenceMask = masking({
    .name = "SequenceMask",
    .aliases = {"_npx_sequence_mask"},
    .summary = "y[t,n,…] = x[t,n,…] where t < sequence_length[n], else value; with axis 1 time is the second axis",
    .inputs = {{"data", "sequence_length"}, numSequenceInputs},
    .kernelTypes = kFloatingAndIntegers,
    .gradient =
        [](GradRule &g) {
          if (g.numInputs() == 1) return g.dx(0, g.fused(kBackwardSequenceMask, {g.dy(0)}));
          g.noGrad(1);
          g.dx(0, g.fused(kBackwardSequenceMask, {g.dy(0), g.x(1)}));
        },
    .decompose = [](DecomposeRule &d) { decomposeMask(d, d.params<SequenceMaskParams>().value); },
    .kernel = [](const KernelCall &call) { maskWith(call, call.params<SequenceMaskParams>().value); },
});

}  // namespace

constinit const OpFamily kSequenceFamily = kOps<kSequenceMask, kBackwardSequenceMask>;

}  // namespace gradc
