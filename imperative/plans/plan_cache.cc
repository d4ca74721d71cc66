// Tested by tests/imperative/memory/imperative_cache_test.cc
#include "imperative/plans/plan_cache.h"

#include "ir/base/release.h"
#include "runtime/executor/bindings.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {

/// Plans of one hash, the latest last. Nested runs of one structure lease a plan of one key each; `numFree` saves a
/// search when none is free.
struct PlanBucket {
  SmallVector<PlanCache::List::iterator, 1> plans;
  size_t numFree = 0;
};

namespace {

/// Where the parts of a key begin: BackwardRequest::encode, then Collected::encode.
class KeyReader {
 public:
  KeyReader(ArrayRef<uint32_t> key, const SignatureTable &signatures) : key(key) {
    size_t at = 2;                                           // policies
    at += 1 + 2 * key[at];                                   // heads
    for (int list = 0; list < 4; ++list) at += 1 + key[at];  // wrt, retained, noGrad, taps
    requestEnd = at;
    for (int list = 0; list < 2; ++list) at += 1 + 2 * key[at];  // types of leaves and others
    typesEnd = at;
    for (; at < key.size(); at += wordsOf(*signatures.findById(key[at]))) calls.push_back(at);
  }

  static size_t wordsOf(const Signature &signature) {
    return 1 + signature.numInputs() + signature.handle->op->flags.isBackward;
  }

  ArrayRef<uint32_t> key;
  size_t requestEnd = 0, typesEnd = 0;
  std::vector<size_t> calls;
};

std::string textOf(const Signature &signature, const TapeShapes &shapes) {
  std::string text = ("'" + signature.handle->spelling + "' on ").str();
  for (size_t i = 0; i < signature.numInputs(); ++i)
    text += (i ? ", " : "") + describeTensor(shapes[signature.inputs[i].shape], signature.inputs[i].dtype);
  return text + (signature.isTraining ? ", in training" : "");
}

// DenseMap reserves two values.
uint64_t hashOf(ArrayRef<uint32_t> key) { return static_cast<size_t>(hash_combine_range(key.begin(), key.end())) >> 2; }

}  // namespace

std::shared_ptr<Plan> PlanCache::find(ArrayRef<uint32_t> key, uint64_t numDropped) {
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
  droppedAtMiss = numDropped;
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

std::string PlanCache::explainMiss(const SignatureTable &signatures, const TapeShapes &shapes) const {
  const std::optional<Miss> miss = lastMiss();
  if (!miss) return "no lookup has missed";
  if (miss->nearest.empty()) return "nothing else is in the cache";
  if (!lastMissedPlan && droppedAtMiss != signatures.numDropped())
    return "the calls of the last miss are not known any more";
  const KeyReader now(miss->key, signatures), before(miss->nearest, signatures);
  if (miss->position < now.requestEnd) return "other heads, targets or policies are requested";
  if (miss->position < now.typesEnd) return "the leaves differ in number or type";
  const auto after = llvm::upper_bound(now.calls, miss->position);
  const size_t call = static_cast<size_t>(after - now.calls.begin()) - 1;
  if (miss->position >= miss->key.size() || miss->position >= miss->nearest.size())
    return utostr(now.calls.size()) + " calls, in the nearest entry " + utostr(before.calls.size());
  const std::string which = "call " + utostr(call + 1) + " of " + utostr(now.calls.size());
  const Signature &mine = *signatures.findById(miss->key[now.calls[call]]);
  if (miss->position != now.calls[call])
    return which + ", operator '" + mine.handle->spelling.str() + "', reads another value as input " +
           utostr(miss->position - now.calls[call]);
  const Signature &other = *signatures.findById(miss->nearest[miss->position]);
  const std::string text = textOf(mine, shapes), otherText = textOf(other, shapes);
  if (text == otherText)
    return which + ", operator " + text + ", differs in which inputs are tracked, or in its attributes";
  return which + " is operator " + text + ", in the nearest entry " + otherText;
}

}  // namespace gradc
