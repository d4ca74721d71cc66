// One line per node; and the two columns of dot. Tested by tests/text_test.cc
#include "ir/text.h"

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

// Quotes stand where a reader could not tell where the value ends.
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
  const Context &context = graph.context();
  ArrayRef<AttrPair> pairs = context.attrs(graph.attrs(n));
  if (pairs.empty()) return;
  os << " {";
  printList(os, pairs, [&](AttrPair pair) {
    StringRef value = context.text(pair.value);
    os << context.text(pair.key) << '=';
    if (isPlain(value)) os << value;
    else os << quote(value);
  });
  os << '}';
}

void printNode(raw_ostream &os, const Graph &graph, NodeId n) {
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
  if (ArrayRef<GraphId> graphs = graph.subgraphs(n); !graphs.empty()) {
    os << separator << "graphs ";
    printList(os, graphs, [&](GraphId g) { os << g.value; });
  }
  os << '\n';
}

// In dot, \n and \" are the escapes of a label; other control characters have none.
std::string dotLabel(StringRef text) {
  std::string label;
  for (char c : text) {
    if (c == '"' || c == '\\') label += '\\';
    label += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return label;
}

void printDotColumn(raw_ostream &os, const Graph &graph, bool isGenerated) {
  os << "  subgraph cluster_" << (isGenerated ? "generated" : "forward") << " {\n    label=\""
     << (isGenerated ? "generated" : "forward") << "\";\n";
  for (uint32_t id = 0; id < graph.numNodes(); ++id) {
    const NodeId n(id);
    if (graph.origin(n).isValid() != isGenerated) continue;
    os << "    n" << id << " [label=\"%" << id;
    if (!graph.isVariable(n)) os << ' ' << dotLabel(graph.opName(n));
    if (!graph.name(n).empty()) os << "\\n" << dotLabel(graph.name(n));
    os << "\", shape=" << (graph.isVariable(n) ? "ellipse" : "box") << "];\n";
  }
  os << "  }\n";
}

void printDotEdges(raw_ostream &os, const Graph &graph) {
  for (uint32_t id = 0; id < graph.numNodes(); ++id) {
    for (Value input : graph.inputs(NodeId(id))) {
      os << "  n" << input.node.value << " -> n" << id;
      if (input.index) os << " [label=\"" << input.index << "\"]";
      os << ";\n";
    }
    for (NodeId dep : graph.controlDeps(NodeId(id)))
      os << "  n" << dep.value << " -> n" << id << " [style=dashed];\n";
  }
  for (size_t i = 0; i < graph.heads().size(); ++i) {
    const Value head = graph.heads()[i];
    os << "  h" << i << " [label=\"head " << i << "\", shape=plaintext];\n  n" << head.node.value << " -> h" << i;
    if (head.index) os << " [label=\"" << head.index << "\"]";
    os << ";\n";
  }
}

}  // namespace

void printText(raw_ostream &os, const Graph &graph) {
  for (uint32_t id = 0; id < graph.numNodes(); ++id) printNode(os, graph, NodeId(id));
  os << "heads ";
  printList(os, graph.heads(), [&](Value v) { printValue(os, v); });
  os << '\n';
}

void printDot(raw_ostream &os, const Graph &graph) {
  os << "digraph gradc {\n";
  printDotColumn(os, graph, false);
  if (!graph.columns().origins.empty()) printDotColumn(os, graph, true);
  printDotEdges(os, graph);
  os << "}\n";
}

}  // namespace gradc
