// Shared by convolution and pooling: where channels are in a tensor, and windows that slide over up to three axes.
//
// Tensors are (batch, channel, spatial…) or (batch, spatial…, channel). Kernels see both through `ImageView`, which
// always has three spatial axes: missing ones are in front and have length 1.
// Tested by tests/ops/nn_ops_test.cc
#pragma once

#include "ir/base/error.h"
#include "ir/op/attr_spec.h"
#include "ir/rules/inference.h"
#include "ir/tensor/tensor.h"

namespace gradc {

/// `None` means channels first.
enum class SpatialLayout : uint8_t { None, Ncw, Nchw, Ncdhw, Nwc, Nhwc, Ndhwc };
inline constexpr llvm::StringRef kSpatialLayoutNames[] = {"None", "NCW", "NCHW", "NCDHW", "NWC", "NHWC", "NDHWC"};
constexpr llvm::ArrayRef<llvm::StringRef> enumNames(SpatialLayout) { return kSpatialLayoutNames; }
constexpr bool isChannelsLast(SpatialLayout layout) { return layout >= SpatialLayout::Nwc; }
/// 1 to 3, the spatial axes that a layout other than None names.
constexpr size_t spatialAxes(SpatialLayout layout) { return (static_cast<size_t>(layout) - 1) % 3 + 1; }

inline llvm::Error checkLayout(SpatialLayout layout, Dims kernel) {
  if (layout == SpatialLayout::None || spatialAxes(layout) == kernel.size()) return llvm::Error::success();
  return Failure(ErrorKind::BadAttribute, "attribute 'layout' is " + kSpatialLayoutNames[static_cast<size_t>(layout)] +
                                              ", expected one of " + llvm::Twine(kernel.size() + 2) +
                                              " axes, as 'kernel' has " + llvm::Twine(kernel.size()) + " elements");
}

/// A bool that may be left to the system. 0 and 1 are read as MXNet reads them; `settle` makes them False and True.
enum class Tristate : uint8_t { None, False, True, Zero, One, LowerFalse, LowerTrue };
inline constexpr llvm::StringRef kTristateNames[] = {"None", "False", "True", "0", "1", "false", "true"};
constexpr llvm::ArrayRef<llvm::StringRef> enumNames(Tristate) { return kTristateNames; }
constexpr Tristate settle(Tristate value) {
  if (value == Tristate::None) return value;
  return static_cast<uint8_t>(value) % 2 ? Tristate::False : Tristate::True;
}

/// Bound of window attributes: arithmetic on them stays far from overflow.
inline constexpr double kLargestWindow = 0x7fffffff;

inline constexpr int64_t kSpatialOnes[3] = {1, 1, 1};
inline constexpr int64_t kSpatialZeros[3] = {0, 0, 0};

/// One tensor of images. Element (n, c, pixel) is at n·batchStride + c·channelStride + pixel·pixelStride, where pixels
/// are numbered in row-major order of `extent`.
struct ImageView {
  int64_t batch = 1, channels = 1;
  int64_t extent[3] = {1, 1, 1};
  int64_t batchStride = 0, channelStride = 0, pixelStride = 1;

  int64_t pixels() const { return extent[0] * extent[1] * extent[2]; }
};

inline ImageView imageView(Dims shape, bool channelsLast) {
  ImageView view;
  const size_t numSpatial = shape.size() - 2, first = channelsLast ? 1 : 2;
  view.batch = shape[0];
  view.channels = shape[channelsLast ? shape.size() - 1 : 1];
  for (size_t i = 0; i < numSpatial; ++i) view.extent[3 - numSpatial + i] = shape[first + i];
  view.channelStride = channelsLast ? 1 : view.pixels();
  view.pixelStride = channelsLast ? view.channels : 1;
  view.batchStride = view.channels * view.pixels();
  return view;
}

/// Copies per-axis numbers to the last of three; the ones in front keep what they hold.
inline void setSpatial(int64_t (&to)[3], Dims values) {
  for (size_t i = 0; i < values.size(); ++i) to[3 - values.size() + i] = values[i];
}

/// Fills a window attribute left out with `defaults`, and checks its length: "stride has 1 element, kernel has 2".
inline llvm::Error completeWindowAttr(llvm::StringRef key, Dims &values, Dims kernel, const int64_t (&defaults)[3]) {
  if (values.empty()) values = Dims(defaults, kernel.size());
  if (values.size() == kernel.size()) return llvm::Error::success();
  return Failure(ErrorKind::BadAttribute, "attribute '" + key + "' has " + countOf(values.size(), "element") +
                                              ", expected " + llvm::Twine(kernel.size()) + " as 'kernel' has");
}

}  // namespace gradc
