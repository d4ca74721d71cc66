// Fully connected layer: a linear map of each row of the data. Its kernels are those of convolution on images of one
// pixel. The gradient decomposes into matrix products. Tested by tests/ops/nn_ops_test.cc,
// tests/passes/nn_infer_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/kernel.h"
#include "ops/elementwise/elementwise.h"
#include "ops/kit/families.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/kit/primitives.h"
#include "ops/spatial/convolution_maps.h"

using namespace llvm;

namespace gradc {
namespace {

struct FullyConnectedParams {
  int64_t numHidden = 0;
  bool noBias = false, flatten = true;
};

constexpr AttrSpec kAttrs[] = {
    required<&FullyConnectedParams::numHidden>("num_hidden", "output features").atLeast(1),
    attr<&FullyConnectedParams::noBias>("no_bias", "False", "whether there is no bias input"),
    attr<&FullyConnectedParams::flatten>("flatten", "True",
                                         "whether all axes but the first are features, not only the last"),
};

bool hasBias(const NodeKind &kind) { return !kind.params<FullyConnectedParams>().noBias; }

// Features of one row of the data, or unknown.
int64_t featuresOf(ShapeRef data, bool flatten) {
  if (!data.hasRank()) return kUnknownDim;
  if (data.rank() == 0) return kUnknownDim;
  if (!flatten) return data[data.rank() - 1];
  return data.rank() == 1 ? 1 : numElements(data.dims().drop_front()).value_or(kUnknownDim);
}

// If one dimension of a flattened row is unknown, it follows from the number of features.
void completeRow(ShapeInference &s, size_t data, int64_t features) {
  ShapeRef shape = s.in(data);
  if (features == kUnknownDim || shape.rank() < 2) return;
  DimsBuffer dims(shape.dims());
  if (llvm::count(shape.dims().drop_front(), kUnknownDim) != 1) return;
  int64_t &missing = *std::find(dims.begin() + 1, dims.end(), kUnknownDim);
  missing = 1;
  const std::optional<int64_t> known = numElements(Dims(dims).drop_front());
  if (known == 0) return;
  if (!known || features % *known)
    return s.fail("weight has " + Twine(features) + " columns, but data of shape " + toString(shape) + " cannot have " +
                  Twine(features) + " features");
  missing = features / *known;
  s.setIn(data, dims);
}

// Where data, weight and output are among the entries of a node.
struct DensePorts {
  size_t data, weight, output;
  bool isForward;  // the output is an output of the node, not an input
};

ShapeRef outputShape(const ShapeInference &s, DensePorts at) {
  return at.isForward ? s.out(at.output) : s.in(at.output);
}
void stateOutput(ShapeInference &s, DensePorts at, Dims dims) {
  if (at.isForward) s.setOut(at.output, dims);
  else s.setIn(at.output, dims);
}

// Without flattening, data and output are equal except for the last axis.
void relateRows(ShapeInference &s, DensePorts at, int64_t features) {
  const ShapeRef known = s.in(at.data).hasRank() ? s.in(at.data) : outputShape(s, at);
  if (!known.hasRank()) return;
  if (known.rank() == 0) return s.fail("data is a scalar, expected at least one axis");
  DimsBuffer rows(known.dims());
  rows.back() = s.params<FullyConnectedParams>().numHidden;
  stateOutput(s, at, rows);
  if (s.hasFailed()) return;
  rows.assign(outputShape(s, at).dims().begin(), outputShape(s, at).dims().end());
  rows.back() = features;
  s.setIn(at.data, rows);
}

// With flattening the output is (first axis, hidden); a row of the data has as many elements as the weight has columns.
void relateFlattened(ShapeInference &s, DensePorts at, int64_t features) {
  stateOutput(s, at, {kUnknownDim, s.params<FullyConnectedParams>().numHidden});
  const ShapeRef data = s.in(at.data);
  if (!data.hasRank() || s.hasFailed()) return;
  if (data.rank() == 0) return s.fail("data is a scalar, expected at least one axis");
  DimsBuffer dims(data.dims());
  if (dims[0] == kUnknownDim) dims[0] = outputShape(s, at)[0];
  stateOutput(s, at, {dims[0], kUnknownDim});
  s.setIn(at.data, dims);
  completeRow(s, at.data, features);
  const int64_t found = featuresOf(s.in(at.data), true);
  if (found != kUnknownDim && features != kUnknownDim && found != features)
    s.fail("data of shape " + toString(s.in(at.data)) + " has " + Twine(found) + " features, but the weight has " +
           Twine(features) + " columns");
}

// Infers all that the shapes of data, weight and output determine about one another (INF-04).
void relateShapes(ShapeInference &s, DensePorts at) {
  const FullyConnectedParams &p = s.params<FullyConnectedParams>();
  s.setIn(at.weight, {p.numHidden, kUnknownDim});
  if (s.hasFailed()) return;
  int64_t features = s.in(at.weight)[1];
  if (features == kUnknownDim) features = featuresOf(s.in(at.data), p.flatten);
  s.setIn(at.weight, {p.numHidden, features});
  if (p.flatten) relateFlattened(s, at, features);
  else relateRows(s, at, features);
}

// Rows as images of one pixel with features as channels.
ConvGeometry geometryOf(const TensorRef &weight, const TensorRef &output) {
  const int64_t hidden = weight.shape[0], rows = hidden ? output.size() / hidden : 0;
  const int64_t in[] = {rows, weight.shape[1]}, out[] = {rows, hidden};
  ConvGeometry g;
  g.in = imageView(in, false);
  g.out = imageView(out, false);
  return g;
}

extern const OpDef kBackwardFullyConnected;

}  // namespace

// y = x · wᵀ + b; dx, dw, db by one fused operator.
constinit const OpDef kFullyConnected = {
    .name = "FullyConnected",
    .aliases = {"_npx_fully_connected", "_sparse_FullyConnected"},
    .summary = "y[n,h] = Σ over features k: x[n,k]·w[h,k] + b[h]",
    .inputs = {{"data", "weight", "bias"}, [](const NodeKind &k) { return hasBias(k) ? 3u : 2u; }},
    .attrs = kAttrs,
    .params = paramsOf<FullyConnectedParams>(),
    .shape =
        [](ShapeInference &s) {
          relateShapes(s, {.data = 0, .weight = 1, .output = 0, .isForward = true});
          if (s.numInputs() == 3) s.setIn(2, {s.params<FullyConnectedParams>().numHidden});
        },
    .gradient = [](GradRule &g) { g.fused(kBackwardFullyConnected, {g.dy(0), g.x(0), g.x(1)}); },
    .decompose =
        [](DecomposeRule &d) {
          const Value rows = d.params<FullyConnectedParams>().flatten ? d.emit(kFlatten, {d.x(0)}) : d.x(0);
          const Value y = d.emit(kDot, {rows, d.x(1)}, {{"transpose_b", "True"}});
          d.y(0, d.numInputs() == 3 ? d.emit(kBroadcastAdd, {y, d.x(2)}) : y);
        },
    .kernel = [](const KernelCall &call) { runMap<Gathering, true>(call, geometryOf(call.in[1], call.out[0])); },
    .workspace = [](const NodeKind &, ArrayRef<TensorRef> in,
                    ArrayRef<TensorRef> out) { return geometryOf(in[1], out[0]).scratchBytes(); },
};

namespace {

void relateMatrix(ShapeInference &s) {
  const ShapeRef data = s.in(0), rows = s.out(0);
  s.setOut(0, {kUnknownDim, kUnknownDim});
  if (!data.hasRank() || s.hasFailed()) return;
  if (data.rank() == 0) return s.fail("data is a scalar, expected at least one axis");
  const std::optional<int64_t> count = numElements(data.dims().drop_back());
  s.setOut(0, {count.value_or(kUnknownDim), data[data.rank() - 1]});
  DimsBuffer dims(data.dims());
  if (rows.hasRank() && rows.rank() == 2) dims.back() = std::max(dims.back(), rows[1]);
  s.setIn(0, dims);
}

// y = x as a matrix; dx = dy in the shape of x
constinit const OpDef kAsRows = {
    .name = "_as_rows",
    .summary = "x as a matrix of (all axes but the last) × (last axis)",
    .inputs = {"data"},
    .shape = relateMatrix,
    .inplace = kInplaceIdentity,
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kReshapeLike, {g.dy(0), g.x(0)})); },
    .primitive = {.onnx = "Flatten(axis=-1)", .c = "the same memory, or memcpy"},
    .kernel = copyBytes,
};

Value asMatrix(DecomposeRule &d, Value v) {
  return d.emit(d.params<FullyConnectedParams>().flatten ? kFlatten : kAsRows, {v});
}

// dx = dy · w, dw = dyᵀ · x, db = Σ over rows of dy
constinit const OpDef kBackwardFullyConnected = {
    .name = "_backward_FullyConnected",
    .summary = "gradients of FullyConnected: dx[n,k] = Σ dy[n,h]·w[h,k], dw[h,k] = Σ dy[n,h]·x[n,k], db[h] = Σ dy[n,h]",
    .inputs = {"ograd", "data", "weight"},
    .outputs = {{"data_grad", "weight_grad", "bias_grad"}, [](const NodeKind &k) { return hasBias(k) ? 3u : 2u; }},
    .attrs = kAttrs,
    .params = paramsOf<FullyConnectedParams>(),
    .shape =
        [](ShapeInference &s) {
          relateShapes(s, {.data = 1, .weight = 2, .output = 0, .isForward = false});
          s.sameInOut(1, 0);
          s.sameInOut(2, 1);
          if (s.numOutputs() == 3) s.setOut(2, {s.params<FullyConnectedParams>().numHidden});
        },
    .flags = {.isBackward = true},
    .decompose =
        [](DecomposeRule &d) {
          const Value dy = d.params<FullyConnectedParams>().flatten ? d.x(0) : asMatrix(d, d.x(0));
          if (d.wants(0)) d.y(0, d.emit(kReshapeLike, {d.emit(kDot, {dy, d.x(2)}), d.x(1)}));
          if (d.wants(1)) d.y(1, d.emit(kDot, {dy, asMatrix(d, d.x(1))}, {{"transpose_a", "True"}}));
          if (hasBias(d.kind()) && d.wants(2)) d.y(2, d.emit(kSum, {dy}, {{"axis", "0"}}));
        },
    .kernel = [](const KernelCall &call) { runGradients<Scattering, false>(call, geometryOf(call.in[2], call.in[0])); },
    .workspace = [](const NodeKind &, ArrayRef<TensorRef> in,
                    ArrayRef<TensorRef>) { return geometryOf(in[2], in[0]).gradientBytes(); },
};

}  // namespace

constinit const OpFamily kFullyConnectedFamily = kOps<kFullyConnected, kBackwardFullyConnected, kAsRows>;

}  // namespace gradc
