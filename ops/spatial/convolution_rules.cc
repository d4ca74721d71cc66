// Tested by tests/ops/nn_ops_test.cc, tests/ops/layer_ops_test.cc
#include "ops/spatial/convolution_rules.h"

#include "ops/kit/primitives.h"

using namespace llvm;

namespace gradc {

Error checkConvolution(ConvolutionParams &p) {
  if (p.kernel.empty() || p.kernel.size() > 3)
    return Failure(ErrorKind::BadAttribute,
                   "attribute 'kernel' has " + Twine(p.kernel.size()) + " elements, expected 1 to 3");
  if (Error error = checkLayout(p.layout, p.kernel)) return error;
  if (Error error = completeWindowAttr("stride", p.stride, p.kernel, kSpatialOnes)) return error;
  if (Error error = completeWindowAttr("dilate", p.dilate, p.kernel, kSpatialOnes)) return error;
  if (Error error = completeWindowAttr("pad", p.pad, p.kernel, kSpatialZeros)) return error;
  if (p.numFilter % p.numGroup)
    return Failure(ErrorKind::BadAttribute, "attribute 'num_filter' is " + Twine(p.numFilter) +
                                                ", expected a multiple of 'num_group' = " + Twine(p.numGroup));
  return Error::success();
}

ConvGeometry windowsOf(const ConvolutionParams &p) {
  ConvGeometry g;
  g.groups = p.numGroup;
  g.channelsLast = p.channelsLast();
  setSpatial(g.kernel, p.kernel);
  setSpatial(g.stride, p.stride);
  setSpatial(g.dilate, p.dilate);
  setSpatial(g.pad, p.pad);
  return g;
}

Attrs withoutBias(const RuleContext &rule) { return rule.context().withAttrs(rule.attrs(), {{"no_bias", "True"}}); }

ShapeRef outputShape(const ShapeInference &s, ConvolutionPorts at) {
  return at.isForward ? s.out(at.output) : s.in(at.output);
}

void stateShapes(ShapeInference &s, ConvolutionPorts at, Dims data, Dims weight, Dims output) {
  s.setIn(at.data, data);
  s.setIn(at.weight, weight);
  if (at.isForward) s.setOut(at.output, output);
  else s.setIn(at.output, output);
}

void relateShapes(ShapeInference &s, ConvolutionPorts at, void (*relateChannels)(ShapeInference &, ConvolutionShapes &),
                  void (*relateExtents)(ShapeInference &, size_t i, int64_t &in, int64_t &out)) {
  const ConvolutionParams &p = s.params<ConvolutionParams>();
  const DimsBuffer unknown(p.rank(), kUnknownDim);
  stateShapes(s, at, unknown, unknown, unknown);
  if (s.hasFailed()) return;
  ConvolutionShapes shapes{DimsBuffer(s.in(at.data).dims()), DimsBuffer(s.in(at.weight).dims()),
                           DimsBuffer(outputShape(s, at).dims())};
  relateChannels(s, shapes);
  for (size_t i = 0; i < p.kernel.size() && !s.hasFailed(); ++i) {
    const size_t axis = p.spatialAxis(i);
    shapes.weight[axis] = p.kernel[i];
    relateExtents(s, i, shapes.in[axis], shapes.out[axis]);
  }
  stateShapes(s, at, shapes.in, shapes.weight, shapes.out);
}

void relateGradients(ShapeInference &s) {
  for (size_t o = 0; o < s.numOutputs(); ++o) s.sameInOut(o + 1, o);
  if (s.numOutputs() < 3) return;
  s.setOut(2, {s.params<ConvolutionParams>().numFilter});
  s.sameInOut(3, 2);
}

void fusedGradient(GradRule &g, const OpDef &backward) {
  if (hasBias(g.kind())) g.fused(backward, {g.dy(0), g.x(0), g.x(1), g.x(2)});
  else g.fused(backward, {g.dy(0), g.x(0), g.x(1)});
}

void decomposeFused(DecomposeRule &d, const OpDef &dataGrad, const OpDef &weightGrad) {
  const Attrs attrs = withoutBias(d);
  if (d.wants(0)) d.y(0, d.emit(dataGrad, {d.x(0), d.x(2), d.x(1)}, attrs));
  if (d.wants(1)) d.y(1, d.emit(weightGrad, {d.x(0), d.x(1), d.x(2)}, attrs));
  if (!hasBias(d.kind()) || !d.wants(2)) return;
  const StringRef axis = d.number(d.params<ConvolutionParams>().channelAxis());
  d.y(2, d.emit(kSum, {d.x(0)}, {{"axis", axis}, {"exclude", "True"}}));
}

void gradientOfDataGrad(GradRule &g, const OpDef &forward, const OpDef &weightGrad) {
  if (g.wants(0)) g.dx(0, g.emit(forward, {g.dy(0), g.x(1)}, withoutBias(g)));
  if (g.wants(1)) g.dx(1, g.emit(weightGrad, {g.x(0), g.dy(0), g.x(1)}, withoutBias(g)));
  g.noGrad(2);
}

void gradientOfWeightGrad(GradRule &g, const OpDef &forward, const OpDef &dataGrad) {
  if (g.wants(0)) g.dx(0, g.emit(forward, {g.x(1), g.dy(0)}, withoutBias(g)));
  if (g.wants(1)) g.dx(1, g.emit(dataGrad, {g.x(0), g.dy(0), g.x(1)}, withoutBias(g)));
  g.noGrad(2);
}

}  // namespace gradc
