// Attributes and shapes of pooling. Tested by tests/ops/nn_ops_test.cc, tests/passes/nn_infer_test.cc
#include "ops/spatial/pooling_params.h"

#include "ir/tensor/dim.h"

using namespace llvm;

namespace gradc {
namespace {

// One visit to a node; `at` as in relatePoolShapes.
class PoolShapes {
 public:
  PoolShapes(ShapeInference &s, size_t data, std::optional<size_t> at)
      : s(s), p(s.params<PoolingParams>()), data(data), at(at) {}

  void relate() {
    const DimsBuffer windows(p.kernel.size() + 2, kUnknownDim);
    if (!p.globalPool) state(windows, windows);
    const ShapeRef known = s.in(data).hasRank() ? s.in(data) : output();
    if (s.hasFailed() || !known.hasRank()) return;
    if (known.rank() < 3 || known.rank() > 5)
      return s.fail("data has shape " + toString(known) + ", expected 3 to 5 axes");
    // With channels first, global pooling is the same whatever the number of axes.
    if (p.channelsLast() && known.rank() != spatialAxes(p.layout) + 2)
      return s.fail("data has shape " + toString(known) + ", expected " + Twine(spatialAxes(p.layout) + 2) +
                    " axes, as attribute 'layout' names");
    const DimsBuffer unknown(known.rank(), kUnknownDim);
    state(unknown, unknown);
    if (s.hasFailed()) return;
    DimsBuffer in(s.in(data).dims()), out(output().dims());
    const size_t channel = p.channelsLast() ? in.size() - 1 : 1, spatial = p.channelsLast() ? 1 : 2;
    for (size_t axis : {size_t{0}, channel}) in[axis] = out[axis] = std::max(in[axis], out[axis]);
    for (size_t i = 0; i + 2 < in.size() && !s.hasFailed(); ++i) relateExtents(i, in[spatial + i], out[spatial + i]);
    state(in, out);
  }

 private:
  ShapeRef output() const { return at ? s.in(*at) : s.out(0); }
  void state(Dims in, Dims out) {
    s.setIn(data, in);
    if (at) s.setIn(*at, out);
    else s.setOut(0, out);
  }

  void relateExtents(size_t i, int64_t &in, int64_t &out) {
    if (p.globalPool) {
      out = 1;
      return;
    }
    const Dim slack = Dim(2) * p.pad[i] - p.kernel[i], stride = p.stride[i];
    if (in == kUnknownDim) {
      if (out != kUnknownDim && stride == 1)
        in = p.convention == PoolConvention::Same ? out : (out - 1 - slack).inShape();
      return;
    }
    const Dim room = in + slack;  // for steps of the window
    if (p.convention == PoolConvention::Same) {
      out = ceilDiv(in, stride).inShape();
    } else if (room < 0) {
      s.fail("kernel of " + Twine(p.kernel[i]) + " exceeds the padded input of " +
             Twine((Dim(in) + 2 * p.pad[i]).nearest()) + " on spatial axis " + Twine(i));
    } else {
      out = ((p.convention == PoolConvention::Full ? ceilDiv(room, stride) : room / stride) + 1).inShape();
    }
  }

  ShapeInference &s;
  const PoolingParams &p;
  size_t data;
  std::optional<size_t> at;
};

}  // namespace

Error checkPooling(const OpDef &, void *params) {
  PoolingParams &p = *static_cast<PoolingParams *>(params);
  p.countIncludePad = settle(p.countIncludePad);
  if (p.poolType == PoolType::Lp && !p.pValue)
    return Failure(ErrorKind::BadAttribute, "attribute 'p_value' is missing, pool_type 'lp' needs it");
  if (p.globalPool) return Error::success();
  if (p.kernel.empty() || p.kernel.size() > 3)
    return Failure(ErrorKind::BadAttribute,
                   "attribute 'kernel' has " + Twine(p.kernel.size()) + " elements, expected 1 to 3");
  if (Error error = checkLayout(p.layout, p.kernel)) return error;
  if (Error error = completeWindowAttr("stride", p.stride, p.kernel, kSpatialOnes)) return error;
  if (Error error = completeWindowAttr("pad", p.pad, p.kernel, kSpatialZeros)) return error;
  if (p.convention == PoolConvention::Same && any_of(p.pad, [](int64_t pad) { return pad != 0; }))
    return Failure(ErrorKind::BadAttribute,
                   "pooling convention 'same' chooses the padding, but attribute 'pad' is given");
  return Error::success();
}

void relatePoolShapes(ShapeInference &s, size_t data, std::optional<size_t> output) {
  PoolShapes(s, data, output).relate();
}

}  // namespace gradc
