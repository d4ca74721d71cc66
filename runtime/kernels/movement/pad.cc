// Pad and its gradient, plane by plane and row by row. Tested by tests/runtime/kernels/fast_kernels_test.cc
#include "ops/shape/pad.h"
#include "runtime/kernels/core/channel_loops.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/core/small_tables.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>

using namespace llvm;

namespace gradc::fast {
namespace {

/// A plane is the spatial axes of one channel of one image, as (depth, height, width).
struct PadPlan {
  int64_t planes, inSize = 1, outSize = 1;
  int64_t width, height, before;             // elements and rows without padding, and the padding before a row
  std::vector<int64_t> deep, high, columns;  // by position along a padded axis: the one it shows; -1: the constant
  double constant;
  unsigned threads;

  PadPlan(const KernelSite &site, Dims inner, Dims padded)
      : planes(inner[0] * inner[1]), width(inner.back()), height(inner[inner.size() - 2]),
        before(padAttrs(*site.kind).widths.drop_back().back()), columns(padShown(*site.kind, inner.size() - 1, width)),
        constant(padAttrs(*site.kind).constant), threads(site.threads) {
    const size_t last = inner.size() - 1;
    for (size_t axis = 2; axis <= last; ++axis) {
      inSize *= inner[axis];
      outSize *= padded[axis];
    }
    high = padShown(*site.kind, last - 1, height);
    deep = last == 4 ? padShown(*site.kind, 2, inner[2]) : std::vector<int64_t>{0};
  }

  /// Calls visit(offset in the plane of the row that it shows, or -1) for every padded row of a plane.
  template <class F> void forRowsOfPlane(F visit) const {
    for (const int64_t d : deep)
      for (const int64_t h : high) visit(d < 0 || h < 0 ? -1 : (d * height + h) * width);
  }

  /// Calls visit(position in the padded row, index in the row or -1) for the padding before a row, then middle(), then
  /// visit for the padding after it.
  template <class F, class Middle> void forRow(F visit, Middle middle) const {
    const int64_t length = static_cast<int64_t>(columns.size());
    for (int64_t c = 0; c < before; ++c) visit(c, columns[static_cast<size_t>(c)]);
    middle();
    for (int64_t c = before + width; c < length; ++c) visit(c, columns[static_cast<size_t>(c)]);
  }
};

template <class T> class PadForward : public PreparedKernel {
 public:
  explicit PadForward(const KernelSite &site) : plan(site, site.in[0].shape, site.out[0].shape) {}

  void run(const KernelCall &call) override {
    const T *x = call.in[0].as<const T>();
    T *y = call.out[0].as<T>();
    forRows(plan.planes, plan.outSize, plan.threads,
            [=, this](int64_t plane) { padPlane(x + plane * plan.inSize, y + plane * plan.outSize); });
  }

 private:
  void padPlane(const T *plane, T *to) const {
    const size_t length = plan.columns.size();
    const T constant = static_cast<T>(plan.constant);
    plan.forRowsOfPlane([&, this](int64_t row) {
      const T *from = plane + row;
      if (row < 0) std::fill_n(to, length, constant);
      else
        plan.forRow([=](int64_t at, int64_t shown) { to[at] = shown < 0 ? constant : from[shown]; },
                    [=, this] { std::memcpy(to + plan.before, from, static_cast<size_t>(plan.width) * sizeof(T)); });
      to += length;
    });
  }

  PadPlan plan;
};

/// dx sums dy over the positions that show an element, in order of position.
template <class T> class PadBackward : public PreparedKernel {
 public:
  explicit PadBackward(const KernelSite &site) : plan(site, site.out[0].shape, site.in[0].shape) {}

  void run(const KernelCall &call) override {
    const T *dy = call.in[0].as<const T>();
    T *dx = call.out[0].as<T>();
    forRows(plan.planes, plan.outSize, plan.threads,
            [=, this](int64_t plane) { addPlane(dy + plane * plan.outSize, dx + plane * plan.inSize); });
  }

 private:
  void addPlane(const T *dy, T *plane) const {
    std::fill_n(plane, plan.inSize, T{0});
    plan.forRowsOfPlane([&, this](int64_t row) {
      if (row >= 0) addRow(dy, plane + row);
      dy += plan.columns.size();
    });
  }
  void addRow(const T *dy, T *to) const {
    plan.forRow(
        [=](int64_t at, int64_t shown) {
          if (shown >= 0) to[shown] += dy[at];
        },
        [=, this] {
          const T *from = dy + plan.before;
          GRADC_INDEPENDENT
          for (int64_t i = 0; i < plan.width; ++i) to[i] += from[i];
        });
  }

  PadPlan plan;
};

/// Whether many elements are copies of one: their gradients are more than a plain sum may have.
bool isWide(const KernelSite &site) {
  constexpr int64_t kMost = 256;
  return any_of(padAttrs(*site.kind).widths, [](int64_t width) { return width > kMost; });
}

template <template <class> class Kernel> std::unique_ptr<PreparedKernel> make(const KernelSite &site, Dims padded) {
  int64_t length = 0;
  for (int64_t dim : padded.drop_front(2)) length += dim;
  if (!isSmallTable(site, length, sizeof(int64_t))) return nullptr;
  return floatingKernel<Kernel>(site.out[0].dtype, site);
}

std::unique_ptr<PreparedKernel> pad(const KernelSite &site) { return make<PadForward>(site, site.out[0].shape); }
std::unique_ptr<PreparedKernel> padBackward(const KernelSite &site) {
  return isWide(site) ? nullptr : make<PadBackward>(site, site.in[0].shape);
}

constexpr FastKernelRow kRows[] = {
    {"Pad", pad, LayoutRole::Plain},
    {"_backward_Pad", padBackward, LayoutRole::Plain},
};

}  // namespace

constinit const FastKernels kPadKernels = kRows;

}  // namespace gradc::fast
