// A cache of the most recently used compiled backwards, by what they were compiled for.
// Tested by tests/imperative/memory/imperative_cache_test.cc
#pragma once

#include "imperative/plans/plan.h"

#include "ir/base/dense_map.h"

#include <list>
#include <optional>

namespace gradc {

class PlanCache {
 public:
  explicit PlanCache(size_t maxBytes);
  ~PlanCache();

  /// A plan for this key that is not running, or null. Compares all words. `numDropped`: SignatureTable::numDropped.
  std::shared_ptr<Plan> find(llvm::ArrayRef<uint32_t> key, uint64_t numDropped);
  /// Drops the least recently used plans; a plan larger than the limit stays as the only one.
  void insert(std::shared_ptr<Plan> plan);
  /// Adds to the size of a plan, which may drop others.
  void grow(Plan &plan, size_t numBytes);
  /// While a plan is leased to a run, `find` skips it.
  void lease(Plan &plan);
  void giveBack(Plan &plan);
  CacheStats stats() const { return {hits, misses, plans.size(), bytes}; }
  /// Explains why a backward was compiled again, to help tune programs: how the last key that was not found differs
  /// from the nearest one.
  std::string explainMiss(const SignatureTable &signatures, const TapeShapes &shapes) const;

 private:
  /// The last key that was not found, the cached key with the longest common prefix, and the length of that in words.
  struct Miss {
    llvm::ArrayRef<uint32_t> key, nearest;  // nearest: empty if nothing else is cached
    size_t position = 0;
  };
  std::optional<Miss> lastMiss() const;
  using List = std::list<std::shared_ptr<Plan>>;
  friend struct PlanBucket;

  void evict();

  const size_t maxBytes;
  List plans;  // the latest used one first
  DenseMap<uint64_t, std::unique_ptr<PlanBucket>> byHash;
  size_t bytes = 0;
  uint64_t hits = 0, misses = 0;
  std::vector<uint32_t> lastMissed;      // a key; empty if it is that of
  const Plan *lastMissedPlan = nullptr;  // a cached plan
  uint64_t droppedAtMiss = 0;
};

}  // namespace gradc
