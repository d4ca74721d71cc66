// Fills a registry with every built-in operator. Tested by tests/ops/registry_test.cc
#include "ops/registry.h"

#include "ops/control/scan.h"
#include "ops/kit/families.h"
#include "ops/kit/primitives.h"
#include "ops/optimizer/optimizer_ops.h"

#include "ir/op/attr_spec.h"

#include "llvm/Support/Error.h"

using namespace llvm;

namespace gradc {
namespace {

Expected<KindRef> sumOf(Context &context, size_t count) {
  return context.kind(kElementWiseSum, context.attrs({{"num_args", std::to_string(count)}}));
}

Expected<KindRef> scaledBy(Context &context, double factor) {
  std::string text;
  raw_string_ostream os(text);
  printAttr(os, factor);
  return context.kind(kMulScalar, context.attrs({{"scalar", os.str()}}));
}

Expected<KindRef> splitIntoRows(Context &context, int64_t count, bool dropsAxis) {
  return context.kind(kSliceChannel, context.attrs({{"num_outputs", std::to_string(count)},
                                                    {"axis", "0"},
                                                    {"squeeze_axis", dropsAxis ? "True" : "False"}}));
}

Expected<KindRef> stackOfRows(Context &context, size_t count) {
  return context.kind(kStack, context.attrs({{"num_args", std::to_string(count)}, {"axis", "0"}}));
}

Expected<KindRef> fullOf(Context &context, Dims shape, DType type, int64_t value) {
  std::string dims = "(";
  for (int64_t dim : shape) dims += std::to_string(dim) + ",";
  return context.kind(
      kFull, context.attrs({{"shape", dims + ")"}, {"dtype", dtypeName(type)}, {"value", std::to_string(value)}}));
}

}  // namespace

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
      .sumOf = sumOf,
      .scaled = scaledBy,
      .sumOfRows = sumOfRows,
      .optimizers = std::make_shared<OptimizerOps>(builtinOptimizerOps(registry)),
  };
}

RowOps builtinRowOps() { return {.split = splitIntoRows, .stack = stackOfRows, .full = fullOf}; }

}  // namespace gradc
