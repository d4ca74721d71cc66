// Typed graph attributes from parser events, and how they follow renumbered nodes. Tested by tests/json_reader_test.cc
#include "ir/graph_attrs_json.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

using Kind = GraphAttr::Kind;
constexpr Kind kTypedKinds[] = {Kind::Int, Kind::SizeT, Kind::Str, Kind::ListInt, Kind::ListStr, Kind::ListShape};

// Lists over the heads or over the asked variables; their length says nothing about nodes.
constexpr StringRef kListsOverHeads[] = {"head_kind", "grad_of",   "grad_of_index", "grad_order",
                                         "grad_req",  "x_slot",    "slot_status",   "grad_none",
                                         "head_grad_of"};

}  // namespace

StringRef graphAttrKindName(Kind kind) {
  switch (kind) {
    case Kind::Int: return "int";
    case Kind::SizeT: return "size_t";
    case Kind::Str: return "str";
    case Kind::ListInt: return "list_int";
    case Kind::ListStr: return "list_str";
    case Kind::ListShape: return "list_shape";
    case Kind::Raw: return "";
  }
  return "";
}

void GraphAttrReader::begin() {
  state = State::Start;
  attr = GraphAttr();
  raw.clear();
}

bool GraphAttrReader::isList() const {
  return attr.kind == Kind::ListInt || attr.kind == Kind::ListStr || attr.kind == Kind::ListShape;
}

// Called with the first event that shows the value to be of no known kind.
bool GraphAttrReader::goRaw() {
  if (state == State::Kind) raw.open('[');
  state = State::Raw;
  attr.kind = Kind::Raw;
  return true;
}

bool GraphAttrReader::finishRaw() {
  if (raw.isComplete()) {
    attr.text = raw.str();
    state = State::Done;
  }
  return true;
}

bool GraphAttrReader::addNumber(int64_t value, StringRef spelled) {
  switch (state) {
    case State::Payload:
      if (attr.kind != Kind::Int && attr.kind != Kind::SizeT) return false;
      if (attr.kind == Kind::SizeT && value < 0) return false;
      attr.number = value;
      state = State::Close;
      return true;
    case State::List:
      if (attr.kind != Kind::ListInt) return false;
      attr.numbers.push_back(value);
      return true;
    case State::Shape: attr.shapes.back().push_back(value); return true;
    default: return addScalar(spelled);
  }
}

bool GraphAttrReader::addScalar(StringRef spelled) {
  if (state == State::Start || state == State::Kind) goRaw();
  if (state != State::Raw) return false;
  raw.addScalar(spelled);
  return finishRaw();
}

bool GraphAttrReader::addString(StringRef text) {
  if (state == State::Kind) {
    const Kind *kind = find_if(kTypedKinds, [&](Kind known) { return graphAttrKindName(known) == text; });
    if (kind != std::end(kTypedKinds)) {
      attr.kind = *kind;
      state = State::Payload;
      return true;
    }
  }
  if (state == State::Start || state == State::Kind) goRaw();
  if (state == State::Raw) {
    raw.addString(text);
    return finishRaw();
  }
  if (state == State::Payload && attr.kind == Kind::Str) {
    attr.text = text.str();
    state = State::Close;
    return true;
  }
  if (state != State::List || attr.kind != Kind::ListStr) return false;
  attr.texts.push_back(text.str());
  return true;
}

bool GraphAttrReader::open(char bracket) {
  if (state == State::Start && bracket == '[') {
    state = State::Kind;
    return true;
  }
  if (state == State::Start || state == State::Kind) goRaw();
  if (state == State::Raw) {
    raw.open(bracket);
    return true;
  }
  if (bracket != '[') return false;
  if (state == State::Payload && isList()) {
    state = State::List;
    return true;
  }
  if (state != State::List || attr.kind != Kind::ListShape) return false;
  attr.shapes.emplace_back();
  state = State::Shape;
  return true;
}

bool GraphAttrReader::close(char bracket) {
  switch (state) {
    case State::Kind: goRaw(); [[fallthrough]];
    case State::Raw: raw.close(bracket); return finishRaw();
    case State::Shape: state = State::List; return true;
    case State::List: state = State::Close; return true;
    case State::Close: state = State::Done; return true;
    default: return false;
  }
}

std::string GraphAttrReader::expected() const {
  std::string form = "[\"" + graphAttrKindName(attr.kind).str() + "\", ";
  switch (attr.kind) {
    case Kind::Int: return form + "integer]";
    case Kind::SizeT: return form + "integer from 0]";
    case Kind::Str: return form + "string]";
    case Kind::ListInt: return form + "[integer, …]]";
    case Kind::ListStr: return form + "[string, …]]";
    case Kind::ListShape: return form + "[[integer, …], …]]";
    case Kind::Raw: return "distinct keys in an object";
  }
  return form;
}

namespace {

/// Positions in a list of the file, by position in the list of the graph.
struct Carriage {
  std::vector<uint32_t> nodeFrom, entryFrom;
  size_t fileNodes = 0, fileEntries = 0;
  bool carriesNodes = true, carriesEntries = true;
};

Carriage planCarriage(const Renumbering &file, const Graph &graph) {
  constexpr uint32_t kNowhere = NodeId::kNone;
  Carriage plan;
  plan.fileNodes = file.fileRowPtr.size() - 1;
  plan.fileEntries = file.fileRowPtr.back();
  plan.nodeFrom.assign(graph.numNodes(), kNowhere);
  plan.entryFrom.assign(graph.numEntries(), kNowhere);
  for (uint32_t old = 0; old < plan.fileNodes; ++old) {
    NodeId n = file.newId[old];
    if (!n.isValid()) continue;
    plan.nodeFrom[n.value] = old;
    uint32_t first = file.fileRowPtr[old], count = file.fileRowPtr[old + 1] - first;
    for (uint32_t i = 0; i < std::min(count, graph.numOutputs(n)); ++i)
      plan.entryFrom[graph.firstEntry(n).value + i] = first + i;
  }
  plan.carriesNodes = !is_contained(plan.nodeFrom, kNowhere);
  plan.carriesEntries = !is_contained(plan.entryFrom, kNowhere);
  return plan;
}

template <class T> void permute(std::vector<T> &list, ArrayRef<uint32_t> from) {
  if (list.empty()) return;
  std::vector<T> moved;
  moved.reserve(from.size());
  for (uint32_t position : from) moved.push_back(list[position]);
  list = std::move(moved);
}

/// Whether a list holds ids of nodes. There are no more of them than heads, y or named entries.
bool namesNodes(StringRef key) { return key == "grad_of_node" || key == "head_pairs" || key == "grad_constants"; }

/// Whether number i of such a list is one: of `head_pairs`, the second and fourth of each five, of `grad_constants` the
/// first of each two.
bool isNodeAt(StringRef key, size_t i) {
  if (key == "head_pairs") return i % 5 == 1 || i % 5 == 3;
  return key == "grad_of_node" || i % 2 == 0;
}

size_t listLength(const GraphAttr &attr) {
  return std::max({attr.numbers.size(), attr.texts.size(), attr.shapes.size()});
}

}  // namespace

std::vector<std::string> renumberGraphAttrs(GraphAttrs &attrs, const Renumbering &file, const Graph &graph) {
  Carriage plan = planCarriage(file, graph);
  std::vector<std::string> dropped;
  for (auto &[key, attr] : attrs) {
    size_t length = listLength(attr);
    for (size_t i = 0; namesNodes(key) && i < attr.numbers.size(); ++i) {
      int64_t &id = attr.numbers[i];
      if (!isNodeAt(key, i) || id < 0 || static_cast<size_t>(id) >= plan.fileNodes) continue;
      NodeId n = file.newId[static_cast<size_t>(id)];
      id = n.isValid() ? int64_t{n.value} : -1;
    }
    if (!length || namesNodes(key) || is_contained(kListsOverHeads, key)) continue;
    const bool isPerEntry = length == plan.fileEntries, isPerNode = !isPerEntry && length == plan.fileNodes;
    if (!isPerEntry && !isPerNode) continue;
    if (isPerEntry ? !plan.carriesEntries : !plan.carriesNodes) {
      dropped.push_back(key);
      continue;
    }
    ArrayRef<uint32_t> from = isPerEntry ? plan.entryFrom : plan.nodeFrom;
    permute(attr.numbers, from);
    permute(attr.texts, from);
    permute(attr.shapes, from);
  }
  for (const std::string &key : dropped) attrs.erase(key);
  return dropped;
}

}  // namespace gradc
