// Events first, then graphs, nodes and attributes. Tested by tests/formats/json/json_reader_test.cc
#include "formats/json/parse_graph.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

using In = GraphParser::In;
using Field = GraphParser::Field;

struct FieldRow {
  StringLiteral key;
  JsonToken form;  // of its value
  bool isRequired = false;
  In context = In::Nothing;  // of the array or object
};

constexpr FieldRow kFields[] = {{"nodes", JsonToken::Array, true, In::Nodes},
                                {"arg_nodes", JsonToken::Array, true, In::ArgNodes},
                                {"node_row_ptr", JsonToken::Array, false, In::RowPtr},
                                {"heads", JsonToken::Array, true, In::Heads},
                                {"attrs", JsonToken::Object, false, In::GraphAttrs},
                                {"op", JsonToken::String, true},
                                {"name", JsonToken::String, true},
                                {"param", JsonToken::Object, false, In::Attrs},
                                {"attr", JsonToken::Object, false, In::Attrs},
                                {"attrs", JsonToken::Object, false, In::Attrs},
                                {"inputs", JsonToken::Array, true, In::Inputs},
                                {"control_deps", JsonToken::Array, false, In::Deps},
                                {"subgraphs", JsonToken::Array, false, In::Subgraphs},
                                {"backward_source_id", JsonToken::Number}};
constexpr size_t kFirstNodeField = static_cast<size_t>(Field::Op);
static_assert(std::size(kFields) == static_cast<size_t>(Field::Unknown));

/// The fields of a graph or of a node.
ArrayRef<FieldRow> fieldsOf(bool isNode) {
  return isNode ? ArrayRef(kFields).drop_front(kFirstNodeField) : ArrayRef(kFields).take_front(kFirstNodeField);
}

bool has(uint32_t seen, Field field) { return seen >> static_cast<unsigned>(field) & 1; }

StringRef pythonSpelling(StringRef literal) {
  return literal == "null" ? "None" : literal == "true" ? "True" : "False";
}

}  // namespace

GraphParser::GraphParser(Context &context, StringRef text, uint32_t maxNesting)
    : ctx(context), text(text), maxNesting(maxNesting), originKey(file.tables.intern("__origin__")) {
  stack.push_back(In::Nothing);
}

Expected<RawFile> GraphParser::run() {
  parseJson(text, position, *this);
  if (error) return Error(std::move(error));
  return std::move(file);
}

bool GraphParser::onInteger(int64_t value) {
  switch (current()) {
    case In::Input:
    case In::Head: return addEntryNumber(value);
    case In::Deps:
    case In::ArgNodes:
    case In::RowPtr: return addNodeId(value);
    case In::Node: return field == Field::BackwardSource || isUnknown(JsonToken::Number);
    case In::GraphAttr: return checkGraphAttr(graphAttr.addNumber(value, std::to_string(value)));
    default: return onOtherNumber(std::to_string(value));
  }
}

bool GraphParser::onNegativeZero() {
  switch (current()) {
    case In::Attrs:
    case In::AttrValue:
    case In::Ignored: return onOtherNumber("-0");
    case In::GraphAttr: return checkGraphAttr(graphAttr.addNumber(0, "-0"));
    default: return onInteger(0);
  }
}

bool GraphParser::onOtherNumber(StringRef spelled) {
  switch (current()) {
    case In::Attrs: return addAttr(spelled);
    case In::AttrValue:
    case In::Ignored: collected.addScalar(spelled); return true;
    case In::GraphAttr: return checkGraphAttr(graphAttr.addScalar(spelled));
    case In::Node:
    case In::Graph: return isUnknown(JsonToken::Number);
    default: return unexpected(JsonToken::Number);
  }
}

// Literals in node attributes are spelled as in Python, which is how MXNet's front ends spelled them.
bool GraphParser::onLiteral(StringRef literal) {
  switch (current()) {
    case In::Attrs: return addAttr(pythonSpelling(literal));
    case In::AttrValue: collected.addScalar(pythonSpelling(literal)); return true;
    case In::Ignored: collected.addScalar(literal); return true;
    case In::GraphAttr: return checkGraphAttr(graphAttr.addScalar(literal));
    case In::Node:
    case In::Graph: return isUnknown(JsonToken::Literal);
    default: return unexpected(JsonToken::Literal);
  }
}

bool GraphParser::onString(StringRef value) {
  switch (current()) {
    case In::Attrs: return addAttr(value);
    case In::Node:
      if (field == Field::Name) {
        std::vector<char> &names = top->graph.names;
        top->node.nameBegin = static_cast<uint32_t>(names.size());
        top->node.nameLength = static_cast<uint32_t>(value.size());
        names.insert(names.end(), value.begin(), value.end());
        return true;
      }
      if (field != Field::Op) return isUnknown(JsonToken::String);
      top->node.op = file.tables.intern(value);
      return true;
    case In::Graph: return isUnknown(JsonToken::String);
    case In::GraphAttr: return checkGraphAttr(graphAttr.addString(value));
    case In::AttrValue:
    case In::Ignored: collected.addString(value); return true;
    default: return unexpected(JsonToken::String);
  }
}

bool GraphParser::onKey(StringRef key) {
  switch (current()) {
    case In::Attrs: return beginAttr(key);
    case In::Node:
    case In::Graph: return selectField(key, current() == In::Node);
    case In::GraphAttrs:
      if (top->graph.attrs.count(key.str())) break;
      graphAttrKey = key.str();
      graphAttr.begin();
      return enter(In::GraphAttr);
    case In::GraphAttr:
      if (!graphAttr.addKey(key)) break;
      return true;
    default:
      if (!collected.addKey(key)) break;
      return true;
  }
  return fail(ErrorKind::BadJson, tokenBegin(JsonToken::String), "the object has the key '" + key + "' twice");
}

bool GraphParser::onOpen(char bracket) {
  const JsonToken found = bracket == '{' ? JsonToken::Object : JsonToken::Array;
  switch (current()) {
    case In::Nothing:
    case In::Subgraphs: return bracket == '{' ? beginGraph() : unexpected(found);
    case In::Nodes: return bracket == '{' ? beginNode() : unexpected(found);
    case In::Inputs:
    case In::Heads:
      if (bracket == '{') return unexpected(found);
      entryLength = 0;
      return enter(current() == In::Inputs ? In::Input : In::Head);
    case In::Graph:
    case In::Node: return openField(found, bracket);
    case In::Attrs: return collect(In::AttrValue, bracket);
    case In::GraphAttr: return checkGraphAttr(graphAttr.open(bracket));
    case In::AttrValue:
    case In::Ignored: collected.open(bracket); return true;
    default: return unexpected(found);
  }
}

bool GraphParser::onClose(char bracket) {
  switch (current()) {
    case In::Input:
    case In::Head: return endEntry();
    case In::Node: return endNode();
    case In::Graph: return endGraph();
    case In::GraphAttr: return checkGraphAttr(graphAttr.close(bracket));
    case In::AttrValue:
    case In::Ignored: collected.close(bracket); return endCollected();
    default: return leave();
  }
}

bool GraphParser::onSyntaxError(size_t at, StringRef explanation) {
  return fail(ErrorKind::BadJson, static_cast<int64_t>(at), "malformed JSON: " + explanation);
}

bool GraphParser::selectField(StringRef key, bool isNode) {
  const ArrayRef<FieldRow> fields = fieldsOf(isNode);
  const FieldRow *row = find_if(fields, [&](const FieldRow &one) { return one.key == key; });
  bool isRepeated = false;
  if (row == fields.end()) {
    field = Field::Unknown;
    isRepeated = !(isNode ? top->unknownNodeKeys : top->unknownKeys).insert(key).second;
    ++file.unknownKeys[key.str()];
  } else {
    field = static_cast<Field>(row - kFields);
    uint32_t &seen = isNode ? top->seenNodeFields : top->seenFields;
    isRepeated = has(seen, field);
    seen |= uint32_t{1} << static_cast<unsigned>(field);
  }
  if (!isRepeated) return true;
  return fail(ErrorKind::BadJson, tokenBegin(JsonToken::String),
              "key '" + key + "' appears twice in " + (isNode ? nodeLabel() : "the graph"));
}

bool GraphParser::openField(JsonToken found, char bracket) {
  RawGraph &graph = top->graph;
  switch (field) {
    case Field::Unknown: return collect(In::Ignored, bracket);
    case Field::ArgNodes: graph.argNodesAt = offset() - 1; break;
    case Field::RowPtr:
      graph.rowPtrAt = offset() - 1;
      graph.hasRowPtr = true;
      break;
    case Field::Heads: graph.headsAt = offset() - 1; break;
    case Field::Param:
    case Field::Attr:
    case Field::Attrs: ++attrsSerial; break;
    default: break;
  }
  const FieldRow &row = kFields[static_cast<size_t>(field)];
  return row.form == found ? enter(row.context) : unexpected(found);
}

bool GraphParser::beginGraph() {
  if (frames.size() > maxNesting)  // the root is in no other
    return fail(ErrorKind::BadJson, offset() - 1,
                "sub-graphs are nested more than " + Twine(maxNesting) + " levels deep");
  frames.push_back(std::make_unique<Frame>());
  top = frames.back().get();
  top->graph.begin = offset() - 1;
  return enter(In::Graph);
}

bool GraphParser::endGraph() {
  if (lacksField(false)) return false;
  file.graphs.push_back(std::move(top->graph));
  frames.pop_back();
  leave();
  top = frames.empty() ? nullptr : frames.back().get();
  if (top)
    top->graph.subgraphs.push_back(
        {static_cast<uint32_t>(top->graph.nodes.size()), static_cast<uint32_t>(file.graphs.size() - 1)});
  return true;
}

bool GraphParser::beginNode() {
  top->node = RawNode();
  top->node.begin = offset() - 1;
  top->node.inputBegin = static_cast<uint32_t>(top->graph.inputs.size());
  top->seenNodeFields = 0;
  for (auto &pairs : top->pairs) pairs.clear();
  if (!top->unknownNodeKeys.empty())
    top->unknownNodeKeys = StringSet<>();  // clear() takes as long as the table is large
  return enter(In::Node);
}

bool GraphParser::endNode() {
  const uint32_t seen = top->seenNodeFields;
  if (lacksField(true)) return false;
  RawGraph &graph = top->graph;
  graph.usesOldForm |= has(seen, Field::Param) || has(seen, Field::Attr) || has(seen, Field::BackwardSource);
  top->node.attrs = internAttrs();
  top->node.end = offset();
  graph.nodes.push_back(top->node);
  constexpr size_t kLimit = 0xfffffff0;  // ids, counts and offsets into names are 32 bits wide
  if (graph.nodes.size() > kLimit || graph.inputs.size() > kLimit || graph.names.size() > kLimit)
    return fail(ErrorKind::BadJson, top->node.begin,
                "the graph is too large: more than 2^32 nodes, inputs or bytes of names");
  return leave();
}

bool GraphParser::addEntryNumber(int64_t value) {
  if (entryLength == 3)
    return fail(ErrorKind::BadJson, tokenBegin(JsonToken::Number),
                "an entry has at most three numbers [node, index, version]");
  entry[entryLength++] = value;
  return true;
}

bool GraphParser::endEntry() {
  const int64_t at = offset() - 1;
  if (entryLength < 2)
    return fail(ErrorKind::BadJson, at, "an entry has at least two numbers [node, index], found " + Twine(entryLength));
  const auto [node, index, third] = entry;
  const int64_t version = entryLength == 3 ? third : 0;
  if (node < 0 || node >= int64_t{NodeId::kNone})
    return fail(ErrorKind::BadJson, at, Twine(node) + " is not a node id");
  if (index < 0 || index > int64_t{kMaxIndex})
    return fail(ErrorKind::BadEntry, at,
                "output index " + Twine(index) + " is out of range, expected 0 to " + Twine(kMaxIndex));
  if (version < 0 || version > int64_t{kMaxIndex})
    return fail(ErrorKind::BadJson, at,
                "version " + Twine(version) + " is out of range, expected 0 to " + Twine(kMaxIndex));
  RawGraph &graph = top->graph;
  graph.usesOldForm |= entryLength == 2;
  const Value value{NodeId(static_cast<uint32_t>(node)), static_cast<uint16_t>(index), static_cast<uint16_t>(version)};
  (current() == In::Input ? graph.inputs : graph.heads).push_back(value);
  return leave();
}

bool GraphParser::addNodeId(int64_t value) {
  if (value < 0 || value >= int64_t{NodeId::kNone})
    return fail(ErrorKind::BadJson, tokenBegin(JsonToken::Number),
                "expected " + expectation() + ", found " + Twine(value));
  RawGraph &graph = top->graph;
  const uint32_t id = static_cast<uint32_t>(value);
  if (current() == In::Deps) graph.deps.push_back({static_cast<uint32_t>(graph.nodes.size()), id});
  else (current() == In::ArgNodes ? graph.argNodes : graph.rowPtr).push_back(id);
  return true;
}

bool GraphParser::beginAttr(StringRef key) {
  attrKey = file.tables.intern(key);
  if (attrKey.value >= lastSerial.size()) lastSerial.resize(attrKey.value + 64, 0);
  if (lastSerial[attrKey.value] == attrsSerial)
    return fail(ErrorKind::BadJson, tokenBegin(JsonToken::String),
                "attribute '" + key + "' appears twice in " + nodeLabel());
  lastSerial[attrKey.value] = attrsSerial;
  return true;
}

bool GraphParser::addAttr(StringRef value) {
  if (attrKey != originKey) {
    const size_t list = static_cast<size_t>(field) - static_cast<size_t>(Field::Param);
    top->pairs[list].push_back({attrKey, file.tables.intern(value)});
    return true;
  }
  // Only writeJson spells an origin as an attribute: in memory it is a column, so that equal attribute lists are
  // shared.
  uint32_t id = 0;
  if (value.getAsInteger(10, id) || id == NodeId::kNone)
    return fail(ErrorKind::BadJson, top->node.begin,
                "attribute '__origin__' of " + nodeLabel() + " is \"" + value + "\", expected a node id");
  top->node.origin = NodeId(id);
  return true;
}

// `param` fills only what is missing, and `attrs` wins over `attr`: the last value of a repeated key counts.
AttrsId GraphParser::internAttrs() {
  auto &[pairs, attr, attrs] = top->pairs;
  pairs.append(attr);
  pairs.append(attrs);
  return pairs.empty() ? AttrsId(0) : file.tables.intern(ctx, pairs);
}

bool GraphParser::collect(In context, char bracket) {
  collected.clear();
  collected.open(bracket);
  return enter(context);
}

bool GraphParser::endCollected() {
  if (!collected.isComplete()) return true;
  const bool isAttr = current() == In::AttrValue;
  leave();
  return !isAttr || addAttr(collected.str());
}

bool GraphParser::checkGraphAttr(bool isFine) {
  if (!isFine)
    return fail(ErrorKind::BadJson, offset() - 1,
                "graph attribute '" + graphAttrKey + "' is malformed, expected " + graphAttr.expected());
  if (!graphAttr.isComplete()) return true;
  top->graph.attrs.emplace(graphAttrKey, graphAttr.take());
  return leave();
}

bool GraphParser::fail(ErrorKind kind, int64_t at, const Twine &message) {
  error = std::make_unique<GradcError>(kind, message.str());
  error->place.offset = at;
  return false;
}

bool GraphParser::unexpected(JsonToken found) {
  return fail(ErrorKind::BadJson, tokenBegin(found), "expected " + expectation() + ", found " + jsonTokenName(found));
}

/// Whether the graph or the node ends without a required field.
bool GraphParser::lacksField(bool isNode) {
  const uint32_t seen = isNode ? top->seenNodeFields : top->seenFields;
  for (const FieldRow &row : fieldsOf(isNode))
    if (row.isRequired && !has(seen, static_cast<Field>(&row - kFields)))
      return !fail(ErrorKind::BadJson, isNode ? top->node.begin : top->graph.begin,
                   (isNode ? nodeLabel() : "the graph") + " has no key '" + row.key + "'");
  return false;
}

std::string GraphParser::expectation() const {
  switch (current()) {
    case In::Nothing: return "a graph object";
    case In::Nodes: return "a node object";
    case In::Inputs: return "an entry [node, index, version] among the inputs of " + nodeLabel();
    case In::Heads: return "an entry [node, index, version] among the heads";
    case In::Input:
    case In::Head: return "a whole number in an entry [node, index, version]";
    case In::Deps: return "a node id among the control dependencies of " + nodeLabel();
    case In::ArgNodes: return "a node id in 'arg_nodes'";
    case In::RowPtr: return "an entry number in 'node_row_ptr'";
    case In::Subgraphs: return "a graph object among the sub-graphs of " + nodeLabel();
    default: break;
  }
  const FieldRow &row = kFields[static_cast<size_t>(field)];
  if (row.context == In::Attrs) return "an object for the attributes of " + nodeLabel();
  const std::string form = (jsonTokenName(row.form) + " for '" + row.key + "'").str();
  return field < Field::Op ? form : form + " of " + nodeLabel();
}

std::string GraphParser::nodeLabel() const {
  const RawNode &node = top->node;
  std::string label = "node " + std::to_string(top->graph.nodes.size());
  if (node.nameLength) label += " '" + std::string(top->graph.names.data() + node.nameBegin, node.nameLength) + "'";
  return label;
}
}  // namespace gradc
