// The parser and printer of inline graphs. Tested by tests/passes/gradient/gradient_test.cc
#include "tests/support/test_graph.h"

#include "formats/json/writer.h"
#include "ir/base/error.h"
#include "ir/graph/graph_builder.h"
#include "ops/registry.h"
#include "passes/targets/target.h"
#include "tests/support/test_ops.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace gradc::testing {
namespace {

class GraphParser {
 public:
  GraphParser(Context &ctx, StringRef text) : ctx(ctx), rest(text), builder(ctx) {}

  Expected<Graph> run() {
    while (!skipSpace().empty()) statement();
    if (heads.empty()) heads.push_back(Value{last});
    Expected<Frozen> frozen = std::move(builder).freeze(heads, {});
    if (!frozen) return frozen.takeError();
    return frozen->graph;
  }

 private:
  [[noreturn]] void fail(const Twine &what) {
    report_fatal_error("test graph: " + what + " at '" + rest.take_front(30) + "'");
  }

  StringRef skipSpace() { return rest = rest.ltrim(" \n\t"); }
  bool accept(char c) {
    skipSpace();
    if (!rest.starts_with(StringRef(&c, 1))) return false;
    rest = rest.drop_front();
    skipSpace();
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail("expected '" + Twine(c) + "'");
  }
  StringRef word() {
    skipSpace();
    StringRef w = rest.take_while([](char c) { return isAlnum(c) || c == '_' || c == ':' || c == '@' || c == '.'; });
    if (w.empty()) fail("expected a name");
    rest = rest.drop_front(w.size());
    return w;
  }

  void statement() {
    StringRef name = word();
    if (name == "heads") {
      do heads.push_back(valueOf(word()));
      while (accept(','));
    } else {
      expect('=');
      definition(name);
    }
    accept(';');
  }

  void definition(StringRef name) {
    bool isOpaque = accept('?');
    StringRef op = word();
    SmallVector<StringRef, 8> args;
    if (accept('('))
      while (!accept(')')) {
        args.push_back(word());
        accept(',');
      }
    Attrs attrs = attributes();
    if (op == "var") {
      last = nodes[name] = builder.addVariable(name, attrs).node;
      return;
    }
    const KindRef kind = isOpaque ? cantFail(ctx.opaqueKind(op, attrs, 1)) : kindOf(op, attrs, args.size());
    SmallVector<Value, 8> inputs;
    for (StringRef arg : args) inputs.push_back(valueOf(arg));
    last = builder.addKind(kind, inputs, NodeId());
    builder.setName(last, name, "");
    nodes[name] = last;
    while (accept('^')) builder.addControlDep(last, valueOf(word()).node);
  }

  KindRef kindOf(StringRef op, Attrs attrs, size_t numArgs) {
    const OpDef *def = ctx.ops.find(op);
    if (!def) fail("no operator '" + op + "'");
    KindRef kind = cantFail(ctx.kind(*def, attrs, op));
    if (kind->numInputs != numArgs) fail("wrong number of inputs of '" + op + "'");
    return kind;
  }

  Attrs attributes() {
    SmallVector<AttrText, 8> pairs;
    if (!accept('{')) return Attrs();
    while (!accept('}')) {
      StringRef key = word();
      expect('=');
      int depth = 0;
      size_t end = 0;
      for (; end < rest.size(); ++end) {
        char c = rest[end];
        if (depth == 0 && (c == ',' || c == '}')) break;
        depth += (c == '(' || c == '[') - (c == ')' || c == ']');
      }
      pairs.push_back({key, rest.take_front(end).rtrim()});
      rest = rest.drop_front(end);
      accept(',');
    }
    return ctx.attrs(ArrayRef<AttrText>(pairs));
  }

  Value valueOf(StringRef text) {
    auto [base, version] = text.split('@');
    auto [name, index] = base.split(':');
    auto known = nodes.find(name);
    NodeId node = known != nodes.end() ? known->second : nodes[name] = builder.addVariable(name, Attrs()).node;
    Value value{node};
    if (!index.empty()) value.index = static_cast<uint16_t>(std::stoul(index.str()));
    if (!version.empty()) value.version = static_cast<uint16_t>(std::stoul(version.str()));
    return value;
  }

  Context &ctx;
  StringRef rest;
  GraphBuilder builder;
  StringMap<NodeId> nodes;
  SmallVector<Value, 4> heads;
  NodeId last;
};

std::string printValue(const Graph &graph, Value v) {
  std::string text = graph.name(v.node).empty() ? "#" + std::to_string(v.node.value) : graph.name(v.node).str();
  if (v.index) text += ":" + std::to_string(v.index);
  if (v.version) text += "@" + std::to_string(v.version);
  return text;
}

}  // namespace

TestContext &testContext() {
  static TestContext context;
  return context;
}

TestContext::TestContext() {
  registerBuiltinOps(ops);
  registerTestOps(ops);
}

TestGraph::TestGraph(StringRef text) : graph(cantFail(parseGraph(context, text))) {}

Value TestGraph::findValue(const Graph &graph, StringRef text) {
  auto [name, index] = text.split(':');
  Value value{nodeNamed(graph, name)};
  if (!index.empty()) value.index = static_cast<uint16_t>(std::stoul(index.str()));
  return value;
}

Expected<Graph> parseGraph(Context &context, StringRef text) { return GraphParser(context, text).run(); }

std::string dumpFrom(const Graph &graph, uint32_t first, size_t firstHead) {
  std::string text;
  raw_string_ostream os(text);
  for (uint32_t n = first; n < graph.numNodes(); ++n) {
    NodeId id(n);
    if (graph.isVariable(id)) continue;
    os << printValue(graph, Value{id}) << " = " << graph.opName(id) << "(";
    ListSeparator comma;
    for (Value v : graph.inputs(id)) os << comma << printValue(graph, v);
    os << ")";
    for (NodeId dep : graph.controlDeps(id)) os << " ^" << printValue(graph, Value{dep});
    os << "\n";
  }
  os << "heads ";
  ListSeparator comma;
  for (Value v : graph.heads().drop_front(firstHead)) os << comma << printValue(graph, v);
  os << "\n";
  return os.str();
}

std::string dump(const Graph &graph) { return dumpFrom(graph, 0, 0); }

bool isMxnets(const OpDef &op) {
  NodeKind kind;
  kind.op = &op;
  return kMxnetTarget.has(kind);
}

std::string written(const Graph &graph) {
  std::string text;
  raw_string_ostream os(text);
  writeJson(os, graph);
  return text;
}

size_t countOps(const Graph &graph, StringRef op) {
  size_t count = 0;
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    count += !graph.isVariable(NodeId(n)) && graph.op(NodeId(n))->name == op;
  return count;
}

NodeId nodeNamed(const Graph &graph, StringRef name) {
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (graph.name(NodeId(n)) == name) return NodeId(n);
  report_fatal_error("test graph: no node '" + name + "' in\n" + dump(graph));
}

std::string describeError(Error error) {
  std::string text;
  handleAllErrors(
      std::move(error),
      [&](const GradcError &info) { text = ("[" + errorKindName(info.kind) + "] " + info.message).str(); },
      [&](const ErrorInfoBase &info) { text = info.message(); });
  return text.empty() ? "success" : text;
}

}  // namespace gradc::testing
