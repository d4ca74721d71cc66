// Events of the parser, handled by the innermost open context. Tested by tests/formats/json/json_reader_test.cc
#include "formats/json/parse_graph.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

StringRef pythonSpelling(StringRef literal) {
  return literal == "null" ? "None" : literal == "true" ? "True" : "False";
}

}  // namespace

JsonHandler::JsonHandler(Context &context, StringRef text, const char *const &position, uint32_t maxNesting)
    : ctx(context), text(text), position(position), maxNesting(maxNesting),
      originKey(file.tables.intern("__origin__")) {
  stack.push_back(In::Nothing);
}

Expected<RawFile> JsonHandler::finish() {
  if (error) return Error(std::move(error));
  return std::move(file);
}

bool JsonHandler::enter(In context) {
  stack.push_back(context);
  return true;
}

bool JsonHandler::leave() {
  stack.pop_back();
  return true;
}

bool JsonHandler::onInteger(int64_t value) {
  switch (current()) {
    case In::Input:
    case In::Head: return addEntryNumber(value);
    case In::Deps:
    case In::ArgNodes:
    case In::RowPtr: return addNodeId(value);
    case In::Node: return field == Field::BackwardSource || field == Field::Unknown || unexpected(Found::Number);
    case In::Graph: return field == Field::Unknown || unexpected(Found::Number);
    case In::GraphAttr: return checkGraphAttr(graphAttr.addNumber(value, std::to_string(value)));
    case In::Attrs:
    case In::AttrValue:
    case In::Ignored: return onOtherNumber(std::to_string(value));
    default: return unexpected(Found::Number);
  }
}

bool JsonHandler::onNegativeZero() {
  switch (current()) {
    case In::Attrs:
    case In::AttrValue:
    case In::Ignored: return onOtherNumber("-0");
    case In::GraphAttr: return checkGraphAttr(graphAttr.addNumber(0, "-0"));
    default: return onInteger(0);
  }
}

bool JsonHandler::onOtherNumber(StringRef spelled) {
  switch (current()) {
    case In::Attrs: return addAttr(spelled);
    case In::AttrValue:
    case In::Ignored: kept.addScalar(spelled); return true;
    case In::GraphAttr: return checkGraphAttr(graphAttr.addScalar(spelled));
    case In::Node:
    case In::Graph: return field == Field::Unknown || unexpected(Found::Number);
    default: return unexpected(Found::Number);
  }
}

// Literals in node attributes are spelled as in Python, which is how MXNet's front ends spelled them.
bool JsonHandler::onLiteral(StringRef literal) {
  switch (current()) {
    case In::Attrs: return addAttr(pythonSpelling(literal));
    case In::AttrValue: kept.addScalar(pythonSpelling(literal)); return true;
    case In::Ignored: kept.addScalar(literal); return true;
    case In::GraphAttr: return checkGraphAttr(graphAttr.addScalar(literal));
    case In::Node:
    case In::Graph: return field == Field::Unknown || unexpected(Found::Literal);
    default: return unexpected(Found::Literal);
  }
}

bool JsonHandler::onString(StringRef value) {
  switch (current()) {
    case In::Attrs: return addAttr(value);
    case In::Node:
      if (field == Field::Name) {
        RawGraph &graph = top->graph;
        top->node.nameBegin = static_cast<uint32_t>(graph.names.size());
        top->node.nameLength = static_cast<uint32_t>(value.size());
        graph.names.insert(graph.names.end(), value.begin(), value.end());
        return true;
      }
      if (field == Field::Op) {
        top->node.op = file.tables.intern(value);
        return true;
      }
      return field == Field::Unknown || unexpected(Found::String);
    case In::Graph: return field == Field::Unknown || unexpected(Found::String);
    case In::GraphAttr: return checkGraphAttr(graphAttr.addString(value));
    case In::AttrValue:
    case In::Ignored: kept.addString(value); return true;
    default: return unexpected(Found::String);
  }
}

bool JsonHandler::onOpen(char bracket) {
  const Found found = bracket == '{' ? Found::Object : Found::Array;
  switch (current()) {
    case In::Nothing:
    case In::Subgraphs: return bracket == '{' ? beginGraph() : unexpected(found);
    case In::Nodes: return bracket == '{' ? beginNode() : unexpected(found);
    case In::Inputs:
    case In::Heads:
      if (bracket == '{') return unexpected(found);
      entryLength = 0;
      return enter(current() == In::Inputs ? In::Input : In::Head);
    case In::Graph: return openGraphField(bracket);
    case In::Node: return openNodeField(bracket);
    case In::Attrs: return keep(In::AttrValue, bracket);
    case In::GraphAttr: return checkGraphAttr(graphAttr.open(bracket));
    case In::AttrValue:
    case In::Ignored: kept.open(bracket); return true;
    default: return unexpected(found);
  }
}

bool JsonHandler::onClose(char bracket) {
  switch (current()) {
    case In::Input:
    case In::Head: return endEntry();
    case In::Node: return endNode();
    case In::Graph: return endGraph();
    case In::GraphAttr: return checkGraphAttr(graphAttr.close(bracket));
    case In::AttrValue:
    case In::Ignored: kept.close(bracket); return finishKept();
    default: return leave();
  }
}

bool JsonHandler::onSyntaxError(size_t at, StringRef explanation) {
  return fail(ErrorKind::BadJson, static_cast<int64_t>(at), "malformed JSON: " + explanation);
}

bool JsonHandler::keep(In context, char bracket) {
  kept.clear();
  kept.open(bracket);
  return enter(context);
}

bool JsonHandler::finishKept() {
  if (!kept.isComplete()) return true;
  const bool isAttr = current() == In::AttrValue;
  leave();
  return !isAttr || addAttr(kept.str());
}

bool JsonHandler::checkGraphAttr(bool isFine) {
  if (!isFine)
    return fail(ErrorKind::BadJson, offset() - 1,
                "graph attribute '" + graphAttrKey + "' is malformed, expected " + graphAttr.expected());
  if (!graphAttr.isComplete()) return true;
  top->graph.attrs.emplace(graphAttrKey, graphAttr.take());
  return leave();
}

bool JsonHandler::beginGraph() {
  if (frames.size() > maxNesting)  // the root is in no other
    return fail(ErrorKind::BadJson, offset() - 1,
                "sub-graphs are nested more than " + Twine(maxNesting) + " levels deep");
  frames.push_back(std::make_unique<Frame>());
  top = frames.back().get();
  top->graph.begin = offset() - 1;
  return enter(In::Graph);
}

bool JsonHandler::endGraph() {
  constexpr std::pair<Field, StringLiteral> kRequired[] = {
      {Field::Nodes, "nodes"}, {Field::ArgNodes, "arg_nodes"}, {Field::Heads, "heads"}};
  for (const auto &[required, key] : kRequired)
    if (!(top->seenFields >> static_cast<unsigned>(required) & 1))
      return fail(ErrorKind::BadJson, top->graph.begin, "the graph has no key '" + key + "'");
  file.graphs.push_back(std::move(top->graph));
  frames.pop_back();
  leave();
  top = frames.empty() ? nullptr : frames.back().get();
  if (top)
    top->graph.subgraphs.push_back(
        {static_cast<uint32_t>(top->graph.nodes.size()), static_cast<uint32_t>(file.graphs.size() - 1)});
  return true;
}

bool JsonHandler::openGraphField(char bracket) {
  RawGraph &graph = top->graph;
  const bool isArray = bracket == '[';
  switch (field) {
    case Field::Nodes:
      if (isArray) return enter(In::Nodes);
      break;
    case Field::ArgNodes:
      graph.argNodesAt = offset() - 1;
      if (isArray) return enter(In::ArgNodes);
      break;
    case Field::RowPtr:
      graph.rowPtrAt = offset() - 1;
      graph.hasRowPtr = true;
      if (isArray) return enter(In::RowPtr);
      break;
    case Field::Heads:
      graph.headsAt = offset() - 1;
      if (isArray) return enter(In::Heads);
      break;
    case Field::GraphAttrs:
      if (!isArray) return enter(In::GraphAttrs);
      break;
    case Field::Unknown: return keep(In::Ignored, bracket);
    default: break;
  }
  return unexpected(isArray ? Found::Array : Found::Object);
}

bool JsonHandler::fail(ErrorKind kind, int64_t at, const Twine &message) {
  error = std::make_unique<GradcError>(kind, message.str());
  error->place.offset = at;
  return false;
}

bool JsonHandler::unexpected(Found found) {
  return fail(ErrorKind::BadJson, tokenBegin(found), "expected " + expectation() + ", found " + jsonTokenName(found));
}

std::string JsonHandler::expectation() const {
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
  switch (field) {
    case Field::Nodes: return "an array for 'nodes'";
    case Field::ArgNodes: return "an array for 'arg_nodes'";
    case Field::RowPtr: return "an array for 'node_row_ptr'";
    case Field::Heads: return "an array for 'heads'";
    case Field::GraphAttrs: return "an object for 'attrs'";
    case Field::Op: return "a string for 'op' of " + nodeLabel();
    case Field::Name: return "a string for 'name' of " + nodeLabel();
    case Field::Inputs: return "an array for 'inputs' of " + nodeLabel();
    case Field::ControlDeps: return "an array for 'control_deps' of " + nodeLabel();
    case Field::Subgraphs: return "an array for 'subgraphs' of " + nodeLabel();
    case Field::BackwardSource: return "a number for 'backward_source_id' of " + nodeLabel();
    default: return "an object for the attributes of " + nodeLabel();
  }
}

std::string JsonHandler::nodeLabel() const {
  const RawNode &node = top->node;
  std::string label = "node " + std::to_string(top->graph.nodes.size());
  if (node.nameLength) label += " '" + std::string(top->graph.names.data() + node.nameBegin, node.nameLength) + "'";
  return label;
}

}  // namespace gradc
