// One line per node. Tested by tests/text_test.cc
#include "ir/text.h"

#include "ir/bodies.h"
#include "ir/json_text.h"

using namespace llvm;

namespace gradc {
namespace {

/// `%4`, `%4:1` for a later output, `%4@1` for a version.
void printValue(raw_ostream &os, Value v) {
  os << '%' << v.node.value;
  if (v.index) os << ':' << v.index;
  if (v.version) os << '@' << v.version;
}

template <class T, class Print> void printList(raw_ostream &os, ArrayRef<T> list, Print print) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (i) os << ", ";
    print(list[i]);
  }
}

std::string quote(StringRef text) {
  std::string quoted;
  appendQuoted(quoted, text);
  return quoted;
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
  return !value.empty() && depth == 0;
}

void printAttrs(raw_ostream &os, const Graph &graph, NodeId n) {
  ArrayRef<AttrText> pairs = graph.attrs(n).pairs();
  if (pairs.empty()) return;
  os << " {";
  printList(os, pairs, [&](const AttrText &pair) {
    os << pair.key << '=';
    if (isPlain(pair.value)) os << pair.value;
    else os << quote(pair.value);
  });
  os << '}';
}

void printNode(raw_ostream &os, const Graph &graph, NodeId n, const BodyNumbers &numbers) {
  os << '%' << n.value << " = ";
  if (graph.isVariable(n)) {
    os << "variable";
  } else {
    os << graph.opName(n) << '(';
    printList(os, graph.inputs(n), [&](Value v) { printValue(os, v); });
    os << ')';
  }
  printAttrs(os, graph, n);
  if (!graph.name(n).empty()) os << ' ' << quote(graph.name(n));
  StringRef separator = "   ; ";
  if (ArrayRef<NodeId> deps = graph.controlDeps(n); !deps.empty()) {
    os << separator << "after ";
    printList(os, deps, [&](NodeId dep) { os << '%' << dep.value; });
    separator = "; ";
  }
  if (!graph.bodies(n).empty()) os << separator << bodiesText(graph, n, numbers);
  os << '\n';
}

}  // namespace

void printText(raw_ostream &os, const Graph &graph) {
  const std::vector<NestedGraph> graphs = nestedGraphs(graph);
  const BodyNumbers numbers = numberBodies(graphs);
  for (size_t i = 0; i < graphs.size(); ++i) {
    const Graph &shown = graphs[i].graph;
    const StringRef indent = i ? "  " : "";
    if (i) os << '@' << i << ":\n";
    for (uint32_t id = 0; id < shown.numNodes(); ++id) {
      os << indent;
      printNode(os, shown, NodeId(id), numbers);
    }
    os << indent << "heads ";
    printList(os, shown.heads(), [&](Value v) { printValue(os, v); });
    os << '\n';
  }
}

}  // namespace gradc
