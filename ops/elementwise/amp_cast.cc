// Casts of automatic mixed precision: amp_cast, amp_multicast. They change only float32 and the 16-bit floating types.
// Tested by tests/ops/network_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ops/elementwise/cast.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {
namespace {

struct AmpCastParams {
  DType dtype;
};
constexpr AttrSpec kCastAttrs[] = {
    required<&AmpCastParams::dtype>("dtype", "type of the output, where the input is float32, float16 or bfloat16")};

struct AmpMulticastParams {
  int64_t numOutputs = 1;
  bool castNarrow = false;
};
constexpr AttrSpec kMulticastAttrs[] = {
    required<&AmpMulticastParams::numOutputs>("num_outputs", "number of inputs, and of outputs")
        .atLeast(1)
        .atMost(1 << 16),
    attr<&AmpMulticastParams::castNarrow>("cast_narrow", "False",
                                          "whether to cast to the narrowest type, not to the widest"),
};

// Types that mixed precision changes.
bool isMixed(DType type) { return isFloating(type) && type != DType::Float64; }

// The type that data of the type `data` is cast to.
void castType(DTypeInference &t, DType data, bool isForward) {
  if (data == DType::Unknown) return;
  const DType type = isMixed(data) ? t.params<AmpCastParams>().dtype : data;
  isForward ? t.setOut(0, type) : t.setIn(0, type);
}

// The type that amp_multicast casts to, among those of the inputs; Unknown where none is changed.
template <class Data> DType commonType(bool isNarrow, size_t count, Data data) {
  DType common = DType::Unknown;
  for (size_t i = 0; i < count; ++i) {
    const DType type = data(i);
    if (!isMixed(type)) continue;
    const bool isWider = dtypeBytes(type) > (common == DType::Unknown ? 0 : dtypeBytes(common));
    if (common == DType::Unknown || isWider != isNarrow) common = type;
  }
  return common;
}

// Types of amp_multicast, pair by pair: `data` reads the type of a forward input, `state` sets that of a forward
// output.
template <class Data, class State> void multicastTypes(DTypeInference &t, Data data, State state) {
  const DType common = commonType(t.params<AmpMulticastParams>().castNarrow, t.numInputs(), data);
  bool isComplete = true;
  for (size_t i = 0; i < t.numInputs(); ++i) isComplete &= data(i) != DType::Unknown;
  for (size_t i = 0; i < t.numInputs(); ++i) {
    const DType type = data(i);
    if (type != DType::Unknown && !isMixed(type)) state(i, type);
    else if (isComplete) state(i, common);
  }
}

void pairShapes(ShapeInference &s) {
  for (size_t i = 0; i < s.numInputs(); ++i) s.sameInOut(i, i);
}

void castKernel(const KernelCall &call) {
  for (size_t i = 0; i < call.out.size(); ++i)
    if (call.wants(i)) castTensor(call.in[i], call.out[i]);
}

uint32_t numTensors(const NodeKind &kind) {
  return static_cast<uint32_t>(kind.params<AmpMulticastParams>().numOutputs);
}

// Gradients in the types of the forward inputs.
void castBack(DecomposeRule &d) {
  for (size_t i = 0; i < d.numInputs(); ++i)
    if (d.wants(i)) d.y(i, d.emit(kCastLike, {d.x(i), d.forwardInput(i)}));
}

Value castTo(DecomposeRule &d, Value x, DType type) {
  return type == d.dtype(x) ? d.emit(kCopy, {x}) : d.emit(kCast, {x}, {{"dtype", dtypeName(type)}});
}

// Whether the types of all inputs are known; refuses if not.
bool hasTypes(DecomposeRule &d) {
  for (size_t i = 0; i < d.numInputs(); ++i) {
    if (d.dtype(d.x(i)) != DType::Unknown) continue;
    d.refuse(ErrorKind::InferMissing, "needs the element type of input " + Twine(i) + ", which is unknown");
    return false;
  }
  return true;
}

extern const OpDef kBackwardAmpCast, kBackwardAmpMulticast;

constinit const OpDef kAmpCast = {
    .name = "amp_cast",
    .summary = "data of type float32, float16 or bfloat16 in another type, converted as by Cast; data of other types "
               "as it is",
    .inputs = {"data"},
    .attrs = kCastAttrs,
    .params = paramsOf<AmpCastParams>(),
    .shape = shapes::same,
    .dtype = [](DTypeInference &t) { castType(t, t.in(0), true); },
    .flags = {.isElementwise = true},
    .kernelTypes = kEveryType,
    .gradient = [](GradRule &g) { g.fused(kBackwardAmpCast, {g.dy(0)}); },
    .decompose =
        [](DecomposeRule &d) {
          if (!hasTypes(d)) return;
          const DType type = d.dtype(d.x(0));
          d.y(0, castTo(d, d.x(0), isMixed(type) ? d.params<AmpCastParams>().dtype : type));
        },
    .kernel = castKernel,
};

// The type of dx is that of the forward operator's input (INF-08).
constinit const OpDef kBackwardAmpCast = {
    .name = "_backward_amp_cast",
    .summary = "gradient of amp_cast: dx = dy in the type of x",
    .inputs = {"dy"},
    .attrs = kCastAttrs,
    .params = paramsOf<AmpCastParams>(),
    .shape = shapes::same,
    .dtype = [](DTypeInference &t) { castType(t, t.out(0), false); },
    .flags = {.isBackward = true, .isElementwise = true},
    .kernelTypes = kEveryType,
    .gradient = [](GradRule &g) { g.dx(0, g.emit(kAmpCast, g.dy(0), g.attrs())); },
    .decompose = castBack,
    .kernel = castKernel,
};

constinit const OpDef kAmpMulticast = {
    .name = "amp_multicast",
    .summary = "each input in the widest type, or the narrowest, of those that are float32, float16 or bfloat16; "
               "inputs of other types as they are",
    .inputs = {{}, numTensors, true},
    .outputs = {{}, numTensors, true},
    .attrs = kMulticastAttrs,
    .params = paramsOf<AmpMulticastParams>(),
    .shape = pairShapes,
    .dtype =
        [](DTypeInference &t) {
          multicastTypes(t, [&](size_t i) { return t.in(i); }, [&](size_t i, DType type) { t.setOut(i, type); });
        },
    .kernelTypes = kEveryType,
    .gradient = [](GradRule &g) { g.fused(kBackwardAmpMulticast, g.headGradients()); },
    .decompose =
        [](DecomposeRule &d) {
          if (!hasTypes(d)) return;
          const DType common = commonType(d.params<AmpMulticastParams>().castNarrow, d.numInputs(),
                                          [&](size_t i) { return d.dtype(d.x(i)); });
          for (size_t i = 0; i < d.numInputs(); ++i)
            if (d.wants(i)) d.y(i, castTo(d, d.x(i), isMixed(d.dtype(d.x(i))) ? common : d.dtype(d.x(i))));
        },
    .kernel = castKernel,
};

constinit const OpDef kBackwardAmpMulticast = {
    .name = "_backward_amp_multicast",
    .summary = "gradients of amp_multicast: dx[k] = dy[k] in the type of x[k]",
    .inputs = {{}, numTensors, true},
    .outputs = {{}, numTensors, true},
    .attrs = kMulticastAttrs,
    .params = paramsOf<AmpMulticastParams>(),
    .shape = pairShapes,
    .dtype =
        [](DTypeInference &t) {
          multicastTypes(t, [&](size_t i) { return t.out(i); }, [&](size_t i, DType type) { t.setIn(i, type); });
        },
    .flags = {.isBackward = true},
    .kernelTypes = kEveryType,
    .gradient =
        [](GradRule &g) {
          const Value y = g.emit(kAmpMulticast, g.headGradients(), g.attrs());
          for (size_t i = 0; i < g.numInputs(); ++i) g.dx(i, g.at(y, i));
        },
    .decompose = castBack,
    .kernel = castKernel,
};

}  // namespace

constinit const OpFamily kAmpCastFamily = kOps<kAmpCast, kBackwardAmpCast, kAmpMulticast, kBackwardAmpMulticast>;

}  // namespace gradc
