// Tested by tests/imperative_cache_test.cc
#include "imperative/plan_cache.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

// Two values are DenseMap's own.
uint64_t hashOf(ArrayRef<uint32_t> key) { return static_cast<size_t>(hash_combine_range(key.begin(), key.end())) >> 2; }

}  // namespace

std::shared_ptr<Plan> PlanCache::find(ArrayRef<uint32_t> key) {
  auto isFree = [&](const Plan &plan) { return !plan.isLeased && ArrayRef(plan.key) == key; };
  if (!plans.empty() && isFree(*plans.front())) return ++hits, plans.front();
  const auto at = byHash.find(hashOf(key));
  if (at != byHash.end())
    for (List::iterator plan : at->second) {
      if (!isFree(**plan)) continue;
      plans.splice(plans.begin(), plans, plan);
      return ++hits, plans.front();
    }
  ++misses;
  lastMissed.assign(key.begin(), key.end());
  return nullptr;
}

void PlanCache::insert(std::shared_ptr<Plan> plan) {
  bytes += plan->bytes;
  plans.push_front(std::move(plan));
  byHash[hashOf(plans.front()->key)].push_back(plans.begin());
  while (bytes > maxBytes && plans.size() > 1) {
    const List::iterator last = std::prev(plans.end());
    const auto at = byHash.find(hashOf((*last)->key));
    at->second.erase(llvm::find(at->second, last));
    if (at->second.empty()) byHash.erase(at);
    bytes -= (*last)->bytes;
    plans.erase(last);
  }
}

std::optional<PlanCache::Miss> PlanCache::lastMiss() const {
  if (lastMissed.empty()) return std::nullopt;
  Miss miss{lastMissed, {}, 0};
  for (const std::shared_ptr<Plan> &plan : plans) {
    if (plan->key == lastMissed) continue;
    const size_t common =
        std::mismatch(lastMissed.begin(), lastMissed.end(), plan->key.begin(), plan->key.end()).first -
        lastMissed.begin();
    if (!miss.nearest.empty() && common <= miss.position) continue;
    miss.position = common;
    miss.nearest = plan->key;
  }
  return miss;
}

}  // namespace gradc
