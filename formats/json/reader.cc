// From the parsed columns to Graphs, bodies first. Per graph: check ids, upgrade, find kinds, freeze, remap attributes.
// Tested by tests/formats/json/json_reader_test.cc
#include "formats/json/reader.h"

#include "formats/json/graph_table.h"
#include "formats/json/legacy_upgrade.h"
#include "formats/json/parse_graph.h"
#include "ir/base/dense_map.h"
#include "ir/base/error.h"
#include "ir/base/out_of_memory.h"
#include "ir/graph/graph_builder.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr size_t kListed = 10;  // names in a warning, and warnings of one kind

/// A kind of the builder and its number of inputs.
struct FoundKind {
  KindId id;
  uint32_t numInputs = 0;
};

struct Assembled {
  Graph graph;
  SourceMap sources;
};

/// One graph of the file. Phases as listed in `run`.
class Assembler {
 public:
  /// `done`: the graphs of the file that end before this one.
  Assembler(Context &context, RawTables &tables, RawGraph &raw, MutableArrayRef<Assembled> done, LoadedGraph &out)
      : ctx(context), tables(tables), raw(raw), done(done), out(out), null(tables.intern("null")),
        numFileNodes(raw.nodes.size()) {}

  Expected<Assembled> run(int64_t version, bool isRoot) {
    if (Error error = checkIds()) return error;
    if (Error error = checkRowPtr()) return error;
    const bool isUpgraded = upgradeLegacy(ctx, tables, raw, version) | raw.usesOldForm;
    out.wasUpgraded |= isUpgraded;
    if (isRoot && out.wasUpgraded) raw.attrs["mxnet_version"] = GraphAttr::ofInt(std::max(version, kUpgradedVersion));
    GraphBuilder builder(ctx);
    if (Error error = addNodes(builder)) return error;
    Expected<Frozen> frozen = std::move(builder).freeze(raw.heads, {});
    if (!frozen) return place(frozen.takeError());
    warnUnreachable(*frozen);
    warnArgOrder(*frozen);
    GraphTable table = tableOf(*frozen);
    SourceMap sources = mapSources(*frozen);
    return Assembled{frozen->graph.withTable(std::move(table)), std::move(sources)};
  }

 private:
  bool isVariable(uint32_t n) const { return raw.nodes[n].op == null; }

  std::string label(uint32_t n) const {
    std::string name = raw.name(n).str();
    return name.empty() ? "node " + std::to_string(n) : "node '" + name + "'";
  }

  Error outOfRange(const Twine &what, uint32_t id, int64_t offset) const {
    return Failure(ErrorKind::BadJson,
                   what + " refers to node " + Twine(id) + ", but the graph has " + countOf(numFileNodes, "node"))
        .atOffset(offset);
  }

  Error checkIds() const {
    for (const Value &input : raw.inputs)
      if (input.node.value >= numFileNodes) return badInput(static_cast<uint32_t>(&input - raw.inputs.data()));
    for (auto [n, dep] : raw.deps)
      if (dep >= numFileNodes) return outOfRange("a control dependency of " + label(n), dep, raw.nodes[n].begin);
    for (uint32_t n = 0; n < numFileNodes; ++n) {
      NodeId origin = raw.nodes[n].origin;
      if (origin.isValid() && origin.value >= numFileNodes)
        return outOfRange("attribute '__origin__' of " + label(n), origin.value, raw.nodes[n].begin);
    }
    for (size_t i = 0; i < raw.heads.size(); ++i)
      if (raw.heads[i].node.value >= numFileNodes)
        return outOfRange("head " + Twine(i), raw.heads[i].node.value, raw.headsAt);
    for (uint32_t id : raw.argNodes) {
      if (id >= numFileNodes) return outOfRange("'arg_nodes'", id, raw.argNodesAt);
      if (!isVariable(id))  // IR-15
        return Failure(ErrorKind::BadJson, "'arg_nodes' lists " + label(id) +
                                               ", expected variables only, found operator '" +
                                               tables.text(raw.nodes[id].op) + "'")
            .atOffset(raw.nodes[id].begin);
    }
    return Error::success();
  }

  Error badInput(uint32_t position) const {
    auto after =
        llvm::upper_bound(raw.nodes, position, [](uint32_t at, const RawNode &node) { return at < node.inputBegin; });
    const uint32_t reader = static_cast<uint32_t>(after - raw.nodes.begin()) - 1;
    return outOfRange("input " + Twine(position - raw.nodes[reader].inputBegin) + " of " + label(reader),
                      raw.inputs[position].node.value, raw.nodes[reader].begin);
  }

  Error checkRowPtr() const {
    if (!raw.hasRowPtr) return Error::success();
    if (raw.rowPtr.size() != numFileNodes + 1)
      return Failure(ErrorKind::BadJson, "'node_row_ptr' has " + Twine(raw.rowPtr.size()) + " numbers, expected " +
                                             Twine(numFileNodes + 1) + ", one more than nodes")
          .atOffset(raw.rowPtrAt);
    for (size_t n = 0; n < numFileNodes; ++n)
      if (raw.rowPtr[n + 1] < raw.rowPtr[n] || raw.rowPtr[n + 1] - raw.rowPtr[n] > kMaxIndex + 1 || raw.rowPtr[0])
        return Failure(ErrorKind::BadJson, "'node_row_ptr' gives " + label(static_cast<uint32_t>(n)) + " the entries " +
                                               Twine(raw.rowPtr[n]) + " to " + Twine(raw.rowPtr[n + 1]) +
                                               ", expected a list from 0 that grows by at most " + Twine(kMaxIndex + 1))
            .atOffset(raw.rowPtrAt);
    return Error::success();
  }

  // An unknown operator is given 1 + the largest output index that is read.
  void countReadOutputs() {
    readOutputs.assign(raw.nodes.size(), 1);
    auto count = [&](Value v) {
      uint32_t &outputs = readOutputs[v.node.value];
      outputs = std::max<uint32_t>(outputs, uint32_t{v.index} + 1);
    };
    for (Value input : raw.inputs) count(input);
    for (Value head : raw.heads) count(head);
  }

  uint32_t fileOutputs(uint32_t n) const {
    if (!raw.hasRowPtr) return readOutputs[n];
    return n < numFileNodes ? raw.rowPtr[n + 1] - raw.rowPtr[n] : 1;
  }

  Expected<FoundKind> findKind(GraphBuilder &builder, uint32_t n) {
    const RawNode &node = raw.nodes[n];
    SmallVector<Graph, 0> bodies = takeBodies(n);
    if (!bodies.empty()) return makeKind(builder, n, bodies);
    FoundKind &known = kinds[{uint64_t{node.op.value} << 32 | node.attrs.value, fileOutputs(n)}];
    if (known.id.isValid()) return known;
    Expected<FoundKind> made = makeKind(builder, n, {});
    if (made) known = *made;
    return made;
  }

  Expected<FoundKind> makeKind(GraphBuilder &builder, uint32_t n, ArrayRef<Graph> bodies) {
    const RawNode &node = raw.nodes[n];
    const StringRef spelling = tables.text(node.op);
    if (node.op == null && !bodies.empty())
      return Failure(ErrorKind::BadJson, "variable '" + raw.name(n) + "' has sub-graphs, expected an operator")
          .atOffset(node.begin);
    const OpDef *op = ctx.ops.find(spelling);
    const Attrs &attrs = tables.attrs(node.attrs);
    Expected<KindRef> kind = node.op == null ? ctx.variableKind(attrs)
                             : op            ? ctx.kind(*op, attrs, spelling, bodies)
                                             : ctx.opaqueKind(spelling, attrs, fileOutputs(n), bodies);
    if (!kind)
      return amend(kind.takeError(), [&](GradcError &info) {
        info.message += " " + describeAttrs(spelling, raw.name(n), attrs);
        info.place.offset = node.begin;
      });
    return FoundKind{builder.kindId(*kind), (*kind)->numInputs};
  }

  // Call for the nodes in order: the file lists sub-graphs in the order of their nodes.
  SmallVector<Graph, 0> takeBodies(uint32_t n) {
    SmallVector<Graph, 0> bodies;
    for (; nextBody < raw.subgraphs.size() && raw.subgraphs[nextBody].first == n; ++nextBody)
      bodies.push_back(done[raw.subgraphs[nextBody].second].graph);
    return bodies;
  }

  Error addNodes(GraphBuilder &builder) {
    if (!raw.hasRowPtr) countReadOutputs();
    builder.reserve(raw.nodes.size(), raw.inputs.size(), raw.names.size());
    for (uint32_t n = 0; n < raw.nodes.size(); ++n) {
      Expected<FoundKind> kind = findKind(builder, n);
      if (!kind) return kind.takeError();
      ArrayRef<Value> inputs = raw.inputsOf(n);
      if (inputs.size() != kind->numInputs && kind->numInputs != NodeKind::kAnyInputs)
        return badArity(n, kind->numInputs);
      builder.setName(builder.addKind(kind->id, inputs, raw.nodes[n].origin), raw.name(n), "");
    }
    for (auto [n, dep] : raw.deps) builder.addControlDep(NodeId(n), NodeId(dep));
    return Error::success();
  }

  Error badArity(uint32_t n, uint32_t expected) const {
    const std::string what = isVariable(n) ? "a variable" : "operator '" + tables.text(raw.nodes[n].op).str() + "'";
    return Failure(ErrorKind::Arity, label(n) + ": " + what + " takes " + countOf(expected, "input") + ", got " +
                                         Twine(raw.inputsOf(n).size()))
        .atOffset(raw.nodes[n].begin);
  }

  // Errors of freeze name builder ids, which equal the file's.
  Error place(Error error) const {
    return amend(std::move(error), [&](GradcError &info) {
      if (info.place.node.isValid()) info.place.offset = raw.nodes[info.place.node.value].begin;
      info.place.node = NodeId();
    });
  }

  void warnUnreachable(const Frozen &frozen) {
    size_t numDropped = 0;
    std::string names;
    for (uint32_t n = 0; n < numFileNodes; ++n) {
      if (frozen.newId[n].isValid() || numDropped++ >= kListed) continue;
      names += (names.empty() ? "" : ", ") + label(n).substr(5);
    }
    if (!numDropped) return;
    if (numDropped > kListed) names += ", …";
    out.warnings.push_back("dropped " + countOf(numDropped, "node") + " no head reaches: " + names);
  }

  void warnArgOrder(const Frozen &frozen) {
    std::vector<NodeId> listed;
    for (uint32_t id : raw.argNodes)
      if (frozen.newId[id].isValid()) listed.push_back(frozen.newId[id]);
    std::vector<NodeId> canonical;
    for (uint32_t n = 0; n < numFileNodes; ++n)
      if (isVariable(n) && frozen.newId[n].isValid()) canonical.push_back(frozen.newId[n]);
    llvm::sort(canonical);
    if (listed != canonical)
      out.warnings.push_back(
          "'arg_nodes' is not the list of variables in canonical order; it will be written in canonical order");
  }

  bool isIdentity(const Frozen &frozen) const {
    if (frozen.graph.numNodes() != numFileNodes) return false;
    for (uint32_t n = 0; n < numFileNodes; ++n)
      if (frozen.newId[n] != NodeId(n)) return false;
    return !raw.hasRowPtr || ArrayRef(frozen.graph.columns().entryBegin) == ArrayRef(raw.rowPtr);
  }

  // The file's table, remapped from the nodes and entries of the file to those of the graph.
  GraphTable tableOf(const Frozen &frozen) {
    if (raw.attrs.empty()) return GraphTable();
    if (isIdentity(frozen))
      return parseGraphTable(std::move(raw.attrs), frozen.graph.columns().entryBegin, raw.heads.size());
    if (!raw.hasRowPtr) {
      raw.rowPtr = {0};
      for (uint32_t n = 0; n < numFileNodes; ++n) {
        const NodeId id = frozen.newId[n];
        raw.rowPtr.push_back(raw.rowPtr.back() + (id.isValid() ? frozen.graph.numOutputs(id) : fileOutputs(n)));
      }
    }
    ArrayRef<NodeId> newId = ArrayRef(frozen.newId).take_front(numFileNodes);
    GraphTable table = parseGraphTable(std::move(raw.attrs), raw.rowPtr, raw.heads.size());
    for (const std::string &key : remap(table, {newId, raw.rowPtr}, frozen.graph))
      out.warnings.push_back("dropped graph attribute '" + key +
                             "', a list whose length does not fit the upgraded graph");
    return table;
  }

  SourceMap mapSources(const Frozen &frozen) {
    SourceMap sources;
    sources.nodes.resize(frozen.graph.numNodes());
    for (uint32_t n = 0; n < numFileNodes; ++n)
      if (frozen.newId[n].isValid()) sources.nodes[frozen.newId[n].value] = {raw.nodes[n].begin, raw.nodes[n].end, n};
    uint32_t body = 0;
    for (size_t i = 0; i < raw.subgraphs.size(); ++i) {
      const auto [owner, position] = raw.subgraphs[i];
      body = i && raw.subgraphs[i - 1].first == owner ? body + 1 : 0;
      const NodeId id = frozen.newId[owner];
      if (id.isValid()) sources.bodies.push_back({{id, body}, std::move(done[position].sources)});
    }
    llvm::sort(sources.bodies, [](const SourceMap::Body &a, const SourceMap::Body &b) { return a.step < b.step; });
    return sources;
  }

  Context &ctx;
  RawTables &tables;
  RawGraph &raw;
  MutableArrayRef<Assembled> done;
  LoadedGraph &out;
  StrId null;
  size_t numFileNodes;
  std::vector<uint32_t> readOutputs;
  DenseMap<std::pair<uint64_t, uint32_t>, FoundKind> kinds;  // by operator and attributes, and outputs; without bodies
  size_t nextBody = 0;                                       // in raw.subgraphs
};

}  // namespace

/// For each graph of the file the one that it is a sub-graph of.
static std::vector<uint32_t> ownersOf(const RawFile &file) {
  std::vector<uint32_t> owners(file.graphs.size());
  for (uint32_t owner = 0; owner < file.graphs.size(); ++owner)
    for (const auto &[node, position] : file.graphs[owner].subgraphs) owners[position] = owner;
  return owners;
}

// The path to a graph of the file, from the root down: "node 'loop' > body > ". Its owners are not assembled yet.
static std::string pathTo(const RawFile &file, ArrayRef<uint32_t> owners, uint32_t position) {
  std::string path;
  for (; position + 1 < file.graphs.size(); position = owners[position]) {
    const RawGraph &graph = file.graphs[owners[position]];
    // The file lists sub-graphs in the order of their nodes, and positions in the order in which they end.
    const auto found =
        llvm::lower_bound(graph.subgraphs, position, [](const auto &row, uint32_t key) { return row.second < key; });
    const uint32_t node = found->first;
    const auto first =
        llvm::lower_bound(graph.subgraphs, node, [](const auto &row, uint32_t key) { return row.first < key; });
    const bool isOnly =
        first == found && (std::next(found) == graph.subgraphs.end() || std::next(found)->first != node);
    const std::string label = graph.name(node).empty() ? "#" + std::to_string(node) : graph.name(node).str();
    path = "node '" + label + "' > " + bodyName(isOnly ? 1 : 2, found - first) + " > " + path;
  }
  return path;
}

static void warnUnknownKeys(const std::map<std::string, size_t> &keys, std::vector<std::string> &warnings) {
  size_t left = kListed;
  for (const auto &[key, count] : keys) {
    if (left-- == 0) return warnings.push_back("ignored " + countOf(keys.size() - kListed, "other unknown key"));
    warnings.push_back("ignored key '" + key + "', which appears " + countOf(count, "time"));
  }
}

/// Errors carry the byte offset of the node that they concern.
static Expected<LoadedGraph> assembleFile(Context &context, RawFile file) {
  LoadedGraph out;
  const int64_t version = mxnetVersion(file.graphs.back().attrs);
  std::vector<Assembled> done;
  done.reserve(file.graphs.size());
  const std::vector<uint32_t> owners = ownersOf(file);
  for (RawGraph &raw : file.graphs) {
    const bool isRoot = &raw == &file.graphs.back();
    const uint32_t position = static_cast<uint32_t>(&raw - file.graphs.data());
    const size_t numWarnings = out.warnings.size();
    Expected<Assembled> assembled = Assembler(context, file.tables, raw, done, out).run(version, isRoot);
    if (!assembled)
      return amend(assembled.takeError(),
                   [&](GradcError &info) { info.message = pathTo(file, owners, position) + info.message; });
    for (size_t i = numWarnings; i < out.warnings.size(); ++i)
      out.warnings[i] = pathTo(file, owners, position) + out.warnings[i];
    done.push_back(std::move(*assembled));
    raw = RawGraph();
  }
  out.graph = std::move(done.back().graph);
  out.sources = std::move(done.back().sources);
  warnUnknownKeys(file.unknownKeys, out.warnings);
  return out;
}

Expected<LoadedGraph> readJson(Context &context, StringRef text, const ReadOptions &options) {
  return catchingBadAlloc("to read the graph", [&]() -> Expected<LoadedGraph> {
    if (text.trim().empty()) return Failure(ErrorKind::BadJson, "the input is empty, expected a graph").atOffset(0);
    Expected<RawFile> file = GraphParser(context, text, options.maxNesting).run();
    if (!file) return withJsonPath(file.takeError(), text);
    Expected<LoadedGraph> loaded = assembleFile(context, std::move(*file));
    if (!loaded) return withJsonPath(loaded.takeError(), text);
    return loaded;
  });
}

}  // namespace gradc
