// Tested by tests/imperative/memory/imperative_keeps_test.cc
#include "ops/kit/output_reads.h"

#include "ir/graph/effects.h"
#include "ops/kit/families.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

/// One bit per input, by output.
struct Row {
  StringRef name;
  uint32_t inputs[3];
};
constexpr uint32_t bits(std::initializer_list<int> positions) {
  uint32_t set = 0;
  for (int position : positions) set |= 1u << position;
  return set;
}

// Sorted by name. Of dy and the two operands of a bilinear function each gradient reads dy and the other operand; that
// of an addend reads dy alone. Normalizations: dx reads everything, dgamma all but gamma, dbeta dy alone. Batch
// normalization is not listed, because its fast kernel recomputes a relu that follows it.
constexpr Row kRows[] = {
    {"_backward_Convolution", {bits({0, 2}), bits({0, 1}), bits({0})}},
    {"_backward_Deconvolution", {bits({0, 2}), bits({0, 1}), bits({0})}},
    {"_backward_FullyConnected", {bits({0, 2}), bits({0, 1}), bits({0})}},
    {"_backward_GroupNorm", {bits({0, 1, 2, 3, 4}), bits({0, 1, 3, 4}), bits({0})}},
    {"_backward_InstanceNorm", {bits({0, 1, 2, 3, 4}), bits({0, 1, 2, 3}), bits({0})}},
    {"_backward_LayerNorm", {bits({0, 1, 2, 3, 4}), bits({0, 1, 3, 4}), bits({0})}},
    {"_backward_broadcast_div", {bits({0, 2}), bits({0, 1, 2})}},
    {"_backward_broadcast_mul", {bits({0, 2}), bits({0, 1})}},
    {"_backward_dot", {bits({0, 2}), bits({0, 1})}},
    {"_backward_interleaved_matmul_encdec_qk", {bits({0, 2}), bits({0, 1})}},
    {"_backward_interleaved_matmul_encdec_valatt", {bits({0, 2}), bits({0, 1})}},
    {"_backward_interleaved_matmul_selfatt_valatt", {bits({0, 2}), bits({0, 1})}},
    {"_backward_linalg_gemm", {bits({0, 2}), bits({0, 1}), bits({0})}},
    {"_backward_linalg_gemm2", {bits({0, 2}), bits({0, 1})}},
};

}  // namespace

bool dependsOn(const NodeKind &kind, uint32_t output, size_t input) {
  if (kind.numOutputs < 2 || output >= 3 || !kind.op->flags.isBackward) return true;
  const Row *const row =
      llvm::lower_bound(kRows, kind.op->name, [](const Row &r, StringRef name) { return r.name < name; });
  if (row == std::end(kRows) || row->name != kind.op->name || !isBuiltinOp(*kind.op)) return true;
  return row->inputs[output] >> input & 1;
}

bool readsInput(const NodeKind &kind, size_t input, function_ref<bool(uint32_t)> isWanted) {
  if (kind.isIgnored(input)) return false;
  if (hasEffects(kind)) return true;
  for (uint32_t o = 0; o < kind.numOutputs; ++o)
    if (isWanted(o) && dependsOn(kind, o, input)) return true;
  return false;
}

}  // namespace gradc
