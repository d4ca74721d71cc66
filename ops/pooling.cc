// Pooling: the maximum, mean, sum or p-norm of windows that slide over one, two or three spatial axes.
//
// Mean and sum are linear: `_pooling_grad` is their adjoint, and each is the gradient of the other. The maximum picks
// elements: `_pool_gather` and `_pool_scatter` pick and put back at the positions of the largest elements of x, are
// adjoint to each other, and constant in x between ties. So all are closed to every order.
// The windows themselves are in ops/pooling_kernel.h. Tested by tests/nn_ops_test.cc, tests/nn_infer_test.cc
#include "ir/grad_rule.h"
#include "ir/inference.h"
#include "ir/kernel.h"
#include "ops/families.h"
#include "ops/kernel_dispatch.h"
#include "ops/pooling_kernel.h"
#include "ops/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

enum class PoolType : uint8_t { Max, Avg, Sum, Lp };
constexpr StringRef kPoolTypeNames[] = {"max", "avg", "sum", "lp"};
constexpr ArrayRef<StringRef> enumNames(PoolType) { return kPoolTypeNames; }

enum class Convention : uint8_t { Valid, Full, Same };
constexpr StringRef kConventionNames[] = {"valid", "full", "same"};
constexpr ArrayRef<StringRef> enumNames(Convention) { return kConventionNames; }

struct PoolingParams {
  Dims kernel, stride, pad;
  PoolType poolType = PoolType::Max;
  Convention convention = Convention::Valid;
  bool globalPool = false, cudnnOff = false;
  std::optional<int64_t> pValue;
  Tristate countIncludePad = Tristate::None;
  SpatialLayout layout = SpatialLayout::None;

  bool channelsLast() const { return isChannelsLast(layout); }
  bool countsPadding() const { return countIncludePad != Tristate::False; }
};

constexpr AttrSpec kAttrs[] = {
    attr<&PoolingParams::kernel>("kernel", "()", "window size: (w,), (h, w) or (d, h, w); unused with global_pool")
        .atLeast(1),
    attr<&PoolingParams::poolType>("pool_type", "max", "what becomes of a window"),
    attr<&PoolingParams::globalPool>("global_pool", "False", "one window as large as the image, without padding"),
    attr<&PoolingParams::cudnnOff>("cudnn_off", "False", "accepted and not used"),
    attr<&PoolingParams::convention>("pooling_convention", "valid",
                                     "number of windows: valid rounds down, full up; same is ⌈input/stride⌉, padded at the end"),
    attr<&PoolingParams::stride>("stride", "()", "step of the window, 1 when left out").atLeast(1),
    attr<&PoolingParams::pad>("pad", "()", "padding on both sides of each axis, 0 when left out").atLeast(0),
    attr<&PoolingParams::pValue>("p_value", "None", "the p of the p-norm (Σ xᵖ)^(1/p)").atLeast(1).atMost(3),
    attr<&PoolingParams::countIncludePad>("count_include_pad", "None",
                                          "whether a mean divides by the taps in the padding too; None: it does"),
    attr<&PoolingParams::layout>("layout", "None", "order of the axes; None: batch, channel, spatial"),
};

Error checkParams(void *params) {
  PoolingParams &p = *static_cast<PoolingParams *>(params);
  p.countIncludePad = settle(p.countIncludePad);
  if (p.poolType == PoolType::Lp && !p.pValue)
    return Failure(ErrorKind::BadAttribute, "attribute 'p_value' is missing, pool_type 'lp' needs it");
  if (p.globalPool) return Error::success();
  if (p.kernel.empty() || p.kernel.size() > 3)
    return Failure(ErrorKind::BadAttribute,
                   "attribute 'kernel' has " + Twine(p.kernel.size()) + " elements, expected 1 to 3");
  if (Error error = settleWindowAttr("stride", p.stride, p.kernel, kSpatialOnes)) return error;
  if (Error error = settleWindowAttr("pad", p.pad, p.kernel, kSpatialZeros)) return error;
  if (p.convention == Convention::Same && any_of(p.pad, [](int64_t pad) { return pad != 0; }))
    return Failure(ErrorKind::BadAttribute, "pooling convention 'same' chooses the padding, but attribute 'pad' is given");
  return Error::success();
}

const PoolingParams &paramsOf(const NodeKind &kind) { return kind.params<PoolingParams>(); }

// MXNet gives max pooling a second output where its CPU library may run it: a function of the attributes.
bool hasWorkspace(const NodeKind &kind) {
  const PoolingParams &p = paramsOf(kind);
  return p.poolType == PoolType::Max && !p.channelsLast() && !p.kernel.empty() && p.kernel.size() <= 3;
}

// Shapes of data and output tell about each other (INF-04). `at` is the position of the output among the inputs of a
// backward node, nothing for a forward one.
class PoolShapes {
 public:
  PoolShapes(ShapeInference &s, size_t data, std::optional<size_t> at)
      : s(s), p(s.params<PoolingParams>()), data(data), at(at) {}

  void relate() {
    if (!p.globalPool) state(DimsBuffer(p.kernel.size() + 2, kUnknownDim), DimsBuffer(p.kernel.size() + 2, kUnknownDim));
    const ShapeRef known = s.in(data).hasRank() ? s.in(data) : output();
    if (s.hasFailed() || !known.hasRank()) return;
    if (known.rank() < 3 || known.rank() > 5)
      return s.fail("data has shape " + toString(known) + ", expected 3 to 5 axes");
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
    if (at)
      s.setIn(*at, out);
    else
      s.setOut(0, out);
  }

  void relateExtents(size_t i, int64_t &in, int64_t &out) {
    if (p.globalPool) {
      out = 1;
      return;
    }
    const int64_t slack = 2 * p.pad[i] - p.kernel[i], stride = p.stride[i];
    if (in == kUnknownDim) {
      if (out != kUnknownDim && stride == 1) in = p.convention == Convention::Same ? out : out - 1 - slack;
      return;
    }
    if (p.convention == Convention::Same) {
      out = (in + stride - 1) / stride;
    } else if (in + slack < 0) {
      s.fail("kernel of " + Twine(p.kernel[i]) + " exceeds the padded input of " + Twine(in + 2 * p.pad[i]) +
             " on spatial axis " + Twine(i));
    } else {
      out = (in + slack + (p.convention == Convention::Full ? stride - 1 : 0)) / stride + 1;
    }
  }

  ShapeInference &s;
  const PoolingParams &p;
  size_t data;
  std::optional<size_t> at;
};

PoolGeometry geometryOf(const PoolingParams &p, Dims data, Dims output) {
  PoolGeometry g;
  g.in = imageView(data, p.channelsLast());
  g.out = imageView(output, p.channelsLast());
  if (p.globalPool) {
    std::copy(std::begin(g.in.extent), std::end(g.in.extent), g.kernel);
    return g;
  }
  setSpatial(g.kernel, p.kernel);
  setSpatial(g.stride, p.stride);
  setSpatial(g.pad, p.pad);
  return g;
}

// What a mean divides by; 1 for other types and for windows that lie in the padding alone.
int64_t divisor(const PoolingParams &p, const PoolWindow &w) {
  if (p.poolType != PoolType::Avg || w.isEmpty()) return 1;
  return p.countsPadding() ? w.paddedSize : w.size();
}

template <class T> T power(T x, int64_t p) { return p == 1 ? x : p == 2 ? x * x : x * x * x; }
template <class T> T root(T x, int64_t p) { return p == 1 ? x : p == 2 ? std::sqrt(x) : std::cbrt(x); }

// Position of each maximum inside its image, for whoever reads the hidden output; -1 where a window is empty.
template <class T> void writePositions(const PoolGeometry &g, const T *x, const TensorRef &positions) {
  dispatchNumeric(positions.dtype, [&](auto zero) {
    using P = decltype(zero);
    P *to = positions.as<P>();
    forEachWindow(g, [&](const PoolWindow &w) {
      const int64_t at = argMax(g, w, x);
      to[w.output] = static_cast<P>(at < 0 ? -1 : (at - w.base) / g.in.pixelStride);
    });
  });
}

// `chooser` decides which element of a window is the largest; x itself but for pieces.
void pool(const KernelCall &call, const TensorRef &chooser) {
  const PoolingParams &p = call.params<PoolingParams>();
  const PoolGeometry g = geometryOf(p, call.in[0].shape, call.out[0].shape);
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.in[0].as<const T>();
    if (call.out.size() == 2 && call.wants(1)) writePositions(g, chooser.as<const T>(), call.out[1]);
    if (!call.wants(0)) return;
    T *y = call.out[0].as<T>();
    const int64_t exponent = p.poolType == PoolType::Lp ? *p.pValue : 1;
    if (p.poolType == PoolType::Max)
      poolGather(g, x, chooser.as<const T>(), std::numeric_limits<T>::lowest(), y);
    else
      poolSum(g, x, y, [&](T v) { return power(v, exponent); },
              [&](const PoolWindow &w, T sum) { return root(sum, exponent) / static_cast<T>(divisor(p, w)); });
  });
}

template <class T> void spreadEvenly(const PoolGeometry &g, const PoolingParams &p, const T *dy, T *dx) {
  poolSpread(g, dx, [&](const PoolWindow &w, int64_t) { return dy[w.output] / static_cast<T>(divisor(p, w)); });
}

// Positions of x and y among the inputs of the fused gradient.
size_t dataInput(const NodeKind &kind) { return hasWorkspace(kind) ? 2 : 1; }

void poolBackward(const KernelCall &call, ArrayRef<TensorRef> base) {
  if (!call.wants(0)) return;
  const PoolingParams &p = call.params<PoolingParams>();
  const size_t data = dataInput(*call.kind);
  const PoolGeometry g = geometryOf(p, call.out[0].shape, call.in[0].shape);
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *dy = call.in[0].as<const T>(), *x = call.in[data].as<const T>(), *y = call.in[data + 1].as<const T>();
    T *dx = call.out[0].as<T>();
    if (p.poolType == PoolType::Max) return poolScatter(g, dy, base[data].as<const T>(), dx);
    if (p.poolType != PoolType::Lp || *p.pValue == 1) return spreadEvenly(g, p, dy, dx);
    // A norm of 0 has no derivative; 0 is what MXNet takes.
    poolSpread(g, dx, [&](const PoolWindow &w, int64_t at) {
      const T norm = power(y[w.output], *p.pValue - 1);
      return norm == T{0} ? T{0} : dy[w.output] * power(x[at], *p.pValue - 1) / norm;
    });
  });
}

// x and y are read by the p-norm alone, and x by the maximum.
InputMask backwardIgnored(const NodeKind &kind) {
  const int data = static_cast<int>(dataInput(kind));
  switch (paramsOf(kind).poolType) {
    case PoolType::Max: return data == 2 ? inputMask({1, 3, 4}) : inputMask({2});
    case PoolType::Avg:
    case PoolType::Sum: return inputMask({1, 2});
    case PoolType::Lp: return *paramsOf(kind).pValue == 1 ? inputMask({1, 2}) : 0;
  }
  return 0;
}

void runGather(const KernelCall &call, const TensorRef &chooser) {
  if (!call.wants(0)) return;
  const PoolGeometry g = geometryOf(call.params<PoolingParams>(), call.in[0].shape, call.out[0].shape);
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    poolGather(g, call.in[0].as<const T>(), chooser.as<const T>(), T{0}, call.out[0].as<T>());
  });
}

void runScatter(const KernelCall &call, const TensorRef &chooser) {
  if (!call.wants(0)) return;
  const PoolGeometry g = geometryOf(call.params<PoolingParams>(), call.out[0].shape, call.in[0].shape);
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    poolScatter(g, call.in[0].as<const T>(), chooser.as<const T>(), call.out[0].as<T>());
  });
}

void runSpread(const KernelCall &call) {
  if (!call.wants(0)) return;
  const PoolingParams &p = call.params<PoolingParams>();
  const PoolGeometry g = geometryOf(p, call.out[0].shape, call.in[0].shape);
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    spreadEvenly(g, p, call.in[0].as<const T>(), call.out[0].as<T>());
  });
}

constexpr size_t kOutputOfScatter = 0;  // dy is its first input

extern const OpDef kPoolGather, kPoolScatter, kPoolingGrad, kBackwardPooling;

}  // namespace

extern const OpDef kPooling;

// y = the reduction of each window
constinit const OpDef kPooling = {
    .name = "Pooling",
    .summary = "y = max, mean, sum or (Σ xᵖ)^(1/p) of the elements of each window; padding takes no part but in the mean's count",
    .inputs = {"data"},
    .outputs = {{"output", "workspace"}, [](const NodeKind &k) { return hasWorkspace(k) ? 2u : 1u; }},
    .visibleOutputs = [](const NodeKind &) { return 1u; },
    .attrs = kAttrs,
    .params = gradc::paramsOf<PoolingParams>(),
    .check = checkParams,
    .shape =
        [](ShapeInference &s) {
          PoolShapes(s, 0, std::nullopt).relate();
          if (s.numOutputs() == 2) s.sameOutOut(0, 1);
        },
    .dtype =
        [](DTypeInference &t) {
          t.sameInOut(0, 0);
          if (t.numOutputs() == 2) t.setOut(1, DType::Int32);
        },
    .gradient =
        [](GradRule &g) {
          if (hasWorkspace(g.kind()))
            g.fused(kBackwardPooling, {g.dy(0), g.dy(1), g.x(0), g.y(0), g.y(1)});
          else
            g.fused(kBackwardPooling, {g.dy(0), g.x(0), g.y(0)});
        },
    .kernel = [](const KernelCall &call) { pool(call, call.in[0]); },
    .piece = [](const PieceCall &call) { pool(call, call.base[0]); },
};

namespace {

// The p-norm: y = (Σ xᵖ)^(1/p), dx = xᵖ⁻¹ · Σ over windows of dy/yᵖ⁻¹, 0 where y = 0.
Value decomposeNorm(DecomposeRule &d, AttrsId sumAttrs) {
  const int64_t p = *d.params<PoolingParams>().pValue;
  const Value dy = d.x(0), x = d.x(1), y = d.x(2);
  if (p == 1) return d.emit(kPoolingGrad, {dy, x}, sumAttrs);
  const Value isZero = d.emit(kEqualScalar, {y}, {{"scalar", "0"}});
  Value norm = d.emit(kElemwiseAdd, {y, isZero}), factor = x;
  if (p == 3) {
    norm = d.emit(kSquare, {norm});
    factor = d.emit(kSquare, {x});
  }
  const Value live = d.emit(kElemwiseMul, {dy, d.emit(kNotEqualScalar, {y}, {{"scalar", "0"}})});
  return d.emit(kElemwiseMul, {factor, d.emit(kPoolingGrad, {d.emit(kElemwiseDiv, {live, norm}), x}, sumAttrs)});
}

// MXNet's fused gradient. Inputs dy, x, y; of max pooling with a workspace dy, its zero gradient, x, y, workspace.
constinit const OpDef kBackwardPooling = {
    .name = "_backward_Pooling",
    .summary = "gradient of Pooling: dy goes to the first maximum of its window, or to all elements evenly, or by xᵖ⁻¹/yᵖ⁻¹",
    .inputs = {{}, [](const NodeKind &k) { return hasWorkspace(k) ? 5u : 3u; }, true},
    .outputs = {"data_grad"},
    .attrs = kAttrs,
    .params = gradc::paramsOf<PoolingParams>(),
    .check = checkParams,
    .shape =
        [](ShapeInference &s) {
          const size_t data = dataInput(s.kind());
          s.sameInIn(0, data + 1);
          s.sameInOut(data, 0);
          PoolShapes(s, data, 0).relate();
          s.sameInOut(data, 0);
        },
    .dtype =
        [](DTypeInference &t) {
          const size_t data = dataInput(t.kind());
          for (int pass = 0; pass < 2; ++pass)
            for (size_t i : {size_t{0}, data, data + 1}) t.sameInOut(i, 0);
        },
    .ignored = backwardIgnored,
    .flags = {.isBackward = true},
    .decompose =
        [](DecomposeRule &d) {
          const Value x = d.x(dataInput(d.kind()));
          switch (d.params<PoolingParams>().poolType) {
            case PoolType::Max: return d.y(0, d.emit(kPoolScatter, {d.x(0), x}, d.attrs()));
            case PoolType::Avg:
            case PoolType::Sum: return d.y(0, d.emit(kPoolingGrad, {d.x(0), x}, d.attrs()));
            case PoolType::Lp:
              return d.y(0, decomposeNorm(d, d.context().withAttrs(d.attrs(), {{"pool_type", "sum"}})));
          }
        },
    .kernel = [](const KernelCall &call) { poolBackward(call, call.in); },
    .piece = [](const PieceCall &call) { poolBackward(call, call.base); },
};

// dx = adjoint of mean or sum pooling; of x only the shape is used
constinit const OpDef kPoolingGrad = {
    .name = "_pooling_grad",
    .summary = "dx[i] = Σ of dy/size over the windows that hold i (avg) or of dy (sum), in the shape of x",
    .inputs = {"ograd", "data"},
    .attrs = kAttrs,
    .params = gradc::paramsOf<PoolingParams>(),
    .check = checkParams,
    .shape =
        [](ShapeInference &s) {
          PoolShapes(s, 1, 0).relate();
          s.sameInOut(1, 0);
        },
    .ignored = {1},
    .stopped = {1},
    .gradient =
        [](GradRule &g) {
          g.dx(0, g.emit(kPooling, {g.dy(0)}, g.attrs()));
          g.noGrad(1);
        },
    .kernel = runSpread,
};

// y = v at the maxima of x
constinit const OpDef kPoolGather = {
    .name = "_pool_gather",
    .summary = "y = v at the position of the first maximum of x in each window; 0 for an empty window",
    .inputs = {"values", "data"},
    .attrs = kAttrs,
    .params = gradc::paramsOf<PoolingParams>(),
    .check = checkParams,
    .shape =
        [](ShapeInference &s) {
          s.sameInIn(0, 1);
          PoolShapes(s, 0, std::nullopt).relate();
          s.sameInIn(0, 1);
        },
    .stopped = {1},
    .gradient =
        [](GradRule &g) {
          g.dx(0, g.emit(kPoolScatter, {g.dy(0), g.x(1)}, g.attrs()));
          g.noGrad(1);
        },
    .kernel = [](const KernelCall &call) { runGather(call, call.in[1]); },
    .piece = [](const PieceCall &call) { runGather(call, call.base[1]); },
};

// dx = dy put back at the maxima of x
constinit const OpDef kPoolScatter = {
    .name = "_pool_scatter",
    .summary = "dx[i] = Σ of dy over the windows whose first maximum of x stands at i",
    .inputs = {"ograd", "data"},
    .attrs = kAttrs,
    .params = gradc::paramsOf<PoolingParams>(),
    .check = checkParams,
    .shape =
        [](ShapeInference &s) {
          PoolShapes(s, 1, kOutputOfScatter).relate();
          s.sameInOut(1, 0);
        },
    .stopped = {1},
    .gradient =
        [](GradRule &g) {
          g.dx(0, g.emit(kPoolGather, {g.dy(0), g.x(1)}, g.attrs()));
          g.noGrad(1);
        },
    .kernel = [](const KernelCall &call) { runScatter(call, call.in[1]); },
    .piece = [](const PieceCall &call) { runScatter(call, call.base[1]); },
};

constexpr const OpDef *kOps[] = {&kPooling, &kBackwardPooling, &kPoolingGrad, &kPoolGather, &kPoolScatter};

}  // namespace
constinit const OpFamily kPoolingFamily = kOps;

}  // namespace gradc
