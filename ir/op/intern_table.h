// Stores equal values as one object, shared by handle: equality is one comparison, and a value is freed with its last
// handle.
//
// The table keeps nothing alive. Handles may outlive it and be dropped on any thread. It is searched by content and
// never iterated, so no result depends on the order of requests. Tested by tests/ir/context_test.cc
#pragma once

#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace gradc {

template <class T> class InternTable {
 public:
  using Handle = std::shared_ptr<const T>;

  /// The value with this hash that `isEqual` accepts; null if there is none.
  template <class IsEqual> Handle find(uint64_t hash, IsEqual isEqual) const {
    Candidates candidates;
    std::lock_guard lock(rows->mutex);
    return rows->find(hash, isEqual, candidates);
  }

  /// `value`, or an equal one that another thread added first.
  template <class IsEqual> Handle add(uint64_t hash, std::unique_ptr<T> value, IsEqual isEqual) {
    Candidates candidates;
    Handle added(value.release(), Removal{rows, hash});
    std::lock_guard lock(rows->mutex);
    if (Handle known = rows->find(hash, isEqual, candidates)) {
      candidates.push_back(std::move(added));
      return known;
    }
    rows->byHash.emplace(hash, added);
    return added;
  }

  /// Number of values that are referenced.
  size_t size() const {
    std::lock_guard lock(rows->mutex);
    return rows->byHash.size();
  }

 private:
  // Outlives the lock, because dropping the last handle to a value takes the lock.
  using Candidates = llvm::SmallVector<Handle, 2>;

  struct Rows {
    template <class IsEqual> Handle find(uint64_t hash, IsEqual isEqual, Candidates &candidates) const {
      for (auto [at, end] = byHash.equal_range(hash); at != end; ++at) {
        candidates.push_back(at->second.lock());
        if (candidates.back() && isEqual(*candidates.back())) return candidates.back();
      }
      return nullptr;
    }

    std::mutex mutex;
    std::unordered_multimap<uint64_t, std::weak_ptr<const T>> byHash;
  };

  // Removes a value's row when its last handle is dropped, then deletes the value.
  struct Removal {
    std::shared_ptr<Rows> rows;
    uint64_t hash;

    void operator()(const T *value) const {
      {
        std::lock_guard lock(rows->mutex);
        for (auto [at, end] = rows->byHash.equal_range(hash); at != end;)
          at = at->second.expired() ? rows->byHash.erase(at) : std::next(at);
      }
      delete value;
    }
  };

  std::shared_ptr<Rows> rows = std::make_shared<Rows>();
};

}  // namespace gradc
