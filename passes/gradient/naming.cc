// Unique names, most of them without a look-up. Tested by tests/passes/gradient/gradient_names_test.cc
#include "passes/gradient/naming.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

using namespace llvm;

namespace gradc {
namespace {

// What the suffix of a regular name starts with.
constexpr StringRef kMarkers[] = {"_backward", "_sum_grad"};

bool startsWithMarker(StringRef text) {
  return any_of(kMarkers, [&](StringRef marker) { return text.substr(0, marker.size()) == marker; });
}

bool containsMarker(StringRef name) {
  for (size_t at = name.find('_'); at != StringRef::npos; at = name.find('_', at + 1))
    if (startsWithMarker(name.drop_front(at))) return true;
  return false;
}

}  // namespace

// Only hashes: at a million nodes a set of strings takes longer than the rest of the pass.
Namer::Namer(GraphBuilder &builder, const Graph &base, NamingStyle style)
    : builder(builder), namingStyle(style), isRegular(style == NamingStyle::Unique) {
  if (isRegular) hashes.reserve(base.numNodes());
  for (uint32_t n = 0; n < base.numNodes() && isRegular; ++n) {
    const StringRef name = base.name(NodeId(n));
    if (containsMarker(name) || !isNewHash(name)) lookUpEverything();
  }
}

bool Namer::isNewHash(StringRef name) {
  return hashes.insert(xxh3_64bits(name) >> 1).second;  // DenseSet reserves the largest values
}

void Namer::lookUpEverything() {
  isRegular = false;
  for (uint32_t n = 0; n < builder.numNodes(); ++n) names.add(builder.name(NodeId(n)));
}

void Namer::nameRegularly(NodeId n, NodeId ofBase, StringRef suffix) {
  assert(startsWithMarker(suffix) && "not a regular name");
  if (isRegular) builder.setName(n, builder.name(ofBase), suffix);
  else name(n, builder.name(ofBase), suffix);
}

void Namer::name(NodeId n, StringRef part1, StringRef part2) {
  if (namingStyle != NamingStyle::Unique) return builder.setName(n, part1, part2);
  scratch = part1;
  scratch += part2;
  // A name with a marker may be a regular one.
  if (isRegular && (containsMarker(scratch) || !isNewHash(scratch))) lookUpEverything();
  if (isRegular) return builder.setName(n, scratch.str(), "");
  builder.setName(n, names.take(scratch), "");
}

void Namer::nameBackward(uint32_t first, uint32_t last, NodeId forward) {
  uint32_t unnamed = 0;
  for (uint32_t n = first; n < last; ++n) unnamed += builder.name(NodeId(n)).empty();
  if (!unnamed) return;
  uint32_t k = 0;
  SmallString<24> suffix;
  for (uint32_t n = first; n < last; ++n) {
    if (!builder.name(NodeId(n)).empty()) continue;
    suffix = kMarkers[0];
    if (unnamed > 1) {
      suffix += '_';
      suffix += utostr(k++);
    }
    nameRegularly(NodeId(n), forward, suffix);
  }
}

}  // namespace gradc
