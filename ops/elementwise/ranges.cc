// Tensors made of indices: the identity matrix, evenly spaced numbers. Tested by tests/conformance_test.cc
#include "ir/dim.h"
#include "ir/kernel.h"
#include "ir/number.h"
#include "ops/elementwise/created.h"
#include "ops/families.h"
#include "ops/kernel_dispatch.h"
#include "ops/primitives.h"

#include <algorithm>

using namespace llvm;

namespace gradc {
namespace {

struct EyeParams {
  int64_t rows = 0, columns = 0, k = 0;
  StringRef device;
  DType dtype;
};

constexpr AttrSpec kEyeAttrs[] = {
    required<&EyeParams::rows>("N", "rows").atLeast(0),
    attr<&EyeParams::columns>("M", "0", "columns; 0: as many as rows").atLeast(0),
    attr<&EyeParams::k>("k", "0", "which diagonal: above the main one, below it when negative"),
    kDeviceAttr<EyeParams>,
    kDTypeAttr<EyeParams>,
};

void eyeShape(ShapeInference &s) {
  const EyeParams &p = s.params<EyeParams>();
  s.setOut(0, {p.rows, p.columns ? p.columns : p.rows});
}

void eyeKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const int64_t k = call.params<EyeParams>().k, rows = call.out[0].shape[0], columns = call.out[0].shape[1];
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    T *y = call.out[0].as<T>();
    std::fill_n(y, call.out[0].size(), T{0});
    // k is arbitrary: the diagonal may be outside the matrix.
    if (k >= columns || k <= -rows) return;
    for (int64_t i = std::max<int64_t>(0, -k); i < rows && i + k < columns; ++i) y[i * columns + i + k] = T{1};
  });
}

// 1 where the column is the row + k.
void decomposeEye(DecomposeRule &d) {
  const Value place = placeOf(d, createdDims(d));
  auto index = [&](StringRef axis) {
    return d.emit(kCast, {d.emit(kIndexLike, {place}, {{"axis", axis}})}, {{"dtype", "float64"}});
  };
  const Value row = index("0"), column = index("1");
  const EyeParams &p = d.params<EyeParams>();
  const Value isOn = d.emit(kEqualScalar, {d.emit(kElemwiseSub, {column, row})}, {{"scalar", d.number(p.k)}});
  d.y(0, d.emit(kCast, {isOn}, {{"dtype", dtypeName(p.dtype)}}));
}

struct LinspaceParams {
  double start = 0, stop = 0;
  int64_t num = 0;
  bool endpoint = true;
  StringRef device;
  DType dtype;

  double step() const {
    const int64_t steps = endpoint ? num - 1 : num;
    return steps > 0 ? (stop - start) / static_cast<double>(steps) : 0;
  }
};

constexpr AttrSpec kLinspaceAttrs[] = {
    required<&LinspaceParams::start>("start", "the first number"),
    required<&LinspaceParams::stop>("stop", "the last number, or where the next one would be"),
    required<&LinspaceParams::num>("num", "how many").atLeast(0),
    attr<&LinspaceParams::endpoint>("endpoint", "True", "whether stop is the last number"),
    kDeviceAttr<LinspaceParams>,
    kDTypeAttr<LinspaceParams>,
};

void linspaceKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const LinspaceParams &p = call.params<LinspaceParams>();
  const double step = p.step();
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < p.num; ++i)
      call.out[0].as<T>()[i] = convertNumber<T>(p.start + step * static_cast<double>(i));
  });
}

void decomposeLinspace(DecomposeRule &d) {
  const LinspaceParams &p = d.params<LinspaceParams>();
  const Value place = placeOf(d, createdDims(d));
  const Value index = d.emit(kCast, {d.emit(kIndexLike, {place})}, {{"dtype", "float64"}});
  const Value way = d.emit(kMulScalar, {index}, {{"scalar", d.number(p.step())}});
  const Value sum = d.emit(kPlusScalar, {way}, {{"scalar", d.number(p.start)}});
  d.y(0, d.emit(kCast, {sum}, {{"dtype", dtypeName(p.dtype)}}));
}

constinit const OpDef kEye = {
    .name = "_eye",
    .summary = "a matrix of N rows and M columns: y[i, i + k] = 1, else 0",
    .attrs = kEyeAttrs,
    .params = paramsOf<EyeParams>(),
    .shape = eyeShape,
    .dtype = createdDType<EyeParams>,
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &) {},
    .decompose = decomposeEye,
    .kernel = eyeKernel,
};

constinit const OpDef kLinspace = {
    .name = "_linspace",
    .aliases = {"_npi_linspace"},
    .summary = "evenly spaced numbers: y[i] = start + i * (stop - start) / n, n = num - 1 with endpoint, else num",
    .attrs = kLinspaceAttrs,
    .params = paramsOf<LinspaceParams>(),
    .shape = [](ShapeInference &s) { s.setOut(0, {s.params<LinspaceParams>().num}); },
    .dtype = createdDType<LinspaceParams>,
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &) {},
    .decompose = decomposeLinspace,
    .kernel = linspaceKernel,
};

constexpr const OpDef *kOps[] = {&kEye, &kLinspace};

}  // namespace

constinit const OpFamily kRangesFamily = kOps;

}  // namespace gradc
