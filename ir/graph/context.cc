// Interning. Tested by tests/ir/context_test.cc
#include "ir/graph/context.h"

#include "ir/base/error.h"
#include "ir/graph/bodies.h"
#include "ir/graph/body_flow.h"
#include "ir/graph/effects.h"
#include "ir/graph/graph_builder.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cstring>

using namespace llvm;

namespace gradc {

struct Context::OpaqueOp : OpDef {
  std::string text;
};

/// A kind and the storage that its members point to.
struct Context::KindRow : NodeKind {
  ParamsArena arena;
  std::string text;  // a spelling other than the operator's name
  std::vector<Graph> graphs;
  std::unique_ptr<const BodyFlow> bodyFlow;
  std::shared_ptr<const OpaqueOp> opaque;

  uint64_t hash() const {
    hash_code code = hash_combine(op, attrs.id(), spelling, op && op->flags.isOpaque ? numOutputs : 0);
    for (const Graph &graph : graphs) code = hash_combine(code, keyOf(graph));
    return code;
  }
  bool operator==(const KindRow &other) const {
    auto isSame = [](const Graph &a, const Graph &b) { return keyOf(a) == keyOf(b); };
    return op == other.op && attrs == other.attrs && spelling == other.spelling &&
           (!op || !op->flags.isOpaque || numOutputs == other.numOutputs) &&
           std::equal(graphs.begin(), graphs.end(), other.graphs.begin(), other.graphs.end(), isSame);
  }
};

namespace {

uint32_t portCount(const Ports &ports, const NodeKind &kind) {
  return ports.number ? ports.number(kind) : ports.names.count;
}

// "int from 1", "one of 'avg', 'max'": what an attribute's value should have been.
std::string expectation(const AttrSpec &spec) {
  std::string text;
  raw_string_ostream os(text);
  os << (spec.typeName == "dtype" ? "an element type" : spec.typeName);
  if (!spec.choices.empty()) os << " '" << join(spec.choices, "', '") << "'";
  if (spec.lowest > -HUGE_VAL) printAttr(os << " from ", spec.lowest);
  if (spec.highest < HUGE_VAL) printAttr(os << " to ", spec.highest);
  return text;
}

// A type is left to inference only where that is the default.
bool isMissingType(const AttrSpec &spec, StringRef value) {
  constexpr StringRef kInferred[] = {"None", "-1"};
  return spec.typeName == "dtype" && is_contained(kInferred, value.trim()) &&
         !is_contained(kInferred, spec.defaultText);
}

Error parseParams(const OpDef &op, const Attrs &list, NodeKind &kind, ParamsArena &arena) {
  void *params = arena.Allocate(std::max<size_t>(op.params.size, 1), Align(op.params.align));
  if (op.params.construct) op.params.construct(op, params);
  else std::memset(params, 0, op.params.size);
  for (const AttrSpec &spec : op.attrs) {
    std::optional<StringRef> given = list.get(spec.key);
    if (!given && spec.isRequired)
      return Failure(ErrorKind::BadAttribute, "required attribute '" + spec.key + "' is missing");
    StringRef value = given.value_or(spec.defaultText);
    if (!spec.parse(spec, value, arena, params) || (spec.isInRange && !spec.isInRange(spec, params)) ||
        isMissingType(spec, value))
      return Failure(ErrorKind::BadAttribute,
                     "attribute '" + spec.key + "' is \"" + value + "\", expected " + expectation(spec));
  }
  kind.parsed = params;
  return op.check ? op.check(op, params) : Error::success();
}

InputBits bitsOf(const InputSet &set, const NodeKind &kind, ParamsArena &arena) {
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

// Fills the members of a kind that depend only on its bodies.
Error fillFromBodies(ArrayRef<Graph> bodies, StringRef opName, NodeKind &kind) {
  if (bodies.empty()) return Error::success();
  for (const Graph &body : bodies)
    for (const KindRef &inner : body.kinds()) {
      kind.nesting = std::max(kind.nesting, inner->nesting);
      kind.drawsInBodies |= inner->drawsInBodies || inner->draws;
      kind.readsForm |= inner->readsForm;
    }
  if (++kind.nesting <= kMaxBodyNesting) return Error::success();
  return Failure(ErrorKind::BadJson, "operator '" + opName + "' would have bodies nested more than " +
                                         Twine(kMaxBodyNesting) + " levels deep");
}

}  // namespace

Attrs Context::attrs(ArrayRef<AttrText> pairs) {
  if (pairs.empty()) return Attrs();
  SmallVector<AttrText, 8> sorted(pairs);
  auto less = [](const AttrText &a, const AttrText &b) { return a.key < b.key; };
  if (!is_sorted(sorted, less)) std::stable_sort(sorted.begin(), sorted.end(), less);
  size_t numKept = 0, numBytes = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (numKept && sorted[numKept - 1].key == sorted[i].key) --numKept;
    sorted[numKept++] = sorted[i];
  }
  sorted.truncate(numKept);
  hash_code hash(0);
  for (const AttrText &pair : sorted) {
    hash = hash_combine(hash, pair.key, pair.value);
    numBytes += pair.key.size() + pair.value.size();
  }
  auto isEqual = [&](const Attrs::List &list) { return ArrayRef(list.pairs) == ArrayRef(sorted); };
  if (auto known = attrLists.find(hash, isEqual)) return Attrs(std::move(known));
  auto list = std::make_unique<Attrs::List>();
  list->text = std::make_unique<char[]>(numBytes);
  char *at = list->text.get();
  auto keep = [&](StringRef text) {
    char *begin = at;
    at = std::copy(text.begin(), text.end(), at);
    return StringRef(begin, text.size());
  };
  list->pairs.reserve(sorted.size());
  for (const AttrText &pair : sorted) {
    const StringRef key = keep(pair.key);
    list->pairs.push_back({key, keep(pair.value)});
  }
  return Attrs(attrLists.add(hash, std::move(list), isEqual));
}

Attrs Context::withAttrs(const Attrs &base, ArrayRef<AttrText> updates) {
  SmallVector<AttrText, 8> pairs(base.pairs());
  llvm::append_range(pairs, updates);
  return attrs(pairs);
}

Attrs Context::withoutAttrs(const Attrs &base, function_ref<bool(StringRef)> drop) {
  SmallVector<AttrText, 8> pairs;
  for (const AttrText &pair : base.pairs())
    if (!drop(pair.key)) pairs.push_back(pair);
  return pairs.size() == base.pairs().size() ? base : attrs(pairs);
}

// Replaces each graph by the equal one in the table; the result keeps the table's handles alive (Graph::partOf).
static std::vector<Graph> internGraphs(InternTable<Graph> &table, ArrayRef<Graph> graphs) {
  std::vector<Graph> interned;
  interned.reserve(graphs.size());
  for (const Graph &graph : graphs) {
    auto isEqual = [&](const Graph &other) { return other == graph; };
    const uint64_t hash = contentHash(graph);
    std::shared_ptr<const Graph> known = table.find(hash, isEqual);
    if (!known) known = table.add(hash, std::make_unique<Graph>(graph), isEqual);
    interned.push_back(Graph::partOf(known));
  }
  return interned;
}

// Stands in for a branch that a node lacks.
static Graph identityBody(Context &context, size_t numInputs) {
  GraphBuilder body(context);
  SmallVector<Value, 4> inputs;
  for (size_t i = 0; i < numInputs; ++i) inputs.push_back(body.addVariable(("in" + Twine(i)).str(), Attrs()));
  return cantFail(std::move(body).freeze(inputs, {})).graph;  // only variables: no cycle
}

Expected<KindRef> Context::kind(const OpDef &op, const Attrs &list, StringRef spelling, ArrayRef<Graph> bodyList) {
  auto row = std::make_unique<KindRow>();
  row->op = &op;
  row->attrs = list;
  row->spelling = spelling == op.name ? op.name : spelling;
  if (Error error = fillFromBodies(bodyList, op.name, *row)) return error;
  row->graphs = internGraphs(bodies, bodyList);
  row->bodies = row->graphs;
  const uint64_t hash = row->hash();
  auto isEqual = [&](const KindRow &other) { return other == *row; };
  if (KindRef known = kinds.find(hash, isEqual)) return known;
  if (spelling != op.name) row->spelling = row->text = spelling.str();
  if (Error error = parseParams(op, list, *row, row->arena)) return error;
  row->inherited = withoutAttrs(list, [&](StringRef key) { return !key.starts_with("__") && !op.declares(key); });
  row->numInputs = portCount(op.inputs, *row);
  row->numOutputs = portCount(op.outputs, *row);
  if (row->numOutputs > kMaxIndex)
    return Failure(ErrorKind::BadAttribute, "operator '" + op.name + "' would have " + Twine(row->numOutputs) +
                                                " outputs, more than " + Twine(kMaxIndex));
  row->draws = op.flags.isRandom && (!op.draws || op.draws(*row));
  row->readsForm |= op.readsForm(*row);
  row->numVisible = op.visibleOutputs ? op.visibleOutputs(*row) : row->numOutputs;
  if (op.flow) {
    Expected<BodyFlow> flow = op.flow(*row);
    if (!flow) return flow.takeError();
    if (flow->bodies.size() > bodyList.size()) {
      SmallVector<Graph, 3> completed(bodyList);
      completed.push_back(identityBody(*this, flow->bodies.back().operandOf.size()));
      return this->kind(op, list, spelling, completed);
    }
    row->bodyFlow = std::make_unique<const BodyFlow>(std::move(*flow));
    row->flow = row->bodyFlow.get();
  }
  if (!list.get(kShapeOnly)) row->mutated = bitsOf(op.mutated, *row, row->arena);
  row->ignored = bitsOf(op.ignored, *row, row->arena);
  row->stopped = bitsOf(op.stopped, *row, row->arena);
  return add(std::move(row));
}

Expected<KindRef> Context::kindLike(const NodeKind &like, const Attrs &list, ArrayRef<Graph> bodyList) {
  if (like.isVariable()) return variableKind(list);
  if (like.op->flags.isOpaque) return opaqueKind(like.op->name, list, like.numOutputs, bodyList);
  return kind(*like.op, list, like.spelling, bodyList);
}

KindRef Context::variableKind(const Attrs &list) {
  auto row = std::make_unique<KindRow>();
  row->spelling = "null";
  row->attrs = list;
  return add(std::move(row));
}

Expected<KindRef> Context::opaqueKind(StringRef opName, const Attrs &list, uint32_t numOutputs,
                                      ArrayRef<Graph> bodyList) {
  auto row = std::make_unique<KindRow>();
  auto isNamed = [&](const OpaqueOp &op) { return op.name == opName; };
  const uint64_t hash = hash_value(opName);
  row->opaque = opaqueOps.find(hash, isNamed);
  if (!row->opaque) {
    auto op = std::make_unique<OpaqueOp>();
    op->name = op->text = opName.str();
    op->summary = "unknown operator, kept unchanged";
    op->flags.isOpaque = true;
    row->opaque = opaqueOps.add(hash, std::move(op), isNamed);
  }
  row->op = row->opaque.get();
  row->spelling = row->op->name;
  row->attrs = list;
  row->numInputs = NodeKind::kAnyInputs;
  row->numOutputs = row->numVisible = numOutputs;
  if (Error error = fillFromBodies(bodyList, opName, *row)) return error;
  row->graphs = internGraphs(bodies, bodyList);
  row->bodies = row->graphs;
  return add(std::move(row));
}

KindRef Context::add(std::unique_ptr<KindRow> row) {
  const uint64_t hash = row->hash();
  KindRow &content = *row;
  auto isEqual = [&](const KindRow &other) { return other == content; };
  if (KindRef known = kinds.find(hash, isEqual)) return known;
  return kinds.add(hash, std::move(row), isEqual);
}

}  // namespace gradc
