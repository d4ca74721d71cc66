// Tested by tests/imperative/memory/imperative_growth_test.cc
#include "imperative/tape/tape_shapes.h"

#include <cstdlib>
#include <cstring>
#include <new>

using namespace llvm;

namespace gradc {

TapeShapes::TapeShapes() : rows(1, nullptr) {}

TapeShapes::~TapeShapes() {
  for (Row *row : rows) std::free(row);
}

std::optional<ShapeId> TapeShapes::intern(Dims dims) {
  const auto [at, isNew] = ids.try_emplace(bytesOf(dims), 0);
  if (!isNew) return ShapeId(at->second);
  auto giveUp = [&] { ids.erase(at); };
  if (!isPossible(dims)) return giveUp(), std::nullopt;
  const size_t bytes = sizeof(Row) + dims.size() * sizeof(int64_t);
  void *const memory = std::malloc(bytes);
  if (!memory) {
    giveUp();
    throw std::bad_alloc();
  }
  try {
    if (freeIds.empty()) {
      rows.push_back(nullptr);
      freeIds.push_back(static_cast<uint32_t>(rows.size() - 1));
    }
  } catch (...) {
    std::free(memory);
    giveUp();
    throw;
  }
  Row *const row = new (memory) Row{.id = freeIds.back(), .rank = static_cast<uint32_t>(dims.size())};
  freeIds.pop_back();
  std::memcpy(row->dims(), dims.data(), dims.size() * sizeof(int64_t));
  rows[row->id] = row;
  numBytes += heapBlock(bytes);
  at->second = row->id;
  return ShapeId(row->id);
}

void TapeShapes::prepay(Row &row) {
  row.prepaid = 1 << 12;
  row.refs.fetch_add(row.prepaid, std::memory_order_relaxed);
}

void TapeShapes::sweep() {
  if (ids.size() < limit) return;
  freeIds.reserve(rows.size());
  for (Row *&row : rows) {
    if (!row || !row->isUnused()) continue;
    const Dims dims(row->dims(), row->rank);
    ids.erase(bytesOf(dims));
    freeIds.push_back(row->id);
    numBytes -= heapBlock(sizeof(Row) + dims.size() * sizeof(int64_t));
    std::free(std::exchange(row, nullptr));
  }
  limit = std::max<size_t>(1024, 2 * ids.size());
}

size_t TapeShapes::heapBytes() const {
  size_t keyBytes = heapBlock(ids.getNumBuckets() * (sizeof(void *) + sizeof(unsigned)));
  for (const auto &entry : ids) keyBytes += heapBlock(entry.getKeyLength() + 1 + sizeof(entry));
  return numBytes + heapBytesOf(rows, freeIds) + keyBytes;
}

}  // namespace gradc
