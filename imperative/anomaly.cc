// HOOK-09: the first operator of a backward that yields a NaN. Tested by tests/imperative/imperative_anomaly_test.cc
#include "imperative/replay.h"
#include "ir/graph/effects.h"
#include "ir/tensor/half.h"
#include "ir/rules/run_flow.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

template <class T, class Widen> bool anyNaN(const TensorRef &value, Widen widen) {
  return any_of(ArrayRef(value.as<T>(), static_cast<size_t>(value.size())), [&](T x) { return std::isnan(widen(x)); });
}

bool hasNaN(const TensorRef &value) {
  if (!value.data) return false;
  switch (value.dtype) {
    case DType::Float32: return anyNaN<float>(value, [](float x) { return x; });
    case DType::Float64: return anyNaN<double>(value, [](double x) { return x; });
    case DType::Float16: return anyNaN<uint16_t>(value, float16ToFloat);
    case DType::BFloat16: return anyNaN<uint16_t>(value, bfloat16ToFloat);
    default: return false;
  }
}

}  // namespace

Error checkNaN(const Engine &engine, const NodeKind &kind, const TapeNode *call, size_t output,
               const TensorRef &value) {
  if (isShortOutput(kind, static_cast<uint32_t>(output))) return Error::success();  // rows that nothing wrote
  if (!hasNaN(value)) return Error::success();
  return Failure(ErrorKind::NotANumber,
                 "output " + Twine(output) + " of '" + kind.op->name + "' has a NaN" +
                     (call ? ": it computes the gradient of " + engine.describeFully(*call) : std::string()));
}

}  // namespace gradc
