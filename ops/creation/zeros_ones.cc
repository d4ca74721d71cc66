// Constants and copies: zeros, ones, filled tensors, identities. Their gradients are zero or the identity.
// Tested by tests/ops/elementwise_ops_test.cc
#include "ir/base/number.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/creation/created.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

struct CreateParams {
  Dims shape;
  StringRef device;
  DType dtype;
  double value;
};

using P = CreateParams;
constexpr AttrSpec kCreateAttrs[] = {kShapeAttr<P>, kDeviceAttr<P>, kDTypeAttr<P>};
constexpr AttrSpec kFullAttrs[] = {kShapeAttr<P>, kDeviceAttr<P>, kDTypeAttr<P>,
                                   required<&CreateParams::value>("value", "value of every element")};
constexpr AttrSpec kPlaceholderAttrs[] = {kShapeAttr<P>, kDeviceAttr<P>,
                                          attr<&CreateParams::dtype>("dtype", "-1", "element type, -1: inferred")};

void fill(const KernelCall &call, double value) {
  if (!call.wants(0)) return;
  if (call.out[0].dtype == DType::Bool) value = convertNumber<bool>(value);
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    std::fill_n(call.out[0].as<T>(), call.out[0].size(), convertNumber<T>(value));
  });
}

void fillOnes(const KernelCall &call) { fill(call, 1); }

void zeroGradient(GradRule &g) { g.dx(0, g.emit(kZerosLike, {g.x(0)})); }

}  // namespace

// y = 0
constinit const OpDef kZerosLike = asMovementOfData({
    .name = "zeros_like",
    .aliases = {"_sparse_zeros_like"},
    .summary = "zeros of the input's shape: y = 0",
    .shape = shapes::same,
    .ignored = {0},
    .flags = {.isZero = true},
    .gradient = zeroGradient,
    .primitive = {.onnx = "Shape, ConstantOfShape, CastLike", .c = "y[i] = 0"},
    .kernel = writeZeros,
});

// y = 1;  dx = 0
constinit const OpDef kOnesLike = {
    .name = "ones_like",
    .summary = "ones of the input's shape: y = 1",
    .inputs = {"data"},
    .shape = shapes::same,
    .ignored = {0},
    .kernelTypes = kFloatingAndIntegers,
    .gradient = zeroGradient,
    .decompose =
        [](DecomposeRule &d) { d.y(0, d.emit(kPlusScalar, {d.emit(kZerosLike, {d.x(0)})}, {{"scalar", "1"}})); },
    .kernel = fillOnes,
};

constinit const OpDef kZerosPlaceholder = asCreation<P>({
    .name = "_zeros_without_dtype",
    .summary = "zeros of inferred shape and type: the gradient of an output that has none",
    .attrs = kPlaceholderAttrs,
    .shape = createdShape<P>,
    .flags = {.isZero = true, .movesElements = true},
    .primitive = {.onnx = "ConstantOfShape", .c = "y[i] = 0"},
    .kernel = writeZeros,
});

// dx = dy
constinit const OpDef kCopy = asMovementOfData({
    .name = "_copy",
    .aliases = {"identity", "_np_copy"},
    .summary = "y = x",
    .shape = shapes::same,
    .inplace = kInplaceIdentity,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kCopy, {g.dy(0)})); },
    .primitive = {.onnx = "Identity", .c = "y[i] = x[i]"},
    .kernel = copyBytes,
});

// dx = dy. A host may replace the values of y, so y is not declared identical to x.
constinit const OpDef kGradientTap = {
    .name = "_gradient_tap",
    .summary = "y = x, the gradient of one entry, which a host can read or replace here",
    .inputs = {"data"},
    .shape = shapes::same,
    .inplace = kInplaceFirst,
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.clone(); },
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kCopy, {d.x(0)})); },
    .kernel = copyBytes,
};

// The same bytes in the shape of the forward operator's input; its adjoint goes back to the shape of dy.
constinit const OpDef kBackwardCopy = asMovement({
    .name = "_backward_copy",
    .summary = "gradient of operators that only reshape: dx has the elements of dy",
    .inputs = {"dy"},
    .inplace = kInplaceIdentity,
    .flags = {.isBackward = true},
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kReshapeLike, {g.dy(0), g.x(0)})); },
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kReshapeLike, {d.x(0), d.forwardInput(0)})); },
    .kernel = copyBytes,
});

namespace {

// The known shape, which may be more complete than the attribute.
void fillShape(DecomposeRule &d, StringRef value) {
  d.y(0, d.emit(kFull, {}, d.context().withAttrs(d.attrs(), {{"shape", d.tuple(createdDims(d))}, {"value", value}})));
}

constinit const OpDef kZeros = asCreation<P>({
    .name = "_zeros",
    .aliases = {"_npi_zeros"},
    .summary = "zeros of a given shape: y = 0",
    .attrs = kCreateAttrs,
    .shape = createdShape<P>,
    .flags = {.isZero = true, .movesElements = true},
    .decompose = [](DecomposeRule &d) { fillShape(d, "0"); },
    .kernel = writeZeros,
});

constinit const OpDef kOnes = asCreation<P>({
    .name = "_ones",
    .aliases = {"_npi_ones"},
    .summary = "ones of a given shape: y = 1",
    .attrs = kCreateAttrs,
    .shape = createdShape<P>,
    .decompose = [](DecomposeRule &d) { fillShape(d, "1"); },
    .kernel = fillOnes,
});

}  // namespace

constinit const OpDef kFull = asCreation<P>({
    .name = "_full",
    .aliases = {"_npi_full"},
    .summary = "a given shape filled with one value: y = value",
    .attrs = kFullAttrs,
    .shape = createdShape<P>,
    .primitive = {.onnx = "ConstantOfShape", .c = "y[i] = value"},
    .kernel = [](const KernelCall &call) { fill(call, call.params<CreateParams>().value); },
});

namespace {

constinit const OpDef kIdentityWithAttrLikeRhs = asMovement({
    .name = "_identity_with_attr_like_rhs",
    .summary = "y = lhs, which has the shape and type of rhs",
    .inputs = {"lhs", "rhs"},
    .shape = shapes::same,
    .inplace = kInplaceIdentity,
    .ignored = {1},
    .gradient =
        [](GradRule &g) {
          g.fused(kBackwardCopy, {g.dy(0)});
          if (g.wants(1)) g.dx(1, g.emit(kZerosLike, {g.x(1)}));
        },
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kReshapeLike, {d.x(0), d.x(1)})); },
    .kernel = copyBytes,
});

}  // namespace

constinit const OpFamily kZerosOnesFamily = kOps<kZerosLike, kOnesLike, kZerosPlaceholder, kCopy, kGradientTap,
                                                 kBackwardCopy, kZeros, kOnes, kFull, kIdentityWithAttrLikeRhs>;

}  // namespace gradc
