// Shared by Pooling, its gradient and the primitives under both: attributes, and how shapes relate.
// Tested by tests/ops/nn_ops_test.cc, tests/passes/nn_infer_test.cc
#pragma once

#include "ir/op/op.h"
#include "ir/rules/inference.h"
#include "ops/spatial/spatial.h"

#include <optional>

namespace gradc {

enum class PoolType : uint8_t { Max, Avg, Sum, Lp };
inline constexpr llvm::StringRef kPoolTypeNames[] = {"max", "avg", "sum", "lp"};
constexpr llvm::ArrayRef<llvm::StringRef> enumNames(PoolType) { return kPoolTypeNames; }

enum class PoolConvention : uint8_t { Valid, Full, Same };
inline constexpr llvm::StringRef kPoolConventionNames[] = {"valid", "full", "same"};
constexpr llvm::ArrayRef<llvm::StringRef> enumNames(PoolConvention) { return kPoolConventionNames; }

struct PoolingParams {
  Dims kernel, stride, pad;
  PoolType poolType = PoolType::Max;
  PoolConvention convention = PoolConvention::Valid;
  bool globalPool = false, cudnnOff = false;
  std::optional<int64_t> pValue;
  Tristate countIncludePad = Tristate::None;
  SpatialLayout layout = SpatialLayout::None;

  bool channelsLast() const { return isChannelsLast(layout); }
  bool countsPadding() const { return countIncludePad != Tristate::False; }
};

inline constexpr AttrSpec kPoolingAttrs[] = {
    attr<&PoolingParams::kernel>("kernel", "()", "window size: (w,), (h, w) or (d, h, w); unused with global_pool")
        .atLeast(1)
        .atMost(kLargestWindow),
    attr<&PoolingParams::poolType>("pool_type", "max", "how a window is reduced"),
    attr<&PoolingParams::globalPool>("global_pool", "False", "one window as large as the image, without padding"),
    attr<&PoolingParams::cudnnOff>("cudnn_off", "False", "accepted and not used"),
    attr<&PoolingParams::convention>("pooling_convention", "valid",
                                     "number of windows: valid rounds down, full up; same is input/stride rounded up, "
                                     "padded at the end"),
    attr<&PoolingParams::stride>("stride", "()", "step of the window, 1 when left out")
        .atLeast(1)
        .atMost(kLargestWindow),
    attr<&PoolingParams::pad>("pad", "()", "padding on both sides of each axis, 0 when left out")
        .atLeast(0)
        .atMost(kLargestWindow),
    attr<&PoolingParams::pValue>("p_value", "None", "the p of the p-norm (Σ xᵖ)^(1/p)").atLeast(1).atMost(3),
    attr<&PoolingParams::countIncludePad>("count_include_pad", "None",
                                          "whether a mean divides by the taps in the padding too; None: it does"),
    attr<&PoolingParams::layout>("layout", "None", "order of the axes; None: batch, channel, spatial"),
};

/// Checks how attributes relate, and fills in what is left out.
llvm::Error checkPooling(const OpDef &, void *params);

/// Relates the shapes of data and output (INF-04). `output` is the position of the output among the inputs of a
/// backward node; none for a node that computes it.
void relatePoolShapes(ShapeInference &s, size_t data, std::optional<size_t> output);

}  // namespace gradc
