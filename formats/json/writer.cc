// Streams the canonical form into one large buffer. Tested by tests/formats/json/json_writer_test.cc
#include "formats/json/writer.h"

#include "formats/json/graph_attrs.h"
#include "formats/json/graph_table.h"
#include "formats/json/legacy_upgrade.h"
#include "ir/base/printable.h"

#include "llvm/ADT/SmallString.h"

#include <charconv>

using namespace llvm;

namespace gradc {
namespace {

constexpr StringLiteral kOriginKey = "__origin__";

/// Whether a file without a version would be read as another graph (formats/json/legacy_upgrade.h): a graph that was
/// not read from a file may have none.
bool needsVersion(const Graph &graph) {
  return any_of(graph.kinds(), [](const KindRef &kind) {
    if (any_of(kind->bodies, needsVersion)) return true;
    return kind->op && (kind->op->name == "argmax" || kind->op->name == "argmin") && kind->attrs.get("axis") == "-1";
  });
}

/// Appends to a buffer that goes to the stream when it is nearly full, and at the end by an explicit `flush`: the
/// stream may throw, as one into a string does when memory runs out.
class Output {
 public:
  explicit Output(raw_ostream &os) : os(os) { buffer.reserve(kSize); }
  Output(const Output &) = delete;
  Output &operator=(const Output &) = delete;

  Output &operator<<(StringRef text) {
    buffer.append(text.data(), text.size());
    if (buffer.size() >= kSize - kMargin) flush();
    return *this;
  }
  Output &operator<<(int64_t value) {
    char digits[24];
    std::to_chars_result end = std::to_chars(digits, digits + sizeof digits, value);
    buffer.append(digits, static_cast<size_t>(end.ptr - digits));
    return *this;
  }
  Output &operator<<(NodeId n) { return *this << int64_t{n.value}; }
  Output &quoted(StringRef text) {
    buffer += '"';
    if (needsNoEscape(text)) buffer.append(text.data(), text.size());
    else appendEscaped(buffer, text);
    return *this << "\"";
  }
  void flush() {
    os << buffer;
    buffer.clear();
  }

 private:
  static constexpr size_t kSize = 1 << 16, kMargin = 64;

  raw_ostream &os;
  std::string buffer;
};

/// Writes one graph object. The bodies of a node go on the node's line.
class Writer {
 public:
  explicit Writer(raw_ostream &os) : out(os) {}

  void writeRoot(const Graph &graph) {
    GraphAttrs attrs = graphAttrsOf(graph);
    if (needsVersion(graph)) attrs.try_emplace("mxnet_version", GraphAttr::ofInt(kUpgradedVersion));
    writeGraph(graph, attrs, "\n  ", "\n    ", "\n");
    out << "\n";
    out.flush();
  }

 private:
  /// `between` comes before each key of the graph, `beforeNode` before each node, `end` before the last brace.
  void writeGraph(const Graph &graph, const GraphAttrs &attrs, StringRef between, StringRef beforeNode, StringRef end) {
    const StringRef next = between.empty() ? ", " : ",";
    out << "{" << between << "\"nodes\": [";
    for (uint32_t n = 0; n < graph.numNodes(); ++n) {
      if (n) out << (beforeNode.empty() ? ", " : ",");
      out << beforeNode;
      writeNode(graph, NodeId(n));
    }
    if (graph.numNodes()) out << between;
    out << "]" << next << between << "\"arg_nodes\": [";
    bool isFirst = true;
    for (uint32_t n = 0; n < graph.numNodes(); ++n) {
      if (!graph.isVariable(NodeId(n))) continue;
      if (!isFirst) out << ", ";
      isFirst = false;
      out << NodeId(n);
    }
    out << "]" << next << between << "\"node_row_ptr\": [";
    for (uint32_t n = 0; n <= graph.numNodes(); ++n) {
      if (n) out << ", ";
      out << int64_t{graph.columns().entryBegin[n]};
    }
    out << "]" << next << between << "\"heads\": ";
    writeEntries(graph.heads());
    if (!attrs.empty()) {
      out << next << between << "\"attrs\": {";
      writeGraphAttrs(attrs, between.empty() ? "" : "\n    ");
      out << between << "}";
    }
    out << end << "}";
  }

  void writeNode(const Graph &graph, NodeId n) {
    out << "{\"op\": ";
    out.quoted(graph.opName(n)) << ", \"name\": ";
    out.quoted(graph.name(n));
    writeAttrs(graph, n);
    out << ", \"inputs\": ";
    writeEntries(graph.inputs(n));
    if (ArrayRef<NodeId> deps = graph.controlDeps(n); !deps.empty()) {
      out << ", \"control_deps\": [" << deps.front();
      for (NodeId dep : deps.drop_front()) out << ", " << dep;
      out << "]";
    }
    if (ArrayRef<Graph> bodies = graph.bodies(n); !bodies.empty()) {
      out << ", \"subgraphs\": [";
      for (size_t i = 0; i < bodies.size(); ++i) {
        if (i) out << ", ";
        writeGraph(bodies[i], graphAttrsOf(bodies[i]), "", "", "");
      }
      out << "]";
    }
    out << "}";
  }

  void writeAttrs(const Graph &graph, NodeId n) {
    ArrayRef<AttrText> pairs = graph.attrs(n).pairs();
    const NodeId origin = graph.origin(n);
    if (pairs.empty() && !origin.isValid()) return;
    bool isOriginPending = origin.isValid();
    StringRef separator = ", \"attrs\": {";
    auto writeOrigin = [&] {
      out << separator << "\"" << kOriginKey << "\": \"" << origin << "\"";
      separator = ", ";
      isOriginPending = false;
    };
    for (const AttrText &pair : pairs) {
      StringRef key = pair.key;
      if (isOriginPending && key >= kOriginKey) {
        writeOrigin();
        if (key == kOriginKey) continue;
      }
      out << separator;
      out.quoted(key) << ": ";
      out.quoted(pair.value);
      separator = ", ";
    }
    if (isOriginPending) writeOrigin();
    out << "}";
  }

  void writeEntries(ArrayRef<Value> entries) {
    StringRef separator = "[";
    out << "[";
    for (Value entry : entries) {
      out << separator << entry.node << ", " << int64_t{entry.index} << ", " << int64_t{entry.version} << "]";
      separator = ", [";
    }
    out << "]";
  }

  void writeGraphAttrs(const GraphAttrs &attrs, StringRef beforeKey) {
    StringRef separator = "";
    for (const auto &[key, attr] : attrs) {
      out << separator << beforeKey;
      out.quoted(key) << ": ";
      writeGraphAttr(attr);
      separator = beforeKey.empty() ? ", " : ",";
    }
  }

  template <class T> void writeList(const std::vector<T> &list) {
    out << "[";
    for (size_t i = 0; i < list.size(); ++i) {
      if (i) out << ", ";
      writeElement(list[i]);
    }
    out << "]";
  }
  void writeElement(int64_t number) { out << number; }
  void writeElement(const std::string &text) { out.quoted(text); }
  void writeElement(const std::vector<int64_t> &dims) { writeList(dims); }

  void writeGraphAttr(const GraphAttr &attr) {
    using Kind = GraphAttr::Kind;
    if (attr.kind == Kind::Raw) {
      out << attr.text;
      return;
    }
    out << "[\"" << graphAttrKindName(attr.kind) << "\", ";
    switch (attr.kind) {
      case Kind::Int:
      case Kind::SizeT: out << attr.number; break;
      case Kind::Str: out.quoted(attr.text); break;
      case Kind::ListInt: writeList(attr.numbers); break;
      case Kind::ListStr: writeList(attr.texts); break;
      case Kind::ListShape: writeList(attr.shapes); break;
      case Kind::Raw: break;
    }
    out << "]";
  }

  Output out;
};

}  // namespace

void writeJson(raw_ostream &os, const Graph &graph) { Writer(os).writeRoot(graph); }

}  // namespace gradc
