// Compiled backwards by what they were compiled for, the latest used ones.
// Tested by tests/imperative_cache_test.cc
#pragma once

#include "imperative/plan.h"

#include "ir/dense_map.h"

#include <list>
#include <optional>

namespace gradc {

class PlanCache {
 public:
  explicit PlanCache(size_t maxBytes);
  ~PlanCache();

  /// One that is not running at the moment; null where there is none for these words. Compares all of them.
  std::shared_ptr<Plan> find(llvm::ArrayRef<uint32_t> key);
  /// Drops what was not used for longest; a plan larger than the limit is kept alone.
  void insert(std::shared_ptr<Plan> plan);
  /// It takes so many bytes more from now on.
  void grow(Plan &plan, size_t numBytes);
  /// While a run is under way nobody else finds the plan.
  void lease(Plan &plan);
  void giveBack(Plan &plan);
  CacheStats stats() const { return {hits, misses, plans.size(), bytes}; }
  /// The last key that was not found, the one that it has most in common with, and how many words that is.
  struct Miss {
    llvm::ArrayRef<uint32_t> key, nearest;  // nearest: empty where nothing else is there
    size_t position = 0;
  };
  std::optional<Miss> lastMiss() const;

 private:
  using List = std::list<std::shared_ptr<Plan>>;
  friend struct PlanBucket;

  const size_t maxBytes;
  List plans;  // the latest used one first
  DenseMap<uint64_t, std::unique_ptr<PlanBucket>> byHash;
  size_t bytes = 0;
  uint64_t hits = 0, misses = 0;
  std::vector<uint32_t> lastMissed;      // a key, unless it is that of
  const Plan *lastMissedPlan = nullptr;  // a cached plan
};

}  // namespace gradc
