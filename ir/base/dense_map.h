// LLVM's DenseMap and DenseSet, but valid after std::bad_alloc in growth.
//
// LLVM's own update the number of buckets before they allocate, so after std::bad_alloc their destructor reads past the
// old buckets. Everything but the ownership of the buckets is LLVM's. Tested by tests/ir/allocation_test.cc
#pragma once

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <initializer_list>
#include <stdexcept>
#include <utility>

namespace gradc {

template <class KeyT, class ValueT, class KeyInfoT = llvm::DenseMapInfo<KeyT>,
          class BucketT = llvm::detail::DenseMapPair<KeyT, ValueT>>
class DenseMap : public llvm::DenseMapBase<DenseMap<KeyT, ValueT, KeyInfoT, BucketT>, KeyT, ValueT, KeyInfoT, BucketT> {
  using Base = llvm::DenseMapBase<DenseMap, KeyT, ValueT, KeyInfoT, BucketT>;
  friend Base;

 public:
  explicit DenseMap(unsigned numEntries = 0) { this->reserve(numEntries); }
  DenseMap(std::initializer_list<typename Base::value_type> values) : DenseMap(static_cast<unsigned>(values.size())) {
    this->insert(values.begin(), values.end());
  }
  DenseMap(DenseMap &&other) noexcept { swap(other); }
  DenseMap &operator=(DenseMap &&other) noexcept {
    DenseMap old(std::move(*this));
    swap(other);
    return *this;
  }
  ~DenseMap() {
    this->destroyAll();
    free(buckets, numBuckets);
  }

 private:
  static void free(BucketT *memory, unsigned number) {
    if (memory) llvm::deallocate_buffer(memory, sizeof(BucketT) * number, alignof(BucketT));
  }

  void swap(DenseMap &other) noexcept {
    std::swap(buckets, other.buckets);
    std::swap(numEntries, other.numEntries);
    std::swap(numTombstones, other.numTombstones);
    std::swap(numBuckets, other.numBuckets);
  }

  // The interface that the base requires.
  void grow(unsigned atLeast) {
    if (atLeast > 1u << 31) throw std::length_error("DenseMap");
    const unsigned number = std::max(64u, static_cast<unsigned>(llvm::NextPowerOf2(atLeast - 1)));
    void *const memory = llvm::allocate_buffer(sizeof(BucketT) * number, alignof(BucketT));
    BucketT *const old = std::exchange(buckets, static_cast<BucketT *>(memory));
    const unsigned numOld = std::exchange(numBuckets, number);
    if (!old) return this->initEmpty();
    this->moveFromOldBuckets(old, old + numOld);
    free(old, numOld);
  }
  void shrink_and_clear() { *this = DenseMap(); }
  unsigned getNumEntries() const { return numEntries; }
  void setNumEntries(unsigned number) { numEntries = number; }
  unsigned getNumTombstones() const { return numTombstones; }
  void setNumTombstones(unsigned number) { numTombstones = number; }
  BucketT *getBuckets() const { return buckets; }
  unsigned getNumBuckets() const { return numBuckets; }

  BucketT *buckets = nullptr;
  unsigned numEntries = 0, numTombstones = 0, numBuckets = 0;
};

template <class ValueT, class ValueInfoT = llvm::DenseMapInfo<ValueT>>
class DenseSet
    : public llvm::detail::DenseSetImpl<
          ValueT, DenseMap<ValueT, llvm::detail::DenseSetEmpty, ValueInfoT, llvm::detail::DenseSetPair<ValueT>>,
          ValueInfoT> {
 public:
  using DenseSet::DenseSetImpl::DenseSetImpl;
};

}  // namespace gradc
