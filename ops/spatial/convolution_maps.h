// Kernels of the bilinear maps of convolution, for operators whose windows differ. Tested by tests/ops/nn_ops_test.cc,
// tests/ops/layer_ops_test.cc
#pragma once

#include "ir/rules/kernel.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/spatial/convolution_kernel.h"

namespace gradc {

/// y = x * w: each output pixel gathers its window.
struct Gathering {
  template <class T> static void run(const ConvGeometry &g, const T *x, const T *w, const T *b, T *y, double *scratch) {
    convolve<T>(g, x, w, b, y, scratch);
  }
  static size_t bytes(const ConvGeometry &g) { return g.scratchBytes(); }
};
/// Its adjoint toward x: each pixel is scattered over its window.
struct Scattering {
  template <class T> static void run(const ConvGeometry &g, const T *x, const T *w, const T *b, T *y, double *scratch) {
    convolveDataGrad<T>(g, x, w, b, y, scratch);
  }
  static size_t bytes(const ConvGeometry &g) { return g.dataGradBytes(); }
};

/// Output 0 = the map of inputs 0 and 1. With `hasBias`, input 2 is added, if there is one.
template <class Map, bool hasBias> void runMap(const KernelCall &call, const ConvGeometry &g) {
  if (!call.wants(0)) return;
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *bias = hasBias && call.in.size() == 3 ? call.in[2].as<const T>() : nullptr;
    Map::template run<T>(g, call.in[0].as<const T>(), call.in[1].as<const T>(), bias, call.out[0].as<T>(),
                         static_cast<double *>(call.workspace));
  });
}

/// dw from inputs dy and x, in output `output`. Where the operator is `isAdjoint` to a convolution, dy has the images
/// that the windows slide over.
template <bool isAdjoint> void runWeightGradient(const KernelCall &call, const ConvGeometry &g, size_t output = 0) {
  if (!call.wants(output)) return;
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *dy = call.in[0].as<const T>(), *x = call.in[1].as<const T>();
    convolveWeightGrad<T>(g, isAdjoint ? x : dy, isAdjoint ? dy : x, call.out[output].as<T>(),
                          static_cast<double *>(call.workspace));
  });
}

/// dx, dw and, if there is a third output, db from inputs dy, x and w; dx is the map of dy and w.
template <class Map, bool isAdjoint> void runGradients(const KernelCall &call, const ConvGeometry &g) {
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *dy = call.in[0].as<const T>();
    if (call.wants(0))
      Map::template run<T>(g, dy, call.in[2].as<const T>(), nullptr, call.out[0].as<T>(),
                           static_cast<double *>(call.workspace));
    runWeightGradient<isAdjoint>(call, g, 1);
    if (call.out.size() == 3 && call.wants(2)) sumPerChannel<T>(isAdjoint ? g.in : g.out, dy, call.out[2].as<T>());
  });
}

}  // namespace gradc
