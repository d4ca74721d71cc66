// Events within a node: its fields, entries and attributes (IR-13). Tested by tests/formats/json/json_reader_test.cc
#include "formats/json/parse_graph.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace gradc {

JsonHandler::Field JsonHandler::nodeField(StringRef key) {
  return StringSwitch<Field>(key)
      .Case("op", Field::Op)
      .Case("name", Field::Name)
      .Case("attrs", Field::Attrs)
      .Case("inputs", Field::Inputs)
      .Case("control_deps", Field::ControlDeps)
      .Case("subgraphs", Field::Subgraphs)
      .Case("attr", Field::Attr)
      .Case("param", Field::Param)
      .Case("backward_source_id", Field::BackwardSource)
      .Default(Field::Unknown);
}

JsonHandler::Field JsonHandler::graphField(StringRef key) {
  return StringSwitch<Field>(key)
      .Case("nodes", Field::Nodes)
      .Case("arg_nodes", Field::ArgNodes)
      .Case("node_row_ptr", Field::RowPtr)
      .Case("heads", Field::Heads)
      .Case("attrs", Field::GraphAttrs)
      .Default(Field::Unknown);
}

bool JsonHandler::onKey(StringRef key) {
  switch (current()) {
    case In::Attrs: return beginAttr(key);
    case In::Node: return selectField(nodeField(key), key);
    case In::Graph: return selectField(graphField(key), key);
    case In::GraphAttrs:
      if (top->graph.attrs.count(key.str())) break;
      graphAttrKey = key.str();
      graphAttr.begin();
      return enter(In::GraphAttr);
    case In::GraphAttr:
      if (!graphAttr.addKey(key)) break;
      return true;
    default:
      if (!kept.addKey(key)) break;
      return true;
  }
  return fail(ErrorKind::BadJson, tokenBegin(Found::String), "the object has the key '" + key + "' twice");
}

bool JsonHandler::selectField(Field known, StringRef key) {
  const bool isNode = current() == In::Node;
  field = known;
  bool isRepeated = false;
  if (known == Field::Unknown) {
    isRepeated = !(isNode ? top->unknownNodeKeys : top->unknownKeys).insert(key).second;
    ++file.unknownKeys[key.str()];
  } else {
    uint32_t &seen = isNode ? top->seenNodeFields : top->seenFields;
    const uint32_t bit = uint32_t{1} << static_cast<unsigned>(known);
    isRepeated = seen & bit;
    seen |= bit;
  }
  if (!isRepeated) return true;
  return fail(ErrorKind::BadJson, tokenBegin(Found::String),
              "key '" + key + "' appears twice in " + (isNode ? nodeLabel() : "the graph"));
}

bool JsonHandler::beginNode() {
  top->node = RawNode();
  top->node.begin = offset() - 1;
  top->node.inputBegin = static_cast<uint32_t>(top->graph.inputs.size());
  top->seenNodeFields = 0;
  top->pairs.clear();
  top->spellings.clear();
  if (!top->unknownNodeKeys.empty())
    top->unknownNodeKeys = StringSet<>();  // clear() takes as long as the table is large
  return enter(In::Node);
}

bool JsonHandler::endNode() {
  constexpr std::pair<Field, StringLiteral> kRequired[] = {
      {Field::Op, "op"}, {Field::Name, "name"}, {Field::Inputs, "inputs"}};
  auto has = [&](Field wanted) { return (top->seenNodeFields >> static_cast<unsigned>(wanted) & 1) != 0; };
  for (const auto &[required, key] : kRequired)
    if (!has(required)) return fail(ErrorKind::BadJson, top->node.begin, nodeLabel() + " has no key '" + key + "'");
  RawGraph &graph = top->graph;
  graph.usesOldForm |= has(Field::Param) || has(Field::Attr) || has(Field::BackwardSource);
  top->node.attrs = top->pairs.empty() ? AttrsId(0) : internAttrs();
  top->node.end = offset();
  graph.nodes.push_back(top->node);
  constexpr size_t kLimit = 0xfffffff0;  // ids, counts and offsets into names are 32 bits wide
  if (graph.nodes.size() > kLimit || graph.inputs.size() > kLimit || graph.names.size() > kLimit)
    return fail(ErrorKind::BadJson, top->node.begin,
                "the graph is too large: more than 2^32 nodes, inputs or bytes of names");
  return leave();
}

bool JsonHandler::openNodeField(char bracket) {
  const bool isArray = bracket == '[';
  switch (field) {
    case Field::Param:
    case Field::Attr:
    case Field::Attrs:
      ++attrsSerial;
      if (!isArray) return enter(In::Attrs);
      break;
    case Field::Inputs:
      if (isArray) return enter(In::Inputs);
      break;
    case Field::ControlDeps:
      if (isArray) return enter(In::Deps);
      break;
    case Field::Subgraphs:
      if (isArray) return enter(In::Subgraphs);
      break;
    case Field::Unknown: return keep(In::Ignored, bracket);
    default: break;
  }
  return unexpected(isArray ? Found::Array : Found::Object);
}

bool JsonHandler::addEntryNumber(int64_t value) {
  if (entryLength == 3)
    return fail(ErrorKind::BadJson, tokenBegin(Found::Number),
                "an entry has at most three numbers [node, index, version]");
  entry[entryLength++] = value;
  return true;
}

bool JsonHandler::endEntry() {
  if (entryLength < 2)
    return fail(ErrorKind::BadJson, offset() - 1,
                "an entry has at least two numbers [node, index], found " + Twine(entryLength));
  const int64_t version = entryLength == 3 ? entry[2] : 0;
  if (entry[0] < 0 || entry[0] >= int64_t{NodeId::kNone})
    return fail(ErrorKind::BadJson, offset() - 1, Twine(entry[0]) + " is not a node id");
  if (entry[1] < 0 || entry[1] > int64_t{kMaxIndex})
    return fail(ErrorKind::BadEntry, offset() - 1,
                "output index " + Twine(entry[1]) + " is out of range, expected 0 to " + Twine(kMaxIndex));
  if (version < 0 || version > int64_t{kMaxIndex})
    return fail(ErrorKind::BadJson, offset() - 1,
                "version " + Twine(version) + " is out of range, expected 0 to " + Twine(kMaxIndex));
  RawGraph &graph = top->graph;
  graph.usesOldForm |= entryLength == 2;
  const Value value{NodeId(static_cast<uint32_t>(entry[0])), static_cast<uint16_t>(entry[1]),
                    static_cast<uint16_t>(version)};
  (current() == In::Input ? graph.inputs : graph.heads).push_back(value);
  return leave();
}

bool JsonHandler::addNodeId(int64_t value) {
  if (value < 0 || value >= int64_t{NodeId::kNone})
    return fail(ErrorKind::BadJson, tokenBegin(Found::Number), "expected " + expectation() + ", found " + Twine(value));
  RawGraph &graph = top->graph;
  const uint32_t id = static_cast<uint32_t>(value);
  if (current() == In::Deps) graph.deps.push_back({static_cast<uint32_t>(graph.nodes.size()), id});
  else (current() == In::ArgNodes ? graph.argNodes : graph.rowPtr).push_back(id);
  return true;
}

bool JsonHandler::beginAttr(StringRef key) {
  attrKey = file.tables.intern(key);
  if (attrKey.value >= lastSerial.size()) lastSerial.resize(attrKey.value + 64, 0);
  if (lastSerial[attrKey.value] == attrsSerial)
    return fail(ErrorKind::BadJson, tokenBegin(Found::String),
                "attribute '" + key + "' appears twice in " + nodeLabel());
  lastSerial[attrKey.value] = attrsSerial;
  return true;
}

bool JsonHandler::addAttr(StringRef value) {
  if (attrKey == originKey) return takeOrigin(value);
  top->pairs.push_back({attrKey, file.tables.intern(value)});
  top->spellings.push_back(field);
  return true;
}

// Only writeJson spells an origin as an attribute: in memory it is a column, so that equal attribute lists stay shared.
bool JsonHandler::takeOrigin(StringRef value) {
  uint32_t id = 0;
  if (value.getAsInteger(10, id) || id == NodeId::kNone)
    return fail(ErrorKind::BadJson, top->node.begin,
                "attribute '__origin__' of " + nodeLabel() + " is \"" + value + "\", expected a node id");
  top->node.origin = NodeId(id);
  return true;
}

// `param` fills only what is missing, and `attrs` wins over `attr`: Context::attrs keeps the last value of a repeated
// key.
AttrsId JsonHandler::internAttrs() {
  SmallVectorImpl<RawAttr> &pairs = top->pairs;
  if (!all_equal(top->spellings)) {
    SmallVector<RawAttr, 16> inOrder;
    for (Field spelling : {Field::Param, Field::Attr, Field::Attrs})
      for (size_t i = 0; i < pairs.size(); ++i)
        if (top->spellings[i] == spelling) inOrder.push_back(pairs[i]);
    pairs.assign(inOrder.begin(), inOrder.end());
  }
  return file.tables.intern(ctx, pairs);
}

}  // namespace gradc
