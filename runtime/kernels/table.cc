// Tested by tests/runtime/kernels/fast_kernel_table_test.cc
#include "runtime/kernels/table.h"

#include "ops/kit/families.h"
#include "runtime/kernels/core/sliced.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>
#include <type_traits>

using namespace llvm;

namespace gradc {
namespace {

constexpr const FastKernels *kFamilies[] = {
#define FAMILY(name) &fast::k##name##Kernels,
#include "runtime/kernels/core/families.def"
#undef FAMILY
};

/// Element-wise operators whose reference loop the compiler vectorises for every instruction set: all of it is
/// arithmetic. Sorted.
constexpr StringRef kVectorisedLoops[] = {
    "_backward_degrees",
    "_backward_hard_sigmoid",
    "_backward_hard_swish",
    "_backward_log10",
    "_backward_log1p",
    "_backward_log2",
    "_backward_radians",
    "_backward_rsqrt",
    "_backward_smooth_l1",
    "_backward_softsign",
    "_backward_sub",
    "_contrib_backward_quadratic",
    "_contrib_quadratic",
    "_equal",
    "_equal_scalar",
    "_greater",
    "_greater_equal",
    "_greater_equal_scalar",
    "_lesser",
    "_lesser_equal",
    "_lesser_equal_scalar",
    "_lesser_scalar",
    "_logical_and",
    "_logical_or",
    "_logical_xor",
    "_not_equal",
    "_not_equal_scalar",
    "ceil",
    "degrees",
    "fix",
    "floor",
    "hard_sigmoid",
    "hard_swish",
    "logical_not",
    "radians",
    "rint",
    "round",
    "rsqrt",
    "sign",
    "smooth_l1",
    "softsign",
    "trunc",
};

constexpr FastKernelRow kHostRow = {"", [](const KernelSite &site) { return site.kind->op->fastKernel(site); },
                                    LayoutRole::Plain};

constexpr FastKernelRow kLoopRow = {"", fast::referenceLoop, LayoutRole::Elements};
constexpr FastKernelRow kElementwiseRow = {"", fast::sliced, LayoutRole::Elements};
constexpr FastKernelRow kStepRow = {"", fast::optimizerStep, LayoutRole::Elements};

}  // namespace

ArrayRef<const FastKernelRow *> fastKernelTable() {
  static constexpr size_t kMostRows = 512;
  struct RowTable {
    const FastKernelRow *rows[kMostRows];
    size_t count = 0;
  };
  // Other threads may still compile when the process ends.
  static_assert(std::is_trivially_destructible_v<RowTable>);
  static const RowTable table = [] {
    RowTable made;
    for (const FastKernels *family : kFamilies)
      for (const FastKernelRow &row : *family) {
        assert(made.count < kMostRows);
        made.rows[made.count++] = &row;
      }
    std::sort(made.rows, made.rows + made.count,
              [](const FastKernelRow *a, const FastKernelRow *b) { return a->name < b->name; });
    return made;
  }();
  return {table.rows, table.count};
}

const FastKernelRow *findFastKernel(const OpDef &op) {
  if (op.fastKernel) return &kHostRow;
  const ArrayRef<const FastKernelRow *> rows = fastKernelTable();
  const auto at =
      llvm::lower_bound(rows, op.name, [](const FastKernelRow *r, StringRef name) { return r->name < name; });
  const bool isListed = at != rows.end() && (*at)->name == op.name && isBuiltinOp(op);
  if (isListed) return *at;
  if (op.flags.isStep && isBuiltinOp(op)) return &kStepRow;
  if (!op.flags.isElementwise) return nullptr;
  const bool isLoop = std::binary_search(std::begin(kVectorisedLoops), std::end(kVectorisedLoops), op.name);
  return isLoop && isBuiltinOp(op) ? &kLoopRow : &kElementwiseRow;
}

LayoutRole referenceRole(const OpDef &op) {
  return op.flags.isStep && isBuiltinOp(op) ? LayoutRole::Elements : LayoutRole::Plain;
}

}  // namespace gradc
