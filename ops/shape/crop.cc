// A window of an image batch (N, C, H, W), of a given size or that of another tensor.
// Tested by tests/ops/movement_ops_test.cc
#include "ops/shape/crop.h"

#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/tensor/dim.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/kit/slice_rules.h"

using namespace llvm;

namespace gradc {
namespace {

struct CropParams {
  int64_t numArgs;
  Dims offset, size;
  bool centerCrop;
};
constexpr AttrSpec kCropAttrs[] = {
    required<&CropParams::numArgs>("num_args", "number of inputs; 2: the window has the height and width of the second")
        .atLeast(1)
        .atMost(2),
    attr<&CropParams::offset>("offset", "(0, 0)", "row and column where the window starts").atLeast(0),
    attr<&CropParams::size>("h_w", "(0, 0)", "height and width of the window, without a second input").atLeast(0),
    attr<&CropParams::centerCrop>("center_crop", "False", "whether the window is in the middle; offset is not used"),
};

uint32_t numInputs(const NodeKind &kind) { return static_cast<uint32_t>(kind.params<CropParams>().numArgs); }

Error checkCrop(const OpDef &, void *params) {
  const CropParams &given = *static_cast<const CropParams *>(params);
  if (given.offset.size() != 2 || given.size.size() != 2)
    return Failure(ErrorKind::BadAttribute, "attributes 'offset' and 'h_w' have " + Twine(given.offset.size()) +
                                                " and " + Twine(given.size.size()) + " elements, expected 2 each");
  if (given.numArgs == 1 && (given.size[0] < 1 || given.size[1] < 1))
    return Failure(ErrorKind::BadAttribute, "attribute 'h_w' has an element 0, expected a height and a width");
  return Error::success();
}

// First row (axis 0) or column (axis 1) of the window.
int64_t windowStart(const CropParams &params, size_t axis, int64_t whole, int64_t window) {
  return params.centerCrop ? (whole - window) / 2 : params.offset[axis];
}

void cropShape(ShapeInference &s) {
  const CropParams &params = s.params<CropParams>();
  const DimsBuffer any(4, kUnknownDim);
  for (size_t i = 0; i < s.numInputs(); ++i) s.setIn(i, any);
  s.setOut(0, any);
  if (s.hasFailed()) return;
  DimsBuffer in(s.in(0).dims()), out(s.out(0).dims());
  for (size_t axis = 0; axis < 2; ++axis) {
    out[axis] = in[axis];
    out[2 + axis] = s.numInputs() == 2 ? s.in(1)[2 + axis] : params.size[axis];
  }
  s.setOut(0, out);
  if (s.hasFailed()) return;
  out = DimsBuffer(s.out(0).dims());
  s.setIn(0, {out[0], out[1], kUnknownDim, kUnknownDim});
  if (s.numInputs() == 2) s.setIn(1, {kUnknownDim, kUnknownDim, out[2], out[3]});
  for (size_t axis = 0; axis < 2 && !s.hasFailed(); ++axis) {
    const int64_t whole = in[2 + axis], window = out[2 + axis];
    if (whole == kUnknownDim || window == kUnknownDim) continue;
    const int64_t start = windowStart(params, axis, whole, window);
    if (window > whole || start > whole - window)
      s.fail("the window of " + Twine(window) + " from " + Twine(start) + " on exceeds axis " + Twine(2 + axis) +
             " of the input's shape " + toString(s.in(0)));
  }
}

}  // namespace

StridedView cropView(const NodeKind &kind, Dims whole, Dims part) {
  StridedView view = wholeView(whole);
  for (size_t axis = 0; axis < 2; ++axis) {
    const int64_t start = windowStart(kind.params<CropParams>(), axis, whole[2 + axis], part[2 + axis]);
    view.dims[2 + axis] = part[2 + axis];
    view.offset += start * view.strides[2 + axis];
  }
  return view;
}

namespace {

void cropBackward(const KernelCall &call) {
  scatterKernel<cropView>(call);
  if (call.out.size() > 1 && call.wants(1)) std::memset(call.out[1].data, 0, call.out[1].bytes());
}

// Where the window starts. A centered one needs the sizes of the spatial axes; `like` has the window's size.
int64_t startOf(DecomposeRule &d, size_t axis, Value whole, Value like) {
  const CropParams &params = d.params<CropParams>();
  const int64_t at = static_cast<int64_t>(axis) + 2;
  return params.centerCrop ? windowStart(params, axis, d.size(whole, at), d.size(like, at)) : params.offset[axis];
}

void cutWindow(DecomposeRule &d) {
  const CropParams &params = d.params<CropParams>();
  const Value x = d.x(0);
  SmallVector<Bound, 4> begin(2), end(2);
  for (size_t axis = 0; axis < 2; ++axis) {
    begin.push_back(startOf(d, axis, x, d.self(0)));
    end.push_back(d.numInputs() == 2 ? Bound() : Bound((Dim(*begin.back()) + params.size[axis]).nearest()));
  }
  const Value window = sliceOf(d, x, begin, end);
  d.y(0, d.numInputs() == 2 ? d.emit(kSliceLike, {window, d.x(1)}, {{"axes", "(2, 3)"}}) : window);
}

void restoreWindow(DecomposeRule &d) {
  if (d.numOutputs() == 2 && d.wants(1)) d.y(1, d.emit(kZerosLike, {d.forwardInput(1)}));
  if (!d.wants(0)) return;
  const Value whole = d.forwardInput(0);
  const AxisCut cuts[] = {{2, startOf(d, 0, whole, d.x(0))}, {3, startOf(d, 1, whole, d.x(0))}};
  d.y(0, amongZeros(d, d.x(0), whole, cuts));
}

extern const OpDef kCrop, kBackwardCrop;

// dx = zeros with dy in the place of the window, dlike = 0
constinit const OpDef kCrop = asMovement({
    .name = "Crop",
    .summary = "a window of data (N, C, H, W): y[n, c, i, j] = x[n, c, offset0 + i, offset1 + j]",
    .inputs = {{"data", "crop_like"}, numInputs},
    .attrs = kCropAttrs,
    .params = paramsOf<CropParams>(),
    .check = checkCrop,
    .shape = cropShape,
    .dtype = [](DTypeInference &t) { t.sameInOut(0, 0); },
    .ignored = {1},
    .gradient = [](GradRule &g) { g.fused(kBackwardCrop, {g.dy(0)}); },
    .decompose = cutWindow,
    .kernel = gatherKernel<cropView>,
});

// Its adjoint cuts the window of dy's size.
constinit const OpDef kBackwardCrop = {
    .name = "_backward_Crop",
    .summary = "gradient of Crop: dx has dy in the place of the window and zeros elsewhere, dlike = 0",
    .inputs = {"dy"},
    .outputs = {{"dx", "dlike"}, numInputs},
    .attrs = kCropAttrs,
    .params = paramsOf<CropParams>(),
    .check = checkCrop,
    .dtype = [](DTypeInference &t) { t.sameInOut(0, 0); },
    .flags = {.isBackward = true},
    .gradient =
        [](GradRule &g) {
          if (g.isZero(0)) return g.dx(0, g.emit(kZerosLike, {g.x(0)}));
          SmallVector<Value, 2> inputs = {g.dy(0)};
          if (g.numOutputs() == 2) inputs.push_back(g.x(0));
          g.dx(0, g.emit(kCrop, inputs, g.attrs()));
        },
    .decompose = restoreWindow,
    .kernel = cropBackward,
};

}  // namespace

constinit const OpFamily kCropFamily = kOps<kCrop, kBackwardCrop>;

}  // namespace gradc
