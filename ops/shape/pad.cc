// Padding of the spatial axes of image batches, with a constant or with elements of the data.
// Tested by tests/ops/movement_ops_test.cc
#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/tensor/dim.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/broadcast_loops.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/kit/slice_rules.h"
#include "ops/kit/strided_walk.h"
#include "ops/shape/pad.h"

using namespace llvm;

namespace gradc {
namespace {

enum class PadMode : uint8_t { Constant, Edge, Reflect };
constexpr StringRef kPadModeNames[] = {"constant", "edge", "reflect"};
constexpr ArrayRef<StringRef> enumNames(PadMode) { return kPadModeNames; }

struct PadParams {
  PadMode mode;
  Dims padWidth;
  double constantValue;
};
constexpr AttrSpec kPadAttrs[] = {
    required<&PadParams::mode>("mode", "what is outside: a constant, the nearest element, or data mirrored"),
    required<&PadParams::padWidth>("pad_width", "elements before and after, axis by axis; 0 for the first two axes")
        .atLeast(0),
    attr<&PadParams::constantValue>("constant_value", "0", "the constant"),
};

Error checkPad(const OpDef &, void *params) {
  Dims widths = static_cast<const PadParams *>(params)->padWidth;
  if (widths.size() != 8 && widths.size() != 10)
    return Failure(ErrorKind::BadAttribute,
                   "attribute 'pad_width' has " + Twine(widths.size()) + " elements, expected 8 or 10");
  for (int64_t width : widths.take_front(4))
    if (width != 0)
      return Failure(ErrorKind::BadAttribute,
                     "attribute 'pad_width' is " + Twine(width) + " for one of the first two axes, expected 0");
  return Error::success();
}

// Both ways: the output is longer by the widths.
void padShape(ShapeInference &s) {
  const PadParams &params = s.params<PadParams>();
  const size_t rank = params.padWidth.size() / 2;
  const DimsBuffer any(rank, kUnknownDim);
  s.setIn(0, any);
  s.setOut(0, any);
  if (s.hasFailed()) return;
  DimsBuffer in(s.in(0).dims()), out(s.out(0).dims());
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t before = params.padWidth[2 * axis], after = params.padWidth[2 * axis + 1];
    const Dim added = Dim(before) + after;
    if (in[axis] != kUnknownDim) out[axis] = (in[axis] + added).inShape();
    else if (out[axis] != kUnknownDim) in[axis] = (out[axis] - added).inShape();
    const bool isEmpty = params.mode == PadMode::Edge && in[axis] == 0 && added > 0;
    if (in[axis] != kUnknownDim && (isEmpty || (params.mode == PadMode::Reflect && std::max(before, after) > 0 &&
                                                std::max(before, after) >= in[axis])))
      return s.fail("axis " + Twine(axis) + " of the shape " + toString(s.in(0)) +
                    " has too few elements for padding by " + Twine(std::max(before, after)));
  }
  s.setOut(0, out);
  s.setIn(0, in);
}

// Index along an axis of `size` elements that position `at` of the padded axis shows; -1: the constant.
int64_t shownIndex(const PadParams &params, size_t axis, int64_t at, int64_t size) {
  const int64_t index = at - params.padWidth[2 * axis];
  if (index >= 0 && index < size) return index;
  switch (params.mode) {
    case PadMode::Constant: return -1;
    case PadMode::Edge: return index < 0 ? 0 : size - 1;
    case PadMode::Reflect: return index < 0 ? -index : 2 * (size - 1) - index;
  }
  return -1;
}

}  // namespace

std::vector<int64_t> padShown(const NodeKind &kind, size_t axis, int64_t size) {
  const PadParams &params = kind.params<PadParams>();
  const int64_t length = params.padWidth[2 * axis] + size + params.padWidth[2 * axis + 1];
  std::vector<int64_t> shown;
  for (int64_t at = 0; at < length; ++at) shown.push_back(shownIndex(params, axis, at, size));
  return shown;
}

PadAttrs padAttrs(const NodeKind &kind) {
  return {kind.params<PadParams>().padWidth, kind.params<PadParams>().constantValue};
}

namespace {

// Calls `visit(padded, inner)` with the offset of every element of the padded tensor and of the one it shows, or -1.
template <class F> void forShown(const PadParams &params, Dims padded, Dims inner, F visit) {
  const DimsBuffer strides = contiguousStrides(inner);
  DimsBuffer index(padded.size(), 0);
  const int64_t size = TensorRef{nullptr, DType::Unknown, padded}.size(), width = padded.back();
  if (size == 0) return;
  DimsBuffer shownInRow;
  for (int64_t at = 0; at < width; ++at) shownInRow.push_back(shownIndex(params, padded.size() - 1, at, inner.back()));
  for (int64_t row = 0; row < size; row += width) {
    int64_t offset = 0;
    for (size_t axis = 0; axis + 1 < padded.size() && offset >= 0; ++axis) {
      const int64_t shown = shownIndex(params, axis, index[axis], inner[axis]);
      offset = shown < 0 ? -1 : offset + shown * strides[axis];
    }
    for (int64_t at = 0; at < width; ++at) {
      const int64_t shown = shownInRow[static_cast<size_t>(at)];
      visit(row + at, offset < 0 || shown < 0 ? -1 : offset + shown);
    }
    for (size_t axis = padded.size() - 1; axis-- > 0;) {
      if (++index[axis] < padded[axis]) break;
      index[axis] = 0;
    }
  }
}

void padKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const PadParams &params = call.params<PadParams>();
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.in[0].as<const T>(), constant = static_cast<T>(params.constantValue);
    T *y = call.out[0].as<T>();
    forShown(params, call.out[0].shape, call.in[0].shape,
             [=](int64_t to, int64_t from) { y[to] = from < 0 ? constant : x[from]; });
  });
}

// One channel of one image, as a tensor.
DimsBuffer planeOf(Dims shape) {
  DimsBuffer plane(shape);
  plane[0] = plane[1] = 1;
  return plane;
}

void padBackwardKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const DimsBuffer padded = planeOf(call.in[0].shape), inner = planeOf(call.out[0].shape);
  const int64_t planes = call.out[0].shape[0] * call.out[0].shape[1], size = elementCount(inner);
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    auto *sums = static_cast<Accumulator<T> *>(call.workspace);
    const T *dy = call.in[0].as<const T>();
    T *dx = call.out[0].as<T>();
    for (int64_t plane = 0; plane < planes; ++plane, dy += elementCount(padded), dx += size) {
      std::fill_n(sums, size, Accumulator<T>{0});
      forShown(call.params<PadParams>(), padded, inner, [=](int64_t from, int64_t to) {
        if (to >= 0) sums[to] = wrappingAdd(sums[to], static_cast<Accumulator<T>>(dy[from]));
      });
      std::transform(sums, sums + size, dx, [](Accumulator<T> sum) { return static_cast<T>(sum); });
    }
  });
}

// Removes the padding axis by axis, and adds its gradient to the elements it shows: at one end of the axis, or
// mirrored.
void unpad(DecomposeRule &d) {
  const PadParams &params = d.params<PadParams>();
  Value dx = d.x(0);
  for (size_t i = 2; 2 * i < params.padWidth.size(); ++i) {
    const int64_t axis = static_cast<int64_t>(i), before = params.padWidth[2 * i], after = params.padWidth[2 * i + 1];
    const Bound end = after > 0 ? Bound(-after) : Bound();
    const Value padded = dx;
    auto addShown = [&](Bound from, Bound to, int64_t edge, int64_t mirrored) {
      Value shown = sliceOfAxis(d, padded, axis, from, to);
      if (params.mode == PadMode::Edge) shown = d.emit(kSum, {shown}, {{"axis", d.number(axis)}, {"keepdims", "True"}});
      const AxisCut cut = params.mode == PadMode::Edge ? AxisCut{axis, edge} : AxisCut{axis, mirrored, -1};
      dx = d.emit(kElemwiseAdd, {dx, amongZeros(d, shown, dx, cut)});
    };
    if (before > 0 || after > 0) dx = sliceOfAxis(d, padded, axis, before, end);
    if (params.mode == PadMode::Constant) continue;
    if (before > 0) addShown({}, before, 0, before);
    if (after > 0) addShown(end, {}, -1, -2);
  }
  d.y(0, dx);
}

extern const OpDef kPad, kBackwardPad;

// dx = Σ of dy over the positions that show each element
constinit const OpDef kPad = {
    .name = "Pad",
    .aliases = {"pad"},
    .summary = "data (N, C, ...) with more elements around its spatial axes",
    .inputs = {"data"},
    .attrs = kPadAttrs,
    .params = paramsOf<PadParams>(),
    .check = checkPad,
    .shape = padShape,
    .gradient = [](GradRule &g) { g.fused(kBackwardPad, {g.dy(0)}); },
    .primitive = {.onnx = "Pad", .c = "y[i] = inside ? x[j] : constant; j the nearest or mirrored index, axis by axis"},
    .kernel = padKernel,
};

// Its adjoint pads, with zeros in place of the constant.
constinit const OpDef kBackwardPad = {
    .name = "_backward_Pad",
    .summary = "gradient of Pad: dx = sum of dy over the positions that show each element",
    .inputs = {"dy"},
    .attrs = kPadAttrs,
    .params = paramsOf<PadParams>(),
    .check = checkPad,
    .flags = {.isBackward = true},
    .gradient =
        [](GradRule &g) {
          g.dx(0, g.emit(kPad, g.dy(0), g.context().withAttrs(g.attrs(), AttrText{"constant_value", "0"})));
        },
    .decompose = unpad,
    .kernel = padBackwardKernel,
    .workspace =
        [](const NodeKind &, ArrayRef<TensorRef>, ArrayRef<TensorRef> out) {
          return static_cast<size_t>(elementCount(planeOf(out[0].shape))) * sizeof(double);
        },
};

}  // namespace

constinit const OpFamily kPadFamily = kOps<kPad, kBackwardPad>;

}  // namespace gradc
