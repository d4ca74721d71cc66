// Random numbers with parameters in the attributes. All operators that draw decompose to `_uniform_like`.
// Tested by tests/ops/random_ops_test.cc, tests/ops/index_ops_test.cc
#include "ir/base/error.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/creation/created.h"
#include "ops/kit/families.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/random/distributions.h"

using namespace llvm;

namespace gradc {
namespace {

/// a and b are low and high, or loc and scale.
struct DrawParams {
  double a = 0, b = 1;
  Dims shape;
  StringRef device;
  DType dtype = DType::Unknown;
};
using P = DrawParams;

constexpr AttrSpec kLow = attr<&P::a>("low", "0", "least number");
constexpr AttrSpec kHigh = attr<&P::b>("high", "1", "end of the range, reached only by rounding");
constexpr AttrSpec kLoc = attr<&P::a>("loc", "0", "mean");
constexpr AttrSpec kScale = attr<&P::b>("scale", "1", "standard deviation");

constexpr AttrSpec kUniformAttrs[] = {kLow, kHigh};
constexpr AttrSpec kNormalAttrs[] = {kLoc, kScale};
constexpr AttrSpec kCreateUniformAttrs[] = {kLow, kHigh, kShapeAttr<P>, kDeviceAttr<P>, kDrawTypeAttr<P>};
constexpr AttrSpec kCreateNormalAttrs[] = {kLoc, kScale, kShapeAttr<P>, kDeviceAttr<P>, kDrawTypeAttr<P>};

Error checkUniform(const OpDef &, void *params) {
  P &p = *static_cast<P *>(params);
  if (!(p.a <= p.b))
    return Failure(ErrorKind::BadAttribute, "low is " + Twine(toText(p.a)) + " and high is " + toText(p.b) +
                                                ", expected low to be at most high");
  return settleType(p.dtype);
}

Error checkNormal(const OpDef &, void *params) {
  P &p = *static_cast<P *>(params);
  if (!(p.b > 0)) return Failure(ErrorKind::BadAttribute, "scale is " + toText(p.b) + ", expected a positive number");
  return settleType(p.dtype);
}

template <class D> void draw(const KernelCall &call) {
  if (!call.wants(0)) return;
  const P &p = call.params<P>();
  const RandomStream stream(call.random);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0, size = call.out[0].size(); i < size; ++i)
      call.out[0].as<T>()[i] = static_cast<T>(D::at(p.a, p.b, D::draw(stream, static_cast<uint64_t>(i))));
  });
}

/// float64 numbers of the distribution in the shape of `place`.
template <class D> Value numbers(DecomposeRule &d, Value place) {
  const P &p = d.params<P>();
  const double scale = D::at(p.a, p.b, 1.0) - D::at(p.a, p.b, 0.0);
  const Value scaled = d.emit(kMulScalar, {D::noise(d, place)}, {{"scalar", d.number(scale)}});
  return d.emit(kPlusScalar, {scaled}, {{"scalar", d.number(p.a)}});
}

template <class D> void decomposeCreated(DecomposeRule &d) {
  const Value place = placeOf(d, createdDims(d));
  d.y(0, d.emit(kCast, {numbers<D>(d, place)}, {{"dtype", dtypeName(d.params<P>().dtype)}}));
}

template <class D> void decomposeLike(DecomposeRule &d) { d.y(0, d.emit(kCastLike, {numbers<D>(d, d.x(0)), d.x(0)})); }

/// The fields shared by operators that draw from D.
template <class D> constexpr OpDef drawing(NameList names, StringRef summary, ArrayRef<AttrSpec> attrs) {
  OpDef op = named(names, summary);
  op.attrs = attrs;
  op.params = paramsOf<P>();
  op.check = std::is_same_v<D, Uniform> ? checkUniform : checkNormal;
  op.flags.isRandom = true;
  op.kernel = draw<D>;
  return op;
}

template <class D> constexpr OpDef created(NameList names, StringRef summary, ArrayRef<AttrSpec> attrs) {
  OpDef op = drawing<D>(names, summary, attrs);
  op.shape = createdShape<P>;
  op.dtype = createdDType<P>;
  op.gradient = [](GradRule &) {};
  op.decompose = decomposeCreated<D>;
  return op;
}

template <class D> constexpr OpDef like(StringRef name, StringRef summary, ArrayRef<AttrSpec> attrs) {
  OpDef op = drawing<D>({name}, summary, attrs);
  op.inputs = {"data"};
  op.shape = shapes::same;
  op.ignored = {0};
  op.gradient = [](GradRule &g) { g.dx(0, g.emit(kZerosLike, {g.x(0)})); };
  op.decompose = decomposeLike<D>;
  return op;
}

}  // namespace

// Draw i depends only on the key and i: any other random operator in the place of this node has the same draws.
constinit const OpDef kUniformLike = {
    .name = "_uniform_like",
    .summary = "float64 numbers drawn from [low, high) in the shape of data, of which only the shape is used",
    .inputs = {"data"},
    .attrs = kUniformAttrs,
    .params = paramsOf<P>(),
    .check = checkUniform,
    .shape = [](ShapeInference &s) { s.sameInOut(0, 0); },
    .dtype = [](DTypeInference &t) { t.setOut(0, DType::Float64); },
    .ignored = {0},
    .stopped = {0},
    .flags = {.isRandom = true, .hasNoGradient = true},
    .kernelTypes = kFloatingAndIntegers,
    .gradient = [](GradRule &g) { g.noGrad(0); },
    .primitive = {.onnx = "RandomUniformLike", .c = "y[i] = low + (high - low) * draw(seed, step, node, i)"},
    .kernel = draw<Uniform>,
};

namespace {

constinit const OpDef kRandomUniform = created<Uniform>({"_random_uniform", "random_uniform", "uniform"},
                                                        "numbers drawn from [low, high)", kCreateUniformAttrs);
constinit const OpDef kRandomNormal =
    created<Normal>({"_random_normal", "random_normal", "normal"},
                    "numbers of the normal distribution with mean loc and deviation scale", kCreateNormalAttrs);
constinit const OpDef kRandomUniformLike = like<Uniform>(
    "_random_uniform_like", "numbers drawn from [low, high) in the shape and type of data", kUniformAttrs);
constinit const OpDef kRandomNormalLike =
    like<Normal>("_random_normal_like",
                 "numbers of the normal distribution with mean loc and deviation scale, in the shape and type of data",
                 kNormalAttrs);

}  // namespace

constinit const OpFamily kRandomFamily =
    kOps<kUniformLike, kRandomUniform, kRandomNormal, kRandomUniformLike, kRandomNormalLike>;

}  // namespace gradc
