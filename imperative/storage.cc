// Tested by tests/imperative_storage_test.cc
#include "imperative/storage.h"

#include "passes/memory/plan_memory.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cstdlib>
#include <new>

using namespace llvm;

namespace gradc {
namespace {

constexpr size_t kUnit = kPlanAlignment;
constexpr size_t kMaxBytes = static_cast<size_t>(kMaxTensorBytes) + sizeof(Storage);

}  // namespace

// Eight classes of whole units, then four to each power of two.
uint8_t Store::classOf(size_t bytes) {
  const size_t last = (std::max<size_t>(bytes, 1) - 1) / kUnit;
  if (last < 8) return static_cast<uint8_t>(last);
  const unsigned log = Log2_64(last);
  return static_cast<uint8_t>(8 + (log - 3) * 4 + (last >> (log - 2)) - 4);
}

size_t Store::classBytes(uint8_t sizeClass) {
  if (sizeClass < 8) return (sizeClass + size_t{1}) * kUnit;
  const unsigned log = 3 + (sizeClass - 8) / 4;
  return ((sizeClass - 8) % 4 + size_t{5}) << (log - 2) << Log2_64(kUnit);
}

const void *Store::thisThread() {
  static thread_local const char here = 0;
  return &here;
}

/// The list of a class that takes no more blocks.
Store::Block *Store::closed() {
  static Block block{nullptr};
  return &block;
}

void Store::takeReturned(SizeClass &list) {
  Block *const first = list.returned.exchange(nullptr, std::memory_order_acquire);
  if (!first) return;
  Block *last = first;
  while (last->next) last = last->next;
  last->next = list.own;
  list.own = first;
}

void *Store::allocate(size_t bytes, uint8_t &sizeClass) {
  if (bytes > kMaxBytes) return nullptr;
  sizeClass = classOf(bytes);
  SizeClass &list = classes[sizeClass];
  if (list.returned.load(std::memory_order_relaxed)) takeReturned(list);
  const size_t size = classBytes(sizeClass);
  if (Block *block = list.own) {
    list.own = block->next;
    if (size > kLarge) cachedLarge.fetch_sub(size, std::memory_order_relaxed);
    return block;
  }
  void *const block = std::aligned_alloc(kUnit, size);
  if (!block) return nullptr;
  numBlocks.fetch_add(1, std::memory_order_relaxed);
  peakBytes = std::max(peakBytes, systemBytes.fetch_add(size, std::memory_order_relaxed) + size);
  return block;
}

void Store::giveToSystem(void *block, size_t bytes) {
  std::free(block);
  systemBytes.fetch_sub(bytes, std::memory_order_relaxed);
  if (numBlocks.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void Store::free(void *block, uint8_t sizeClass) {
  const size_t size = classBytes(sizeClass);
  if (size > kLarge && cachedLarge.fetch_add(size, std::memory_order_relaxed) + size > cachedLimit) {
    cachedLarge.fetch_sub(size, std::memory_order_relaxed);
    return giveToSystem(block, size);
  }
  SizeClass &list = classes[sizeClass];
  if (isLockedHere()) {
    if (isClosed) return giveToSystem(block, size);
    list.own = new (block) Block{list.own};
    return;
  }
  Block *const returned = new (block) Block{list.returned.load(std::memory_order_relaxed)};
  do {
    if (returned->next == closed()) return giveToSystem(block, size);
  } while (!list.returned.compare_exchange_weak(returned->next, returned, std::memory_order_release,
                                                std::memory_order_relaxed));
}

Storage *Store::allocateStorage(size_t bytes) {
  uint8_t sizeClass = 0;
  void *const block = allocate(sizeof(Storage) + bytes, sizeClass);
  if (!block) return nullptr;
  Storage *const storage = new (block) Storage{.store = this,
                                               .data = static_cast<char *>(block) + sizeof(Storage),
                                               .bytes = bytes,
                                               .sizeClass = sizeClass,
                                               .writerKind = Storage::kNoWriter};
  return storage;
}

Storage *Store::foreignStorage(void *data, size_t bytes, void (*release)(void *), void *user) {
  Storage *const storage = allocateStorage(0);
  if (!storage) return nullptr;
  storage->data = static_cast<char *>(data);
  storage->bytes = bytes;
  storage->release = release;
  storage->releaseUser = user;
  return storage;
}

void Store::destroy(Storage *storage) {
  void (*const release)(void *) = storage->release;
  void *const user = storage->releaseUser;
  if (release && isLockedHere()) {
    static_assert(sizeof(Deferred) <= sizeof(Storage), "the block of the storage holds what is to be called");
    deferred = new (storage) Deferred{deferred, release, user};
    return;
  }
  free(storage, storage->sizeClass);
  if (release) release(user);
}

void Store::runDeferred() {
  Deferred *list;
  {
    StoreLock lock(*this);
    list = deferred;
    deferred = nullptr;
  }
  while (list) {
    const Deferred call = *list;
    free(list, classOf(sizeof(Storage)));
    call.release(call.user);
    list = call.next;
  }
}

PoolStats Store::stats() {
  PoolStats stats;
  for (size_t i = 0; i < kNumClasses; ++i) {
    takeReturned(classes[i]);
    for (const Block *block = classes[i].own; block; block = block->next)
      stats.cachedBytes += classBytes(static_cast<uint8_t>(i));
  }
  stats.systemBytes = systemBytes.load(std::memory_order_relaxed);
  stats.peakBytes = peakBytes;
  return stats;
}

void Store::close() {
  {
    StoreLock lock(*this);
    isClosed = true;
    for (size_t i = 0; i < kNumClasses; ++i) {
      SizeClass &list = classes[i];
      const size_t size = classBytes(static_cast<uint8_t>(i));
      auto giveAll = [&](Block *block) {
        while (block) {
          Block *const next = block->next;
          giveToSystem(block, size);
          block = next;
        }
      };
      giveAll(list.own);
      list.own = nullptr;
      giveAll(list.returned.exchange(closed(), std::memory_order_acquire));
    }
  }
  if (numBlocks.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void StoreLock::lock() {
  store->mutex.lock();
  store->holder.store(Store::thisThread(), std::memory_order_relaxed);
  isLocked = true;
}

void StoreLock::unlock() {
  const bool hasDeferred = store->deferred != nullptr;
  isLocked = false;
  store->holder.store(nullptr, std::memory_order_relaxed);
  store->mutex.unlock();
  if (hasDeferred) store->runDeferred();
}

}  // namespace gradc
