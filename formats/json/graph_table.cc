// One function per part of the table and direction. Tested by tests/ir/graph_table_test.cc
#include "formats/json/graph_table.h"

#include "ir/base/dense_map.h"
#include "ir/base/error.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

using Kind = GraphAttr::Kind;

constexpr StringRef kHeadKinds[] = {"forward", "grad", "retained"};
constexpr const char *kGradientKeys[] = {
    "head_kind", "grad_of",     "grad_of_node", "grad_of_index", "grad_order",        "grad_req",
    "x_slot",    "slot_status", "grad_none",    "head_grad_of",  "num_forward_heads", "grad_mode"};
constexpr const char *kOtherKeys[] = {"head_pairs",       "grad_constants", "shape",         "shape_known", "dtype",
                                      "storage_type",     "plan",           "planned_bytes", "bound_bytes", "update_of",
                                      "optimizer_states", "mxnet_version"};

Error malformed(StringRef key, const Twine &expected) {
  return Failure(ErrorKind::GraphAttr, "graph attribute '" + key + "' is missing or malformed, expected " + expected);
}

class Parser {
 public:
  Parser(GraphAttrs attrs, ArrayRef<uint32_t> entryBegin, size_t numHeads)
      : attrs(std::move(attrs)), entryBegin(entryBegin), numHeads(numHeads) {}

  GraphTable run() && {
    GraphTable table;
    Expected<std::optional<GradientTable>> gradient = parseGradient();
    if (gradient) table.gradient = std::move(*gradient);
    else handleAllErrors(gradient.takeError(), [&](const GradcError &error) { table.gradientFault = error.message; });
    if (table.gradient)
      for (const char *key : kGradientKeys) attrs.erase(key);
    parsePairs(table);
    parseConstants(table);
    takeNotes("shape", Kind::ListShape, &GraphAttr::shapes, table.entries.shapes);
    takeNotes("shape_known", Kind::ListInt, &GraphAttr::numbers, table.entries.shapeKnown);
    takeNotes("dtype", Kind::ListInt, &GraphAttr::numbers, table.entries.dtypes);
    takeNotes("storage_type", Kind::ListInt, &GraphAttr::numbers, table.entries.storages);
    parsePlan(table);
    parseUpdates(table);
    if (const GraphAttr *version = find("mxnet_version", Kind::Int)) {
      table.mxnetVersion = version->number;
      attrs.erase("mxnet_version");
    }
    for (const char *key : kGradientKeys) moveAttr(key, table.malformed);
    for (const char *key : kOtherKeys) moveAttr(key, table.malformed);
    table.others = std::move(attrs);
    return table;
  }

  Expected<std::optional<GradientTable>> parseGradient() {
    if (!attrs.count("head_kind")) return std::optional<GradientTable>();
    GradientTable table;
    if (Error error = parseHeads(table)) return error;
    for (auto [key, list] : {std::pair<const char *, std::vector<std::string> *>{"slot_status", &table.slotStatus},
                             {"grad_none", &table.gradNone}}) {
      const GraphAttr *given = find(key, Kind::ListStr);
      if (!given) return malformed(key, "a list_str");
      *list = given->texts;
    }
    const GraphAttr *seeds = find("head_grad_of", Kind::ListStr);
    if (!seeds || seeds->texts.size() % 2) return malformed("head_grad_of", "a list_str of pairs: variable, output");
    for (size_t i = 0; i < seeds->texts.size(); i += 2)
      table.headGradOf.push_back({seeds->texts[i], seeds->texts[i + 1]});
    const GraphAttr *count = find("num_forward_heads", Kind::Int), *mode = find("grad_mode", Kind::Str);
    if (!count || count->number < 0 || count->number > static_cast<int64_t>(numHeads))
      return malformed("num_forward_heads", "a number of heads, at most " + Twine(numHeads));
    table.numForwardHeads = static_cast<uint32_t>(count->number);
    table.isTraining = !mode || mode->text != "infer";
    return std::optional<GradientTable>(std::move(table));
  }

 private:
  void moveAttr(const char *key, GraphAttrs &to) {
    if (auto at = attrs.find(key); at != attrs.end()) to.insert(attrs.extract(at));
  }
  const GraphAttr *find(const char *key, Kind kind) const {
    auto at = attrs.find(key);
    return at == attrs.end() || at->second.kind != kind ? nullptr : &at->second;
  }
  size_t numNodes() const { return entryBegin.size() - 1; }
  /// Invalid where there is no such entry.
  Value valueOf(int64_t node, int64_t index) const {
    if (node < 0 || static_cast<size_t>(node) >= numNodes()) return Value();
    const uint32_t first = entryBegin[static_cast<size_t>(node)], end = entryBegin[static_cast<size_t>(node) + 1];
    if (index < 0 || index >= int64_t{end - first}) return Value();
    return Value{NodeId(static_cast<uint32_t>(node)), static_cast<uint16_t>(index), 0};
  }

  Error parseHeads(GradientTable &table) const {
    constexpr const char *kTexts[] = {"head_kind", "grad_of", "grad_req"};
    constexpr const char *kNumbers[] = {"grad_of_node", "grad_of_index", "grad_order", "x_slot"};
    const std::vector<std::string> *texts[std::size(kTexts)];
    const std::vector<int64_t> *numbers[std::size(kNumbers)];
    for (auto [i, key] : enumerate(kTexts)) {
      const GraphAttr *list = find(key, Kind::ListStr);
      if (!list || list->texts.size() != numHeads)
        return malformed(key, "a list_str with one element per head (" + Twine(numHeads) + ")");
      texts[i] = &list->texts;
    }
    for (auto [i, key] : enumerate(kNumbers)) {
      const GraphAttr *list = find(key, Kind::ListInt);
      if (!list || list->numbers.size() != numHeads)
        return malformed(key, "a list_int with one element per head (" + Twine(numHeads) + ")");
      numbers[i] = &list->numbers;
    }
    table.heads.resize(numHeads);
    for (auto [i, head] : enumerate(table.heads)) {
      const StringRef *kind = llvm::find(kHeadKinds, StringRef((*texts[0])[i]));
      if (kind == std::end(kHeadKinds)) return malformed("head_kind", "'forward', 'grad' or 'retained'");
      head.kind = static_cast<GradientTable::HeadKind>(kind - std::begin(kHeadKinds));
      head.of = (*texts[1])[i];
      std::optional<Request> request = parseRequest((*texts[2])[i]);
      if (!request) return malformed("grad_req", "'null', 'write' or 'add'");
      head.request = *request;
      const int64_t node = (*numbers[0])[i], index = (*numbers[1])[i], order = (*numbers[2])[i];
      if (node < -1 || node >= static_cast<int64_t>(numNodes())) return malformed("grad_of_node", "node ids");
      if (index < 0 || index > int64_t{kMaxIndex}) return malformed("grad_of_index", "output indices");
      if (order < 0 || order > int64_t{kMaxIndex}) return malformed("grad_order", "orders from 0");
      if (node >= 0) head.ofNode = NodeId(static_cast<uint32_t>(node));
      head.ofIndex = static_cast<uint32_t>(index);
      head.order = static_cast<uint32_t>(order);
      head.slot = (*numbers[3])[i];
    }
    return Error::success();
  }

  // Rows of five: position, node and index of y, node and index of its head gradient (node -1: none).
  void parsePairs(GraphTable &table) {
    const GraphAttr *list = find("head_pairs", Kind::ListInt);
    if (!list || list->numbers.empty() || list->numbers.size() % 5) return;
    std::vector<HeadPair> pairs;
    for (ArrayRef<int64_t> row = list->numbers; !row.empty(); row = row.drop_front(5)) {
      const HeadPair pair{static_cast<uint32_t>(row[0]), valueOf(row[1], row[2]), valueOf(row[3], row[4])};
      const bool isPair = row[0] == int64_t{pair.position} && pair.y.isValid();
      if (!isPair || (pair.seed.isValid() ? row[3] < 0 : row[3] != -1 || row[4] != 0)) return;
      pairs.push_back(pair);
    }
    table.headPairs = std::move(pairs);
    attrs.erase("head_pairs");
  }

  // Rows of two: node and index.
  void parseConstants(GraphTable &table) {
    const GraphAttr *list = find("grad_constants", Kind::ListInt);
    if (!list || list->numbers.empty() || list->numbers.size() % 2) return;
    std::vector<Value> constants;
    DenseSet<std::pair<uint32_t, uint32_t>> seen;
    for (ArrayRef<int64_t> row = list->numbers; !row.empty(); row = row.drop_front(2)) {
      const Value v = valueOf(row[0], row[1]);
      if (!v.isValid() || !seen.insert({v.node.value, v.index}).second) return;
      constants.push_back(v);
    }
    table.constants = std::move(constants);
    attrs.erase("grad_constants");
  }

  template <class T> void takeNotes(const char *key, Kind kind, std::vector<T> GraphAttr::*member, std::vector<T> &to) {
    auto at = attrs.find(key);
    if (at == attrs.end() || at->second.kind != kind || (at->second.*member).size() != entryBegin.back()) return;
    to = std::move(at->second.*member);
    attrs.erase(at);
  }

  void parsePlan(GraphTable &table) {
    const GraphAttr *plan = find("plan", Kind::ListShape), *planned = find("planned_bytes", Kind::SizeT),
                    *bound = find("bound_bytes", Kind::SizeT);
    if (!plan || !planned || !bound || plan->shapes.size() != entryBegin.back()) return;
    PlanNotes notes{{}, planned->number, bound->number};
    notes.places.reserve(plan->shapes.size());
    for (const std::vector<int64_t> &row : plan->shapes) {
      if (row.size() != 2) return;
      notes.places.push_back({row[0], row[1]});
    }
    table.plan = std::move(notes);
    for (const char *key : {"plan", "planned_bytes", "bound_bytes"}) attrs.erase(key);
  }

  void parseUpdates(GraphTable &table) {
    const GraphAttr *parameters = find("update_of", Kind::ListStr), *states = find("optimizer_states", Kind::ListStr);
    if (!parameters || !states || parameters->texts.size() != numHeads) return;
    table.updates = {parameters->texts, states->texts};
    for (const char *key : {"update_of", "optimizer_states"}) attrs.erase(key);
  }

  GraphAttrs attrs;
  const ArrayRef<uint32_t> entryBegin;
  const size_t numHeads;
};

/// One column of the table: `element` of each head.
template <class T, class F> std::vector<T> column(const GradientTable &table, F element) {
  std::vector<T> list;
  list.reserve(table.heads.size());
  for (const GradientTable::Head &head : table.heads) list.push_back(element(head));
  return list;
}

void spellGradient(const GradientTable &table, GraphAttrs &attrs) {
  using Head = GradientTable::Head;
  auto texts = [&](auto element) { return GraphAttr::ofStrs(column<std::string>(table, element)); };
  auto numbers = [&](auto element) { return GraphAttr::ofInts(column<int64_t>(table, element)); };
  attrs["head_kind"] = texts([](const Head &head) { return kHeadKinds[static_cast<int>(head.kind)].str(); });
  attrs["grad_of"] = texts([](const Head &head) { return head.of; });
  attrs["grad_req"] = texts([](const Head &head) { return requestName(head.request).str(); });
  attrs["grad_of_node"] =
      numbers([](const Head &head) { return head.ofNode.isValid() ? int64_t{head.ofNode.value} : -1; });
  attrs["grad_of_index"] = numbers([](const Head &head) { return head.ofIndex; });
  attrs["grad_order"] = numbers([](const Head &head) { return head.order; });
  attrs["x_slot"] = numbers([](const Head &head) { return head.slot; });
  std::vector<std::string> seeds;
  for (const auto &[variable, y] : table.headGradOf) seeds.insert(seeds.end(), {variable, y});
  attrs["grad_mode"] = GraphAttr::ofStr(table.isTraining ? "train" : "infer");
  attrs["slot_status"] = GraphAttr::ofStrs(table.slotStatus);
  attrs["grad_none"] = GraphAttr::ofStrs(table.gradNone);
  attrs["head_grad_of"] = GraphAttr::ofStrs(std::move(seeds));
  attrs["num_forward_heads"] = GraphAttr::ofInt(table.numForwardHeads);
}

void spellPairs(ArrayRef<HeadPair> pairs, GraphAttrs &attrs) {
  std::vector<int64_t> numbers;
  for (const HeadPair &pair : pairs) {
    const bool hasSeed = pair.seed.isValid();
    numbers.insert(numbers.end(),
                   {int64_t{pair.position}, int64_t{pair.y.node.value}, int64_t{pair.y.index},
                    hasSeed ? int64_t{pair.seed.node.value} : -1, hasSeed ? int64_t{pair.seed.index} : 0});
  }
  if (!numbers.empty()) attrs["head_pairs"] = GraphAttr::ofInts(std::move(numbers));
}

void spellConstants(ArrayRef<Value> constants, GraphAttrs &attrs) {
  std::vector<int64_t> numbers;
  for (Value v : constants) numbers.insert(numbers.end(), {int64_t{v.node.value}, int64_t{v.index}});
  if (!numbers.empty()) attrs["grad_constants"] = GraphAttr::ofInts(std::move(numbers));
}

void spellEntries(const EntryNotes &notes, GraphAttrs &attrs) {
  if (!notes.shapes.empty()) attrs["shape"] = GraphAttr::ofShapes(notes.shapes);
  if (!notes.shapeKnown.empty()) attrs["shape_known"] = GraphAttr::ofInts(notes.shapeKnown);
  if (!notes.dtypes.empty()) attrs["dtype"] = GraphAttr::ofInts(notes.dtypes);
  if (!notes.storages.empty()) attrs["storage_type"] = GraphAttr::ofInts(notes.storages);
}

void spellPlan(const PlanNotes &plan, GraphAttrs &attrs) {
  std::vector<std::vector<int64_t>> rows;
  rows.reserve(plan.places.size());
  for (const PlanNotes::Place &place : plan.places) rows.push_back({place.offset, place.bytes});
  attrs["plan"] = GraphAttr::ofShapes(std::move(rows));
  attrs["planned_bytes"] = GraphAttr::ofSize(plan.plannedBytes);
  attrs["bound_bytes"] = GraphAttr::ofSize(plan.boundBytes);
}

}  // namespace

GraphTable parseGraphTable(GraphAttrs attrs, ArrayRef<uint32_t> entryBegin, size_t numHeads) {
  return Parser(std::move(attrs), entryBegin, numHeads).run();
}

GraphAttrs spellGraphTable(const GraphTable &table) {
  GraphAttrs attrs = table.others;
  attrs.insert(table.malformed.begin(), table.malformed.end());
  if (table.gradient) spellGradient(*table.gradient, attrs);
  spellPairs(table.headPairs, attrs);
  spellConstants(table.constants, attrs);
  spellEntries(table.entries, attrs);
  if (table.plan) spellPlan(*table.plan, attrs);
  if (table.updates) {
    attrs["update_of"] = GraphAttr::ofStrs(table.updates->parameterOf);
    attrs["optimizer_states"] = GraphAttr::ofStrs(table.updates->states);
  }
  if (table.mxnetVersion) attrs["mxnet_version"] = GraphAttr::ofInt(*table.mxnetVersion);
  return attrs;
}

GraphAttrs graphAttrsOf(const Graph &graph) { return spellGraphTable(graph.table()); }

Graph withGraphAttrs(const Graph &graph, GraphAttrs attrs) {
  return graph.withTable(parseGraphTable(std::move(attrs), graph.columns().entryBegin, graph.heads().size()));
}

}  // namespace gradc
