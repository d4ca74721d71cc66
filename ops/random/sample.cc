// Random numbers with parameters that are tensors: for each element of them, draws of a given shape.
//
// The noise is a hidden output and carries all randomness, as Dropout's mask does: the gradient reads the very numbers
// that the forward pass drew. MXNet has no gradient of these operators and no such output. Tested by
// tests/ops/random_ops_test.cc
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ir/tensor/dim.h"
#include "ops/creation/created.h"
#include "ops/kit/families.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/random/distributions.h"

using namespace llvm;

namespace gradc {
namespace {

struct SampleParams {
  Dims shape;
  DType dtype = DType::Unknown;
};

constexpr AttrSpec kAttrs[] = {
    attr<&SampleParams::shape>("shape", "()", "shape of the draws for one element of the parameters").atLeast(0),
    kDrawTypeAttr<SampleParams>,
};

Error checkSample(const OpDef &, void *params) { return settleType(static_cast<SampleParams *>(params)->dtype); }

// The axes of the parameters, then those of the draws.
void sampleShape(ShapeInference &s) {
  const Dims draws = s.params<SampleParams>().shape;
  s.sameInIn(0, 1);
  s.sameOutOut(0, 1);
  if (s.hasFailed()) return;
  if (s.in(0).hasRank()) {
    DimsBuffer whole(s.in(0).dims());
    whole.append(draws.begin(), draws.end());
    s.setOut(0, whole);
  } else if (s.out(0).hasRank()) {
    const Dims whole = s.out(0).dims();
    if (whole.size() < draws.size())
      return s.fail("output of shape " + toString(s.out(0)) + " has fewer axes than the draws of shape " +
                    toString(ShapeRef(draws)));
    DimsBuffer parameters(whole.drop_back(draws.size()));
    s.setIn(0, parameters);
  }
  if (s.hasFailed() || !s.out(0).hasRank() || !s.in(0).hasRank()) return;
  DimsBuffer parameters(s.out(0).dims().drop_back(draws.size()));
  s.setIn(0, parameters);
  s.sameInIn(0, 1);
  s.sameOutOut(0, 1);
}

void sampleType(DTypeInference &t) {
  t.sameInIn(0, 1);
  for (size_t o : {0, 1}) t.setOut(o, t.params<SampleParams>().dtype);
}

template <class D> void sample(const KernelCall &call) {
  const RandomStream stream(call.random);
  const int64_t count = call.in[0].size(), draws = count ? call.out[0].size() / count : 0;
  dispatchFloating(call.in[0].dtype, [&](auto parameter) {
    using S = decltype(parameter);
    dispatchFloating(call.out[0].dtype, [&](auto zero) {
      using T = decltype(zero);
      const S *a = call.in[0].as<const S>(), *b = call.in[1].as<const S>();
      for (int64_t i = 0, at = 0; i < count; ++i)
        for (int64_t j = 0; j < draws; ++j, ++at) {
          const T noise = static_cast<T>(D::draw(stream, static_cast<uint64_t>(at)));
          if (call.wants(0)) call.out[0].as<T>()[at] = D::at(static_cast<T>(a[i]), static_cast<T>(b[i]), noise);
          if (call.wants(1)) call.out[1].as<T>()[at] = noise;
        }
    });
  });
}

template <class D> void decomposeSample(DecomposeRule &d) {
  const SampleParams &p = d.params<SampleParams>();
  const StringRef type = dtypeName(p.dtype);
  auto spread = [&](size_t i) {  // appends an axis of one element for each axis of the draws
    Value v = d.emit(kCast, {d.x(i)}, {{"dtype", type}});
    for (size_t axis = 0; axis < p.shape.size(); ++axis) v = d.emit(kExpandDims, {v}, {{"axis", "-1"}});
    return v;
  };
  const Value a = spread(0), b = spread(1);
  Value place = a;
  if (!p.shape.empty()) place = d.emit(kBroadcastMul, {a, placeOf(d, p.shape, type)});
  const Value noise = d.emit(kCast, {D::noise(d, place)}, {{"dtype", type}});
  const Value scale = std::is_same_v<D, Uniform> ? d.emit(kElemwiseSub, {b, a}) : b;
  d.y(0, d.emit(kBroadcastAdd, {a, d.emit(kBroadcastMul, {scale, noise})}));
  d.y(1, noise);
}

// y = a + (b - a)·u or a + b·z:  da = Σ dy - Σ dy·u or Σ dy, db = Σ dy·u or Σ dy·z over the draws, rounded as the
// gradient of the decomposition is
template <class D> void sampleGradient(GradRule &g) {
  if (g.isZero(0)) {
    g.noGrad(0);
    g.noGrad(1);
    return;
  }
  DimsBuffer axes;
  for (size_t axis = g.params<SampleParams>().shape.size(); axis > 0; --axis)
    axes.push_back(-static_cast<int64_t>(axis));
  auto sum = [&](Value v) { return axes.empty() ? v : g.emit(kSum, {v}, {{"axis", g.tuple(axes)}}); };
  auto give = [&](size_t i, Value v) { g.dx(i, g.emit(kCastLike, {g.emit(kReshapeLike, {v, g.x(i)}), g.x(i)})); };
  const Value dy = g.dy(0);
  if (!std::is_same_v<D, Uniform> && g.wants(0)) give(0, sum(dy));
  if (!g.wants(1) && !std::is_same_v<D, Uniform>) return;
  const Value ofNoise = sum(g.emit(kElemwiseMul, {dy, g.y(1)}));
  if (std::is_same_v<D, Uniform> && g.wants(0)) give(0, g.emit(kElemwiseSub, {sum(dy), ofNoise}));
  if (g.wants(1)) give(1, ofNoise);
}

template <class D> constexpr OpDef sampling(NameList names, StringRef summary, NameList inputs) {
  OpDef op = named(names, summary);
  op.inputs = Ports(inputs, nullptr);
  op.outputs = {"output", "noise"};
  op.visibleOutputs = [](const NodeKind &) { return 1u; };
  op.attrs = kAttrs;
  op.params = paramsOf<SampleParams>();
  op.check = checkSample;
  op.shape = sampleShape;
  op.dtype = sampleType;
  op.flags.isRandom = true;
  op.gradient = sampleGradient<D>;
  op.decompose = decomposeSample<D>;
  op.kernel = sample<D>;
  return op;
}

constinit const OpDef kSampleUniform = sampling<Uniform>(
    {"_sample_uniform", "sample_uniform"},
    "y[i…, j…] = low[i…] + (high[i…] - low[i…]) * u, u drawn from [0, 1) for each j of the given shape",
    {"low", "high"});
constinit const OpDef kSampleNormal = sampling<Normal>(
    {"_sample_normal", "sample_normal"},
    "y[i…, j…] = mu[i…] + sigma[i…] * z, z of the standard normal distribution for each j of the given shape",
    {"mu", "sigma"});

}  // namespace

constinit const OpFamily kSampleFamily = kOps<kSampleUniform, kSampleNormal>;

}  // namespace gradc
