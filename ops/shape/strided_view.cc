// Gathering and scattering through a view. Tested by tests/ops/movement_ops_test.cc
#include "ops/shape/strided_view.h"

#include "ops/elementwise/elementwise.h"
#include "ops/kit/broadcast_loops.h"

#include <algorithm>
#include <optional>

using namespace llvm;

namespace gradc {
namespace {

// Calls visit(first element of the part, its offset in the whole, number of elements, stride) row by row; a row spans
// as many trailing axes as are evenly spaced in the whole.
template <class F> void forRows(const TensorRef &part, const StridedView &view, F visit) {
  const int64_t size = part.size();
  size_t outer = view.dims.size();
  int64_t length = 1, stride = view.dims.empty() ? 0 : view.strides.back();
  while (outer > 0 && view.strides[outer - 1] == stride * length) length *= view.dims[--outer];
  StridedWalk walk(Dims(view.dims).take_front(outer), Dims(view.strides).take_front(outer));
  for (int64_t row = 0; row < size; row += length, walk.next()) visit(row, view.offset + walk.offset(), length, stride);
}

/// The same view with axes merged where both tensors allow it, and without axes of one element.
StridedView merged(const StridedView &view) {
  StridedView result;
  result.offset = view.offset;
  for (size_t axis = 0; axis < view.dims.size(); ++axis) {
    if (view.dims[axis] == 1) continue;
    if (!result.dims.empty() && result.strides.back() == view.strides[axis] * view.dims[axis]) {
      result.dims.back() *= view.dims[axis];
      result.strides.back() = view.strides[axis];
    } else {
      result.dims.push_back(view.dims[axis]);
      result.strides.push_back(view.strides[axis]);
    }
  }
  return result;
}

/// If the last axis of a view has a stride in the whole: the axis along which the whole is contiguous, if there is one.
std::optional<size_t> contiguousAxis(const StridedView &view) {
  if (view.dims.size() < 2 || view.strides.back() <= 1) return std::nullopt;
  for (size_t axis = 0; axis + 1 < view.dims.size(); ++axis)
    if (view.strides[axis] == 1) return axis;
  return std::nullopt;
}

// In tiles of that axis and the last one, so that no cache line is loaded twice.
template <class T>
void gatherTiles(const TensorRef &part, const TensorRef &whole, const StridedView &view, size_t axis) {
  constexpr int64_t kTile = 16;
  const DimsBuffer partStrides = contiguousStrides(view.dims);
  const size_t last = view.dims.size() - 1;
  const int64_t rows = view.dims[axis], columns = view.dims[last];
  const int64_t rowStride = partStrides[axis], columnStride = view.strides[last];
  DimsBuffer outer, inPart, inWhole;
  for (size_t i = 0; i < last; ++i) {
    if (i == axis) continue;
    outer.push_back(view.dims[i]);
    inPart.push_back(partStrides[i]);
    inWhole.push_back(view.strides[i]);
  }
  StridedWalk to(outer, inPart), from(outer, inWhole);
  for (int64_t count = elementCount(outer); count > 0; --count, to.next(), from.next()) {
    T *toMatrix = part.as<T>() + to.offset();
    const T *fromMatrix = whole.as<const T>() + view.offset + from.offset();
    for (int64_t row = 0; row < rows; row += kTile)
      for (int64_t column = 0; column < columns; column += kTile)
        for (int64_t i = row; i < std::min(row + kTile, rows); ++i)
          for (int64_t j = column; j < std::min(column + kTile, columns); ++j)
            toMatrix[i * rowStride + j] = fromMatrix[i + j * columnStride];
  }
}

template <class T> void gatherAs(const TensorRef &part, const TensorRef &whole, const StridedView &given) {
  const StridedView view = merged(given);
  if (const std::optional<size_t> axis = contiguousAxis(view)) return gatherTiles<T>(part, whole, view, *axis);
  forRows(part, view, [&](int64_t row, int64_t at, int64_t length, int64_t stride) {
    const T *from = whole.as<const T>() + at;
    T *to = part.as<T>() + row;
    if (stride == 1) std::memcpy(to, from, static_cast<size_t>(length) * sizeof(T));
    else
      for (int64_t i = 0; i < length; ++i) to[i] = from[i * stride];
  });
}

// For views without axes that repeat.
template <class T> void placeAs(const TensorRef &whole, const TensorRef &part, const StridedView &view) {
  forRows(part, view, [&](int64_t row, int64_t at, int64_t length, int64_t stride) {
    const T *from = part.as<const T>() + row;
    T *to = whole.as<T>() + at;
    if (stride == 1) std::memcpy(to, from, static_cast<size_t>(length) * sizeof(T));
    else
      for (int64_t i = 0; i < length; ++i) to[i * stride] = from[i];
  });
}

// Axes of the part split into those with a stride and those that repeat.
struct ScatterAxes {
  DimsBuffer ownDims, wholeStrides, partStrides;
  DimsBuffer repeatedDims, repeatedStrides;
};

ScatterAxes splitAxes(const StridedView &view) {
  const DimsBuffer partStrides = contiguousStrides(view.dims);
  ScatterAxes axes;
  for (size_t axis = 0; axis < view.dims.size(); ++axis) {
    const bool isRepeated = view.strides[axis] == 0;
    (isRepeated ? axes.repeatedDims : axes.ownDims).push_back(view.dims[axis]);
    (isRepeated ? axes.repeatedStrides : axes.partStrides).push_back(partStrides[axis]);
    if (!isRepeated) axes.wholeStrides.push_back(view.strides[axis]);
  }
  return axes;
}

template <class T> void scatterAs(const TensorRef &whole, const TensorRef &part, const StridedView &view) {
  const ScatterAxes axes = splitAxes(view);
  const int64_t size = elementCount(axes.ownDims), count = elementCount(axes.repeatedDims);
  StridedWalk to(axes.ownDims, axes.wholeStrides), from(axes.ownDims, axes.partStrides);
  StridedWalk repeated(axes.repeatedDims, axes.repeatedStrides);
  for (int64_t i = 0; i < size; ++i) {
    Accumulator<T> total = 0;
    for (int64_t j = 0; j < count; ++j) {
      total = wrappingAdd(total, static_cast<Accumulator<T>>(part.as<const T>()[from.offset() + repeated.offset()]));
      repeated.next();
    }
    whole.as<T>()[view.offset + to.offset()] = static_cast<T>(total);
    to.next();
    from.next();
  }
}

}  // namespace

void gatherView(const TensorRef &part, const TensorRef &whole, const StridedView &view) {
  if (part.size() == 0) return;
  switch (dtypeBytes(part.dtype)) {
    case 1: return gatherAs<uint8_t>(part, whole, view);
    case 2: return gatherAs<uint16_t>(part, whole, view);
    case 4: return gatherAs<uint32_t>(part, whole, view);
    default: return gatherAs<uint64_t>(part, whole, view);
  }
}

void scatterView(const TensorRef &whole, const TensorRef &part, const StridedView &view) {
  if (part.size() == 0) return;
  const bool repeats = llvm::is_contained(view.strides, 0);
  dispatchNumeric(whole.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (repeats) scatterAs<T>(whole, part, view);
    else placeAs<T>(whole, part, view);
  });
}

void scatterOnZeros(const KernelCall &call, const StridedView &view) {
  writeZeros(call);
  scatterView(call.out[0], call.in[0], view);
}

}  // namespace gradc
