// Joining tensors along one axis, and taking one of them out again. Tested by tests/reduce_ops_test.cc
#include "ir/grad_rule.h"
#include "ir/inference.h"
#include "ir/kernel.h"
#include "ops/families.h"
#include "ops/layer_attrs.h"
#include "ops/primitives.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>
#include <numeric>

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
constexpr AttrSpec kDimAttr = attr<&ConcatParams::dim>("dim", "1", "axis to join along; negative: from the end");
constexpr AttrSpec kConcatAttrs[] = {kNumArgsAttr, kDimAttr};
constexpr AttrSpec kPartAttrs[] = {kNumArgsAttr, kDimAttr,
                                   required<&ConcatParams::index>("index", "which part, from 0").atLeast(0)};

uint32_t numParts(const NodeKind &kind) { return static_cast<uint32_t>(kind.params<ConcatParams>().numArgs); }
uint32_t numPartsAndHead(const NodeKind &kind) { return numParts(kind) + 1; }
bool isBesideHead(const NodeKind &, size_t input) { return input != 0; }

Error checkPart(void *params) {
  const ConcatParams &given = *static_cast<const ConcatParams *>(params);
  if (given.index < given.numArgs) return Error::success();
  return Failure(ErrorKind::BadAttribute,
                 "attribute 'index' is " + Twine(given.index) + ", expected less than num_args = " + Twine(given.numArgs));
}

// The sum of the parts along the axis is the whole; one unknown part is what the others leave (INF-04).
void unifyAlongAxis(MutableArrayRef<int64_t> parts, int64_t &whole) {
  int64_t known = 0;
  size_t numUnknown = 0;
  for (int64_t part : parts) {
    if (part == kUnknownDim) ++numUnknown;
    else known += part;
  }
  if (numUnknown == 0 && whole == kUnknownDim) whole = known;
  if (numUnknown != 1 || whole == kUnknownDim || whole < known) return;
  for (int64_t &part : parts)
    if (part == kUnknownDim) part = whole - known;
}

// All other axes agree, whichever operand or result tells them.
void concatShape(ShapeInference &s) {
  DimsBuffer common;
  for (size_t i = 0; i <= s.numInputs() && common.empty(); ++i) {
    ShapeRef shape = i < s.numInputs() ? s.in(i) : s.out(0);
    if (shape.hasRank()) common.assign(shape.rank(), kUnknownDim);
  }
  if (common.empty()) return;
  const int64_t dim = s.params<ConcatParams>().dim;
  std::optional<size_t> axis = normalizeAxis(dim, common.size());
  if (!axis) return s.fail("dim " + Twine(dim) + " lies outside " + Twine(common.size()) + " dimensions");

  SmallVector<int64_t, 8> parts(s.numInputs(), kUnknownDim);
  int64_t whole = kUnknownDim;
  for (size_t i = 0; i <= s.numInputs(); ++i) {
    ShapeRef shape = i < s.numInputs() ? s.in(i) : s.out(0);
    if (!shape.hasRank()) continue;
    DimsBuffer others(shape.dims());
    if (others.size() == common.size()) {
      (i < s.numInputs() ? parts[i] : whole) = others[*axis];
      others[*axis] = kUnknownDim;
    }
    if (!mergeDims(common, others))
      return s.fail((i < s.numInputs() ? "input " + std::to_string(i) : std::string("output 0")) + " has shape " +
                    toString(shape) + ", expected " + toString(ShapeRef(common)) + " apart from dim " + Twine(dim));
  }
  unifyAlongAxis(parts, whole);
  for (size_t i = 0; i < s.numInputs(); ++i) {
    common[*axis] = parts[i];
    s.setIn(i, common);
  }
  common[*axis] = whole;
  s.setOut(0, common);
  if (whole != kUnknownDim && !is_contained(parts, kUnknownDim) &&
      std::accumulate(parts.begin(), parts.end(), int64_t{0}) != whole)
    s.fail("the parts do not add up to output 0 of shape " + toString(s.out(0)));
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

// The parts' shapes alone say where the part starts: their contents are not read.
void concatPartKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const size_t axis = axisOf(call, call.in[0]);
  size_t from = 0;
  for (int64_t i = 0; i < call.params<ConcatParams>().index; ++i) from += rowBytes(call.in[1 + i], axis);
  copyRows(call.in[0], call.out[0], axis, from, false);
}

SmallVector<Value, 8> operands(RuleContext &r) {
  SmallVector<Value, 8> values;
  for (size_t i = 0; i < r.numInputs(); ++i) values.push_back(r.x(i));
  return values;
}

AttrsId concatAttrs(RuleContext &r) {
  const ConcatParams &params = r.params<ConcatParams>();
  return r.context().attrs(ArrayRef<AttrText>{{"num_args", r.number(params.numArgs)}, {"dim", r.number(params.dim)}});
}

extern const OpDef kConcat, kBackwardConcat, kConcatPart;

// dxi = the part of dy that xi became
constinit const OpDef kConcat = {
    .name = "Concat",
    .aliases = {"concat", "_sparse_concat"},
    .summary = "the inputs joined along one axis",
    .inputs = {{}, numParts, true},
    .attrs = kConcatAttrs,
    .params = paramsOf<ConcatParams>(),
    .shape = concatShape,
    .flags = {.hasIntegerKernel = true},
    .gradient =
        [](GradRule &g) {
          SmallVector<Value, 8> values = operands(g);
          values.insert(values.begin(), g.dy(0));
          g.fused(kBackwardConcat, values);
        },
    .kernel = concatKernel,
};

constinit const OpDef kBackwardConcat = {
    .name = "_backward_Concat",
    .summary = "gradient of Concat: dy cut into the parts that were joined; reads the shapes of the parts only",
    .inputs = {{}, numPartsAndHead, true},
    .outputs = {{}, numParts, true},
    .attrs = kConcatAttrs,
    .params = paramsOf<ConcatParams>(),
    .shape =
        [](ShapeInference &s) {
          for (size_t i = 0; i < s.numOutputs(); ++i) s.sameInOut(1 + i, i);
        },
    .ignored = isBesideHead,
    .flags = {.isBackward = true},
    .decompose =
        [](DecomposeRule &d) {
          const ConcatParams &params = d.params<ConcatParams>();
          SmallVector<Value, 8> values = operands(d);
          for (int64_t i = 0; i < params.numArgs; ++i) {
            if (!d.wants(i)) continue;
            AttrsId attrs = d.context().withAttrs(concatAttrs(d), {{"index", d.number(i)}});
            d.y(i, d.emit(kConcatPart, values, attrs));
          }
        },
    .kernel = concatBackwardKernel,
};

// ddy = zeros joined with the gradient of the part in its place
constinit const OpDef kConcatPart = {
    .name = "_concat_part",
    .summary = "the part of v that x[index] would become if the x were joined along dim; their contents are not read",
    .inputs = {{}, numPartsAndHead, true},
    .attrs = kPartAttrs,
    .params = paramsOf<ConcatParams>(),
    .check = checkPart,
    .shape = [](ShapeInference &s) { s.sameInOut(1 + s.params<ConcatParams>().index, 0); },
    .ignored = isBesideHead,
    .stopped = isBesideHead,
    .flags = {.hasIntegerKernel = true, .isOwn = true},
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
    .kernel = concatPartKernel,
};

constexpr const OpDef *kOps[] = {&kConcat, &kBackwardConcat, &kConcatPart};

}  // namespace

int64_t concatAxis(const NodeKind &kind) { return kind.params<ConcatParams>().dim; }

constinit const OpFamily kConcatFamily = kOps;

}  // namespace gradc
