// Tested by tests/imperative/imperative_function_test.cc
#include "imperative/tape/function_op.h"

#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"

using namespace llvm;

namespace gradc {
namespace {

struct FunctionParams {
  int64_t numArgs, numOutputs;
  Dims arriving;  // outputs; only for a gradient
};
constexpr int64_t kMaxPorts = 1 << 16;
constexpr AttrSpec kNumArgs =
    required<&FunctionParams::numArgs>("num_args", "number of inputs").atLeast(1).atMost(kMaxPorts);
constexpr AttrSpec kFunctionAttrs[] = {
    kNumArgs,
    required<&FunctionParams::numOutputs>("num_outputs", "number of outputs").atLeast(1).atMost(kMaxPorts),
};
// Inputs are the operands of a function, of its gradient too.
constexpr AttrSpec kOnceAttrs[] = {
    required<&FunctionParams::numArgs>("num_args", "number of inputs").atLeast(1).atMost(2 * kMaxPorts),
    required<&FunctionParams::numOutputs>("num_outputs", "number of outputs").atLeast(1).atMost(kMaxPorts),
};
constexpr AttrSpec kGradientAttrs[] = {
    kNumArgs,
    required<&FunctionParams::arriving>("outputs", "outputs that a gradient arrives at").atLeast(0).atMost(kMaxPorts),
};

uint32_t numArgs(const NodeKind &kind) { return static_cast<uint32_t>(kind.params<FunctionParams>().numArgs); }
uint32_t numOutputs(const NodeKind &kind) { return static_cast<uint32_t>(kind.params<FunctionParams>().numOutputs); }
size_t numArriving(const NodeKind &kind) { return kind.params<FunctionParams>().arriving.size(); }

bool isShapeOnly(const NodeKind &kind, size_t input) { return input >= numArriving(kind); }

void differentiate(GradRule &g) {
  SmallVector<int64_t, 4> arriving;
  for (size_t o = 0; o < g.numOutputs(); ++o)
    if (!g.isZero(o)) arriving.push_back(static_cast<int64_t>(o));
  SmallVector<Value, 8> operands;
  for (int64_t o : arriving) operands.push_back(g.dy(static_cast<size_t>(o)));
  for (int64_t o : arriving) operands.push_back(g.y(static_cast<size_t>(o)));
  for (size_t i = 0; i < g.numInputs(); ++i) operands.push_back(g.x(i));
  const StringRef count = g.number(static_cast<int64_t>(g.numInputs())), outputs = g.tuple(arriving);
  const Attrs attrs = g.context().attrs(ArrayRef<AttrText>{{"num_args", count}, {"outputs", outputs}});
  const Value gradients = g.emit(kFunctionGradient, operands, attrs);
  for (size_t i = 0; i < g.numInputs(); ++i)
    if (g.wants(i)) g.dx(i, g.at(gradients, i));
}

void gradientShapes(ShapeInference &s) {
  const size_t count = numArriving(s.kind());
  for (size_t i = 0; i < count; ++i) s.sameInIn(i, count + i);
  for (size_t i = 0; i < s.numOutputs(); ++i) s.sameInOut(2 * count + i, i);
}
void gradientTypes(DTypeInference &t) {
  const size_t count = numArriving(t.kind());
  for (size_t i = 0; i < count; ++i) t.sameInIn(i, count + i);
  for (size_t i = 0; i < t.numOutputs(); ++i) t.sameInOut(2 * count + i, i);
}

// Never called: see the head of function_op.h.
void notHere(const KernelCall &call) { throw KernelError{("'" + call.kind->spelling + "' is code of the host").str()}; }

constexpr OpDef function(StringRef name, StringRef summary, ArrayRef<AttrSpec> attrs) {
  OpDef op;
  op.name = name;
  op.summary = summary;
  op.inputs = {{}, numArgs, true};
  op.outputs = {{}, numOutputs, true};
  op.attrs = attrs;
  op.params = paramsOf<FunctionParams>();
  op.shape = [](ShapeInference &) {};  // the call knows
  op.dtype = [](DTypeInference &) {};
  op.kernelTypes = kEveryType;
  op.kernel = notHere;
  return op;
}

constexpr OpDef withGradient(OpDef op) {
  op.gradient = differentiate;
  return op;
}

}  // namespace

constinit const OpDef kFunction = withGradient(function("_function", "code of the host", kFunctionAttrs));
constinit const OpDef kOnceFunction =
    function("_once_function", "gradients that code of the host computed", kOnceAttrs);

constinit const OpDef kFunctionGradient = {
    .name = "_function_gradient",
    .summary = "gradients that code of the host computes",
    .inputs = {{},
               [](const NodeKind &kind) { return static_cast<uint32_t>(2 * numArriving(kind)) + numArgs(kind); },
               true},
    .outputs = {{}, numArgs, true},
    .attrs = kGradientAttrs,
    .params = paramsOf<FunctionParams>(),
    .shape = gradientShapes,
    .dtype = gradientTypes,
    .ignored = isShapeOnly,
    .flags = {.isStateful = true},
    .kernelTypes = kEveryType,
    .kernel = notHere,
};

ArrayRef<int64_t> arrivingOutputs(const NodeKind &kind) { return kind.params<FunctionParams>().arriving; }

std::shared_ptr<FunctionCall> &functionCallOf(Storage &state) {
  return *static_cast<std::shared_ptr<FunctionCall> *>(state.releaseUser);
}

void releaseSaved(Storage &state) {
  FunctionCall &call = *functionCallOf(state);
  Pooled<FunctionCall::Saved> saved(call.saved.get_allocator());
  std::lock_guard guard(call.mutex);
  call.isCleared |= !call.saved.empty();
  call.node = nullptr;
  std::swap(saved, call.saved);
}

}  // namespace gradc
