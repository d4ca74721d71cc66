// What the kernels of convolutions by oneDNN are made of: the formats of their entries, and parts that run one after
// the other.
#pragma once

#include "runtime/kernels/convolution/convolution_choices.h"
#include "runtime/kernels/convolution/convolution_steps.h"
#include "runtime/kernels/core/prepared_kernel.h"
#include "runtime/kernels/dnnl/dnnl_descs.h"

#include "llvm/ADT/FunctionExtras.h"
#include "llvm/ADT/StringRef.h"

#include <vector>

namespace gradc::fast {

/// The formats of one convolution: those of the entries, and those given to the primitive.
struct ConvolutionDescs {
  dnnl::memory::desc x, w, b, y;        // outside
  dnnl::memory::desc anyX, anyW, anyY;  // inside, or `any` where the primitive chooses
  bool isXLast, isYLast;                // outside: the channels
  bool isLast;                          // inside, both images
  bool convertsColours;                 // x inside has the channels last, although they do not fill a vector
  bool readsTiles;                      // forward
  dnnl::memory::dims stride, dilate, padLow, padHigh;
};

/// If the node's attribute puts channels last, all layouts are Plain.
struct ConvolutionOperands {
  Dims x, y;
  Layout xLayout, yLayout, wLayout;
};

/// Inside; oneDNN has no code for channels-last on only one side.
dnnl::memory::desc insideDesc(Dims shape, bool isLast);

ConvolutionDescs describe(const NodeKind &kind, const ConvolutionOperands &operands);

inline constexpr dnnl::algorithm kConvolution = dnnl::algorithm::convolution_direct;

/// oneDNN's own reference code is slower than products of gathered matrices, so it is treated as missing.
template <class Desc> bool isReference(const Desc &desc) {
  return llvm::StringRef(desc.impl_info_str()).starts_with("ref");
}
template <class Desc> void refuseReference(const Desc &desc) {
  if (isReference(desc)) throw dnnl::error(dnnl_unimplemented, "reference code only");
}

/// With weights in the format `w`.
dnnl::convolution_forward::primitive_desc forwardDesc(const ConvolutionDescs &d, bool hasBias,
                                                      const dnnl::memory::desc &w);

/// Runs its parts, one for each gradient, over the same scratch.
class ConvolutionKernel : public PreparedKernel {
 public:
  struct Part {
    llvm::unique_function<void(const KernelCall &)> run;
    size_t bytes = 0;  // of scratch
    Reorders reorders = {};
  };
  static constexpr uint8_t kOutput = 16;

  void add(Part part) { parts.push_back(std::move(part)); }

  /// `operands`: for each slot of the step, input i, or kOutput + i.
  void add(DnnlStep step, std::vector<uint8_t> operands);

  void run(const KernelCall &call) override;
  Reorders reorders() const override;
  size_t workspaceBytes() const override;

 private:
  std::vector<Part> parts;
};

}  // namespace gradc::fast
