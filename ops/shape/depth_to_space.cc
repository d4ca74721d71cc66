// Blocks of pixels as channels and back: space_to_depth, depth_to_space.
//
// Channel (i·b + j)·C + c of an image of depth is channel c of an image of space, at pixels (h·b + i, w·b + j). Each
// operator is the inverse of the other, and its gradient. Tested by tests/ops/network_ops_test.cc
#include "ops/shape/depth_to_space.h"

#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/tensor/dim.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

#include <string>

using namespace llvm;

namespace gradc {
namespace {

struct BlockParams {
  int64_t size = 1;
};
constexpr AttrSpec kAttrs[] = {
    required<&BlockParams::size>("block_size", "height and width of a block").atLeast(1).atMost(0x7fffffff)};

// If `whole` is known, it has to be a multiple of `factor`, and `part` is the quotient.
void divide(ShapeInference &s, ShapeRef shape, StringRef axis, int64_t whole, Dim factor, int64_t &part) {
  if (whole == kUnknownDim || s.hasFailed()) return;
  if (factor > whole ? whole != 0 : whole % factor.nearest() != 0)
    return s.fail("data has shape " + toString(shape) + ", expected its " + axis + " to be a multiple of " +
                  Twine(factor.nearest()));
  part = std::max(part, whole / factor.nearest());
}

int64_t times(int64_t dim, Dim factor) { return dim == kUnknownDim ? dim : (factor * dim).inShape(); }

void relateShapes(ShapeInference &s, bool isDepthInput) {
  const DimsBuffer unknown(4, kUnknownDim);
  s.setIn(0, unknown);
  s.setOut(0, unknown);
  if (s.hasFailed()) return;
  const Dim block = s.params<BlockParams>().size;
  const ShapeRef depth = isDepthInput ? s.in(0) : s.out(0), space = isDepthInput ? s.out(0) : s.in(0);
  const int64_t batch = std::max(depth[0], space[0]);
  int64_t channels = space[1], height = depth[2], width = depth[3];
  divide(s, depth, "channels", depth[1], block * block, channels);
  divide(s, space, "height", space[2], block, height);
  divide(s, space, "width", space[3], block, width);
  if (s.hasFailed()) return;
  const int64_t deep[] = {batch, times(channels, block * block), height, width};
  const int64_t wide[] = {batch, channels, times(height, block), times(width, block)};
  s.setIn(0, isDepthInput ? deep : wide);
  s.setOut(0, isDepthInput ? wide : deep);
}

}  // namespace

// The elements of the image of space, (n, c, h, i, w, j), in that of depth.
StridedView depthView(const NodeKind &kind, Dims whole, Dims part) {
  const int64_t block = kind.params<BlockParams>().size, channels = part[1];
  const DimsBuffer own = contiguousStrides(whole);
  return {{whole[0], channels, whole[2], block, whole[3], block},
          {own[0], own[1], own[2], block * channels * own[1], own[3], channels * own[1]}};
}

// The elements of the image of depth, (n, i, j, c, h, w), in that of space.
StridedView spaceView(const NodeKind &kind, Dims whole, Dims part) {
  const int64_t block = kind.params<BlockParams>().size;
  const DimsBuffer own = contiguousStrides(whole);
  return {{whole[0], block, block, whole[1], part[2], part[3]},
          {own[0], own[2], own[3], own[1], block * own[2], block * own[3]}};
}

namespace {

Value reshaped(DecomposeRule &d, Value v, const std::string &shape) {
  return d.emit(kReshape, {v}, {{"shape", shape}});
}

void decomposeDepth(DecomposeRule &d) {
  const std::string split = "-4," + std::to_string(d.params<BlockParams>().size) + ",-1";
  const Value blocks = reshaped(d, reshaped(d, d.x(0), "(0," + split + ",0,0)"), "(0,0," + split + ",0,0)");
  d.y(0, reshaped(d, d.emit(kTranspose, {blocks}, {{"axes", "(0,3,4,1,5,2)"}}), "(0,0,-3,-3)"));
}

void decomposeSpace(DecomposeRule &d) {
  const std::string split = "-4,-1," + std::to_string(d.params<BlockParams>().size);
  const Value blocks = reshaped(d, d.x(0), "(0,0," + split + "," + split + ")");
  const Value ordered = d.emit(kTranspose, {blocks}, {{"axes", "(0,3,5,1,2,4)"}});
  d.y(0, reshaped(d, reshaped(d, ordered, "(0,-3,-2)"), "(0,-3,-2)"));
}

extern const OpDef kSpaceToDepth;

constinit const OpDef kDepthToSpace = asMovementOfData({
    .name = "depth_to_space",
    .summary = "y[n,c,h·b + i,w·b + j] = x[n,(i·b + j)·C + c,h,w], b the block size, C the channels of y",
    .attrs = kAttrs,
    .params = paramsOf<BlockParams>(),
    .shape = [](ShapeInference &s) { relateShapes(s, true); },
    .gradient = [](GradRule &g) { g.fused(kSpaceToDepth, {g.dy(0)}); },
    .decompose = decomposeDepth,
    .kernel = gatherKernel<depthView>,
});

constinit const OpDef kSpaceToDepth = asMovementOfData({
    .name = "space_to_depth",
    .summary = "y[n,(i·b + j)·C + c,h,w] = x[n,c,h·b + i,w·b + j], b the block size, C the channels of x",
    .attrs = kAttrs,
    .params = paramsOf<BlockParams>(),
    .shape = [](ShapeInference &s) { relateShapes(s, false); },
    .gradient = [](GradRule &g) { g.fused(kDepthToSpace, {g.dy(0)}); },
    .decompose = decomposeSpace,
    .kernel = gatherKernel<spaceView>,
});

}  // namespace

constinit const OpFamily kDepthToSpaceFamily = kOps<kDepthToSpace, kSpaceToDepth>;

}  // namespace gradc
