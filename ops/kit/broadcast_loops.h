// Loops between a tensor and one that broadcasts to it: sums down to the smaller, repetition up to the larger.
//
// Shapes are aligned at the last axis, as in NumPy. Sums run strictly left to right in float64 (of integers in the
// integer type), so a result depends only on the operands. Tested by tests/ops/reduce_ops_test.cc
#pragma once

#include "ir/base/number.h"
#include "ir/tensor/tensor.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/kit/strided_walk.h"

#include <algorithm>
#include <type_traits>

namespace gradc {

template <class T> using Accumulator = std::conditional_t<std::is_floating_point_v<T>, double, T>;

/// The walk over the axes of `whole` that `part` has (or, if not `keeps`, over those along which it is summed), with
/// the strides of a tensor of shape `operand`.
inline StridedWalk axesWalk(Dims whole, Dims part, Dims operand, bool keeps) {
  DimsBuffer own = broadcastStrides(whole, operand), dims, strides;
  const size_t missing = whole.size() - part.size();
  for (size_t axis = 0; axis < whole.size(); ++axis) {
    const bool isKept = axis >= missing && part[axis - missing] == whole[axis];
    if (isKept != keeps) continue;
    dims.push_back(whole[axis]);
    strides.push_back(own[axis]);
  }
  return StridedWalk(dims, strides);
}

inline int64_t elementCount(Dims dims) { return TensorRef{nullptr, DType::Unknown, dims}.size(); }

/// A row-major walk of up to four tensors over the same axes, in runs along which each of them has one stride.
class RunWalk {
 public:
  static constexpr size_t kMost = 4;

  /// The axes of `whole` that `part` has or, if not `keeps`, has not. The operands broadcast to `whole`, which has
  /// elements.
  RunWalk(Dims whole, Dims part, llvm::ArrayRef<TensorRef> operands, bool keeps) : count(operands.size()) {
    DimsBuffer own[kMost], dims, strides[kMost];  // of the merged axes, innermost first
    for (size_t k = 0; k < count; ++k) own[k] = broadcastStrides(whole, operands[k].shape);
    const size_t missing = whole.size() - part.size();
    for (size_t axis = whole.size(); axis-- > 0;) {
      const bool isKept = axis >= missing && part[axis - missing] == whole[axis];
      if (isKept != keeps || whole[axis] == 1) continue;
      bool joins = !dims.empty();
      for (size_t k = 0; k < count; ++k) joins = joins && own[k][axis] == strides[k].back() * dims.back();
      if (joins) {
        dims.back() *= whole[axis];
        continue;
      }
      dims.push_back(whole[axis]);
      for (size_t k = 0; k < count; ++k) strides[k].push_back(own[k][axis]);
    }
    if (dims.empty()) dims.push_back(1);
    length = dims[0];
    std::reverse(dims.begin(), dims.end());
    const Dims outer = Dims(dims).drop_back();
    for (int64_t dim : outer) runs *= dim;
    for (size_t k = 0; k < count; ++k) {
      strides[k].resize(dims.size(), 0);
      step[k] = strides[k][0];
      std::reverse(strides[k].begin(), strides[k].end());
      walks.push_back(StridedWalk(outer, Dims(strides[k]).drop_back()));
    }
  }

  int64_t numRuns() const { return runs; }

  /// Calls visit(values) for every element of a run; tensor k of the walk is in memory from `from[k]` on.
  template <class T, class F> void forRun(const T *const (&from)[kMost], F visit) const {
    // Of operands that do not exist, `visit` reads nothing, so the compiler leaves out their loads.
    const T *at[kMost];
    int64_t by[kMost];
    for (size_t k = 0; k < kMost; ++k) {
      at[k] = k < count ? from[k] + walks[k].offset() : from[0];
      by[k] = step[k];
    }
    T values[kMost];
    for (int64_t j = 0; j < length; ++j) {
      for (size_t k = 0; k < kMost; ++k) values[k] = *at[k], at[k] += by[k];
      visit(values);
    }
  }

  /// After the last run the walk is back at the first.
  void next() {
    for (StridedWalk &walk : walks) walk.next();
  }

 private:
  size_t count;
  int64_t runs = 1, length = 1, step[kMost] = {};
  llvm::SmallVector<StridedWalk, kMost> walks;
};

/// out[i] = Σ over the indices of `whole` that fall on i of f(values of the operands there); `out` has shape `part`.
/// Operands, up to four, broadcast to `whole`. `f` takes an array of one T per operand.
template <class T, class F> void sumOnto(T *out, Dims part, Dims whole, llvm::ArrayRef<TensorRef> operands, F f) {
  const int64_t size = elementCount(part);
  if (elementCount(whole) == 0) return void(std::fill_n(out, size, T(0)));
  llvm::SmallVector<StridedWalk, 3> outer;
  for (const TensorRef &operand : operands) outer.push_back(axesWalk(whole, part, operand.shape, true));
  RunWalk inner(whole, part, operands, false);
  const T *from[RunWalk::kMost] = {};
  for (int64_t i = 0; i < size; ++i) {
    for (size_t k = 0; k < operands.size(); ++k) from[k] = operands[k].as<const T>() + outer[k].offset();
    Accumulator<T> total = 0;
    for (int64_t run = 0; run < inner.numRuns(); ++run, inner.next())
      inner.forRun(from, [&](const T *v) { total = wrappingAdd(total, static_cast<Accumulator<T>>(f(v))); });
    out[i] = static_cast<T>(total);
    for (StridedWalk &walk : outer) walk.next();
  }
}

/// out[i] = f(values of the operands, up to four, broadcast to the shape of out).
template <class T, class F> void mapBroadcast(const TensorRef &out, llvm::ArrayRef<TensorRef> operands, F f) {
  if (out.size() == 0) return;
  RunWalk walk(out.shape, out.shape, operands, true);
  const T *from[RunWalk::kMost] = {};
  for (size_t k = 0; k < operands.size(); ++k) from[k] = operands[k].as<const T>();
  T *to = out.as<T>();
  for (int64_t run = 0; run < walk.numRuns(); ++run, walk.next()) walk.forRun(from, [&](const T *v) { *to++ = f(v); });
}

/// out = `from`, of the same type, repeated to the shape of out.
inline void repeatTo(const TensorRef &out, const TensorRef &from) {
  dispatchNumeric(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    mapBroadcast<T>(out, from, [](const T *v) { return v[0]; });
  });
}

}  // namespace gradc
