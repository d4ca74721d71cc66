#include "ops/kit/families.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <functional>
#include <vector>

using namespace llvm;

namespace gradc {

ArrayRef<const OpFamily *> allFamilies() {
  static constexpr const OpFamily *kFamilies[] = {
#define FAMILY(name) &k##name##Family,
#include "ops/kit/families.def"
#undef FAMILY
  };
  return kFamilies;
}

bool isBuiltinOp(const OpDef &op) {
  // By address; never destroyed, because threads may still read it while the process exits.
  static const std::vector<const OpDef *> &all = *[] {
    auto *const ops = new std::vector<const OpDef *>();
    for (const OpFamily *family : allFamilies()) ops->insert(ops->end(), family->begin(), family->end());
    llvm::sort(*ops, std::less<>());
    return ops;
  }();
  return std::binary_search(all.begin(), all.end(), &op, std::less<>());
}

}  // namespace gradc
