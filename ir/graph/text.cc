// One line per node. Tested by tests/ir/text_test.cc
#include "ir/graph/text.h"

#include "ir/base/printable.h"
#include "ir/graph/body_roles.h"

#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

template <class T, class Print> void printList(raw_ostream &os, ArrayRef<T> list, Print print) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (i) os << ", ";
    print(list[i]);
  }
}

// A value is quoted if a reader could not see where it ends.
bool isPlain(StringRef value) {
  int depth = 0;
  for (char c : value) {
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (static_cast<unsigned char>(c) <= ' ' ? c != ' ' || !depth : StringRef("\"\\{}=").contains(c)) return false;
    if (c == ',' && !depth) return false;
  }
  return !value.empty() && depth == 0 && isPrintable(value);
}

void printAttrs(raw_ostream &os, const Graph &graph, NodeId n) {
  ArrayRef<AttrText> pairs = graph.attrs(n).pairs();
  if (pairs.empty()) return;
  os << " {";
  printList(os, pairs, [&](const AttrText &pair) {
    os << printable(pair.key) << '=';
    if (isPlain(pair.value)) os << pair.value;
    else os << quoted(pair.value);
  });
  os << '}';
}

/// What a reader of the line `%4 = …` should also know: `after %1; body @1; sliced from %0`.
std::string remarks(ArrayRef<NestedGraph> graphs, const BodyNumbers &numbers, size_t position, NodeId n) {
  const Graph &graph = graphs[position].graph;
  std::string text;
  raw_string_ostream os(text);
  ListSeparator separator("; ");
  if (ArrayRef<NodeId> deps = graph.controlDeps(n); !deps.empty()) {
    os << separator << "after ";
    printList(os, deps, [&](NodeId dep) { os << '%' << dep.value; });
  }
  if (!graph.bodies(n).empty()) os << separator << bodiesText(graph, n, numbers);
  if (graph.isVariable(n))
    if (const BodyRole role = inputRole(graphs, position, n); role.isKnown()) os << separator << role.text;
  return text;
}

void printNode(raw_ostream &os, const Graph &graph, NodeId n) {
  os << '%' << n.value << " = ";
  if (graph.isVariable(n)) {
    os << "variable";
  } else {
    os << printable(graph.opName(n)) << '(';
    printList(os, graph.inputs(n), [&](Value v) { os << valueText(v); });
    os << ')';
  }
  printAttrs(os, graph, n);
  if (!graph.name(n).empty()) os << ' ' << quoted(graph.name(n));
}

void printTitle(raw_ostream &os, const NestedGraph &nested, const Graph &parent) {
  os << bodyName(parent.bodies(nested.owner).size(), nested.body) << " of %" << nested.owner.value;
  if (nested.parent) os << " in @" << nested.parent;
  os << '\n';
}

void printHeads(raw_ostream &os, ArrayRef<NestedGraph> graphs, size_t position) {
  ArrayRef<Value> heads = graphs[position].graph.heads();
  os << "heads ";
  printList(os, heads, [&](Value v) { os << valueText(v); });
  StringRef separator = "   ; ";
  for (size_t h = 0; h < heads.size(); ++h) {
    const BodyRole role = headRole(graphs, position, h);
    if (!role.isKnown()) break;
    os << separator << role.text;
    separator = "; ";
  }
  os << '\n';
}

}  // namespace

void printText(raw_ostream &os, const Graph &graph) {
  const std::vector<NestedGraph> graphs = nestedGraphs(graph);
  const BodyNumbers numbers = numberBodies(graphs);
  for (size_t i = 0; i < graphs.size(); ++i) {
    const Graph &shown = graphs[i].graph;
    const StringRef indent = i ? "  " : "";
    if (i) {
      os << '@' << i << ": ";
      printTitle(os, graphs[i], graphs[graphs[i].parent].graph);
    }
    for (uint32_t id = 0; id < shown.numNodes(); ++id) {
      os << indent;
      printNode(os, shown, NodeId(id));
      if (const std::string text = remarks(graphs, numbers, i, NodeId(id)); !text.empty()) os << "   ; " << text;
      os << '\n';
    }
    os << indent;
    printHeads(os, graphs, i);
  }
}

}  // namespace gradc
