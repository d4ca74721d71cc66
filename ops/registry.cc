// Fills a registry with every built-in operator. Tested by tests/ops/registry_test.cc
#include "ops/registry.h"

#include "ops/control/scan.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"

#include "llvm/Support/Error.h"

using namespace llvm;

namespace gradc {

void registerBuiltinOps(OpRegistry &registry) {
  for (const OpFamily *family : allFamilies())
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

RowOps builtinRowOps() { return {.split = &kSliceChannel, .stack = &kStack, .full = &kFull}; }

}  // namespace gradc
