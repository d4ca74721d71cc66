// Reshape and operators that add or drop axes of one element; the bytes do not change.
//
// Not here: reshape_like and Flatten (ops/shape/shape_ops.cc). Tested by tests/ops/movement_ops_test.cc
#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ir/tensor/dim.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/attrs.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/shape/axes.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

// Codes of attribute `shape` other than a dimension.
constexpr int64_t kCopyOne = 0, kInfer = -1, kCopyRest = -2, kMerge = -3, kSplit = -4;

struct ReshapeParams {
  Dims shape;
  bool reverse;
  Dims targetShape;
  bool keepHighest;
};
constexpr AttrSpec kReshapeAttrs[] = {
    attr<&ReshapeParams::shape>(
        "shape", "()",
        "dimensions, read along data's: 0 copies one, -1 is inferred from the others, -2 copies "
        "the rest, -3 merges two, -4 splits one into the two that follow")
        .atLeast(kSplit)
        .givingShape(),
    attr<&ReshapeParams::reverse>("reverse", "False", "whether to read both from the last axis on"),
    attr<&ReshapeParams::targetShape>("target_shape", "()", "legacy, where shape is empty: dimensions, 0 is inferred")
        .atLeast(0),
    attr<&ReshapeParams::keepHighest>("keep_highest", "False", "legacy: whether dimension 0 of target_shape is data's"),
};

struct ExpandDimsParams {
  int64_t axis;
};
constexpr AttrSpec kExpandDimsAttrs[] = {
    ofAxis(required<&ExpandDimsParams::axis>("axis", "position of the new axis in the output; negative: from the end")),
};

struct SqueezeParams {
  std::optional<Dims> axis;
};
constexpr AttrSpec kSqueezeAttrs[] = {
    ofAxis(
        attr<&SqueezeParams::axis>("axis", "None", "axes to drop, negative: from the end; None: all of one element")),
};

// Reads codes along the dimensions of the input.
struct CodeReader {
  Dims source, codes;
  DimsBuffer out = {};
  size_t next = 0;  // into source
  std::optional<size_t> inferredAt = std::nullopt;
  SmallVector<std::pair<size_t, size_t>, 6> copies = {};  // pairs of an axis of the input and its copy in the output

  bool read() {
    for (size_t i = 0; i < codes.size(); ++i) {
      if (codes[i] == kSplit) {
        if (i + 2 >= codes.size() || !split(codes[i + 1], codes[i + 2])) return false;
        i += 2;
      } else if (!readOne(codes[i])) {
        return false;
      }
    }
    return true;
  }

  bool readOne(int64_t code) {
    switch (code) {
      case kCopyOne: return copy();
      case kCopyRest:
        while (next < source.size()) copy();
        return true;
      case kMerge: return merge();
      case kInfer:
        if (inferredAt) return false;
        inferredAt = out.size();
        out.push_back(kUnknownDim);
        ++next;
        return true;
      default:
        out.push_back(code);
        ++next;
        return true;
    }
  }

  bool copy() {
    if (next >= source.size()) return false;
    copies.push_back({next, out.size()});
    out.push_back(source[next++]);
    return true;
  }

  bool merge() {
    if (next + 1 >= source.size()) return false;
    const bool isKnown = source[next] != kUnknownDim && source[next + 1] != kUnknownDim;
    out.push_back(isKnown ? (Dim(source[next]) * source[next + 1]).inShape() : kUnknownDim);
    next += 2;
    return true;
  }

  bool split(int64_t left, int64_t right) {
    if (next >= source.size() || (left == kInfer && right == kInfer)) return false;
    if (left < kInfer || right < kInfer || left == 0 || right == 0) return false;
    const int64_t whole = source[next++];
    if (whole != kUnknownDim) {
      const int64_t given = left == kInfer ? right : left;
      if (whole % given != 0) return false;
      if (left == kInfer) left = whole / given;
      if (right == kInfer) right = whole / given;
      if (Dim(left) * right != whole) return false;
    }
    out.append({left, right});
    return true;
  }

  // The shape seen from the other end.
  void reverse() {
    std::reverse(out.begin(), out.end());
    if (inferredAt) inferredAt = out.size() - 1 - *inferredAt;
    for (auto &[from, to] : copies) {
      from = source.size() - 1 - from;
      to = out.size() - 1 - to;
    }
  }
};

// Fills in the one unknown dimension; false if the others leave no integer for it.
bool solveDim(MutableArrayRef<int64_t> dims, std::optional<int64_t> size) {
  if (!size || llvm::count(dims, kUnknownDim) != 1) return true;
  Dim known = 1;
  for (int64_t dim : dims)
    if (dim != kUnknownDim) known = known * dim;
  const int64_t rest = known.nearest();
  if (rest == 0 || *size % rest != 0) return rest == 0 && *size == 0;
  *llvm::find(dims, kUnknownDim) = *size / rest;
  return true;
}

void failElements(ShapeInference &s) {
  s.fail("shape " + toString(s.in(0)) + " cannot be reshaped to " + toString(s.out(0)) +
         ": the numbers of elements differ");
}

// Infers one unknown dimension of either side from the other's number of elements.
void sameElements(ShapeInference &s) {
  if (s.hasFailed() || !s.in(0).hasRank() || !s.out(0).hasRank()) return;
  DimsBuffer in(s.in(0).dims()), out(s.out(0).dims());
  const std::optional<int64_t> inSize = numElements(in), outSize = numElements(out);
  const bool differ = inSize && outSize && *inSize != *outSize;
  if (differ || !solveDim(out, inSize) || !solveDim(in, outSize)) return failElements(s);
  s.setOut(0, out);
  s.setIn(0, in);
}

// For an empty `shape`: dimension 0 may be the input's, and one 0 is inferred. With neither attribute, only the numbers
// of elements are compared.
void targetShape(ShapeInference &s) {
  const ReshapeParams &params = s.params<ReshapeParams>();
  DimsBuffer out(params.targetShape);
  if (out.empty()) return sameElements(s);
  for (int64_t &dim : out)
    if (dim == 0) dim = kUnknownDim;
  if (params.keepHighest) out[0] = s.in(0).hasRank() && s.in(0).rank() > 0 ? s.in(0)[0] : kUnknownDim;
  s.setOut(0, out);
  sameElements(s);
}

void reshapeShape(ShapeInference &s) {
  const ReshapeParams &params = s.params<ReshapeParams>();
  if (params.shape.empty()) return targetShape(s);
  if (!s.in(0).hasRank()) return;
  DimsBuffer source(s.in(0).dims()), codes(params.shape);
  if (params.reverse) {
    std::reverse(source.begin(), source.end());
    std::reverse(codes.begin(), codes.end());
  }
  CodeReader reader{source, codes};
  if (!reader.read())
    return s.fail("shape " + tupleText(params.shape) + (params.reverse ? ", read from the end," : "") +
                  " does not fit the input's shape " + toString(s.in(0)));
  if (params.reverse) reader.reverse();
  s.setOut(0, reader.out);
  if (s.hasFailed()) return;
  DimsBuffer in(s.in(0).dims());
  for (auto [from, to] : reader.copies)
    if (in[from] == kUnknownDim) in[from] = s.out(0)[to];
  s.setIn(0, in);
  sameElements(s);
}

// The output is the input with one more axis.
void expandDimsShape(ShapeInference &s) {
  const int64_t given = s.params<ExpandDimsParams>().axis;
  if (!s.in(0).hasRank() && !s.out(0).hasRank()) return;
  const size_t rank = s.in(0).hasRank() ? s.in(0).rank() + 1 : s.out(0).rank();
  std::optional<size_t> axis = normalizeAxis(given, rank);
  if (!axis) return s.fail("axis " + Twine(given) + " is outside the " + Twine(rank) + " dimensions of the output");
  DimsBuffer out(rank, kUnknownDim);
  if (s.in(0).hasRank()) {
    out.assign(s.in(0).dims().begin(), s.in(0).dims().end());
    out.insert(out.begin() + *axis, 1);
  }
  out[*axis] = 1;
  s.setOut(0, out);
  if (s.hasFailed()) return;
  DimsBuffer in(s.out(0).dims());
  in.erase(in.begin() + *axis);
  s.setIn(0, in);
}

// Whether each axis is dropped; none while that is unknown or, after `fail`, if the axes do not fit.
std::optional<SmallVector<bool, 6>> droppedAxes(ShapeInference &s) {
  const std::optional<Dims> &axes = s.params<SqueezeParams>().axis;
  const Dims in = s.in(0).dims();
  SmallVector<bool, 6> isDropped(in.size(), false);
  if (!axes) {
    if (llvm::is_contained(in, kUnknownDim)) return std::nullopt;
    for (size_t axis = 0; axis < in.size(); ++axis) isDropped[axis] = in[axis] == 1;
    return isDropped;
  }
  for (int64_t axis : *axes) {
    std::optional<size_t> at = normalizeAxis(axis, in.size());
    if (!at || isDropped[*at])
      return s.fail("axis " + tupleText(*axes) + " names an axis twice or one that shape " + toString(s.in(0)) +
                    " does not have"),
             std::nullopt;
    if (in[*at] != 1 && in[*at] != kUnknownDim)
      return s.fail("axis " + Twine(axis) + " of shape " + toString(s.in(0)) + " has " + Twine(in[*at]) +
                    " elements, expected 1"),
             std::nullopt;
    isDropped[*at] = true;
  }
  return isDropped;
}

// A result without axes left has shape (1,).
void squeezeShape(ShapeInference &s) {
  if (!s.in(0).hasRank()) return;
  std::optional<SmallVector<bool, 6>> isDropped = droppedAxes(s);
  if (!isDropped) return;
  DimsBuffer in(s.in(0).dims()), out;
  for (size_t axis = 0; axis < in.size(); ++axis) {
    if ((*isDropped)[axis]) in[axis] = 1;
    else out.push_back(in[axis]);
  }
  s.setIn(0, in);
  const bool isScalar = out.empty();
  if (isScalar) out.push_back(1);
  s.setOut(0, out);
  if (s.hasFailed() || isScalar) return;
  size_t next = 0;
  for (size_t axis = 0; axis < in.size(); ++axis)
    if (!(*isDropped)[axis]) in[axis] = s.out(0)[next++];
  s.setIn(0, in);
}

extern const OpDef kBackwardReshape, kBackwardSqueeze;

}  // namespace

// dx = dy in the shape of x
constinit const OpDef kReshape = asMovementOfData({
    .name = "Reshape",
    .aliases = {"reshape"},
    .summary = "the elements of data in another shape",
    .attrs = kReshapeAttrs,
    .params = paramsOf<ReshapeParams>(),
    .shape = reshapeShape,
    .inplace = kInplaceIdentity,
    .gradient = [](GradRule &g) { g.fused(kBackwardReshape, {g.dy(0)}); },
    .primitive = {.onnx = "Reshape", .c = "the same memory, or memcpy"},
    .kernel = copyBytes,
});

// dx = dy in the shape of x
constinit const OpDef kExpandDims = asMovementOfData({
    .name = "expand_dims",
    .aliases = {"_npi_expand_dims"},
    .summary = "data with one more axis of one element",
    .attrs = kExpandDimsAttrs,
    .params = paramsOf<ExpandDimsParams>(),
    .shape = expandDimsShape,
    .inplace = kInplaceIdentity,
    .gradient = [](GradRule &g) { g.fused(kBackwardReshape, {g.dy(0)}); },
    .primitive = {.onnx = "Unsqueeze", .c = "the same memory, or memcpy"},
    .kernel = copyBytes,
});

// dx = dy in the shape of x
constinit const OpDef kSqueeze = asMovementOfData({
    .name = "squeeze",
    .aliases = {"_np_squeeze"},
    .summary = "data without axes of one element",
    .attrs = kSqueezeAttrs,
    .params = paramsOf<SqueezeParams>(),
    .shape = squeezeShape,
    .inplace = kInplaceIdentity,
    .gradient = [](GradRule &g) { g.fused(kBackwardSqueeze, {g.dy(0)}); },
    .primitive = {.onnx = "Squeeze", .c = "the same memory, or memcpy"},
    .kernel = copyBytes,
});

namespace {

constinit const OpDef kBackwardReshape = asMovement({
    .name = "_backward_reshape",
    .summary = "gradient of Reshape and expand_dims: dx has the elements of dy",
    .inputs = {"dy"},
    .inplace = kInplaceIdentity,
    .flags = {.isBackward = true},
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kReshapeLike, {g.dy(0), g.x(0)})); },
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kReshapeLike, {d.x(0), d.forwardInput(0)})); },
    .kernel = copyBytes,
});

constinit const OpDef kBackwardSqueeze = asMovement({
    .name = "_backward_squeeze",
    .summary = "gradient of squeeze: dx has the elements of dy",
    .inputs = {"dy"},
    .attrs = kSqueezeAttrs,
    .params = paramsOf<SqueezeParams>(),
    .inplace = kInplaceIdentity,
    .flags = {.isBackward = true},
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kReshapeLike, {g.dy(0), g.x(0)})); },
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kReshapeLike, {d.x(0), d.forwardInput(0)})); },
    .kernel = copyBytes,
});

}  // namespace

constinit const OpFamily kReshapeFamily = kOps<kReshape, kExpandDims, kSqueeze, kBackwardReshape, kBackwardSqueeze>;

}  // namespace gradc
