// Operators that read a tensor through other strides (ops/shape/strided_view.h), and their adjoints: copies of rows or
// tiles of elements of any type, divided among threads. Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "ops/kit/broadcast_loops.h"
#include "ops/shape/crop.h"
#include "ops/shape/depth_to_space.h"
#include "ops/shape/repeat.h"
#include "ops/shape/slice.h"
#include "ops/shape/transpose.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/core/vector_loops.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cstring>

using namespace llvm;

namespace gradc::fast {
namespace {

constexpr int64_t kGrainBytes = 1 << 17;  // fewer are not worth a second thread
constexpr int64_t kTile = 16;             // rows and columns of a square tile
constexpr int64_t kTileSize = 4096;       // elements of any other tile

/// Axes of the part, each with its strides in the part and in the whole.
struct Axes {
  DimsBuffer dims, part, whole;

  void add(int64_t dim, int64_t inPart, int64_t inWhole) {
    dims.push_back(dim);
    part.push_back(inPart);
    whole.push_back(inWhole);
  }
  int64_t count() const { return elementCount(dims); }
};

/// A row-major walk over axes that can start anywhere.
class AxesWalk {
 public:
  AxesWalk(const Axes &axes, int64_t first) : axes(axes), index(axes.dims.size(), 0) {
    for (size_t axis = axes.dims.size(); axis-- > 0; first /= axes.dims[axis]) {
      index[axis] = first % axes.dims[axis];
      part += index[axis] * axes.part[axis];
      whole += index[axis] * axes.whole[axis];
    }
  }
  void next() {
    for (size_t axis = axes.dims.size(); axis-- > 0;) {
      part += axes.part[axis];
      whole += axes.whole[axis];
      if (++index[axis] < axes.dims[axis]) return;
      part -= axes.dims[axis] * axes.part[axis];
      whole -= axes.dims[axis] * axes.whole[axis];
      index[axis] = 0;
    }
  }

  int64_t part = 0, whole = 0;

 private:
  const Axes &axes;
  DimsBuffer index;
};

/// The axes of a view, without those of length 1; neighbours that are contiguous in both tensors are merged.
Axes mergedAxes(const StridedView &view) {
  const DimsBuffer inPart = contiguousStrides(view.dims);
  Axes axes;
  for (size_t axis = 0; axis < view.dims.size(); ++axis) {
    if (view.dims[axis] == 1) continue;
    if (!axes.dims.empty() && axes.whole.back() == view.strides[axis] * view.dims[axis]) {
      axes.dims.back() *= view.dims[axis];
      axes.part.back() = inPart[axis];
      axes.whole.back() = view.strides[axis];
    } else {
      axes.add(view.dims[axis], inPart[axis], view.strides[axis]);
    }
  }
  return axes;
}

/// A matrix for each index of the outer axes, copied tile by tile. Its columns are the last axis of the part. If that
/// axis is strided in the whole, the rows are the axis along which the whole is contiguous, and tiles are square, so
/// that no cache line is loaded twice.
struct CopyPlan {
  Axes outer;
  int64_t rows = 1, columns = 1;
  int64_t partRow = 0, wholeRow = 0, wholeColumn = 1;  // strides; columns of the part are contiguous
  int64_t offset, tileRows = 1, tileColumns = kTileSize;
  bool coversWhole;

  CopyPlan(const StridedView &view, int64_t wholeSize)
      : offset(view.offset), coversWhole(elementCount(view.dims) == wholeSize) {
    const Axes axes = mergedAxes(view);
    const size_t rank = axes.dims.size();
    if (rank == 0) return;
    columns = axes.dims[rank - 1];
    wholeColumn = axes.whole[rank - 1];
    const size_t contiguous = static_cast<size_t>(llvm::find(axes.whole, 1) - axes.whole.begin());
    const bool isTransposed = contiguous + 1 < rank;
    const size_t rowAxis = isTransposed ? contiguous : rank - 2;
    for (size_t axis = 0; axis + 1 < rank; ++axis)
      if (axis != rowAxis) outer.add(axes.dims[axis], axes.part[axis], axes.whole[axis]);
    if (rank == 1) return;
    rows = axes.dims[rowAxis];
    partRow = axes.part[rowAxis];
    wholeRow = axes.whole[rowAxis];
    tileRows = isTransposed ? kTile : std::max<int64_t>(kTileSize / columns, 1);
    if (isTransposed) tileColumns = kTile;
  }
  int64_t rowTiles() const { return (rows + tileRows - 1) / tileRows; }
  int64_t columnTiles() const { return (columns + tileColumns - 1) / tileColumns; }
};

/// Copies elements of type T into the part or, with zeros elsewhere, into the whole.
template <class T, bool toPart> class ViewCopy : public ThreadedKernel {
 public:
  ViewCopy(CopyPlan plan, unsigned threads) : ThreadedKernel(threads), plan(std::move(plan)) {}

  void run(const KernelCall &call) override {
    for (size_t i = 1; i < call.out.size(); ++i)
      if (call.wants(i)) std::memset(call.out[i].data, 0, call.out[i].bytes());
    if (!call.wants(0)) return;
    T *to = call.out[0].as<T>();
    if (!toPart && !plan.coversWhole) clear(to, call.out[0].size());
    const T *from = call.in[0].as<const T>();
    const int64_t perMatrix = plan.rowTiles() * plan.columnTiles();
    const int64_t bytes =
        std::min(plan.rows, plan.tileRows) * std::min(plan.columns, plan.tileColumns) * static_cast<int64_t>(sizeof(T));
    parallelFor(threads, plan.outer.count() * perMatrix, std::max<int64_t>(kGrainBytes / bytes, 1),
                [&](int64_t begin, int64_t end) { copyTiles(to, from, perMatrix, begin, end); });
  }

 private:
  void clear(T *to, int64_t size) const {
    parallelFor(threads, size, kGrainBytes / static_cast<int64_t>(sizeof(T)),
                [=](int64_t begin, int64_t end) { std::fill(to + begin, to + end, T{0}); });
  }

  void copyTiles(T *to, const T *from, int64_t perMatrix, int64_t begin, int64_t end) const {
    AxesWalk walk(plan.outer, begin / perMatrix);
    for (int64_t tile = begin % perMatrix, left = end - begin; left > 0; --left) {
      const int64_t row = tile / plan.columnTiles() * plan.tileRows;
      const int64_t column = tile % plan.columnTiles() * plan.tileColumns;
      const int64_t part = walk.part + row * plan.partRow + column;
      const int64_t whole = plan.offset + walk.whole + row * plan.wholeRow + column * plan.wholeColumn;
      copyTile(to + (toPart ? part : whole), from + (toPart ? whole : part), std::min(plan.tileRows, plan.rows - row),
               std::min(plan.tileColumns, plan.columns - column));
      if (++tile < perMatrix) continue;
      tile = 0;
      walk.next();
    }
  }

  void copyTile(T *to, const T *from, int64_t rows, int64_t columns) const {
    const int64_t toRow = toPart ? plan.partRow : plan.wholeRow, fromRow = toPart ? plan.wholeRow : plan.partRow;
    const int64_t toColumn = toPart ? 1 : plan.wholeColumn, fromColumn = toPart ? plan.wholeColumn : 1;
    for (int64_t i = 0; i < rows; ++i, to += toRow, from += fromRow) {
      if (plan.wholeColumn == 1) std::memcpy(to, from, static_cast<size_t>(columns) * sizeof(T));
      else
        for (int64_t j = 0; j < columns; ++j) to[j * toColumn] = from[j * fromColumn];
    }
  }

  CopyPlan plan;
};

/// The adjoint of a view that repeats elements of the whole and contains all of them: sums in float64, from left to
/// right, those of neighbouring elements side by side.
template <class T> class ViewSum : public ThreadedKernel {
 public:
  ViewSum(const StridedView &view, unsigned threads) : ThreadedKernel(threads) {
    const Axes all = mergedAxes(view);
    for (size_t axis = 0; axis < all.dims.size(); ++axis)
      (all.whole[axis] == 0 ? repeated : own).add(all.dims[axis], all.part[axis], all.whole[axis]);
    if (own.dims.empty()) return;
    length = own.dims.pop_back_val();
    partStep = own.part.pop_back_val();
    wholeStep = own.whole.pop_back_val();
  }

  void run(const KernelCall &call) override {
    if (!call.wants(0)) return;
    const T *from = call.in[0].as<const T>();
    T *to = call.out[0].as<T>();
    const int64_t pieces = (length + kPiece - 1) / kPiece, work = repeated.count() * std::min(length, kPiece);
    vectorFor(threads, own.count() * pieces, std::max<int64_t>(kGrain / work, 1),
              [=, this](int64_t begin, int64_t end) {
                AxesWalk at(own, begin / pieces);
                for (int64_t piece = begin; piece < end; ++piece) {
                  const int64_t first = piece % pieces * kPiece;
                  addPiece(from + at.part + first * partStep, std::min(kPiece, length - first),
                           to + at.whole + first * wholeStep);
                  if (piece % pieces == pieces - 1) at.next();
                }
              });
  }

 private:
  static constexpr int64_t kGrain = 8192, kPiece = 256;

  void addPiece(const T *from, int64_t size, T *to) const {
    double totals[kPiece];
    std::fill(totals, totals + size, 0.0);
    AxesWalk copy(repeated, 0);
    for (int64_t j = repeated.count(); j > 0; --j, copy.next()) {
      const T *terms = from + copy.part;
      GRADC_INDEPENDENT
      for (int64_t i = 0; i < size; ++i) totals[i] += static_cast<double>(terms[i * partStep]);
    }
    for (int64_t i = 0; i < size; ++i) to[i * wholeStep] = static_cast<T>(totals[i]);
  }

  Axes own, repeated;
  int64_t length = 1, partStep = 0, wholeStep = 0;  // of the last own axis
};

template <bool toPart> std::unique_ptr<PreparedKernel> copying(const KernelSite &site, CopyPlan plan) {
  switch (dtypeBytes(site.out[0].dtype)) {
    case 1: return std::make_unique<ViewCopy<uint8_t, toPart>>(std::move(plan), site.threads);
    case 2: return std::make_unique<ViewCopy<uint16_t, toPart>>(std::move(plan), site.threads);
    case 4: return std::make_unique<ViewCopy<uint32_t, toPart>>(std::move(plan), site.threads);
    case 8: return std::make_unique<ViewCopy<uint64_t, toPart>>(std::move(plan), site.threads);
    default: return nullptr;
  }
}

/// Output 0 = input 0 through the view.
template <ViewOf viewOf> std::unique_ptr<PreparedKernel> gathering(const KernelSite &site) {
  const StridedView view = viewOf(*site.kind, site.in[0].shape, site.out[0].shape);
  return copying<true>(site, CopyPlan(view, site.in[0].size()));
}

/// Output 0 = input 0 where the view puts it, and zeros elsewhere; other outputs are zeros.
template <ViewOf viewOf> std::unique_ptr<PreparedKernel> scattering(const KernelSite &site) {
  const StridedView view = viewOf(*site.kind, site.out[0].shape, site.in[0].shape);
  if (!is_contained(view.strides, 0)) return copying<false>(site, CopyPlan(view, site.out[0].size()));
  return floatingKernel<ViewSum>(site.out[0].dtype, view, site.threads);
}

constexpr KernelFactory swapAxis = gathering<swapAxisView>;
constexpr KernelFactory reverse = gathering<reverseView>;

constexpr FastKernelRow kRows[] = {
    {"Crop", gathering<cropView>, LayoutRole::Plain},
    {"SwapAxis", swapAxis, LayoutRole::Plain},
    {"_backward_Crop", scattering<cropView>, LayoutRole::Plain},
    {"_backward_SwapAxis", swapAxis, LayoutRole::Plain},
    {"_backward_repeat", scattering<repeatView>, LayoutRole::Plain},
    {"_backward_reverse", reverse, LayoutRole::Plain},
    {"_backward_slice", scattering<sliceView>, LayoutRole::Plain},
    {"_backward_slice_axis", scattering<sliceAxisView>, LayoutRole::Plain},
    {"_backward_slice_like", scattering<sliceLikeView>, LayoutRole::Plain},
    {"_backward_tile", scattering<tileView>, LayoutRole::Plain},
    {"depth_to_space", gathering<depthView>, LayoutRole::Plain},
    {"repeat", gathering<repeatView>, LayoutRole::Plain},
    {"reverse", reverse, LayoutRole::Plain},
    {"slice", gathering<sliceView>, LayoutRole::Plain},
    {"slice_axis", gathering<sliceAxisView>, LayoutRole::Plain},
    {"slice_like", gathering<sliceLikeView>, LayoutRole::Plain},
    {"space_to_depth", gathering<spaceView>, LayoutRole::Plain},
    {"tile", gathering<tileView>, LayoutRole::Plain},
    {"transpose", gathering<transposeView>, LayoutRole::Plain},
};

}  // namespace

constinit const FastKernels kViewsKernels = kRows;

}  // namespace gradc::fast
