// A tensor whose values are part of the graph. Tested by tests/ops/constant_test.cc
#include "ir/base/error.h"
#include "ir/base/number.h"
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ir/tensor/dim.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>

using namespace llvm;

namespace gradc {
namespace {

/// Only one of the two lists is used, depending on dtype: a double does not hold every int64.
struct ConstantParams {
  DType dtype;
  Dims shape;
  ArrayRef<double> numbers;
  Dims integers;  // for uint64, the bits
};

bool parseInteger(StringRef text, DType dtype, int64_t &out) {
  text = text.trim();
  if (dtype != DType::UInt64) return !text.getAsInteger(10, out);
  uint64_t bits;
  if (text.getAsInteger(10, bits)) return false;
  out = static_cast<int64_t>(bits);
  return true;
}

// Elements of the dtype, which is parsed already: its attribute comes first in the list.
bool parseValues(const AttrSpec &, StringRef text, ParamsArena &arena, void *params) {
  ConstantParams &given = *static_cast<ConstantParams *>(params);
  if (isFloating(given.dtype)) return parseAttr(text, arena, given.numbers);
  SmallVector<StringRef, 8> elements;
  if (!splitList(text, elements)) return false;
  int64_t *values = arena.Allocate<int64_t>(elements.size());
  for (size_t i = 0; i < elements.size(); ++i)
    if (!parseInteger(elements[i], given.dtype, values[i])) return false;
  given.integers = Dims(values, elements.size());
  return true;
}

void printValues(const AttrSpec &, raw_ostream &os, const void *params) {
  const ConstantParams &given = *static_cast<const ConstantParams *>(params);
  if (isFloating(given.dtype)) return printAttr(os, given.numbers);
  if (given.dtype != DType::UInt64) return printAttr(os, given.integers);
  os << '(';
  interleave(given.integers, [&](int64_t bits) { os << static_cast<uint64_t>(bits); }, [&] { os << ", "; });
  os << (given.integers.size() == 1 ? ",)" : ")");
}

constexpr AttrSpec valuesAttr() {
  AttrSpec spec = required<&ConstantParams::numbers>("values", "in row-major order");
  spec.typeName = "tuple of elements of dtype";
  spec.parse = parseValues;
  spec.print = printValues;
  spec.isInRange = nullptr;
  return spec;
}

constexpr AttrSpec kConstantAttrs[] = {
    required<&ConstantParams::dtype>("dtype", "element type"),
    required<&ConstantParams::shape>("shape", "shape; () is a scalar").atLeast(0).givingShape(),
    valuesAttr(),
};

/// The range of an integer type; all of int64 for uint64, which is stored as bits.
std::pair<int64_t, int64_t> rangeOf(DType dtype) {
  if (dtype == DType::Bool) return {0, 1};
  std::pair<int64_t, int64_t> range = {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  dispatchNumeric(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, uint64_t>)
      range = {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
  });
  return range;
}

Error checkConstant(const OpDef &, void *params) {
  const ConstantParams &given = *static_cast<const ConstantParams *>(params);
  const std::optional<int64_t> count = numElements(given.shape);
  const size_t numValues = std::max(given.numbers.size(), given.integers.size());
  if (!count || static_cast<uint64_t>(*count) != numValues)
    return Failure(ErrorKind::BadAttribute, "attribute 'values' has " + countOf(numValues, "element") +
                                                ", expected as many as a tensor of shape " +
                                                toString(ShapeRef(given.shape)) + " has");
  if (isFloating(given.dtype)) return Error::success();  // any width, even one that no kernel computes in
  const auto [least, most] = rangeOf(given.dtype);
  for (int64_t value : given.integers)
    if (value < least || value > most)
      return Failure(ErrorKind::BadAttribute, "attribute 'values' has " + Twine(value) + ", expected " + Twine(least) +
                                                  " to " + Twine(most) + " for dtype " + dtypeName(given.dtype));
  return Error::success();
}

void constantKernel(const KernelCall &call) {
  if (!call.wants(0)) return;
  const ConstantParams &given = call.params<ConstantParams>();
  dispatchNumeric(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    T *out = call.out[0].as<T>();
    if (isFloating(given.dtype))
      llvm::transform(given.numbers, out, [](double value) { return convertNumber<T>(value); });
    else llvm::transform(given.integers, out, [](int64_t value) { return static_cast<T>(value); });
  });
}

}  // namespace

// y = the values
constinit const OpDef kConstant = {
    .name = "_constant",
    .summary = "a tensor of given values: y = values",
    .attrs = kConstantAttrs,
    .params = paramsOf<ConstantParams>(),
    .check = checkConstant,
    .shape = [](ShapeInference &s) { s.setOut(0, s.params<ConstantParams>().shape); },
    .dtype = [](DTypeInference &t) { t.setOut(0, t.params<ConstantParams>().dtype); },
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &) {},
    .primitive = {.onnx = "Constant", .c = "static const T y[] = {...}"},
    .kernel = constantKernel,
};

constinit const OpFamily kConstantFamily = kOps<kConstant>;

}  // namespace gradc
