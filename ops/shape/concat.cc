// Joining tensors along one axis, and taking one of them out again. Tested by tests/ops/reduce_ops_test.cc
#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ir/tensor/dim.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/shape/concat.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

struct ConcatParams {
  int64_t numArgs;
  int64_t dim;
  int64_t index;
};
constexpr AttrSpec kNumArgsAttr =
    required<&ConcatParams::numArgs>("num_args", "number of joined tensors").atLeast(1).atMost(1 << 16);
constexpr AttrSpec kDimAttr =
    ofAxis(attr<&ConcatParams::dim>("dim", "1", "axis to join along; negative: from the end"));
constexpr AttrSpec kConcatAttrs[] = {kNumArgsAttr, kDimAttr};
constexpr AttrSpec kPartAttrs[] = {kNumArgsAttr, kDimAttr,
                                   required<&ConcatParams::index>("index", "which part, from 0").atLeast(0)};

uint32_t numParts(const NodeKind &kind) { return static_cast<uint32_t>(kind.params<ConcatParams>().numArgs); }
uint32_t numPartsAndHead(const NodeKind &kind) { return numParts(kind) + 1; }
bool isBesideHead(const NodeKind &, size_t input) { return input != 0; }

Error checkPart(const OpDef &, void *params) {
  const ConcatParams &given = *static_cast<const ConcatParams *>(params);
  if (given.index < given.numArgs) return Error::success();
  return Failure(ErrorKind::BadAttribute, "attribute 'index' is " + Twine(given.index) +
                                              ", expected less than num_args = " + Twine(given.numArgs));
}

// Where the whole and the parts are among the entries of a node: the parts are the other inputs.
struct ConcatPorts {
  bool isWholeInput;           // input 0, else output 0
  bool sharesEqually = false;  // parts of unknown length have equal ones

  std::string wholeName() const { return isWholeInput ? "input 0" : "output 0"; }
  ShapeRef whole(const ShapeInference &s) const { return isWholeInput ? s.in(0) : s.out(0); }
  void setWhole(ShapeInference &s, Dims dims) const { isWholeInput ? s.setIn(0, dims) : s.setOut(0, dims); }
  size_t firstPart() const { return isWholeInput; }
  size_t numParts(const ShapeInference &s) const { return s.numInputs() - firstPart(); }
};

// All entries agree on the axes other than the joined one: merges them into `common`, where the joined one stays
// unknown. Lengths along that one go to `lengths`, parts first, then the whole.
void gatherLengths(ShapeInference &s, ConcatPorts at, size_t axis, DimsBuffer &common,
                   MutableArrayRef<int64_t> lengths) {
  for (size_t i = 0; i < lengths.size(); ++i) {
    const bool isPart = i + 1 < lengths.size();
    const ShapeRef shape = isPart ? s.in(at.firstPart() + i) : at.whole(s);
    if (!shape.hasRank()) continue;
    DimsBuffer others(shape.dims());
    if (others.size() == common.size()) {
      lengths[i] = others[axis];
      others[axis] = kUnknownDim;
    }
    if (mergeDims(common, others)) continue;
    const std::string entry = isPart ? "input " + std::to_string(at.firstPart() + i) : at.wholeName();
    return s.fail(entry + " has shape " + toString(shape) + ", expected " + toString(ShapeRef(common)) +
                  " apart from dim " + Twine(s.params<ConcatParams>().dim));
  }
}

// The sum of the parts along the axis is the whole; a single unknown part is the rest (INF-04), and several of equal
// length share it.
void unifyLengths(ShapeInference &s, ConcatPorts at, MutableArrayRef<int64_t> parts, int64_t &whole) {
  Dim known = 0;
  for (int64_t part : parts)
    if (part != kUnknownDim) known = known + part;
  const ptrdiff_t numUnknown = llvm::count(parts, kUnknownDim);
  if (whole == kUnknownDim) {
    if (numUnknown == 0) whole = known.inShape();
    return;
  }
  if (numUnknown == 0 ? known != whole : known > whole)
    return s.fail("the parts do not add up to " + at.wholeName() + " of shape " + toString(at.whole(s)));
  if (numUnknown == 0 || (numUnknown > 1 && !at.sharesEqually)) return;
  const int64_t rest = (whole - known).inShape();
  if (rest % numUnknown != 0)
    return s.fail("the " + Twine(numUnknown) + " parts of unknown length cannot share the " + Twine(rest) +
                  " elements left of " + at.wholeName() + " of shape " + toString(at.whole(s)) + " equally");
  std::replace(parts.begin(), parts.end(), kUnknownDim, rest / numUnknown);
}

void relateParts(ShapeInference &s, ConcatPorts at) {
  std::optional<size_t> rank;
  for (size_t i = 0; i < s.numInputs() && !rank; ++i)
    if (s.in(i).hasRank()) rank = s.in(i).rank();
  if (!rank && at.whole(s).hasRank()) rank = at.whole(s).rank();
  if (!rank) return;
  const int64_t dim = s.params<ConcatParams>().dim;
  const std::optional<size_t> axis = normalizeAxis(dim, *rank);
  if (!axis) return s.fail("dim " + Twine(dim) + " is outside " + countOf(*rank, "dimension"));

  DimsBuffer common(*rank, kUnknownDim);
  SmallVector<int64_t, 8> lengths(at.numParts(s) + 1, kUnknownDim);
  gatherLengths(s, at, *axis, common, lengths);
  if (s.hasFailed()) return;
  unifyLengths(s, at, MutableArrayRef(lengths).drop_back(), lengths.back());
  for (size_t i = 0; i < at.numParts(s); ++i) {
    common[*axis] = lengths[i];
    s.setIn(at.firstPart() + i, common);
  }
  common[*axis] = lengths.back();
  at.setWhole(s, common);
}

void concatShape(ShapeInference &s) { relateParts(s, {.isWholeInput = false}); }
void paramConcatShape(ShapeInference &s) { relateParts(s, {.isWholeInput = false, .sharesEqually = true}); }

// Inputs are dy and the parts; outputs have the shapes of the parts.
void concatBackwardShape(ShapeInference &s) {
  for (size_t i = 0; i < s.numOutputs(); ++i) s.sameInOut(1 + i, i);
  relateParts(s, {.isWholeInput = true});
  for (size_t i = 0; i < s.numOutputs(); ++i) s.sameInOut(1 + i, i);
}

void concatPartShape(ShapeInference &s) {
  const size_t part = 1 + static_cast<size_t>(s.params<ConcatParams>().index);
  s.sameInOut(part, 0);
  relateParts(s, {.isWholeInput = true});
  s.sameInOut(part, 0);
}

// Bytes of one row of `tensor`: everything from `axis` on.
size_t rowBytes(const TensorRef &tensor, size_t axis) {
  return static_cast<size_t>(TensorRef{nullptr, tensor.dtype, tensor.shape.drop_front(axis)}.size()) *
         dtypeBytes(tensor.dtype);
}

size_t numRows(const TensorRef &tensor, size_t axis) {
  return static_cast<size_t>(TensorRef{nullptr, tensor.dtype, tensor.shape.take_front(axis)}.size());
}

size_t axisOf(const KernelCall &call, const TensorRef &tensor) {
  return *normalizeAxis(call.params<ConcatParams>().dim, tensor.shape.size());
}

// Copies between rows of the whole, starting at byte `from` of each, and the rows of one part.
void copyRows(const TensorRef &whole, const TensorRef &part, size_t axis, size_t from, bool intoWhole) {
  const size_t wholeRow = rowBytes(whole, axis), partRow = rowBytes(part, axis);
  if (partRow == 0) return;
  for (size_t row = 0; row < numRows(whole, axis); ++row) {
    char *inWhole = whole.as<char>() + row * wholeRow + from, *inPart = part.as<char>() + row * partRow;
    std::memcpy(intoWhole ? inWhole : inPart, intoWhole ? inPart : inWhole, partRow);
  }
}

void concatKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const size_t axis = axisOf(call, call.out[0]);
  size_t from = 0;
  for (const TensorRef &part : call.in) {
    copyRows(call.out[0], part, axis, from, true);
    from += rowBytes(part, axis);
  }
}

void concatBackwardKernel(const KernelCall &call) {
  const size_t axis = axisOf(call, call.in[0]);
  size_t from = 0;
  for (size_t i = 0; i < call.out.size(); ++i) {
    if (call.wants(i)) copyRows(call.in[0], call.out[i], axis, from, false);
    from += rowBytes(call.out[i], axis);
  }
}

// Only the shapes of the parts determine where the part starts: their contents are not read.
void concatPartKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const size_t axis = axisOf(call, call.in[0]);
  size_t from = 0;
  for (int64_t i = 0; i < call.params<ConcatParams>().index; ++i) from += rowBytes(call.in[1 + i], axis);
  copyRows(call.in[0], call.out[0], axis, from, false);
}

Attrs concatAttrs(RuleContext &r) {
  const ConcatParams &params = r.params<ConcatParams>();
  return r.context().attrs(ArrayRef<AttrText>{{"num_args", r.number(params.numArgs)}, {"dim", r.number(params.dim)}});
}

extern const OpDef kBackwardConcat, kConcatPart;

void concatGradient(GradRule &g) {
  SmallVector<Value, 8> values(g.operands());
  values.insert(values.begin(), g.dy(0));
  g.fused(kBackwardConcat, values);
}

}  // namespace

// dxi = the part of dy that xi became
constinit const OpDef kConcat = asMovement({
    .name = "Concat",
    .aliases = {"concat", "_sparse_concat"},
    .summary = "the inputs joined along one axis",
    .inputs = {{}, numParts, true},
    .attrs = kConcatAttrs,
    .params = paramsOf<ConcatParams>(),
    .shape = concatShape,
    .gradient = concatGradient,
    .primitive = {.onnx = "Concat", .c = "memcpy of each part, row by row"},
    .kernel = concatKernel,
});

namespace {

constinit const OpDef kRnnParamConcat = asMovement({
    .name = "_rnn_param_concat",
    .aliases = {"_npi_rnn_param_concat"},
    .summary =
        "the inputs joined along one axis, those of unknown length assumed to be equally long: packs parameters of RNN",
    .inputs = {{}, numParts, true},
    .attrs = kConcatAttrs,
    .params = paramsOf<ConcatParams>(),
    .shape = paramConcatShape,
    .gradient = concatGradient,
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kConcat, d.operands(), concatAttrs(d))); },
    .kernel = concatKernel,
});

// Bounds of the parts along the axis, from 0 up to the end of the last part before one of unknown size.
SmallVector<int64_t, 8> knownBounds(DecomposeRule &d, size_t numParts) {
  const int64_t dim = d.params<ConcatParams>().dim;
  SmallVector<int64_t, 8> bounds = {0};
  Dim end = 0;
  for (size_t i = 0; i < numParts; ++i) {
    const ShapeRef shape = d.shape(d.x(1 + i));
    const std::optional<size_t> at = shape.hasRank() ? normalizeAxis(dim, shape.rank()) : std::nullopt;
    if (!at || shape[*at] == kUnknownDim) break;
    end = end + shape[*at];
    bounds.push_back(end.nearest());
  }
  return bounds;
}

// Part `index` of v by its bounds; invalid where they are unknown or the part is empty.
Value partAt(DecomposeRule &d, size_t index, ArrayRef<int64_t> bounds) {
  if (index + 1 >= bounds.size() || bounds[index] == bounds[index + 1]) return Value();
  const StringRef axis = d.number(d.params<ConcatParams>().dim);
  const StringRef begin = d.number(bounds[index]), end = d.number(bounds[index + 1]);
  return d.emit(kSliceAxis, {d.x(0)}, {{"axis", axis}, {"begin", begin}, {"end", end}});
}

constinit const OpDef kBackwardConcat = {
    .name = "_backward_Concat",
    .summary = "gradient of Concat: dy cut into the parts that were joined; reads the shapes of the parts only",
    .inputs = {{}, numPartsAndHead, true},
    .outputs = {{}, numParts, true},
    .attrs = kConcatAttrs,
    .params = paramsOf<ConcatParams>(),
    .shape = concatBackwardShape,
    .ignored = isBesideHead,
    .stopped = isBesideHead,
    .flags = {.isBackward = true},
    // One node; differentiating n parts that were cut out one by one would give n nodes of n operands.
    .gradient =
        [](GradRule &g) {
          SmallVector<Value, 8> parts;
          for (size_t i = 0; i < g.numOutputs(); ++i) {
            g.noGrad(1 + i);
            parts.push_back(g.isZero(i) ? g.emit(kZerosLike, {g.x(1 + i)}) : g.dy(i));
          }
          g.dx(0, g.emit(kConcat, parts, concatAttrs(g)));
        },
    .decompose =
        [](DecomposeRule &d) {
          const ConcatParams &params = d.params<ConcatParams>();
          const SmallVector<int64_t, 8> bounds = knownBounds(d, numParts(d.kind()));
          for (int64_t i = 0; i < params.numArgs; ++i) {
            if (!d.wants(i)) continue;
            // A node for each part that reads all of them would be quadratic.
            Value part = partAt(d, static_cast<size_t>(i), bounds);
            if (!part.isValid())
              part = d.emit(kConcatPart, d.operands(), d.context().withAttrs(concatAttrs(d), {{"index", d.number(i)}}));
            d.y(i, part);
          }
        },
    .kernel = concatBackwardKernel,
};

// The last elements of v along the axis, as many as x has.
Value lastLike(DecomposeRule &d, Value v, Value x, StringRef axis) {
  auto reversed = [&](Value value) { return d.emit(kReverse, {value}, {{"axis", axis}}); };
  return reversed(d.emit(kSliceLike, {reversed(v), x}, {{"axes", axis}}));
}

// Where the sizes of the parts are unknown, they are found when the graph runs.
void cutOut(DecomposeRule &d) {
  const ConcatParams &params = d.params<ConcatParams>();
  const StringRef axis = d.number(params.dim);
  const size_t index = static_cast<size_t>(params.index);
  if (Value part = partAt(d, index, knownBounds(d, index + 1)); part.isValid()) return d.y(0, part);
  SmallVector<Value, 8> parts;
  for (size_t i = 0; i <= index; ++i) parts.push_back(d.x(1 + i));
  const StringRef count = d.number(static_cast<int64_t>(parts.size()));
  const Value joined =
      d.emit(kConcat, parts, d.context().attrs(ArrayRef<AttrText>{{"num_args", count}, {"dim", axis}}));
  const Value first = d.emit(kSliceLike, {d.x(0), joined}, {{"axes", axis}});
  d.y(0, lastLike(d, first, d.x(1 + index), axis));
}

// ddy = zeros joined with the gradient of the part in its place
constinit const OpDef kConcatPart = asMovement({
    .name = "_concat_part",
    .summary = "the part of v that x[index] would become if the x were joined along dim; their contents are not read",
    .inputs = {{}, numPartsAndHead, true},
    .attrs = kPartAttrs,
    .params = paramsOf<ConcatParams>(),
    .check = checkPart,
    .shape = concatPartShape,
    .ignored = isBesideHead,
    .stopped = isBesideHead,
    .gradient =
        [](GradRule &g) {
          const int64_t index = g.params<ConcatParams>().index;
          SmallVector<Value, 8> parts;
          for (size_t i = 1; i < g.numInputs(); ++i) {
            g.noGrad(i);
            parts.push_back(static_cast<int64_t>(i) == index + 1 ? g.dy(0) : g.emit(kZerosLike, {g.x(i)}));
          }
          g.dx(0, g.emit(kConcat, parts, concatAttrs(g)));
        },
    .decompose = cutOut,
    .kernel = concatPartKernel,
});

}  // namespace

int64_t concatAxis(const NodeKind &kind) { return kind.params<ConcatParams>().dim; }

constinit const OpFamily kConcatFamily = kOps<kConcat, kRnnParamConcat, kBackwardConcat, kConcatPart>;

}  // namespace gradc
