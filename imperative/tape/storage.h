// The memory of tensors: counted blocks with a header, from a pool with size classes. Blocks are allocated from a Store
// with its lock held. Any thread may free one without the lock: it goes to a list of its class that only grows until
// the next holder takes it whole. A Store lives as long as one of its blocks is in use, so tensors may outlive the
// Imperative they come from. Tested by tests/imperative/memory/imperative_memory_test.cc
#pragma once

#include "imperative/tape/tape_shapes.h"
#include "ir/base/dense_map.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

namespace gradc {

class Store;

/// Bytes that tensors and the tape share. The data of owned storage follows the header; foreign memory belongs to the
/// host.
struct Storage {
  std::atomic<uint64_t> owners{1};   // references, calls of the tape that keep it, kLeaf
  std::atomic<uint32_t> version{0};  // counts writes
  uint32_t writerKind;               // kind of the call that wrote last; kNoWriter: the host
  Store *store;
  char *data;  // aligned to 64 unless foreign
  uint64_t bytes : 52;
  uint64_t sizeClass : 8;
  uint64_t isInference : 1 = 0;  // made in inference mode: nothing may keep it
  uint64_t writerCall = 0;       // number of the last write's call
  void (*release)(void *) =
      nullptr;  // foreign memory: called once, without the lock; null: owned, or borrowed for good
  void *releaseUser = nullptr;

  static constexpr uint32_t kNoWriter = 0xffffffff;
  // Parts of `owners`.
  static constexpr uint64_t kRef = 1, kKeeper = uint64_t{1} << 32, kLeaf = uint64_t{1} << 63;
  static uint64_t numKeepers(uint64_t owners) { return (owners & ~kLeaf) >> 32; }
  bool hasOtherOwners() const {
    const uint64_t now = owners.load(std::memory_order_relaxed);
    return numKeepers(now) + static_cast<uint32_t>(now) > 1;
  }
  /// Whether it is over memory of the host, and not only an object that releases something.
  bool isForeign() const { return data != reinterpret_cast<const char *>(this + 1) && bytes != 0; }
  /// Counts a write, for storages over the same foreign memory too. With the lock held.
  void countWrite(uint32_t kind, uint64_t call);
};
static_assert(sizeof(Storage) == 64, "data follows the header at the alignment of memory plans");

/// Allocates what the tape needs besides tensors in the pool, in any thread, so that a steady step allocates nothing
/// from the system. Not after the Imperative was destroyed.
template <class T> class PoolAllocator {
 public:
  using value_type = T;

  explicit PoolAllocator(Store &store) : store(&store) {}
  template <class Other> PoolAllocator(const PoolAllocator<Other> &other) : store(other.store) {}
  T *allocate(size_t number);
  void deallocate(T *list, size_t number);
  friend bool operator==(const PoolAllocator &a, const PoolAllocator &b) { return a.store == b.store; }

 private:
  template <class> friend class PoolAllocator;
  Store *store;
};

struct PoolStats {
  size_t systemBytes = 0;  // allocated from the system and not returned, names included
  size_t peakBytes = 0;    // the most of that so far
  // Parts of systemBytes. The rest are other tensors, gradients among them, the calls of the tape, hooks and names.
  size_t cachedBytes = 0;  // free
  size_t leafBytes = 0;    // values of marked leaves
  size_t keptBytes = 0;    // values that calls of the tape keep, without those of leaves
};

/// What tensors need after their Imperative was destroyed: blocks, shapes, the lock.
class Store {
 public:
  /// At most `cachedBytes` of free blocks above 1 MiB are kept for later.
  explicit Store(size_t cachedBytes) : cachedLimit(cachedBytes), foreign(PoolAllocator<ForeignRange>(*this)) {}
  Store(const Store &) = delete;
  /// No block can be allocated any more; the store deletes itself with its last block.
  void close();

  // ---- with the lock held
  /// Uninitialized, aligned to 64; null when the system has no memory.
  void *allocate(size_t bytes, uint8_t &sizeClass);
  void *allocate(size_t bytes) {
    uint8_t ignored;
    return allocate(bytes, ignored);
  }
  /// Owned by the caller, with uninitialized data; null without memory.
  Storage *allocateStorage(size_t bytes);
  Storage *foreignStorage(void *data, size_t bytes, void (*release)(void *), void *user);
  PoolStats stats();
  TapeShapes shapes;
  /// Visits the other storages over the host's memory that share a byte with this one. Logarithmic in their number for
  /// each that is found, if most do not overlap.
  void visitOverlapping(const Storage &storage, llvm::function_ref<void(Storage &)> visit) const;
  /// Whether there is one.
  bool isOverlapped(const Storage &storage) const;

  // ---- by any thread
  void free(void *block, uint8_t sizeClass);
  void freeSized(void *block, size_t bytes) { free(block, classOf(bytes)); }
  /// Frees a storage without owners.
  void destroy(Storage *storage);
  /// Whether its Imperative was destroyed. With the lock held.
  bool hasEnded() const { return isClosed; }
  bool isLockedHere() const { return holder.load(std::memory_order_relaxed) == thisThread(); }

  /// For the statistics: called when a leaf is marked, and when its mark is dropped or it ends. With the lock held.
  void setLeaf(Storage &storage, bool isLeaf);
  void countNames(size_t bytes) { systemBytes.fetch_add(bytes, std::memory_order_relaxed); }
  void countKept(size_t bytes) { keptBytes.fetch_add(bytes, std::memory_order_relaxed); }
  static size_t footprint(const Storage &storage) { return classBytes(static_cast<uint8_t>(storage.sizeClass)); }

  static uint8_t classOf(size_t bytes);
  static size_t classBytes(uint8_t sizeClass);

 private:
  friend class StoreLock;
  friend class StoreLoan;
  static constexpr size_t kNumClasses = 168;
  static constexpr size_t kLarge = size_t{1} << 20;
  static constexpr size_t kSmall = 1088;  // and less: cut from chunks, so that a block has no overhead
  struct Block {
    Block *next;
  };
  /// At a multiple of kChunkAlignment, so that a block finds its chunk.
  struct Chunk {
    Chunk *next;
    std::atomic<uint32_t> live{0};  // once the store is closed: blocks in use, and one while `close` is at work
    uint32_t blocks = 0;            // cut so far
  };
  struct SizeClass {
    Block *own = nullptr;                    // taken and put by holders of the lock
    std::atomic<Block *> returned{nullptr};  // put by other threads
    char *uncut = nullptr, *end = nullptr;   // what is left of the latest chunk
  };
  struct Deferred {
    Deferred *next;
    void (*release)(void *);
    void *user;
    uint8_t sizeClass;
  };

  /// A storage over the host's memory: logarithm of its length, where it begins.
  using ForeignRange = std::tuple<unsigned, uintptr_t, Storage *>;

  ~Store() = default;
  static ForeignRange rangeOf(Storage &storage);
  static const void *thisThread();
  static Block *closed();
  void takeReturned(SizeClass &list);
  static Chunk &chunkOf(const void *block);
  /// Takes a block from the system; null without memory.
  void *takeFromSystem(size_t alignment, size_t bytes);
  void giveToSystem(void *block, size_t bytes);
  /// Gives back a block of a closed store.
  void giveBack(void *block, size_t bytes);
  void releaseFromChunk(Chunk &chunk);
  void *cut(SizeClass &list, size_t bytes);
  void removeForeign(Storage &storage);
  void runDeferred();

  std::mutex mutex;
  std::atomic<const void *> holder{nullptr};
  const size_t cachedLimit;
  std::array<SizeClass, kNumClasses> classes;
  std::atomic<size_t> systemBytes{0}, cachedLarge{0};
  std::atomic<size_t> leafBytes{0}, keptBytes{0};
  std::set<ForeignRange, std::less<>, PoolAllocator<ForeignRange>> foreign;
  DenseMap<const Storage *, uint32_t> otherLeaves;  // of memory that several marked leaves share: all but one of them
  std::atomic<int64_t> numBlocks{1};                // from the system, plus one for the owner until `close`
  Chunk *chunks = nullptr;
  size_t peakBytes = 0;
  bool isClosed = false;  // guarded by the lock
  Deferred *deferred = nullptr;
};

/// Holds the lock of a store. Release functions of the host are called after unlocking.
class StoreLock {
 public:
  /// Throws a KernelError if the calling thread holds the lock.
  explicit StoreLock(Store &store) : store(&store) { lock(); }
  ~StoreLock() {
    if (isLocked) unlock();
  }
  StoreLock(const StoreLock &) = delete;
  /// For code of the host.
  void unlock();
  void lock();

 private:
  Store *store;
  bool isLocked = false;
};

/// Holds the lock, unless the calling thread does: functions that only look may be called by functions of the host's
/// operators.
class StoreView {
 public:
  explicit StoreView(Store &store) {
    if (!store.isLockedHere()) lock.emplace(store);
  }

 private:
  std::optional<StoreLock> lock;
};

template <class T> T *PoolAllocator<T>::allocate(size_t number) {
  auto take = [&] {
    void *const block = store->allocate(number * sizeof(T));
    return block ? static_cast<T *>(block) : throw std::bad_alloc();
  };
  if (store->isLockedHere()) return take();
  StoreLock lock(*store);
  return take();
}
template <class T> void PoolAllocator<T>::deallocate(T *list, size_t number) {
  store->freeSized(list, number * sizeof(T));
}

/// A list in the pool.
template <class T> using Pooled = std::vector<T, PoolAllocator<T>>;

inline void Storage::countWrite(uint32_t kind, uint64_t call) {
  auto count = [&](Storage &storage) {
    storage.version.fetch_add(1, std::memory_order_relaxed);
    storage.writerKind = kind;
    storage.writerCall = call;
  };
  count(*this);
  if (isForeign()) store->visitOverlapping(*this, count);
}

/// The calling thread acts for the holder of the lock, which waits for it (withThreads).
class StoreLoan {
 public:
  explicit StoreLoan(Store &store)
      : store(store), lender(store.holder.exchange(Store::thisThread(), std::memory_order_relaxed)) {}
  ~StoreLoan() { store.holder.store(lender, std::memory_order_relaxed); }
  StoreLoan(const StoreLoan &) = delete;

 private:
  Store &store;
  const void *const lender;
};

/// Foreign memory may be behind several storages.
inline bool overlap(const Storage &a, const Storage &b) {
  return a.data < b.data + b.bytes && b.data < a.data + a.bytes;
}

inline void retain(Storage *storage) { storage->owners.fetch_add(Storage::kRef, std::memory_order_relaxed); }
inline void release(Storage *storage) {
  const uint64_t before = storage->owners.fetch_sub(Storage::kRef, std::memory_order_acq_rel);
  if ((before & ~Storage::kLeaf) == Storage::kRef) storage->store->destroy(storage);
}

/// The same for a call of the tape.
inline void keep(Storage *storage) {
  const uint64_t before = storage->owners.fetch_add(Storage::kKeeper, std::memory_order_relaxed);
  if (before < Storage::kKeeper) storage->store->countKept(Store::footprint(*storage));
}
inline void releaseKept(Storage *storage) {
  Store *const store = storage->store;
  const size_t bytes = Store::footprint(*storage);
  const uint64_t before = storage->owners.fetch_sub(Storage::kKeeper, std::memory_order_acq_rel);
  if (!(before & Storage::kLeaf) && Storage::numKeepers(before) == 1) store->countKept(-bytes);
  if ((before & ~Storage::kLeaf) == Storage::kKeeper) storage->store->destroy(storage);
}

}  // namespace gradc
