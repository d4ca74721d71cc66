// Unique names, most of them without a look-up. Tested by tests/passes/gradient/gradient_names_test.cc
#include "passes/gradient/naming.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr StringRef kGrad = "@GRAD";
constexpr StringRef kAgain = "grad/";
constexpr uint32_t kMaxAgain = 16;

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

FluidNames::FluidNames(GraphBuilder &builder, const Graph &base, uint32_t order)
    : builder(builder), numBase(base.numNodes()), order(order), names(base, 0) {}

std::string FluidNames::variable(Value entry) const {
  std::string name = builder.name(entry.node).str();
  return name.empty() || !entry.index ? name : name + ":" + utostr(entry.index);
}

// NAME-07: measured on three calls, `x@GRAD`, `grad/grad/x@GRAD`, `grad/grad/grad/x@GRAD`.
void FluidNames::name(NodeId n, const std::string &wanted) {
  std::string candidate = wanted;
  while (!names.add(candidate)) candidate = again(wanted, attempts[wanted]++);
  builder.setName(n, candidate, "");
}

std::string FluidNames::again(StringRef wanted, uint32_t attempt) const {
  const uint64_t times = uint64_t{std::max(order, 2u)} + attempt;
  std::string name;
  for (uint64_t i = 0; i < times && i < kMaxAgain; ++i) name += kAgain;
  name += wanted;
  if (times > kMaxAgain) name += "@" + utostr(times - kMaxAgain);
  return name;
}

void FluidNames::nameGradient(Value entry, Value gradient) {
  std::string of = variable(entry);
  if (isOpen(gradient.node) && !of.empty() && gradients.insert(of).second) name(gradient.node, of + kGrad.str());
}

void FluidNames::nameSummands(Value entry, ArrayRef<Value> summands) {
  std::string of = variable(entry);
  for (size_t k = 0; k < summands.size() && !of.empty(); ++k)
    if (isOpen(summands[k].node)) name(summands[k].node, of + "@GRAD@RENAME@block0@" + utostr(k));
}

void FluidNames::nameAddition(Value entry, NodeId n, size_t k) {
  if (std::string of = variable(entry); !of.empty()) name(n, of + "@GRAD@ADD@" + utostr(k));
}

void FluidNames::nameZero(Value entry, NodeId n) {
  if (std::string of = variable(entry); !of.empty()) name(n, of + "@ZERO");
}

void FluidNames::nameTap(Value entry, Value gradient, NodeId n) {
  nameGradient(entry, gradient);
  if (std::string of = variable(entry); !of.empty()) name(n, of + "@GRAD@TAP");
}

void FluidNames::nameRest() {
  for (uint32_t n = numBase; n < builder.numNodes(); ++n) {
    if (!isOpen(NodeId(n))) continue;
    NodeId origin = builder.origin(NodeId(n));
    if (origin.isValid())
      builder.setName(NodeId(n), names.takeNumbered((builder.name(origin) + "_backward").str()), "");
  }
}

StringRef stripGradSuffix(StringRef name) {
  for (size_t at = name.find(kGrad); at != StringRef::npos; at = name.find(kGrad, at + 1)) {
    StringRef rest = name.drop_front(at + kGrad.size());
    if (!rest.empty() && rest[0] != '@') continue;
    name = name.take_front(at);
    break;
  }
  while (name.consume_front(kAgain)) {}
  return name;
}

}  // namespace gradc
