// The families of built-in operators, with what their definitions use. Tested by tests/ops/registry_test.cc
#pragma once

#include "ops/kit/op_def.h"

namespace gradc {

using OpFamily = llvm::ArrayRef<const OpDef *>;

// Each array is the last definition of the file of that name.
#define FAMILY(name) extern const OpFamily k##name##Family;
#include "ops/kit/families.def"
#undef FAMILY

/// `constinit const OpFamily kCastFamily = kOps<kCast, kCastLike>;`
template <const OpDef &...ops> inline constexpr const OpDef *kOps[] = {&ops...};

llvm::ArrayRef<const OpFamily *> allFamilies();

/// Whether `op` is one of the definitions that registerBuiltinOps registers, not a host's operator of the same name. A
/// binary search by address.
bool isBuiltinOp(const OpDef &op);

}  // namespace gradc
