// Sketches from JSON and back. Tested by tests/networks/fuzz_corpus_test.cc
#include "tests/fuzz/sketch.h"

#include "ir/base/printable.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <nlohmann/json.hpp>

using namespace llvm;
using nlohmann::json;

namespace gradc::fuzz {
namespace {

std::string textOf(const json &value) {
  if (value.is_string()) return value.get<std::string>();
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

int64_t numberOf(const json &value) { return value.is_number_integer() ? value.get<int64_t>() : 0; }

std::vector<SketchEntry> entriesOf(const json &object, const char *key) {
  std::vector<SketchEntry> entries;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return entries;
  for (const json &item : *found) {
    if (!item.is_array() || item.empty()) continue;
    SketchEntry entry{numberOf(item[0])};
    if (item.size() > 1) entry.index = numberOf(item[1]);
    if (item.size() > 2) entry.version = numberOf(item[2]);
    entries.push_back(entry);
  }
  return entries;
}

SketchNode nodeOf(const json &object) {
  SketchNode node;
  if (!object.is_object()) return node;
  for (const auto &[key, value] : object.items()) {
    if (key == "op") node.op = textOf(value);
    else if (key == "name") node.name = textOf(value);
    else if ((key == "attrs" || key == "attr" || key == "param") && value.is_object())
      for (const auto &[name, text] : value.items()) node.attrs.push_back({name, textOf(text)});
    else if (key == "control_deps" && value.is_array())
      for (const json &dep : value) node.deps.push_back(numberOf(dep));
    else if (key == "subgraphs" && value.is_array())
      for (const json &graph : value)
        node.subgraphs.push_back(graph.dump(-1, ' ', false, json::error_handler_t::replace));
  }
  node.inputs = entriesOf(object, "inputs");
  return node;
}

void printEntries(std::string &out, ArrayRef<SketchEntry> entries) {
  out += '[';
  for (const SketchEntry &entry : entries) {
    if (&entry != entries.begin()) out += ", ";
    out += '[' + std::to_string(entry.node) + ", " + std::to_string(entry.index) + ", " +
           std::to_string(entry.version) + ']';
  }
  out += ']';
}

void printNode(std::string &out, const SketchNode &node) {
  out += "{\"op\": ";
  appendQuoted(out, node.op);
  out += ", \"name\": ";
  appendQuoted(out, node.name);
  for (const auto &[key, value] : node.attrs) {
    out += &node.attrs.front().first == &key ? ", \"attrs\": {" : ", ";
    appendQuoted(out, key);
    out += ": ";
    appendQuoted(out, value);
  }
  out += node.attrs.empty() ? ", \"inputs\": " : "}, \"inputs\": ";
  printEntries(out, node.inputs);
  for (size_t i = 0; i < node.deps.size(); ++i)
    out += (i ? ", " : ", \"control_deps\": [") + std::to_string(node.deps[i]) + (i + 1 == node.deps.size() ? "]" : "");
  for (size_t i = 0; i < node.subgraphs.size(); ++i)
    out += (i ? ", " : ", \"subgraphs\": [") + node.subgraphs[i] + (i + 1 == node.subgraphs.size() ? "]" : "");
  out += '}';
}

}  // namespace

std::string *SketchNode::attr(StringRef key) {
  for (auto &[name, value] : attrs)
    if (name == key) return &value;
  return nullptr;
}

void SketchNode::setAttr(StringRef key, std::string value) {
  if (std::string *known = attr(key)) *known = std::move(value);
  else attrs.push_back({key.str(), std::move(value)});
}

void GraphSketch::setAttr(StringRef key, std::string value) {
  for (auto &[name, known] : attrs)
    if (name == key) return void(known = std::move(value));
  attrs.push_back({key.str(), std::move(value)});
}

std::optional<GraphSketch> parseSketch(StringRef text) {
  json root = json::parse(text.begin(), text.end(), nullptr, false);
  // As the files of testdata/vectors/ have it.
  if (root.is_object() && root.contains("graph")) root = json(std::move(root["graph"]));
  if (!root.is_object() || !root.contains("nodes") || !root["nodes"].is_array()) return std::nullopt;
  GraphSketch sketch;
  for (const json &node : root["nodes"]) sketch.nodes.push_back(nodeOf(node));
  sketch.heads = entriesOf(root, "heads");
  if (root.contains("attrs") && root["attrs"].is_object())
    for (const auto &[key, value] : root["attrs"].items())
      sketch.attrs.push_back({key, value.dump(-1, ' ', false, json::error_handler_t::replace)});
  return sketch;
}

std::string printSketch(const GraphSketch &sketch) {
  std::string out = "{\"nodes\": [", variables;
  for (size_t i = 0; i < sketch.nodes.size(); ++i) {
    out += i ? ",\n" : "\n";
    printNode(out, sketch.nodes[i]);
    if (sketch.nodes[i].isVariable()) variables += (variables.empty() ? "" : ", ") + std::to_string(i);
  }
  out += "],\n\"arg_nodes\": [" + variables + "],\n\"heads\": ";
  printEntries(out, sketch.heads);
  for (const auto &[key, value] : sketch.attrs) {
    out += &sketch.attrs.front().first == &key ? ",\n\"attrs\": {" : ",\n";
    appendQuoted(out, key);
    out += ": " + value;
  }
  return out + (sketch.attrs.empty() ? "}\n" : "}}\n");
}

SketchNode variable(std::string name, ArrayRef<int64_t> dims) {
  return {.op = "null", .name = std::move(name), .attrs = {{"__shape__", shapeText(dims)}}};
}

int64_t shiftedId(int64_t id, size_t offset) {
  return static_cast<int64_t>(static_cast<uint64_t>(id) + uint64_t{offset});
}

void appendNodes(GraphSketch &sketch, const GraphSketch &part) {
  auto shifted = [offset = sketch.nodes.size()](int64_t id) { return shiftedId(id, offset); };
  for (SketchNode node : part.nodes) {
    for (SketchEntry &entry : node.inputs) entry.node = shifted(entry.node);
    for (int64_t &dep : node.deps) dep = shifted(dep);
    int64_t origin = 0;
    if (std::string *text = node.attr("__origin__"); text && !StringRef(*text).getAsInteger(10, origin))
      *text = std::to_string(shifted(origin));
    sketch.nodes.push_back(std::move(node));
  }
}

void dropUnreached(GraphSketch &sketch) {
  const size_t count = sketch.nodes.size();
  std::vector<int64_t> newId(count, -1), open;
  auto reach = [&](int64_t node) {
    if (node < 0 || node >= static_cast<int64_t>(count) || newId[node] >= 0) return;
    newId[node] = 0;
    open.push_back(node);
  };
  for (const SketchEntry &head : sketch.heads) reach(head.node);
  while (!open.empty()) {
    const SketchNode &node = sketch.nodes[open.back()];
    open.pop_back();
    for (const SketchEntry &entry : node.inputs) reach(entry.node);
    for (int64_t dep : node.deps) reach(dep);
  }
  std::vector<SketchNode> kept;
  for (size_t i = 0; i < count; ++i) {
    if (newId[i] < 0) continue;
    newId[i] = static_cast<int64_t>(kept.size());
    kept.push_back(std::move(sketch.nodes[i]));
  }
  auto renumber = [&](int64_t &node) {
    if (node >= 0 && node < static_cast<int64_t>(count)) node = newId[node];
  };
  for (SketchNode &node : kept) {
    for (SketchEntry &entry : node.inputs) renumber(entry.node);
    for (int64_t &dep : node.deps) renumber(dep);
  }
  for (SketchEntry &head : sketch.heads) renumber(head.node);
  sketch.nodes = std::move(kept);
}

std::string shapeText(ArrayRef<int64_t> dims) {
  std::string text = "(";
  for (size_t i = 0; i < dims.size(); ++i) text += (i ? "," : "") + std::to_string(dims[i]);
  return text + (dims.size() == 1 ? ",)" : ")");
}

std::optional<std::vector<int64_t>> parseShapeText(StringRef text) {
  std::vector<int64_t> dims;
  SmallVector<StringRef, 6> parts;
  text.trim("()[] ").split(parts, ',', -1, false);
  for (StringRef part : parts)
    if (part.trim().getAsInteger(10, dims.emplace_back())) return std::nullopt;
  return dims;
}

}  // namespace gradc::fuzz
