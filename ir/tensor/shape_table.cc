// Tested by tests/ir/shape_test.cc
#include "ir/tensor/shape_table.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {

ShapeTable::ShapeTable() { shapes.push_back({Dims(), -1}); }

ShapeTable::ShapeTable(const ShapeTable &other) : ShapeTable() {
  for (const Row &row : ArrayRef(other.shapes).drop_front()) intern(row.dims);
}

std::optional<ShapeId> ShapeTable::intern(Dims dims) {
  // One byte of rank, so that the key of the scalar () is not empty.
  SmallString<64> key(StringRef(reinterpret_cast<const char *>(dims.data()), dims.size() * sizeof(int64_t)));
  key.push_back(static_cast<char>(dims.size()));
  auto [at, isNew] = ids.try_emplace(key, static_cast<uint32_t>(shapes.size()));
  if (isNew) {
    if (!isPossible(dims)) {
      ids.erase(at);
      return std::nullopt;
    }
    int64_t *copy = arena.Allocate<int64_t>(dims.size());
    llvm::copy(dims, copy);
    const bool isKnown = !is_contained(dims, kUnknownDim);
    shapes.push_back({Dims(copy, dims.size()), isKnown ? *numElements(dims) : -1});
  }
  return ShapeId(at->second);
}

}  // namespace gradc
