// Tested by tests/imperative/memory/imperative_cache_test.cc
#include "imperative/plans/plan.h"

namespace gradc {

void BackwardRequest::clear() {
  heads.clear();
  for (std::vector<uint32_t> *list : {&wrt, &retained, &noGrad, &taps}) list->clear();
  types.clear();
  unused = UnusedPolicy::None;
  headPolicy = HeadPolicy::Ones;
  duplicates = DuplicatePolicy::Allow;
  policies = {};
}

void BackwardRequest::encode(std::vector<uint32_t> &words) const {
  words.push_back(static_cast<uint32_t>(headPolicy) | static_cast<uint32_t>(duplicates) << 4 |
                  static_cast<uint32_t>(unused) << 8 | static_cast<uint32_t>(policies.controlOnly) << 12 |
                  static_cast<uint32_t>(policies.reach) << 16 | static_cast<uint32_t>(policies.chain) << 20);
  words.push_back(policies.sumCap);
  words.push_back(static_cast<uint32_t>(heads.size()));
  for (const Head &head : heads) {
    words.push_back(head.y);
    words.push_back(head.isGiven);
  }
  for (const std::vector<uint32_t> *list : {&wrt, &retained, &noGrad, &taps}) {
    words.push_back(static_cast<uint32_t>(list->size()));
    words.insert(words.end(), list->begin(), list->end());
  }
}

}  // namespace gradc
