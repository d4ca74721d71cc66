// Unique names at a few nanoseconds each. Tested by tests/gradient_names_test.cc
#include "passes/gradient/naming.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/xxhash.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr StringRef kMarkers[] = {"_backward", "_sum_grad", "_zero_grad", "_zero_head"};
constexpr size_t kBucketTarget = 512;  // names a bucket holds on average: its table fits the first-level cache

bool startsWithMarker(StringRef text) {
  return any_of(kMarkers, [&](StringRef marker) { return text.substr(0, marker.size()) == marker; });
}

bool containsMarker(StringRef name) {
  for (size_t at = name.find('_'); at != StringRef::npos; at = name.find('_', at + 1)) {
    char next = at + 1 < name.size() ? name[at + 1] : '\0';
    if ((next == 'b' || next == 's' || next == 'z') && startsWithMarker(name.drop_front(at))) return true;
  }
  return false;
}

}  // namespace

Namer::Namer(GraphBuilder &builder, const Graph &base, NamingStyle style)
    : builder(builder), namingStyle(style), numBase(base.numNodes()) {
  if (style == NamingStyle::Unique) bucketBaseNames(base);
}

void Namer::bucketBaseNames(const Graph &base) {
  const size_t numBuckets = PowerOf2Ceil(std::max<size_t>(base.numNodes() / kBucketTarget, 1));
  const unsigned shift = 64 - Log2_64(numBuckets);
  auto bucketOf = [&](uint64_t hash) { return shift == 64 ? 0 : hash >> shift; };
  std::vector<uint64_t> unordered(base.numNodes());
  bucketBegin.assign(numBuckets + 1, 0);
  bool hasMarker = false;
  for (uint32_t n = 0; n < base.numNodes(); ++n) {
    StringRef name = base.name(NodeId(n));
    hasMarker |= containsMarker(name);
    unordered[n] = xxh3_64bits(name) | 1;  // never the empty mark of a table
    ++bucketBegin[bucketOf(unordered[n]) + 1];
  }
  for (size_t b = 0; b < numBuckets; ++b) bucketBegin[b + 1] += bucketBegin[b];
  hashes.resize(unordered.size());
  std::vector<uint32_t> next(bucketBegin.begin(), bucketBegin.end() - 1);
  for (uint64_t hash : unordered) hashes[next[bucketOf(hash)]++] = hash;
  if (hasMarker || hasDuplicates())
    checkEverything();
  else
    isRegular = true;
}

bool Namer::hasDuplicates() const {
  std::vector<uint64_t> seen;
  for (size_t b = 0; b + 1 < bucketBegin.size(); ++b) {
    size_t size = bucketBegin[b + 1] - bucketBegin[b], mask = PowerOf2Ceil(size * 2 + 2) - 1;
    seen.assign(mask + 1, 0);
    for (size_t i = bucketBegin[b]; i < bucketBegin[b + 1]; ++i) {
      size_t at = hashes[i] >> 1 & mask;
      for (; seen[at]; at = (at + 1) & mask)
        if (seen[at] == hashes[i]) return true;
      seen[at] = hashes[i];
    }
  }
  return false;
}

bool Namer::isTakenByBase(uint64_t hash) const {
  const unsigned shift = 64 - Log2_64(bucketBegin.size() - 1);
  size_t bucket = shift == 64 ? 0 : hash >> shift;
  return std::find(hashes.begin() + bucketBegin[bucket], hashes.begin() + bucketBegin[bucket + 1], hash) !=
         hashes.begin() + bucketBegin[bucket + 1];
}

void Namer::checkEverything() {
  isRegular = false;
  for (uint64_t hash : hashes) insert(hash);
  for (uint32_t n = numBase; n < builder.numNodes(); ++n)
    if (StringRef name = builder.name(NodeId(n)); !name.empty()) insert(xxh3_64bits(name));
}

bool Namer::insert(uint64_t hash) {
  if (count * 2 >= table.size()) grow();
  hash |= 1;
  for (size_t at = hash >> 20 & (table.size() - 1);; at = (at + 1) & (table.size() - 1)) {
    if (table[at] == hash) return false;
    if (table[at]) continue;
    table[at] = hash;
    ++count;
    return true;
  }
}

void Namer::grow() {
  std::vector<uint64_t> old(std::max<size_t>(table.size() * 2, 64), 0);
  old.swap(table);
  count = 0;
  for (uint64_t hash : old)
    if (hash) insert(hash);
}

bool Namer::claim(StringRef name) {
  uint64_t hash = xxh3_64bits(name) | 1;
  return !(isRegular && isTakenByBase(hash)) && insert(hash);
}

void Namer::name(NodeId n, StringRef part1, StringRef part2) {
  if (namingStyle != NamingStyle::Unique || (isRegular && startsWithMarker(part2)))
    return builder.setName(n, part1, part2);
  scratch = part1;
  scratch += part2;
  // A name with a marker that is not regular may be somebody's regular name.
  if (isRegular && containsMarker(scratch)) checkEverything();
  if (claim(scratch)) return builder.setName(n, scratch.str(), "");
  // Where the search for this name ended before; from 1 again, many equal names would take quadratic time.
  uint64_t &k = lastCounter[xxh3_64bits(scratch) >> 1];
  for (++k;; ++k) {
    candidate = scratch;
    candidate += '_';
    candidate += utostr(k);
    if (claim(candidate)) return builder.setName(n, candidate.str(), "");
  }
}

void Namer::nameBackward(uint32_t first, uint32_t last, NodeId forward) {
  uint32_t unnamed = 0;
  for (uint32_t n = first; n < last; ++n) unnamed += builder.name(NodeId(n)).empty();
  if (!unnamed) return;
  uint32_t k = 0;
  SmallString<24> suffix;
  for (uint32_t n = first; n < last; ++n) {
    if (!builder.name(NodeId(n)).empty()) continue;
    suffix = "_backward";
    if (unnamed > 1) {
      suffix += '_';
      suffix += utostr(k++);
    }
    name(NodeId(n), builder.name(forward), suffix.str());
  }
}

}  // namespace gradc
