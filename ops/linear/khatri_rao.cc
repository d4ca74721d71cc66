// khatri_rao: the Kronecker product column by column. Tested by tests/ops/network_ops_test.cc
#include "ir/rules/grad_rule.h"
#include "ir/rules/inference.h"
#include "ir/rules/kernel.h"
#include "ir/tensor/dim.h"
#include "ops/kit/families.h"
#include "ops/kit/kernel_dispatch.h"
#include "ops/kit/primitives.h"

#include <algorithm>

using namespace llvm;

namespace gradc {
namespace {

struct KhatriRaoParams {
  int64_t numArgs = 1;
};
constexpr AttrSpec kAttrs[] = {
    required<&KhatriRaoParams::numArgs>("num_args", "number of matrices").atLeast(1).atMost(1 << 16)};

uint32_t numMatrices(const NodeKind &kind) { return static_cast<uint32_t>(kind.params<KhatriRaoParams>().numArgs); }

// Matrices (m0, n), (m1, n), … make (m0·m1·…, n).
void relateShapes(ShapeInference &s) {
  for (size_t i = 0; i < s.numInputs(); ++i) s.setIn(i, {kUnknownDim, kUnknownDim});
  s.setOut(0, {kUnknownDim, kUnknownDim});
  if (s.hasFailed()) return;
  int64_t columns = s.out(0)[1];
  SmallVector<int64_t, 4> rows;
  for (size_t i = 0; i < s.numInputs(); ++i) {
    columns = std::max(columns, s.in(i)[1]);
    rows.push_back(s.in(i)[0]);
  }
  for (size_t i = 0; i < s.numInputs(); ++i) s.setIn(i, {kUnknownDim, columns});
  s.setOut(0, {is_contained(rows, kUnknownDim) ? kUnknownDim : productOf(rows).inShape(), columns});
  if (!s.hasFailed() && s.numInputs() == 1) s.sameInOut(0, 0);
}

// Row r of the result is the product of one row of each matrix, that of the last one changing fastest.
void khatriRao(const KernelCall &call) {
  if (!call.wants(0)) return;
  const int64_t rows = call.out[0].shape[0], columns = call.out[0].shape[1];
  SmallVector<int64_t, 4> row(call.in.size(), 0);
  dispatchFloating(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        double product = 1;
        for (size_t i = 0; i < row.size(); ++i)
          product *= static_cast<double>(call.in[i].as<const T>()[row[i] * columns + c]);
        call.out[0].as<T>()[r * columns + c] = static_cast<T>(product);
      }
      for (size_t i = row.size(); i-- > 0 && ++row[i] == call.in[i].shape[0];) row[i] = 0;
    }
  });
}

void decomposeKhatriRao(DecomposeRule &d) {
  Value y = d.x(0);
  if (d.numInputs() == 1) y = d.emit(kCopy, {y});
  for (size_t i = 1; i < d.numInputs(); ++i) {
    const Value slow = d.emit(kExpandDims, {y}, {{"axis", "1"}}), fast = d.emit(kExpandDims, {d.x(i)}, {{"axis", "0"}});
    y = d.emit(kReshape, {d.emit(kBroadcastMul, {slow, fast})}, {{"shape", "(-3,0)"}});
  }
  d.y(0, y);
}

// MXNet has no gradient for it; here it comes from the decomposition.
constinit const OpDef kKhatriRao = {
    .name = "khatri_rao",
    .summary = "the Kronecker product of columns: y[i·m1 + j,k] = a[i,k]·b[j,k], and so on for more matrices "
               "of as many columns",
    .inputs = {{}, numMatrices, true},
    .attrs = kAttrs,
    .params = paramsOf<KhatriRaoParams>(),
    .shape = relateShapes,
    .decompose = decomposeKhatriRao,
    .kernel = khatriRao,
};

}  // namespace

constinit const OpFamily kKhatriRaoFamily = kOps<kKhatriRao>;

}  // namespace gradc
