// The memory of tensors: counted blocks with a header, from a pool with size classes.
//
// Whoever holds the lock of a Store takes blocks from it; any thread may give one back, without the lock: it goes to a list
// of its class that only grows until the next holder takes it whole. A Store lives as long as a block of it is in use, so
// tensors outlive the Imperative they come from.
// Tested by tests/imperative_storage_test.cc
#pragma once

#include "ir/shape_table.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

namespace gradc {

class Store;

/// Bytes that tensors and the tape share. The data of owned storage follows the header; foreign memory is somebody else's.
struct Storage {
  std::atomic<uint32_t> refs{1};
  std::atomic<uint32_t> version{0};  // counts writes
  Store *store;
  char *data;  // aligned to 64 unless foreign
  size_t bytes;
  uint8_t sizeClass;
  bool isInference = false;  // made in inference mode: nothing may keep it
  uint32_t writerKind;       // of the last write: its kind in the Imperative, kNoWriter for one of the host
  uint64_t writerCall = 0;   // and its number
  void (*release)(void *) =
      nullptr;  // foreign memory: called once, without the lock; null: owned, or borrowed for good
  void *releaseUser = nullptr;

  static constexpr uint32_t kNoWriter = 0xffffffff;
  bool isForeign() const { return data != reinterpret_cast<const char *>(this + 1); }
  void countWrite(uint32_t kind, uint64_t call) {
    version.fetch_add(1, std::memory_order_relaxed);
    writerKind = kind;
    writerCall = call;
  }
};
static_assert(sizeof(Storage) == 64, "data follows the header at the alignment of memory plans");

struct PoolStats {
  size_t systemBytes = 0;  // taken from the system and not given back
  size_t peakBytes = 0;    // the most of that so far
  size_t cachedBytes = 0;  // of systemBytes, in free lists
};

/// What tensors need of an Imperative after it is gone: blocks, shapes, the lock.
class Store {
 public:
  /// At most `cachedBytes` of free blocks above 1 MiB are kept for later.
  explicit Store(size_t cachedBytes) : cachedLimit(cachedBytes) {}
  Store(const Store &) = delete;
  /// Ends taking blocks; the store deletes itself with its last block.
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
  ShapeTable shapes;

  // ---- by any thread
  void free(void *block, uint8_t sizeClass);
  void freeSized(void *block, size_t bytes) { free(block, classOf(bytes)); }
  /// Gives back a storage without owners.
  void destroy(Storage *storage);
  bool isLockedHere() const { return holder.load(std::memory_order_relaxed) == thisThread(); }

  static uint8_t classOf(size_t bytes);
  static size_t classBytes(uint8_t sizeClass);

 private:
  friend class StoreLock;
  static constexpr size_t kNumClasses = 168;
  static constexpr size_t kLarge = size_t{1} << 20;
  struct Block {
    Block *next;
  };
  struct SizeClass {
    Block *own = nullptr;                    // taken and put by holders of the lock
    std::atomic<Block *> returned{nullptr};  // put by other threads
  };
  struct Deferred {
    Deferred *next;
    void (*release)(void *);
    void *user;
  };

  ~Store() = default;
  static const void *thisThread();
  static Block *closed();
  void takeReturned(SizeClass &list);
  void giveToSystem(void *block, size_t bytes);
  void runDeferred();

  std::mutex mutex;
  std::atomic<const void *> holder{nullptr};
  const size_t cachedLimit;
  std::array<SizeClass, kNumClasses> classes;
  std::atomic<size_t> systemBytes{0}, cachedLarge{0};
  std::atomic<int64_t> numBlocks{1};  // one of the owner's until `close`
  size_t peakBytes = 0;
  bool isClosed = false;  // guarded by the lock
  Deferred *deferred = nullptr;
};

/// Holds the lock of a store. What the host wants called when memory goes back is called after unlocking.
class StoreLock {
 public:
  explicit StoreLock(Store &store) : store(&store) { lock(); }
  ~StoreLock() {
    if (isLocked) unlock();
  }
  StoreLock(const StoreLock &) = delete;
  /// Around code of the host.
  void unlock();
  void lock();

 private:
  Store *store;
  bool isLocked = false;
};

inline void retain(Storage *storage) { storage->refs.fetch_add(1, std::memory_order_relaxed); }
inline void release(Storage *storage) {
  if (storage->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) storage->store->destroy(storage);
}

}  // namespace gradc
