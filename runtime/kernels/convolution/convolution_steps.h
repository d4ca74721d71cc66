// The steps of convolutions and deconvolutions, from primitives that have been chosen.
#pragma once

#include "runtime/kernels/dnnl/dnnl_step.h"

namespace gradc::fast {

/// The formats of the entries of a convolution. `b` is null without a bias, or a gradient of it.
struct ConvolutionEntries {
  const dnnl::memory::desc &x, &w, *b, &y;
};

/// Slots x, w[, b], y.
template <class Forward>
DnnlStep forwardStepOf(const typename Forward::primitive_desc &desc, const ConvolutionEntries &entries) {
  DnnlStep step;
  step.input(DNNL_ARG_SRC, entries.x, desc.src_desc());
  step.input(DNNL_ARG_WEIGHTS, entries.w, desc.weights_desc());
  if (entries.b) step.input(DNNL_ARG_BIAS, *entries.b, *entries.b);
  step.output(DNNL_ARG_DST, entries.y, desc.dst_desc());
  step.finish(Forward(desc), desc.scratchpad_desc());
  return step;
}

/// Slots dy, w, dx.
template <class Backward>
DnnlStep dataStepOf(const typename Backward::primitive_desc &desc, const ConvolutionEntries &entries) {
  DnnlStep step;
  step.input(DNNL_ARG_DIFF_DST, entries.y, desc.diff_dst_desc());
  step.input(DNNL_ARG_WEIGHTS, entries.w, desc.weights_desc());
  step.output(DNNL_ARG_DIFF_SRC, entries.x, desc.diff_src_desc());
  step.finish(Backward(desc), desc.scratchpad_desc());
  return step;
}

/// Slots dy, x, dw[, db].
template <class Backward>
DnnlStep weightStepOf(const typename Backward::primitive_desc &desc, const ConvolutionEntries &entries) {
  DnnlStep step;
  step.input(DNNL_ARG_DIFF_DST, entries.y, desc.diff_dst_desc());
  step.input(DNNL_ARG_SRC, entries.x, desc.src_desc());
  step.output(DNNL_ARG_DIFF_WEIGHTS, entries.w, desc.diff_weights_desc());
  if (entries.b) step.output(DNNL_ARG_DIFF_BIAS, *entries.b, *entries.b);
  step.finish(Backward(desc), desc.scratchpad_desc());
  return step;
}

}  // namespace gradc::fast
