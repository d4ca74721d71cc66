// Shared by the files of CTCLoss.
#pragma once

#include "ir/op/op.h"

namespace gradc {

enum class CtcBlank : uint8_t { First, Last };
inline constexpr llvm::StringRef kCtcBlankNames[] = {"first", "last"};
constexpr llvm::ArrayRef<llvm::StringRef> enumNames(CtcBlank) { return kCtcBlankNames; }

struct CtcParams {
  bool useDataLengths = false, useLabelLengths = false;
  CtcBlank blank = CtcBlank::First;

  /// The class of the blank, and the label that ends a sequence without an input of lengths.
  int64_t blankOf(int64_t classes) const { return blank == CtcBlank::First ? 0 : classes - 1; }
  int64_t padding() const { return blank == CtcBlank::First ? 0 : -1; }
};

extern const OpDef kCtcLossGrad;  // _ctc_loss_grad(data, label[, data_lengths][, label_lengths])

}  // namespace gradc
