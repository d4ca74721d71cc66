// Products over neighbouring axes, and their gradients. Factors are multiplied in order, in double precision, so the
// bits are those of the reference kernels; products that are contiguous in memory are computed side by side. Tested by
// tests/runtime/kernels/fast_kernels_test.cc
#include "ops/reduction/reduce_axes.h"
#include "runtime/kernels/core/floating_kernel.h"
#include "runtime/kernels/core/kernel_row.h"
#include "runtime/kernels/core/part_view.h"
#include "runtime/kernels/reduction/softmax_rows.h"

using namespace llvm;

namespace gradc::fast {
namespace {

/// The factors of each product as a row, in the order of the products. Empty if two separate groups of axes are
/// reduced.
std::optional<AxisRows> rowsOf(const KernelSite &site, Dims whole) {
  const DimsBuffer part = keptShape(site.kind->params<ReduceParams>(), whole);
  const std::optional<PartView> parts = partView(whole, part, Layout::Plain);
  if (!parts) return std::nullopt;
  const ChannelView &view = parts->view;
  if (view.outer > 1 && view.inner > 1) return std::nullopt;
  if (view.outer == 1) return AxisRows({parts->batch * view.channels, view.inner, 1}, 1);
  return AxisRows({parts->batch, view.outer, view.channels}, 1);
}

/// An element's factor: itself, or 1 where nanprod leaves it out.
template <class T> double factorOf(T x, bool skipsNaN) {
  const double factor = static_cast<double>(x);
  return (skipsNaN & (x != x)) ? 1.0 : factor;
}

template <class T> class ProductKernel : public ThreadedKernel {
 public:
  ProductKernel(const KernelSite &site, const AxisRows &rows)
      : ThreadedKernel(site.threads), rows(rows), skipsNaN(site.kind->op->name == "nanprod") {}

  void run(const KernelCall &call) override {
    const T *x = call.in[0].as<const T>();
    T *y = call.out[0].as<T>();
    forRowBlocks(rows, threads, [=, this](RowBlock block) {
      double products[kRowBlock];
      std::fill(products, products + block.width, 1.0);
      for (int64_t k = 0; k < rows.length; ++k) {
        const T *from = x + block.first + k * rows.inner;
        GRADC_INDEPENDENT
        for (int64_t r = 0; r < block.width; ++r) products[r] *= factorOf(from[r], skipsNaN);
      }
      T *to = y + rowNumber(rows, block);
      for (int64_t r = 0; r < block.width; ++r) to[r] = static_cast<T>(products[r]);
    });
  }

 private:
  AxisRows rows;
  bool skipsNaN;
};

// Inputs dy, x, y. dx = dy · (product of the factors before the element, kept in the workspace) · (product of those
// after it).
template <class T> class ProductBackward : public ThreadedKernel {
 public:
  ProductBackward(const KernelSite &site, const AxisRows &rows)
      : ThreadedKernel(site.threads), rows(rows), skipsNaN(site.kind->op->name == "_backward_nanprod") {}

  void run(const KernelCall &call) override {
    const T *dy = call.in[0].as<const T>(), *x = call.in[1].as<const T>();
    T *dx = call.out[0].as<T>();
    double *inFront = static_cast<double *>(call.workspace);
    forRowBlocks(rows, threads, [=, this](RowBlock block) {
      double running[kRowBlock];
      std::fill(running, running + block.width, 1.0);
      for (int64_t k = 0; k < rows.length; ++k) {
        const int64_t at = block.first + k * rows.inner;
        GRADC_INDEPENDENT
        for (int64_t r = 0; r < block.width; ++r) {
          inFront[at + r] = running[r];
          running[r] *= factorOf(x[at + r], skipsNaN);
        }
      }
      std::fill(running, running + block.width, 1.0);
      const T *head = dy + rowNumber(rows, block);
      for (int64_t k = rows.length; k-- > 0;) {
        const int64_t at = block.first + k * rows.inner;
        GRADC_INDEPENDENT
        for (int64_t r = 0; r < block.width; ++r) {
          const T value = x[at + r],
                  slope = static_cast<T>(static_cast<double>(head[r]) * (inFront[at + r] * running[r]));
          dx[at + r] = (skipsNaN & (value != value)) ? T{0} : slope;
          running[r] *= factorOf(value, skipsNaN);
        }
      }
    });
  }

  size_t workspaceBytes() const override { return static_cast<size_t>(rows.count() * rows.length) * sizeof(double); }

 private:
  AxisRows rows;
  bool skipsNaN;
};

template <template <class> class Kernel> std::unique_ptr<PreparedKernel> make(const KernelSite &site, Dims whole) {
  const std::optional<AxisRows> rows = rowsOf(site, whole);
  if (!rows) return nullptr;
  return floatingKernel<Kernel>(site.out[0].dtype, site, *rows);
}

std::unique_ptr<PreparedKernel> product(const KernelSite &site) { return make<ProductKernel>(site, site.in[0].shape); }
std::unique_ptr<PreparedKernel> productBackward(const KernelSite &site) {
  return make<ProductBackward>(site, site.in[1].shape);
}

constexpr FastKernelRow kRows[] = {
    {"_backward_nanprod", productBackward, LayoutRole::Plain},
    {"_backward_prod", productBackward, LayoutRole::Plain},
    {"nanprod", product, LayoutRole::Plain},
    {"prod", product, LayoutRole::Plain},
};

}  // namespace

constinit const FastKernels kProductKernels = kRows;

}  // namespace gradc::fast
