// The operator families that `registerBuiltinOps` lists; each array is the last definition of the file of that name.
#pragma once

#include "ir/op/op.h"

namespace gradc {

using OpFamily = llvm::ArrayRef<const OpDef *>;

#define FAMILY(name) extern const OpFamily k##name##Family;
#include "ops/kit/families.def"
#undef FAMILY

}  // namespace gradc
