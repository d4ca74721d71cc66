// Fills a registry with every built-in operator. Tested by tests/ops/registry_test.cc
#include "ops/registry.h"

#include "ops/control/flow_operator.h"
#include "ops/kit/builtin.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Error.h"

#include <algorithm>
#include <functional>
#include <vector>

using namespace llvm;

namespace gradc {
namespace {

constexpr const OpFamily *kFamilies[] = {
#define FAMILY(name) &k##name##Family,
#include "ops/kit/families.def"
#undef FAMILY
};

}  // namespace

void registerBuiltinOps(OpRegistry &registry) {
  for (const OpFamily *family : kFamilies)
    for (const OpDef *op : *family) {
      Error error = registry.add(*op);
      assert(!error && "two built-in operators share a name");
      consumeError(std::move(error));
    }
  registry.wellKnown = {
      .zerosLike = &kZerosLike,
      .onesLike = &kOnesLike,
      .zerosPlaceholder = &kZerosPlaceholder,
      .copy = &kCopy,
      .identityLike = registry.find("_identity_with_attr_like_rhs"),
      .sum = &kElementWiseSum,
      .add = &kGradAdd,
      .tap = &kGradientTap,
      .sumOfRows = sumOfRows,
  };
}

bool isBuiltinOp(const OpDef &op) {
  // By address; never destroyed, because threads may still read it while the process exits.
  static const std::vector<const OpDef *> &all = *[] {
    auto *const ops = new std::vector<const OpDef *>();
    for (const OpFamily *family : kFamilies) ops->insert(ops->end(), family->begin(), family->end());
    llvm::sort(*ops, std::less<>());
    return ops;
  }();
  return std::binary_search(all.begin(), all.end(), &op, std::less<>());
}

RowOps builtinRowOps() { return {.split = &kSliceChannel, .stack = &kStack, .full = &kFull}; }

}  // namespace gradc
