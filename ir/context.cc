// Interning. Tables are looked up by content and never iterated, so ids depend on the order of requests alone.
// Tested by tests/context_test.cc
#include "ir/context.h"

#include "ir/bodies.h"
#include "ir/error.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

template <class T> StringRef bytesOf(ArrayRef<T> list) {
  return StringRef(reinterpret_cast<const char *>(list.data()), list.size() * sizeof(T));
}

uint32_t portCount(const Ports &ports, const NodeKind &kind) {
  return ports.number ? ports.number(kind) : ports.names.count;
}

// "int from 1", "one of 'avg', 'max'": what an attribute's value should have been.
std::string expectation(const AttrSpec &spec) {
  std::string text;
  raw_string_ostream os(text);
  os << spec.typeName;
  if (!spec.choices.empty()) os << " '" << join(spec.choices, "', '") << "'";
  if (spec.lowest > -HUGE_VAL) printAttr(os << " from ", spec.lowest);
  if (spec.highest < HUGE_VAL) printAttr(os << " to ", spec.highest);
  return text;
}

}  // namespace

Context::Context() : bodyLists(std::make_unique<BodyTable>()) {
  attrListIds[""] = 0;
  attrLists.push_back({});
  shapes.push_back({Dims(), -1});  // shape 0: unknown rank
}

Context::~Context() = default;

StrId Context::intern(StringRef text) {
  auto [at, isNew] = textIds.try_emplace(text, static_cast<uint32_t>(texts.size()));
  if (isNew) texts.push_back(at->getKey());
  return StrId(at->second);
}

AttrsId Context::internSorted(ArrayRef<AttrPair> pairs) {
  auto [at, isNew] = attrListIds.try_emplace(bytesOf(pairs), static_cast<uint32_t>(attrLists.size()));
  if (isNew) {
    AttrPair *copy = arena.Allocate<AttrPair>(pairs.size());
    std::copy(pairs.begin(), pairs.end(), copy);
    attrLists.push_back(ArrayRef<AttrPair>(copy, pairs.size()));
  }
  return AttrsId(at->second);
}

AttrsId Context::attrs(MutableArrayRef<AttrPair> pairs) {
  if (pairs.empty()) return AttrsId(0);
  auto less = [&](const AttrPair &a, const AttrPair &b) { return text(a.key) < text(b.key); };
  if (!is_sorted(pairs, less)) std::stable_sort(pairs.begin(), pairs.end(), less);
  size_t kept = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (kept && pairs[kept - 1].key == pairs[i].key) --kept;
    pairs[kept++] = pairs[i];
  }
  return internSorted(pairs.take_front(kept));
}

AttrsId Context::attrs(ArrayRef<AttrText> pairs) {
  SmallVector<AttrPair, 8> ids;
  for (const AttrText &pair : pairs) ids.push_back({intern(pair.key), intern(pair.value)});
  return attrs(MutableArrayRef<AttrPair>(ids));
}

std::optional<StringRef> Context::attr(AttrsId id, StringRef key) const {
  for (const AttrPair &pair : attrs(id))
    if (text(pair.key) == key) return text(pair.value);
  return std::nullopt;
}

AttrsId Context::withAttrs(AttrsId base, ArrayRef<AttrText> updates) {
  SmallVector<AttrPair, 8> pairs(attrs(base));
  for (const AttrText &update : updates) pairs.push_back({intern(update.key), intern(update.value)});
  return attrs(MutableArrayRef<AttrPair>(pairs));
}

AttrsId Context::withoutAttrs(AttrsId base, function_ref<bool(StringRef)> drop) {
  SmallVector<AttrPair, 8> pairs;
  for (const AttrPair &pair : attrs(base))
    if (!drop(text(pair.key))) pairs.push_back(pair);
  return pairs.size() == attrs(base).size() ? base : internSorted(pairs);
}

std::optional<ShapeId> Context::shape(Dims dims) {
  // One byte of rank keeps the scalar () apart from the key of nothing.
  SmallString<64> key(bytesOf(dims));
  key.push_back(static_cast<char>(dims.size()));
  auto [at, isNew] = shapeIds.try_emplace(key, static_cast<uint32_t>(shapes.size()));
  if (isNew) {
    if (!isPossible(dims)) {
      shapeIds.erase(at);
      return std::nullopt;
    }
    int64_t *copy = arena.Allocate<int64_t>(dims.size());
    std::copy(dims.begin(), dims.end(), copy);
    const bool isKnown = !is_contained(dims, kUnknownDim);
    shapes.push_back({Dims(copy, dims.size()), isKnown ? *numElements(dims) : -1});
  }
  return ShapeId(at->second);
}

Error Context::parseParams(const OpDef &op, AttrsId list, NodeKind &kind) {
  void *params = arena.Allocate(std::max<size_t>(op.params.size, 1), op.params.align);
  if (op.params.construct) op.params.construct(op, params);
  else std::memset(params, 0, op.params.size);
  for (const AttrSpec &spec : op.attrs) {
    std::optional<StringRef> given = attr(list, spec.key);
    if (!given && spec.isRequired)
      return Failure(ErrorKind::BadAttribute, "required attribute '" + spec.key + "' is missing");
    StringRef value = given.value_or(spec.defaultText);
    if (!spec.parse(spec, value, arena, params) || (spec.isInRange && !spec.isInRange(spec, params)))
      return Failure(ErrorKind::BadAttribute,
                     "attribute '" + spec.key + "' is \"" + value + "\", expected " + expectation(spec));
  }
  kind.parsed = params;
  return op.check ? op.check(op, params) : Error::success();
}

InputBits Context::bitsOf(const InputSet &set, const NodeKind &kind) {
  SmallVector<uint64_t, 4> words(1, set.fixed);
  if (set.contains) {
    words.assign((size_t{kind.numInputs} + 63) / 64, 0);
    for (uint32_t i = 0; i < kind.numInputs; ++i) words[i / 64] |= uint64_t{set.contains(kind, i)} << i % 64;
  }
  if (all_of(words, [](uint64_t word) { return word == 0; })) return InputBits();
  uint64_t *copy = arena.Allocate<uint64_t>(words.size());
  llvm::copy(words, copy);
  return InputBits(ArrayRef<uint64_t>(copy, words.size()));
}

Expected<uint32_t> Context::internBodies(ArrayRef<Graph> bodies, NodeKind &kind) {
  for (const Graph &body : bodies) {
    assert(&body.context() == this && "a graph of another context");
    for (KindId inner : body.columns().kinds) kind.nesting = std::max(kind.nesting, kinds[inner.value].nesting);
  }
  if (++kind.nesting > kMaxBodyNesting)
    return Failure(ErrorKind::BadJson, "operator '" + kind.op->name + "' would have bodies nested more than " +
                                           Twine(kMaxBodyNesting) + " levels deep");
  const uint32_t id = bodyLists->intern(bodies);
  kind.bodies = (*bodyLists)[id];
  return id;
}

Expected<KindId> Context::kind(const OpDef &op, AttrsId list, StringRef spelling, ArrayRef<Graph> bodies) {
  NodeKind kind;
  kind.op = &op;
  KindKey key{&op, list.value, spelling.data() == op.name.data() || spelling == op.name ? 0 : intern(spelling).value + 1, 0};
  if (!bodies.empty()) {
    Expected<uint32_t> id = internBodies(bodies, kind);
    if (!id) return id.takeError();
    std::get<3>(key) = *id;
  }
  if (auto known = kindIds.find(key); known != kindIds.end()) return KindId(known->second);
  kind.spelling = spelling == op.name ? op.name : text(intern(spelling));
  kind.attrs = list;
  if (Error error = parseParams(op, list, kind)) return error;
  kind.numInputs = portCount(op.inputs, kind);
  kind.numOutputs = portCount(op.outputs, kind);
  if (kind.numOutputs > kMaxIndex)
    return Failure(ErrorKind::BadAttribute, "operator '" + op.name + "' would have " + Twine(kind.numOutputs) +
                                                " outputs, more than " + Twine(kMaxIndex));
  kind.numVisible = op.visibleOutputs ? op.visibleOutputs(kind) : kind.numOutputs;
  kind.mutated = bitsOf(op.mutated, kind);
  kind.ignored = bitsOf(op.ignored, kind);
  kind.stopped = bitsOf(op.stopped, kind);
  kindIds[key] = static_cast<uint32_t>(kinds.size());
  kinds.push_back(kind);
  return KindId(static_cast<uint32_t>(kinds.size() - 1));
}

KindId Context::variableKind(AttrsId list) {
  auto [at, isNew] = kindIds.try_emplace(KindKey{nullptr, list.value, 0, 0}, static_cast<uint32_t>(kinds.size()));
  if (isNew) {
    NodeKind kind;
    kind.spelling = "null";
    kind.attrs = list;
    kinds.push_back(kind);
  }
  return KindId(at->second);
}

KindId Context::opaqueKind(StringRef opName, AttrsId list, uint32_t numOutputs) {
  return cantFail(opaqueKind(opName, list, numOutputs, {}));
}

Expected<KindId> Context::opaqueKind(StringRef opName, AttrsId list, uint32_t numOutputs, ArrayRef<Graph> bodies) {
  std::unique_ptr<OpDef> &op = opaqueOps[opName];
  if (!op) {
    op = std::make_unique<OpDef>();
    op->name = text(intern(opName));
    op->summary = "unknown operator, kept as it is";
    op->flags.isOpaque = true;
  }
  NodeKind kind;
  kind.op = op.get();
  KindKey key{op.get(), list.value, numOutputs, 0};
  if (!bodies.empty()) {
    Expected<uint32_t> id = internBodies(bodies, kind);
    if (!id) return id.takeError();
    std::get<3>(key) = *id;
  }
  auto [at, isNew] = kindIds.try_emplace(key, static_cast<uint32_t>(kinds.size()));
  if (isNew) {
    kind.spelling = op->name;
    kind.attrs = list;
    kind.numInputs = NodeKind::kAnyInputs;
    kind.numOutputs = kind.numVisible = numOutputs;
    kinds.push_back(kind);
  }
  return KindId(at->second);
}

std::string Context::inputName(const NodeKind &kind, size_t index) const {
  const Ports &ports = kind.op->inputs;
  if (index < ports.names.count && !ports.isVariadic) return ports.names.names[index].str();
  return "arg" + std::to_string(index);
}

std::string Context::outputName(const NodeKind &kind, size_t index) const {
  const Ports &ports = kind.op->outputs;
  if (index < ports.names.count && !ports.isVariadic) return ports.names.names[index].str();
  return "output" + std::to_string(index);
}

std::string Context::describe(StringRef opName, StringRef nodeName, AttrsId list) const {
  std::string out = ("in operator " + opName + "(name=\"" + nodeName + "\"").str();
  for (const AttrPair &pair : attrs(list)) out += (", " + text(pair.key) + "=\"" + text(pair.value) + "\"").str();
  return out + ")";
}

}  // namespace gradc
