// Tested by tests/imperative/memory/imperative_cache_test.cc
#include "imperative/plans/plan_cache.h"

#include "ir/base/release.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {

/// Plans of one hash, the latest last. Nested runs of one structure lease a plan of one key each; `numFree` saves a
/// search when none is free.
struct PlanBucket {
  SmallVector<PlanCache::List::iterator, 1> plans;
  size_t numFree = 0;
};

namespace {

// DenseMap reserves two values.
uint64_t hashOf(ArrayRef<uint32_t> key) { return static_cast<size_t>(hash_combine_range(key.begin(), key.end())) >> 2; }

}  // namespace

std::shared_ptr<Plan> PlanCache::find(ArrayRef<uint32_t> key) {
  auto isFree = [&](const Plan &plan) { return !plan.isLeased && ArrayRef(plan.key) == key; };
  if (!plans.empty() && isFree(*plans.front())) return ++hits, plans.front();
  const auto at = byHash.find(hashOf(key));
  if (at != byHash.end() && at->second->numFree != 0)
    for (List::iterator plan : reverse(at->second->plans)) {
      if (!isFree(**plan)) continue;
      plans.splice(plans.begin(), plans, plan);
      return ++hits, plans.front();
    }
  ++misses;
  lastMissed.assign(key.begin(), key.end());
  lastMissedPlan = nullptr;
  return nullptr;
}

PlanCache::PlanCache(size_t maxBytes) : maxBytes(maxBytes) {}
PlanCache::~PlanCache() = default;

void PlanCache::insert(std::shared_ptr<Plan> plan) {
  auto at = byHash.find(hashOf(plan->key));
  if (at == byHash.end()) at = byHash.try_emplace(hashOf(plan->key), std::make_unique<PlanBucket>()).first;
  PlanBucket *const bucket = at->second.get();
  bucket->plans.reserve(bucket->plans.size() + 1);
  plans.push_front(plan);
  bytes += plan->bytes;
  if (plans.front()->key == lastMissed) {
    release(lastMissed);
    lastMissedPlan = plans.front().get();
  }
  bucket->plans.push_back(plans.begin());
  ++bucket->numFree;
  plans.front()->bucket = bucket;
  evict();
}

void PlanCache::evict() {
  while (bytes > maxBytes && plans.size() > 1) {
    const List::iterator last = std::prev(plans.end());
    PlanBucket &old = *(*last)->bucket;
    old.plans.erase(llvm::find(old.plans, last));
    old.numFree -= !(*last)->isLeased;
    if (old.plans.empty()) byHash.erase(hashOf((*last)->key));
    (*last)->bucket = nullptr;
    if (last->get() == lastMissedPlan) {
      lastMissed = std::move((*last)->key);
      lastMissedPlan = nullptr;
    }
    bytes -= (*last)->bytes;
    plans.erase(last);
  }
}

void PlanCache::grow(Plan &plan, size_t numBytes) {
  plan.bytes += numBytes;
  if (!plan.bucket) return;
  bytes += numBytes;
  evict();
}

void PlanCache::lease(Plan &plan) {
  plan.isLeased = true;
  if (plan.bucket) --plan.bucket->numFree;
}

void PlanCache::giveBack(Plan &plan) {
  plan.isLeased = false;
  if (plan.bucket) ++plan.bucket->numFree;
}

std::optional<PlanCache::Miss> PlanCache::lastMiss() const {
  const ArrayRef<uint32_t> missed = lastMissedPlan ? lastMissedPlan->key : lastMissed;
  if (missed.empty()) return std::nullopt;
  Miss miss{missed, {}, 0};
  for (const std::shared_ptr<Plan> &plan : plans) {
    if (ArrayRef(plan->key) == missed) continue;
    const size_t common =
        std::mismatch(missed.begin(), missed.end(), plan->key.begin(), plan->key.end()).first - missed.begin();
    if (!miss.nearest.empty() && common <= miss.position) continue;
    miss.position = common;
    miss.nearest = plan->key;
  }
  return miss;
}

}  // namespace gradc
