// Pooling: the maximum, mean, sum or p-norm of windows that slide over one, two or three spatial axes.
//
// Mean and sum are linear: `_pooling_grad` is their adjoint, and each is the gradient of the other. The maximum picks
// elements: `_pool_gather` and `_pool_scatter` pick and put back at the positions of the largest elements of x, are
// adjoint to each other, and constant in x between ties. So all are closed to every order.
// The windows themselves are in ops/spatial/pooling_kernel.h. Tested by tests/ops/nn_ops_test.cc,
// tests/passes/nn_infer_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/kit/families.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/kit/primitives.h"
#include "ops/spatial/pooling_kernel.h"
#include "ops/spatial/pooling_params.h"

using namespace llvm;

namespace gradc {
namespace {

const PoolingParams &paramsOf(const NodeKind &kind) { return kind.params<PoolingParams>(); }

// MXNet gives max pooling a second output where its CPU library may run it: a function of the attributes.
bool hasWorkspace(const NodeKind &kind) {
  const PoolingParams &p = paramsOf(kind);
  return p.poolType == PoolType::Max && !p.channelsLast() && !p.kernel.empty() && p.kernel.size() <= 3;
}

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

// The divisor of a mean; 1 for other types and for windows that are entirely in the padding.
double divisor(const PoolingParams &p, const PoolWindow &w) {
  if (p.poolType != PoolType::Avg || w.isEmpty()) return 1;
  return p.countsPadding() ? w.paddedSize : static_cast<double>(w.size());
}

template <class T> T power(T x, int64_t p) { return p == 1 ? x : p == 2 ? x * x : x * x * x; }
template <class T> T root(T x, int64_t p) { return p == 1 ? x : p == 2 ? std::sqrt(x) : std::cbrt(x); }

// Position of each maximum inside its image, for readers of the hidden output; -1 where a window is empty.
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

// `chooser` decides which element of a window is the largest; it is x itself except in piece kernels.
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
    if (p.poolType == PoolType::Max) poolGather(g, x, chooser.as<const T>(), std::numeric_limits<T>::lowest(), y);
    else
      poolSum(
          g, x, y, [&](double v) { return power(v, exponent); },
          [&](const PoolWindow &w, double sum) { return root(sum, exponent) / divisor(p, w); });
  });
}

template <class T> void spreadEvenly(const PoolGeometry &g, const PoolingParams &p, const T *dy, T *dx, double *sums) {
  poolSpread(g, dx, sums,
             [&](const PoolWindow &w, int64_t) { return static_cast<double>(dy[w.output]) / divisor(p, w); });
}

// For operators that write the gradient of the data.
size_t scratchBytes(const NodeKind &kind, ArrayRef<TensorRef> in, ArrayRef<TensorRef> out) {
  return poolSums(geometryOf(paramsOf(kind), out[0].shape, in[0].shape)) * sizeof(double);
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
    double *sums = static_cast<double *>(call.workspace);
    if (p.poolType == PoolType::Max) return poolScatter(g, dy, base[data].as<const T>(), dx, sums);
    if (p.poolType != PoolType::Lp || *p.pValue == 1) return spreadEvenly(g, p, dy, dx, sums);
    // A norm of 0 has no derivative; 0 is what MXNet takes.
    poolSpread(g, dx, sums, [&](const PoolWindow &w, int64_t at) {
      const T norm = power(y[w.output], *p.pValue - 1);
      return static_cast<double>(norm == T{0} ? T{0} : dy[w.output] * power(x[at], *p.pValue - 1) / norm);
    });
  });
}

// Only the p-norm reads x and y, and the maximum reads x.
bool isBackwardIgnored(const NodeKind &kind, size_t input) {
  switch (paramsOf(kind).poolType) {
    case PoolType::Max: return input != 0 && input != dataInput(kind);
    case PoolType::Avg:
    case PoolType::Sum: return input != 0;
    case PoolType::Lp: return input != 0 && *paramsOf(kind).pValue == 1;
  }
  return false;
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
    poolScatter(g, call.in[0].as<const T>(), chooser.as<const T>(), call.out[0].as<T>(),
                static_cast<double *>(call.workspace));
  });
}

void runSpread(const KernelCall &call) {
  if (!call.wants(0)) return;
  const PoolingParams &p = call.params<PoolingParams>();
  const PoolGeometry g = geometryOf(p, call.out[0].shape, call.in[0].shape);
  dispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    spreadEvenly(g, p, call.in[0].as<const T>(), call.out[0].as<T>(), static_cast<double *>(call.workspace));
  });
}

extern const OpDef kPoolGather, kPoolScatter, kPoolingGrad, kBackwardPooling;

// Inputs are the head gradient and the data, in the shape of which the output is.
void likeData(ShapeInference &s) {
  relatePoolShapes(s, 1, 0);
  s.sameInOut(1, 0);
}

// dx = Adjoint(dy, data); none for the data
template <const OpDef &Adjoint> void byAdjoint(GradRule &g) {
  g.dx(0, g.emit(Adjoint, {g.dy(0), g.x(1)}, g.attrs()));
  g.noGrad(1);
}

constexpr OpDef pooling(OpDef op) {
  op.attrs = kPoolingAttrs;
  op.params = gradc::paramsOf<PoolingParams>();
  op.check = checkPooling;
  return op;
}

}  // namespace

// y = the reduction of each window
constinit const OpDef kPooling = pooling({
    .name = "Pooling",
    .aliases = {"_npx_pooling"},
    .summary = "y = max, mean, sum or (Σ xᵖ)^(1/p) of the elements of each window; padding takes no part but in the "
               "mean's count",
    .inputs = {"data"},
    .outputs = {{"output", "workspace"}, [](const NodeKind &k) { return hasWorkspace(k) ? 2u : 1u; }},
    .visibleOutputs = [](const NodeKind &) { return 1u; },
    .shape =
        [](ShapeInference &s) {
          relatePoolShapes(s, 0, std::nullopt);
          if (s.numOutputs() == 2) s.sameOutOut(0, 1);
        },
    .dtype =
        [](DTypeInference &t) {
          t.sameInOut(0, 0);
          if (t.numOutputs() == 2) t.setOut(1, DType::Int32);
        },
    .gradient =
        [](GradRule &g) {
          if (hasWorkspace(g.kind())) g.fused(kBackwardPooling, {g.dy(0), g.dy(1), g.x(0), g.y(0), g.y(1)});
          else g.fused(kBackwardPooling, {g.dy(0), g.x(0), g.y(0)});
        },
    .primitive = {.onnx =
                      "max: MaxPool; sum: Pad, Conv with ones, one group per channel; avg: the sum, Div by how many "
                      "elements each window counts; lp: Pow, the sum, Pow",
                  .c = "y[n,c,p] = x[n,c,i] > y[n,c,p] ? x[n,c,i] : y[n,c,p], or += x[n,c,i]"},
    .kernel = [](const KernelCall &call) { pool(call, call.in[0]); },
    .piece = [](const PieceCall &call) { pool(call, call.base[0]); },
});

namespace {

// The p-norm: y = (Σ xᵖ)^(1/p), dx = xᵖ⁻¹ · Σ over windows of dy/yᵖ⁻¹, 0 where y = 0.
Value decomposeNorm(DecomposeRule &d, const Attrs &sumAttrs) {
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
constinit const OpDef kBackwardPooling = pooling({
    .name = "_backward_Pooling",
    .summary = "gradient of Pooling: dy goes to the first maximum of its window, or to all elements evenly, or by "
               "xᵖ⁻¹/yᵖ⁻¹",
    .inputs = {{}, [](const NodeKind &k) { return hasWorkspace(k) ? 5u : 3u; }, true},
    .outputs = {"data_grad"},
    .shape =
        [](ShapeInference &s) {
          const size_t data = dataInput(s.kind());
          s.sameInIn(0, data + 1);
          s.sameInOut(data, 0);
          relatePoolShapes(s, data, 0);
          s.sameInOut(data, 0);
        },
    .dtype =
        [](DTypeInference &t) {
          const size_t data = dataInput(t.kind());
          for (int pass = 0; pass < 2; ++pass)
            for (size_t i : {size_t{0}, data, data + 1}) t.sameInOut(i, 0);
        },
    .ignored = isBackwardIgnored,
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
    .workspace = scratchBytes,
});

// dx = adjoint of mean or sum pooling; of x only the shape is used
constinit const OpDef kPoolingGrad = pooling({
    .name = "_pooling_grad",
    .summary = "dx[i] = Σ of dy/size over the windows that hold i (avg) or of dy (sum), in the shape of x",
    .inputs = {"ograd", "data"},
    .shape = likeData,
    .ignored = {1},
    .stopped = {1},
    .gradient =
        [](GradRule &g) {
          g.dx(0, g.emit(kPooling, {g.dy(0)}, g.attrs()));
          g.noGrad(1);
        },
    .primitive =
        {.onnx = "avg: Div by how many elements each window counts; ConvTranspose with ones, one group per channel, "
                 "Slice, Pad",
         .c = "dx[n,c,i] += dy[n,c,p] / size[p]"},
    .kernel = runSpread,
    .workspace = scratchBytes,
});

// y = v at the maxima of x
constinit const OpDef kPoolGather = pooling({
    .name = "_pool_gather",
    .summary = "y = v at the position of the first maximum of x in each window; 0 for an empty window",
    .inputs = {"values", "data"},
    .shape =
        [](ShapeInference &s) {
          s.sameInIn(0, 1);
          relatePoolShapes(s, 0, std::nullopt);
          s.sameInIn(0, 1);
        },
    .stopped = {1},
    .gradient = byAdjoint<kPoolScatter>,
    .primitive = {.onnx = "MaxPool, whose Indices count in the whole tensor; Reshape, Gather",
                  .c = "y[n,c,p] = v[n,c,argmax[n,c,p]]"},
    .kernel = [](const KernelCall &call) { runGather(call, call.in[1]); },
    .piece = [](const PieceCall &call) { runGather(call, call.base[1]); },
});

// dx = dy put back at the maxima of x
constinit const OpDef kPoolScatter = pooling({
    .name = "_pool_scatter",
    .summary = "dx[i] = Σ of dy over the windows whose first maximum of x is at i",
    .inputs = {"ograd", "data"},
    .shape = likeData,
    .stopped = {1},
    .gradient = byAdjoint<kPoolGather>,
    .primitive = {.onnx = "MaxPool, whose Indices count in the whole tensor; Reshape, Reshape, ConstantOfShape, "
                          "ScatterElements(reduction=add), Reshape",
                  .c = "dx[n,c,argmax[n,c,p]] += dy[n,c,p]"},
    .kernel = [](const KernelCall &call) { runScatter(call, call.in[1]); },
    .piece = [](const PieceCall &call) { runScatter(call, call.base[1]); },
    .workspace = scratchBytes,
});

}  // namespace

constinit const OpFamily kPoolingFamily = kOps<kPooling, kBackwardPooling, kPoolingGrad, kPoolGather, kPoolScatter>;

}  // namespace gradc
