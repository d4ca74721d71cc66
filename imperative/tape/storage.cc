// Tested by tests/imperative/memory/imperative_memory_test.cc
#include "imperative/tape/storage.h"

#include "ir/rules/kernel.h"
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
// A little less than the alignment, so that malloc packs chunks one behind the other.
constexpr size_t kChunkAlignment = size_t{1} << 12, kChunkBytes = kChunkAlignment - kUnit;

}  // namespace

// Nine classes of whole units, then four per power of two, plus a unit for the header: data of a power of two fits
// exactly.
uint8_t Store::classOf(size_t bytes) {
  const size_t last = (std::max<size_t>(bytes, 1) - 1) / kUnit;
  if (last < 9) return static_cast<uint8_t>(last);
  const unsigned log = Log2_64(last - 1);
  return static_cast<uint8_t>(9 + (log - 3) * 4 + ((last - 1) >> (log - 2)) - 4);
}

size_t Store::classBytes(uint8_t sizeClass) {
  if (sizeClass < 9) return (sizeClass + size_t{1}) * kUnit;
  const unsigned log = 3 + (sizeClass - 9) / 4;
  return (((sizeClass - 9) % 4 + size_t{5}) << (log - 2) << Log2_64(kUnit)) + kUnit;
}

const void *Store::thisThread() {
  static thread_local const char here = 0;
  return &here;
}

/// In place of the list of a class that accepts no more blocks.
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
  return size <= kSmall ? cut(list, size) : takeFromSystem(kUnit, size);
}

void *Store::takeFromSystem(size_t alignment, size_t bytes) {
  void *block = nullptr;
  if (posix_memalign(&block, alignment, bytes) != 0) return nullptr;
  numBlocks.fetch_add(1, std::memory_order_relaxed);
  peakBytes = std::max(peakBytes, systemBytes.fetch_add(bytes, std::memory_order_relaxed) + bytes);
  return block;
}

Store::Chunk &Store::chunkOf(const void *block) {
  return *reinterpret_cast<Chunk *>(reinterpret_cast<uintptr_t>(block) & ~(kChunkAlignment - 1));
}

void *Store::cut(SizeClass &list, size_t bytes) {
  static_assert(sizeof(Chunk) <= kUnit);
  if (static_cast<size_t>(list.end - list.uncut) < bytes) {
    void *const memory = takeFromSystem(kChunkAlignment, kChunkBytes);
    if (!memory) return nullptr;
    chunks = new (memory) Chunk{.next = chunks};
    list.uncut = static_cast<char *>(memory) + kUnit;
    list.end = static_cast<char *>(memory) + kChunkBytes;
  }
  ++chunkOf(list.uncut).blocks;
  return std::exchange(list.uncut, list.uncut + bytes);
}

void Store::releaseFromChunk(Chunk &chunk) {
  if (chunk.live.fetch_sub(1, std::memory_order_acq_rel) == 1) giveToSystem(&chunk, kChunkBytes);
}

void Store::giveToSystem(void *block, size_t bytes) {
  std::free(block);
  systemBytes.fetch_sub(bytes, std::memory_order_relaxed);
  if (numBlocks.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void Store::giveBack(void *block, size_t bytes) {
  if (bytes <= kSmall) releaseFromChunk(chunkOf(block));
  else giveToSystem(block, bytes);
}

void Store::free(void *block, uint8_t sizeClass) {
  const size_t size = classBytes(sizeClass);
  if (size > kLarge && cachedLarge.fetch_add(size, std::memory_order_relaxed) + size > cachedLimit) {
    cachedLarge.fetch_sub(size, std::memory_order_relaxed);
    return giveToSystem(block, size);
  }
  SizeClass &list = classes[sizeClass];
  if (isLockedHere()) {
    if (isClosed) return giveBack(block, size);
    list.own = new (block) Block{list.own};
    return;
  }
  Block *const returned = new (block) Block{list.returned.load(std::memory_order_acquire)};
  do {
    if (returned->next == closed()) return giveBack(block, size);
  } while (!list.returned.compare_exchange_weak(returned->next, returned, std::memory_order_acq_rel,
                                                std::memory_order_acquire));
}

Storage *Store::allocateStorage(size_t bytes) {
  uint8_t sizeClass = 0;
  void *const block = allocate(sizeof(Storage) + bytes, sizeClass);
  if (!block) return nullptr;
  Storage *const storage = new (block) Storage{.writerKind = Storage::kNoWriter,
                                               .store = this,
                                               .data = static_cast<char *>(block) + sizeof(Storage),
                                               .bytes = bytes,
                                               .sizeClass = sizeClass};
  return storage;
}

Storage *Store::foreignStorage(void *data, size_t bytes, void (*release)(void *), void *user) {
  Storage *const storage = allocateStorage(0);
  if (!storage) return nullptr;
  storage->data = static_cast<char *>(data);
  storage->bytes = bytes;
  storage->release = release;
  storage->releaseUser = user;
  if (!bytes) return storage;
  try {
    foreign.insert(rangeOf(*storage));
  } catch (const std::bad_alloc &) {
    free(storage, storage->sizeClass);
    return nullptr;
  }
  return storage;
}

Store::ForeignRange Store::rangeOf(Storage &storage) {
  return {Log2_64(storage.bytes), reinterpret_cast<uintptr_t>(storage.data), &storage};
}

// Of storages of about one length, those that overlap begin close to each other.
void Store::visitOverlapping(const Storage &storage, function_ref<void(Storage &)> visit) const {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(storage.data), end = begin + storage.bytes;
  for (auto at = foreign.begin(); at != foreign.end();) {
    const unsigned log = std::get<0>(*at);
    const uintptr_t longest = uintptr_t{2} << log;
    at = foreign.lower_bound({log, begin - std::min(begin, longest), nullptr});
    for (; at != foreign.end() && std::get<0>(*at) == log && std::get<1>(*at) < end; ++at)
      if (Storage &other = *std::get<2>(*at); &other != &storage && overlap(other, storage)) visit(other);
    at = foreign.lower_bound({log + 1, 0, nullptr});
  }
}

bool Store::isOverlapped(const Storage &storage) const {
  bool isOverlapped = false;
  if (storage.isForeign()) visitOverlapping(storage, [&](Storage &) { isOverlapped = true; });
  return isOverlapped;
}

void Store::setLeaf(Storage &storage, bool isLeaf) {
  const bool isShared = storage.owners.load(std::memory_order_relaxed) & Storage::kLeaf;
  if (isLeaf && isShared) {
    ++otherLeaves[&storage];
    return;
  }
  if (const auto others = otherLeaves.find(&storage); others != otherLeaves.end()) {
    if (--others->second == 0) otherLeaves.erase(others);
    return;
  }
  const size_t bytes = footprint(storage);
  const uint64_t before = isLeaf ? storage.owners.fetch_or(Storage::kLeaf, std::memory_order_relaxed)
                                 : storage.owners.fetch_and(~Storage::kLeaf, std::memory_order_relaxed);
  leafBytes.fetch_add(isLeaf ? bytes : -bytes, std::memory_order_relaxed);
  if (Storage::numKeepers(before)) countKept(isLeaf ? -bytes : bytes);
}

void Store::removeForeign(Storage &storage) {
  if (isLockedHere()) return void(foreign.erase(rangeOf(storage)));
  StoreLock lock(*this);
  foreign.erase(rangeOf(storage));
}

void Store::destroy(Storage *storage) {
  void (*const release)(void *) = storage->release;
  void *const user = storage->releaseUser;
  if (storage->isForeign()) removeForeign(*storage);
  if (release && isLockedHere()) {
    static_assert(sizeof(Deferred) <= sizeof(Storage), "the block of the storage holds what is to be called");
    const uint8_t sizeClass = storage->sizeClass;
    deferred = new (storage) Deferred{deferred, release, user, sizeClass};
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
    free(list, call.sizeClass);
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
    stats.cachedBytes += static_cast<size_t>(classes[i].end - classes[i].uncut);
  }
  stats.leafBytes = leafBytes.load(std::memory_order_relaxed);
  stats.keptBytes = keptBytes.load(std::memory_order_relaxed);
  stats.systemBytes = systemBytes.load(std::memory_order_relaxed);
  stats.peakBytes = peakBytes;
  return stats;
}

void Store::close() {
  {
    StoreLock lock(*this);
    isClosed = true;
    for (Chunk *chunk = chunks; chunk; chunk = chunk->next)
      chunk->live.store(chunk->blocks + 1, std::memory_order_relaxed);
    for (size_t i = 0; i < kNumClasses; ++i) {
      SizeClass &list = classes[i];
      const size_t size = classBytes(static_cast<uint8_t>(i));
      auto giveAll = [&](Block *block) {
        while (block) {
          Block *const next = block->next;
          giveBack(block, size);
          block = next;
        }
      };
      giveAll(list.own);
      list.own = nullptr;
      giveAll(list.returned.exchange(closed(), std::memory_order_acq_rel));
    }
    for (Chunk *chunk = chunks; chunk;) releaseFromChunk(*std::exchange(chunk, chunk->next));
  }
  if (numBlocks.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

// The functions of the host's operators run with the lock held; a call of theirs would wait for itself forever.
void StoreLock::lock() {
  if (store->isLockedHere())
    throw KernelError{"a function of the host's operator calls the Imperative that runs it", ErrorKind::BadCallback};
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
