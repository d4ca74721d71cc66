// Cutting a tensor into parts along an axis, and stacking tensors along a new one: each is the other's adjoint.
// Tested by tests/ops/movement_ops_test.cc
#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/tensor/dim.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/shape/split_stack.h"
#include "ops/shape/strided_view.h"

using namespace llvm;

namespace gradc {
namespace {

struct SplitParams {
  int64_t count = 0;
  int64_t axis = 0;
  bool squeezeAxis = false;
  // Of _split_v2, where parts may differ in length.
  Dims indices;
  int64_t sections = 0;

  bool isEven() const { return indices.empty() && sections == 0; }
  /// The index where part i begins on an axis of `length`; that of part `count` is its end.
  int64_t begin(int64_t i, int64_t length) const {
    if (!indices.empty()) return i < count ? indices[static_cast<size_t>(i)] : length;
    return i * (length / count) + std::min(i, length % count);  // the first parts share the remainder
  }
};
constexpr AttrSpec kSplitAttrs[] = {
    required<&SplitParams::count>("num_outputs", "number of parts").atLeast(1).atMost(1 << 16),
    ofAxis(attr<&SplitParams::axis>("axis", "1", "axis to cut; negative: from the end")),
    attr<&SplitParams::squeezeAxis>("squeeze_axis", "False",
                                    "whether to drop the axis: each part has one element of it"),
};

constexpr AttrSpec kSplitV2Attrs[] = {
    required<&SplitParams::indices>("indices", "where each part begins, 0 first; not used with sections").atLeast(0),
    ofAxis(attr<&SplitParams::axis>("axis", "1", "axis to cut; negative: from the end")),
    attr<&SplitParams::squeezeAxis>("squeeze_axis", "False",
                                    "whether to drop the axis: each part has one element of it"),
    attr<&SplitParams::sections>(
        "sections", "0",
        "number of parts, the first ones longer by 1 where it does not divide the axis; 0: use indices")
        .atLeast(0)
        .atMost(1 << 16),
};

Error checkSplitV2(const OpDef &, void *params) {
  SplitParams &p = *static_cast<SplitParams *>(params);
  if (p.sections > 0) p.indices = {};
  p.count = p.sections > 0 ? p.sections : static_cast<int64_t>(p.indices.size());
  if (p.count == 0) return Failure(ErrorKind::BadAttribute, "attributes 'indices' and 'sections' name no part");
  if (p.count > 1 << 16)
    return Failure(ErrorKind::BadAttribute,
                   "attribute 'indices' names " + Twine(p.count) + " parts, expected at most 65536");
  if (p.sections == 0 && (p.indices[0] != 0 || !is_sorted(p.indices)))
    return Failure(ErrorKind::BadAttribute, "attribute 'indices' is " + toString(ShapeRef(p.indices)) +
                                                ", expected 0 first and no number smaller than the one before");
  return Error::success();
}

// A stack is a split with the axis dropped, read backwards.
constexpr AttrSpec kStackAttrs[] = {
    ofAxis(attr<&SplitParams::axis>("axis", "0", "position of the new axis; negative: from the end")),
    required<&SplitParams::count>("num_args", "number of stacked tensors").atLeast(1).atMost(1 << 16),
};

uint32_t numParts(const NodeKind &kind) { return static_cast<uint32_t>(kind.params<SplitParams>().count); }

// Relates the shape of the whole to those of its parts.
struct SplitShapes {
  ShapeInference &s;
  bool isStack;  // the whole is the output

  bool dropsAxis() const { return isStack || s.params<SplitParams>().squeezeAxis; }
  size_t numParts() const { return isStack ? s.numInputs() : s.numOutputs(); }
  ShapeRef whole() const { return isStack ? s.out(0) : s.in(0); }
  ShapeRef part(size_t i) const { return isStack ? s.in(i) : s.out(i); }
  void setWhole(Dims dims) { isStack ? s.setOut(0, dims) : s.setIn(0, dims); }
  void setPart(size_t i, Dims dims) { isStack ? s.setIn(i, dims) : s.setOut(i, dims); }

  std::optional<size_t> wholeRank() const {
    if (whole().hasRank()) return whole().rank();
    for (size_t i = 0; i < numParts(); ++i)
      if (part(i).hasRank()) return part(i).rank() + dropsAxis();
    return std::nullopt;
  }

  void unify() {
    const SplitParams &params = s.params<SplitParams>();
    std::optional<size_t> rank = wholeRank();
    if (!rank) return;
    std::optional<size_t> axis = normalizeAxis(params.axis, *rank);
    if (!axis) return s.fail("axis " + Twine(params.axis) + " is outside " + countOf(*rank, "dimension"));
    setWhole(wholeFromParts(*rank, *axis));
    if (s.hasFailed()) return;
    const int64_t length = whole()[*axis];
    if (length != kUnknownDim && !fits(params, length))
      return s.fail("axis " + Twine(params.axis) + " of the shape " + toString(whole()) + " does not divide into " +
                    Twine(params.count) + " parts" + (dropsAxis() ? " of one element" : ""));
    for (size_t i = 0; i < numParts(); ++i) {
      DimsBuffer dims(whole().dims());
      if (dropsAxis()) dims.erase(dims.begin() + *axis);
      else dims[*axis] = partLength(params, static_cast<int64_t>(i), length);
      setPart(i, dims);
    }
  }

 private:
  bool fits(const SplitParams &params, int64_t length) const {
    if (!params.indices.empty() && params.indices.back() > length) return false;
    if (!dropsAxis()) return !params.isEven() || length % params.count == 0;
    for (int64_t i = 0; i < params.count; ++i)
      if (partLength(params, i, length) != 1) return false;
    return true;
  }

  static int64_t partLength(const SplitParams &params, int64_t i, int64_t length) {
    const bool isInside = !params.indices.empty() && i + 1 < params.count;
    if (length == kUnknownDim && !isInside) return kUnknownDim;
    return params.begin(i + 1, length) - params.begin(i, length);
  }

  // The whole as the parts determine it; conflicts among them are found when the parts are set.
  DimsBuffer wholeFromParts(size_t rank, size_t axis) const {
    const SplitParams &params = s.params<SplitParams>();
    DimsBuffer dims(rank, kUnknownDim);
    Dim sum = 0;
    size_t numKnown = 0;
    for (size_t i = 0; i < numParts(); ++i) {
      if (!part(i).hasRank() || part(i).rank() + dropsAxis() != rank) continue;
      DimsBuffer known(part(i).dims());
      if (dropsAxis()) known.insert(known.begin() + axis, 1);
      const int64_t length = known[axis];
      known[axis] = kUnknownDim;
      if (length != kUnknownDim) {
        sum = sum + length, ++numKnown;
        if (params.isEven()) known[axis] = (Dim(length) * params.count).inShape();
        if (!params.indices.empty() && i + 1 == numParts())
          known[axis] = (Dim(length) + params.indices.back()).inShape();
      }
      for (size_t k = 0; k < rank; ++k)
        if (dims[k] == kUnknownDim) dims[k] = known[k];
    }
    if (dropsAxis()) dims[axis] = params.count;
    else if (numKnown == numParts()) dims[axis] = sum.inShape();
    return dims;
  }
};

void splitShape(ShapeInference &s) { SplitShapes{s, false}.unify(); }
void stackShape(ShapeInference &s) { SplitShapes{s, true}.unify(); }

// Part i of the whole; a dropped axis changes nothing about where elements are.
StridedView partView(const NodeKind &kind, Dims whole, size_t i) {
  const SplitParams &params = kind.params<SplitParams>();
  StridedView view = wholeView(whole);
  const size_t axis = *normalizeAxis(params.axis, whole.size());
  const int64_t begin = params.begin(static_cast<int64_t>(i), whole[axis]);
  view.dims[axis] = params.begin(static_cast<int64_t>(i) + 1, whole[axis]) - begin;
  view.offset = begin * view.strides[axis];
  return view;
}

void splitKernel(const KernelCall &call) {
  for (size_t i = 0; i < call.out.size(); ++i)
    if (call.wants(i)) gatherView(call.out[i], call.in[0], partView(*call.kind, call.in[0].shape, i));
}

void joinKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  for (size_t i = 0; i < call.in.size(); ++i)
    scatterView(call.out[0], call.in[i], partView(*call.kind, call.out[0].shape, i));
}

// Gradient of joining heads.
template <const OpDef &Split> void splitHead(GradRule &g) {
  const Value parts = g.emit(Split, g.dy(0), g.attrs());
  for (size_t i = 0; i < g.numInputs(); ++i) g.dx(i, g.at(parts, i));
}

// The inputs joined along the axis, which is a new one if it was dropped.
Value joined(DecomposeRule &d, bool isNewAxis) {
  const StringRef axis = d.number(d.params<SplitParams>().axis), count = d.number(d.params<SplitParams>().count);
  SmallVector<Value, 8> parts;
  for (size_t i = 0; i < d.numInputs(); ++i)
    parts.push_back(isNewAxis ? d.emit(kExpandDims, {d.x(i)}, {{"axis", axis}}) : d.x(i));
  return d.emit(kConcat, parts, d.context().attrs(ArrayRef<AttrText>{{"num_args", count}, {"dim", axis}}));
}

// Drops even a vector's only axis, which squeeze would keep.
Value withoutAxis(DecomposeRule &d, Value part, StringRef axis, size_t rank) {
  if (rank > 1) return d.emit(kSqueeze, {part}, {{"axis", axis}});
  return d.emit(kReshapeLike, {part, part},
                {{"lhs_begin", "0"}, {"lhs_end", "1"}, {"rhs_begin", "0"}, {"rhs_end", "0"}});
}

// (…, count · n, …) as (…, count, n, …), where each part is one index. No length has to be known.
void cut(DecomposeRule &d, bool dropsAxis) {
  const SplitParams &params = d.params<SplitParams>();
  const size_t rank = d.rank(d.x(0));
  const std::optional<size_t> axis = normalizeAxis(params.axis, rank);
  if (!axis) return d.refuse(ErrorKind::InferConflict, "cuts an axis that its input does not have");
  DimsBuffer split(*axis, 0), merged(*axis, 0);
  split.append({-4, params.count, -1, -2});
  merged.append({-3, -2});
  const StringRef at = d.number(static_cast<int64_t>(*axis));
  const Value whole = dropsAxis ? d.x(0) : d.emit(kReshape, {d.x(0)}, {{"shape", d.tuple(split)}});
  for (int64_t i = 0; i < params.count; ++i) {
    if (!d.wants(static_cast<size_t>(i))) continue;
    const Value part = d.emit(kSliceAxis, {whole}, {{"axis", at}, {"begin", d.number(i)}, {"end", d.number(i + 1)}});
    d.y(static_cast<size_t>(i),
        dropsAxis ? withoutAxis(d, part, at, rank) : d.emit(kReshape, {part}, {{"shape", d.tuple(merged)}}));
  }
}

// Length 0 along the axis, which no slice has.
Value emptyPart(DecomposeRule &d, size_t axis, size_t rank) {
  DimsBuffer dims(rank, 1);
  dims[axis] = 0;
  const Value like = d.emit(kConstant, {}, {{"dtype", "float32"}, {"shape", d.tuple(dims)}, {"values", "()"}});
  return d.emit(kSliceLike, {d.x(0), like}, {{"axes", d.tuple({static_cast<int64_t>(axis)})}});
}

// Sections need a known length of the axis; parts at indices only where they may be empty at its end.
void cutUnevenly(DecomposeRule &d) {
  const SplitParams &params = d.params<SplitParams>();
  const size_t rank = d.rank(d.x(0));
  const std::optional<size_t> axis = normalizeAxis(params.axis, rank);
  if (!axis) return d.refuse(ErrorKind::InferConflict, "cuts an axis that its input does not have");
  const ShapeRef shape = d.shape(d.x(0));
  const int64_t length = params.sections ? d.size(d.x(0), params.axis) : shape.hasRank() ? shape[*axis] : kUnknownDim;
  const StringRef at = d.number(static_cast<int64_t>(*axis));
  for (int64_t i = 0; i < params.count; ++i) {
    if (!d.wants(static_cast<size_t>(i))) continue;
    const int64_t begin = params.begin(i, length), end = params.begin(i + 1, length);
    Value part;
    if (begin == end) {
      part = emptyPart(d, *axis, rank);
    } else {
      const AttrText from{"begin", d.number(begin)}, to{"end", end == kUnknownDim ? StringRef("None") : d.number(end)};
      part = d.emit(kSliceAxis, {d.x(0)}, {{"axis", at}, from, to});
    }
    d.y(static_cast<size_t>(i), params.squeezeAxis ? withoutAxis(d, part, at, rank) : part);
  }
}

extern const OpDef kBackwardSliceChannel, kBackwardStack, kBackwardSplitV2;

}  // namespace

int64_t splitAxis(const NodeKind &kind) { return kind.params<SplitParams>().axis; }

// dx = the dyi joined along the axis
constinit const OpDef kSliceChannel = asMovementOfData({
    .name = "SliceChannel",
    .aliases = {"split"},
    .summary = "data cut into num_outputs parts of equal length along one axis",
    .outputs = {{}, numParts, true},
    .attrs = kSplitAttrs,
    .params = paramsOf<SplitParams>(),
    .shape = splitShape,
    .gradient = [](GradRule &g) { g.fused(kBackwardSliceChannel, g.headGradients()); },
    .decompose = [](DecomposeRule &d) { cut(d, d.params<SplitParams>().squeezeAxis); },
    .kernel = splitKernel,
});

namespace {

// dx = the dyi joined along the axis
constinit const OpDef kSplitV2 = asMovementOfData({
    .name = "_split_v2",
    .aliases = {"_npi_split"},
    .summary = "data cut along one axis, at indices or into sections of almost equal length",
    .outputs = {{}, numParts, true},
    .attrs = kSplitV2Attrs,
    .params = paramsOf<SplitParams>(),
    .check = checkSplitV2,
    .shape = splitShape,
    .gradient = [](GradRule &g) { g.fused(kBackwardSplitV2, g.headGradients()); },
    .decompose = cutUnevenly,
    .kernel = splitKernel,
});

}  // namespace

// dxi = part i of dy along the axis
constinit const OpDef kStack = asMovement({
    .name = "stack",
    .aliases = {"_npi_stack"},
    .summary = "the inputs, all of one shape, joined along a new axis",
    .inputs = {{}, numParts, true},
    .attrs = kStackAttrs,
    .params = paramsOf<SplitParams>(),
    .shape = stackShape,
    .gradient = [](GradRule &g) { g.fused(kBackwardStack, {g.dy(0)}); },
    .decompose = [](DecomposeRule &d) { d.y(0, joined(d, true)); },
    .kernel = joinKernel,
});

namespace {

constinit const OpDef kBackwardSliceChannel = asMovement({
    .name = "_backward_SliceChannel",
    .summary = "gradient of SliceChannel: dx = the heads joined along the axis",
    .inputs = {{}, numParts, true},
    .attrs = kSplitAttrs,
    .params = paramsOf<SplitParams>(),
    .flags = {.isBackward = true},
    .gradient = splitHead<kSliceChannel>,
    .decompose = [](DecomposeRule &d) { d.y(0, joined(d, d.params<SplitParams>().squeezeAxis)); },
    .kernel = joinKernel,
});

constinit const OpDef kBackwardSplitV2 = asMovement({
    .name = "_split_v2_backward",
    .summary = "gradient of _split_v2: dx = the heads joined along the axis",
    .inputs = {{}, numParts, true},
    .attrs = kSplitV2Attrs,
    .params = paramsOf<SplitParams>(),
    .check = checkSplitV2,
    .flags = {.isBackward = true},
    .gradient = splitHead<kSplitV2>,
    .decompose = [](DecomposeRule &d) { d.y(0, joined(d, d.params<SplitParams>().squeezeAxis)); },
    .kernel = joinKernel,
});

constinit const OpDef kBackwardStack = {
    .name = "_backward_stack",
    .summary = "gradient of stack: dxi = part i of dy along the axis",
    .inputs = {"dy"},
    .outputs = {{}, numParts, true},
    .attrs = kStackAttrs,
    .params = paramsOf<SplitParams>(),
    .flags = {.isBackward = true},
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kStack, g.headGradients(), g.attrs())); },
    .decompose = [](DecomposeRule &d) { cut(d, true); },
    .kernel = splitKernel,
};

}  // namespace

constinit const OpFamily kSplitStackFamily =
    kOps<kSliceChannel, kSplitV2, kStack, kBackwardSliceChannel, kBackwardSplitV2, kBackwardStack>;

}  // namespace gradc
