// Conversion between element types. Tested by tests/ops/movement_ops_test.cc
#include "ir/base/number.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ir/tensor/half.h"
#include "ops/elementwise/cast.h"
#include "ops/kit/families.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/kit/loops.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

struct CastParams {
  DType dtype;
};
constexpr AttrSpec kCastAttrs[] = {required<&CastParams::dtype>("dtype", "type of the output")};

template <class From, class To> void convert(const TensorRef &from, const TensorRef &to) {
  const From *values = from.as<const From>();
  To *results = to.as<To>();
  if (to.dtype == DType::Bool)
    forElements<From>(to.size(), [=](int64_t i) { results[i] = static_cast<To>(values[i] != From(0)); });
  else forElements<From>(to.size(), [=](int64_t i) { results[i] = convertNumber<To>(values[i]); });
}

/// Between types that C++ has.
void castNumbers(const TensorRef &from, const TensorRef &to) {
  dispatchNumeric(from.dtype, [&](auto source) {
    dispatchNumeric(to.dtype, [&](auto target) { convert<decltype(source), decltype(target)>(from, to); });
  });
}

/// Through float32, block by block: float64 is rounded twice, as MXNet rounds it.
void castHalves(const TensorRef &from, const TensorRef &to) {
  constexpr int64_t kBlock = 512;
  float source[kBlock], target[kBlock];
  const int64_t total = to.size();
  for (int64_t begin = 0; begin < total; begin += kBlock) {
    const int64_t dims[] = {std::min(kBlock, total - begin)};
    const auto size = static_cast<size_t>(dims[0]);
    auto part = [&](const TensorRef &whole) {
      return TensorRef(whole.as<char>() + static_cast<size_t>(begin) * dtypeBytes(whole.dtype), whole.dtype, dims);
    };
    TensorRef in = part(from), out = part(to);
    if (isHalf(from.dtype)) {
      widenElements(from.dtype, in.as<uint16_t>(), source, size);
      in = TensorRef(source, DType::Float32, dims);
    }
    if (!isHalf(to.dtype)) {
      castNumbers(in, out);
      continue;
    }
    if (in.dtype != DType::Float32) {
      castNumbers(in, TensorRef(target, DType::Float32, dims));
      in.data = target;
    }
    narrowElements(to.dtype, in.as<float>(), out.as<uint16_t>(), size);
  }
}

void castKernel(const KernelCall &call) {
  if (call.wants(0)) castTensor(call.in[0], call.out[0]);
}

}  // namespace

void castTensor(const TensorRef &from, const TensorRef &to) {
  if (isHalf(from.dtype) || isHalf(to.dtype)) castHalves(from, to);
  else castNumbers(from, to);
}

// dx = dy in the type of x
constinit const OpDef kCast = {
    .name = "Cast",
    .aliases = {"cast", "_npi_cast", "_npx_cast"},
    .summary =
        "data in another element type; floating-point numbers are truncated and saturated to integers, NaN becomes "
        "0; to bool, every nonzero number is true",
    .inputs = {"data"},
    .attrs = kCastAttrs,
    .params = paramsOf<CastParams>(),
    .shape = shapes::same,
    .dtype = [](DTypeInference &t) { t.setOut(0, t.params<CastParams>().dtype); },
    .kernelTypes = kEveryType,
    .gradient = [](GradRule &g) { g.fused(kBackwardCast, {g.dy(0)}); },
    .primitive = {.onnx = "Cast", .c = "y[i] = (T)x[i], to the nearest number T holds"},
    .kernel = castKernel,
};

// The type of dx is that of the forward operator's input (INF-08).
constinit const OpDef kBackwardCast = {
    .name = "_backward_cast",
    .summary = "gradient of Cast: dx = dy in the type of x",
    .inputs = {"dy"},
    .attrs = kCastAttrs,
    .params = paramsOf<CastParams>(),
    .shape = shapes::same,
    .dtype = [](DTypeInference &t) { t.setIn(0, t.params<CastParams>().dtype); },
    .flags = {.isBackward = true},
    .kernelTypes = kEveryType,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kCast, g.dy(0), g.attrs())); },
    .decompose = [](DecomposeRule &d) { d.y(0, d.emit(kCastLike, {d.x(0), d.forwardInput(0)})); },
    .kernel = castKernel,
};

// dx = dy in the type of x
constinit const OpDef kCastLike = linearInFirst<kCastLike>({
    .name = "_cast_like",
    .summary = "data in the element type of `like`, converted as by Cast; nothing else of `like` is used",
    .inputs = {"data", "like"},
    .shape = [](ShapeInference &s) { s.sameInOut(0, 0); },
    .dtype = [](DTypeInference &t) { t.sameInOut(1, 0); },
    .kernelTypes = kEveryType,
    .primitive = {.onnx = "CastLike", .c = "y[i] = (T)x[i], to the nearest number T holds"},
    .kernel = castKernel,
});

constinit const OpFamily kCastFamily = kOps<kCast, kBackwardCast, kCastLike>;

}  // namespace gradc
