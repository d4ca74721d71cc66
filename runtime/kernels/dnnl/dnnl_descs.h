// Primitive descriptors for oneDNN 2 and 3: version 2 makes them from operation descriptors, which version 3 no longer
// has. Arguments are those of version 2's operation descriptors. Tested by tests/runtime/kernels/fast_kernels_test.cc
#pragma once

#include "runtime/kernels/dnnl/dnnl_step.h"

namespace gradc {

/// Of a forward primitive.
template <class Primitive, class... Args> typename Primitive::primitive_desc forwardDescOf(const Args &...args) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(dnnlEngine(), args..., userScratchpad());
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(args...), userScratchpad(), dnnlEngine());
#endif
}

/// Of a backward primitive; `forward` describes its forward primitive.
template <class Primitive, class Forward, class... Args>
typename Primitive::primitive_desc backwardDescOf(const Forward &forward, const Args &...args) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(dnnlEngine(), args..., forward, userScratchpad());
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(args...), userScratchpad(), dnnlEngine(), forward);
#endif
}

struct PoolingWindow {
  dnnl::memory::dims stride, kernel, padLow, padHigh;
};
/// Windows without dilation.
inline dnnl::pooling_forward::primitive_desc poolingDescOf(dnnl::prop_kind kind, dnnl::algorithm algorithm,
                                                           const dnnl::memory::desc &x, const dnnl::memory::desc &y,
                                                           const PoolingWindow &window) {
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::memory::dims dilation(window.kernel.size(), 0);
  return forwardDescOf<dnnl::pooling_forward>(kind, algorithm, x, y, window.stride, window.kernel, dilation,
                                              window.padLow, window.padHigh);
#else
  return forwardDescOf<dnnl::pooling_forward>(kind, algorithm, x, y, window.stride, window.kernel, window.padLow,
                                              window.padHigh);
#endif
}
inline dnnl::pooling_backward::primitive_desc poolingBackwardDescOf(
    const dnnl::pooling_forward::primitive_desc &forward, dnnl::algorithm algorithm, const dnnl::memory::desc &dx,
    const dnnl::memory::desc &dy, const PoolingWindow &window) {
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::memory::dims dilation(window.kernel.size(), 0);
  return backwardDescOf<dnnl::pooling_backward>(forward, algorithm, dx, dy, window.stride, window.kernel, dilation,
                                                window.padLow, window.padHigh);
#else
  return backwardDescOf<dnnl::pooling_backward>(forward, algorithm, dx, dy, window.stride, window.kernel, window.padLow,
                                                window.padHigh);
#endif
}

/// x and y have the same description.
inline dnnl::eltwise_forward::primitive_desc elementwiseDescOf(dnnl::algorithm algorithm,
                                                               const dnnl::memory::desc &flat, float alpha) {
  constexpr dnnl::prop_kind kKind = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR >= 3
  return forwardDescOf<dnnl::eltwise_forward>(kKind, algorithm, flat, flat, alpha, 0.0f);
#else
  return forwardDescOf<dnnl::eltwise_forward>(kKind, algorithm, flat, alpha, 0.0f);
#endif
}

/// c = a · b, or c + a · b.
inline dnnl::matmul::primitive_desc matmulDescOf(const dnnl::memory::desc &a, const dnnl::memory::desc &b,
                                                 const dnnl::memory::desc &c, bool addsToC) {
  dnnl::primitive_attr attr = userScratchpad();
  if (addsToC) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attr.set_post_ops(sum);
  }
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul::primitive_desc(dnnlEngine(), a, b, c, attr);
#else
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), attr, dnnlEngine());
#endif
}

inline dnnl::memory::dims dimsOf(const dnnl::memory::desc &desc) {
#if DNNL_VERSION_MAJOR >= 3
  return desc.get_dims();
#else
  return desc.dims();
#endif
}

}  // namespace gradc
