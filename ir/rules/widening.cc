// Tested by tests/ir/widening_test.cc
#include "ir/rules/widening.h"

#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr size_t kAlignment = 64;

DType computedType(const NodeKind &kind, DType type, bool isMoved) {
  if (!isHalf(type) || kind.op->kernelTypes.contains(type)) return type;
  return isMoved ? DType::UInt16 : DType::Float32;
}

/// Whether computing block by block gives the same as computing whole operands.
bool suitsBlocks(const NodeKind &kind, ArrayRef<TensorRef> in, ArrayRef<TensorRef> out) {
  if (!kind.op->flags.isElementwise || out.empty()) return false;
  const int64_t size = out[0].size();
  if (size <= kWideningBlock) return false;
  for (size_t i = 0; i < in.size(); ++i)
    if (!kind.isIgnored(i) && in[i].size() != size) return false;
  return llvm::all_of(out, [&](const TensorRef &operand) { return operand.size() == size; });
}

}  // namespace

DType kernelInputType(const NodeKind &kind, size_t input, DType type) {
  // Of whole numbers the kernel needs the values, not just the bits.
  return computedType(kind, type, kind.op->flags.movesElements && !isWholeNumber(domainOf(kind, input)));
}

DType kernelOutputType(const NodeKind &kind, DType type) {
  return computedType(kind, type, kind.op->flags.movesElements);
}

Widening::Widening(const NodeKind &kind, ArrayRef<TensorRef> in, ArrayRef<TensorRef> out, ArrayRef<Request> requests) {
  auto addOperand = [&](const TensorRef &operand, DType type, bool isUsed) {
    types.push_back(type);
    isChanged |= type != operand.dtype;
    const bool isWidened = isUsed && type != operand.dtype && type == DType::Float32;
    offsets.push_back(isWidened ? bytes : kInPlace);
    if (isWidened) bytes += alignTo((block ? block : operand.size()) * sizeof(float), kAlignment);
  };
  if (llvm::none_of(in, [](const TensorRef &operand) { return isHalf(operand.dtype); }) &&
      llvm::none_of(out, [](const TensorRef &operand) { return isHalf(operand.dtype); }))
    return;
  if (suitsBlocks(kind, in, out)) block = kWideningBlock;
  for (size_t i = 0; i < in.size(); ++i) addOperand(in[i], kernelInputType(kind, i, in[i].dtype), !kind.isIgnored(i));
  for (size_t o = 0; o < out.size(); ++o)
    addOperand(out[o], kernelOutputType(kind, out[o].dtype), requests.empty() || requests[o] != Request::Null);
  if (bytes == 0) block = 0;
}

}  // namespace gradc
