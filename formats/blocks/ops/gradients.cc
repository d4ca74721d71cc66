// Gradient operators in terms of results of their forward operators. Tested by tests/formats/blocks/block_rules_test.cc
#include "formats/blocks/ops/op_row.h"

using namespace llvm;

namespace gradc {
namespace {

// With q = dOut/y: dx = q, dy = −q·out, each summed over what was repeated.
void divideGradient(OpTranslation &op) {
  const Value x = op.in("X"), y = op.in("Y"), out = op.in("Out");
  const Value divisor = op.alignedWithX(y), quotient = op.emit("broadcast_div", {op.in("Out@GRAD"), divisor});
  const Value ofDivisor = op.emit("negative", {op.emit("elemwise_mul", {quotient, out})});
  op.out("X@GRAD", op.emit("_sum_like", {quotient, x}));
  op.out("Y@GRAD", op.emit("reshape_like", {op.emit("_sum_like", {ofDivisor, divisor}), y}));
}

// −dOut·out³/2
void reciprocalRootGradient(OpTranslation &op) {
  const Value out = op.in("Out"), cube = op.emit("elemwise_mul", {op.emit("square", {out}), out});
  op.out("X@GRAD", op.timesScalar(op.emit("elemwise_mul", {op.in("Out@GRAD"), cube}), -0.5));
}

constexpr BlockOpRow kRows[] = {
    {"elementwise_div_grad", divideGradient},
    {"rsqrt_grad", reciprocalRootGradient},
};

}  // namespace

ArrayRef<BlockOpRow> gradientBlockOps() { return kRows; }

}  // namespace gradc
