// The steps of the upgrade, in the order MXNet takes them. Tested by tests/formats/json/legacy_upgrade_test.cc
#include "formats/json/legacy_upgrade.h"

#include "ir/base/dense_map.h"
#include "ir/base/error.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr int64_t kFirstNnvm = 900;          // auxiliary states are in the file from here on
constexpr int64_t kFirstWithInit = 904;      // initializers are on the variables from here on
constexpr int64_t kFirstOptionalAxis = 905;  // `axis` = -1 of argmax means the last axis from here on

constexpr StringLiteral kHiddenKeys[] = {"ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage"};

class Upgrade {
 public:
  Upgrade(Context &context, RawTables &tables, RawGraph &graph)
      : ctx(context), tables(tables), graph(graph), null(tables.intern("null")) {}

  bool run(int64_t version) {
    const uint32_t numFileNodes = static_cast<uint32_t>(graph.nodes.size());
    for (uint32_t n = 0; n < numFileNodes; ++n) hideExactKeys(n);
    for (uint32_t n = 0; n < numFileNodes; ++n)
      if (!isVariable(n)) moveKeysToInputs(n);
    if (version < kFirstNnvm) addMissingInputs();
    if (version < kFirstWithInit)
      for (uint32_t n = 0; n < numFileNodes; ++n)
        if (!isVariable(n)) setInputDefaults(n);
    if (version < kFirstOptionalAxis)
      for (uint32_t n = 0; n < numFileNodes; ++n) dropFlattenAxis(n);
    return isChanged;
  }

 private:
  bool isVariable(uint32_t n) const { return graph.nodes[n].op == null; }

  const Attrs &attrsOf(uint32_t n) const { return tables.attrs(graph.nodes[n].attrs); }

  void setAttrs(uint32_t n, const Attrs &attrs) {
    const AttrsId id = tables.add(attrs);
    isChanged |= graph.nodes[n].attrs != id;
    graph.nodes[n].attrs = id;
  }

  /// The kind of a known operator whose attributes parse; null otherwise.
  const NodeKind *kindOf(uint32_t n) {
    const RawNode &node = graph.nodes[n];
    auto [known, isNew] = kinds.try_emplace({node.op.value, node.attrs.value});
    if (!isNew) return known->second.get();
    const StringRef spelling = tables.text(node.op);
    const OpDef *op = ctx.ops.find(spelling);
    if (!op) return nullptr;
    Expected<KindRef> kind = ctx.kind(*op, attrsOf(n), spelling);
    if (kind) return (known->second = std::move(*kind)).get();
    consumeError(kind.takeError());
    return nullptr;
  }

  // lr_mult -> __lr_mult__, on every node.
  void hideExactKeys(uint32_t n) {
    Attrs attrs = attrsOf(n);
    for (StringRef key : kHiddenKeys) {
      std::optional<StringRef> value = attrs.get(key);
      if (!value) continue;
      attrs = ctx.withAttrs(attrs, AttrText{("__" + key + "__").str(), *value});
      attrs = ctx.withoutAttrs(attrs, [&](StringRef other) { return other == key; });
    }
    setAttrs(n, attrs);
  }

  // weight_lr_mult on an operator -> __lr_mult__ on the variable it reads as `weight`.
  void moveKeysToInputs(uint32_t n) {
    const Attrs attrs = attrsOf(n);
    for (const AttrText &pair : attrs.pairs())
      for (StringRef hidden : kHiddenKeys) {
        const StringRef key = pair.key;
        StringRef input = key;
        if (!input.consume_back(hidden) || !input.consume_back("_") || input.empty()) continue;
        if (!giveToInput(n, input, AttrText{("__" + hidden + "__").str(), pair.value})) continue;
        setAttrs(n, ctx.withoutAttrs(attrsOf(n), [&](StringRef other) { return other == key; }));
      }
  }

  bool giveToInput(uint32_t n, StringRef input, AttrText attr) {
    const NodeKind *kind = kindOf(n);
    if (!kind) return false;
    ArrayRef<Value> inputs = graph.inputsOf(n);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputName(*kind, i) != input) continue;
      const uint32_t variable = inputs[i].node.value;
      if (!isVariable(variable)) return false;
      setAttrs(variable, ctx.withAttrs(attrsOf(variable), attr));
      return true;
    }
    return false;
  }

  // Before NNVM a file named no auxiliary states: they become variables that carry the operator's attributes. Variadic
  // operators have none; an input that such a node lacks is an arity error, whatever number its attributes request.
  void addMissingInputs() {
    const size_t numFileNodes = graph.nodes.size();
    std::vector<Value> inputs;
    inputs.reserve(graph.inputs.size());
    std::vector<uint32_t> begins;
    for (uint32_t n = 0; n < numFileNodes; ++n) {
      ArrayRef<Value> given = graph.inputsOf(n);
      begins.push_back(static_cast<uint32_t>(inputs.size()));
      inputs.insert(inputs.end(), given.begin(), given.end());
      const NodeKind *kind = isVariable(n) ? nullptr : kindOf(n);
      if (!kind || kind->numInputs == NodeKind::kAnyInputs || kind->op->inputs.isVariadic) continue;
      for (size_t i = given.size(); i < kind->numInputs; ++i) inputs.push_back(addVariable(n, inputName(*kind, i)));
    }
    if (graph.nodes.size() == numFileNodes) return;
    isChanged = true;
    graph.inputs = std::move(inputs);
    for (size_t n = 0; n < graph.nodes.size(); ++n)
      graph.nodes[n].inputBegin = n < numFileNodes ? begins[n] : static_cast<uint32_t>(graph.inputs.size());
  }

  Value addVariable(uint32_t reader, StringRef suffix) {
    RawNode node;
    node.op = null;
    node.attrs = graph.nodes[reader].attrs;
    node.inputBegin = static_cast<uint32_t>(graph.inputs.size());
    SmallString<64> name(graph.name(reader));
    if (!name.empty()) name += '_';
    name += suffix;
    node.nameBegin = static_cast<uint32_t>(graph.names.size());
    node.nameLength = static_cast<uint32_t>(name.size());
    graph.names.insert(graph.names.end(), name.begin(), name.end());
    graph.nodes.push_back(node);
    return Value{NodeId(static_cast<uint32_t>(graph.nodes.size() - 1))};
  }

  void setInputDefaults(uint32_t n) {
    const NodeKind *kind = kindOf(n);
    if (!kind) return;
    ArrayRef<Value> inputs = graph.inputsOf(n);
    for (const InputDefault &row : kind->op->inputDefaults) {
      if (row.input >= inputs.size() || (row.applies && !row.applies(*kind))) continue;
      const uint32_t variable = inputs[row.input].node.value;
      if (!isVariable(variable) || attrsOf(variable).get(row.key)) continue;
      setAttrs(variable, ctx.withAttrs(attrsOf(variable), AttrText{row.key, row.value}));
    }
  }

  // axis = -1 used to mean "all axes", which is now spelled by leaving out `axis`.
  void dropFlattenAxis(uint32_t n) {
    const StringRef op = tables.text(graph.nodes[n].op);
    if ((op != "argmax" && op != "argmin") || attrsOf(n).get("axis") != StringRef("-1")) return;
    setAttrs(n, ctx.withoutAttrs(attrsOf(n), [](StringRef key) { return key == "axis"; }));
  }

  Context &ctx;
  RawTables &tables;
  RawGraph &graph;
  StrId null;
  DenseMap<std::pair<uint32_t, uint32_t>, KindRef> kinds;  // by operator and attributes; null: none
  bool isChanged = false;
};

}  // namespace

int64_t mxnetVersion(const GraphAttrs &attrs) {
  auto at = attrs.find("mxnet_version");
  return at != attrs.end() && at->second.kind == GraphAttr::Kind::Int ? at->second.number : kVersionWithout;
}

bool upgradeLegacy(Context &context, RawTables &tables, RawGraph &graph, int64_t version) {
  if (version >= kUpgradedVersion) return false;
  return Upgrade(context, tables, graph).run(version);
}

}  // namespace gradc
