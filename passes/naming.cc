// The set of taken names. Tested by tests/gradient_names_test.cc
#include "passes/naming.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

using namespace llvm;

namespace gradc {

Namer::Namer(GraphBuilder &builder, const Graph &base, NamingStyle style) : builder(builder), namingStyle(style) {
  if (style != NamingStyle::Unique) return;
  size_t size = 64;
  while (size < base.numNodes() * size_t{4}) size *= 2;
  table.assign(size, 0);
  for (uint32_t n = 0; n < base.numNodes(); ++n) insert(xxh3_64bits(base.name(NodeId(n))));
}

bool Namer::insert(uint64_t hash) {
  if (count * 2 >= table.size()) grow();
  hash |= 1;  // never the empty mark
  for (size_t at = hash >> 20 & (table.size() - 1);; at = (at + 1) & (table.size() - 1)) {
    if (table[at] == hash) return false;
    if (table[at]) continue;
    table[at] = hash;
    ++count;
    return true;
  }
}

void Namer::grow() {
  std::vector<uint64_t> old(table.size() * 2, 0);
  old.swap(table);
  count = 0;
  for (uint64_t hash : old)
    if (hash) insert(hash);
}

void Namer::name(NodeId n, StringRef part1, StringRef part2) {
  if (namingStyle != NamingStyle::Unique) return builder.setName(n, part1, part2);
  scratch = part1;
  scratch += part2;
  if (insert(xxh3_64bits(scratch.str()))) return builder.setName(n, scratch.str(), "");
  for (uint64_t k = 1;; ++k) {
    candidate = scratch;
    candidate += '_';
    candidate += utostr(k);
    if (insert(xxh3_64bits(candidate.str()))) return builder.setName(n, candidate.str(), "");
  }
}

void Namer::nameBackward(uint32_t first, uint32_t last, NodeId forward) {
  uint32_t unnamed = 0;
  for (uint32_t n = first; n < last; ++n) unnamed += builder.name(NodeId(n)).empty();
  uint32_t k = 0;
  SmallString<24> suffix;
  for (uint32_t n = first; n < last; ++n) {
    if (!builder.name(NodeId(n)).empty()) continue;
    suffix = "_backward";
    if (unnamed > 1) {
      suffix += '_';
      suffix += utostr(k++);
    }
    // The builder's arena may move while the name is copied.
    SmallString<64> base(builder.name(forward));
    name(NodeId(n), base.str(), suffix.str());
  }
}

}  // namespace gradc
