// Writing and reading the side table. Tested by tests/gradient_table_test.cc
#include "passes/gradient_state.h"

#include "ir/error.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

constexpr StringRef kKinds[] = {"forward", "grad", "retained"};
constexpr StringRef kTableKeys[] = {"head_kind",  "grad_of",     "grad_of_node", "grad_of_index", "grad_order",       "grad_req",
                                    "x_slot",     "slot_status", "grad_none",    "head_grad_of",  "num_forward_heads",
                                    "grad_mode",  "head_pairs",  "grad_constants"};

// "weight", or "conv:0" for what is not a variable.
std::string readable(const Graph &graph, Value v) {
  std::string name = graph.name(v.node).str();
  return graph.isVariable(v.node) ? name : name + ":" + std::to_string(v.index);
}

struct TableWriter {
  GraphAttrs attrs;
  std::vector<std::string> kind, of, request;
  std::vector<int64_t> node, index, order, slot;

  void reserve(size_t rows) {
    for (std::vector<std::string> *column : {&kind, &of, &request}) column->reserve(rows);
    for (std::vector<int64_t> *column : {&node, &index, &order, &slot}) column->reserve(rows);
  }

  void add(const GradientTable::Head &head) {
    kind.push_back(kKinds[static_cast<int>(head.kind)].str());
    of.push_back(head.of);
    request.push_back(requestName(head.request).str());
    node.push_back(head.ofNode.isValid() ? int64_t{head.ofNode.value} : -1);
    index.push_back(head.ofIndex);
    order.push_back(head.order);
    slot.push_back(head.slot);
  }

  void finish() {
    attrs["head_kind"] = GraphAttr::ofStrs(std::move(kind));
    attrs["grad_of"] = GraphAttr::ofStrs(std::move(of));
    attrs["grad_req"] = GraphAttr::ofStrs(std::move(request));
    attrs["grad_of_node"] = GraphAttr::ofInts(std::move(node));
    attrs["grad_of_index"] = GraphAttr::ofInts(std::move(index));
    attrs["grad_order"] = GraphAttr::ofInts(std::move(order));
    attrs["x_slot"] = GraphAttr::ofInts(std::move(slot));
  }
};

// Nodes of a lower order's gradient graph move where versions are saved for the next.
void addForwardRows(TableWriter &writer, const Graph &forward, const std::optional<GradientTable> &earlier,
                    ArrayRef<NodeId> newId) {
  for (size_t i = 0; i < forward.heads().size(); ++i) {
    GradientTable::Head head = earlier ? earlier->heads[i] : GradientTable::Head();
    if (head.ofNode.isValid()) head.ofNode = newId[head.ofNode.value];
    writer.add(head);
  }
}

void addGradientRows(TableWriter &writer, const Graph &forward, ArrayRef<GradientTarget> targets,
                     ArrayRef<GradientSlot> slots, GradientTable::HeadKind kind, uint32_t order,
                     const std::vector<NodeId> &newId) {
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!slots[i].value.isValid()) continue;
    GradientTable::Head head;
    head.kind = kind;
    head.of = readable(forward, targets[i].x);
    head.ofNode = newId[targets[i].x.node.value];
    head.ofIndex = targets[i].x.index;
    head.order = order;
    head.request = targets[i].request;
    head.slot = kind == GradientTable::HeadKind::Grad ? static_cast<int64_t>(i) : -1;
    writer.add(head);
  }
}

Error malformed(StringRef key, const Twine &expected) {
  return Failure(ErrorKind::GraphAttr, "graph attribute '" + key + "' is missing or malformed, expected " + expected);
}

const std::vector<std::string> *texts(const GraphAttrs &attrs, StringRef key) {
  auto at = attrs.find(key.str());
  return at == attrs.end() || at->second.kind != GraphAttr::Kind::ListStr ? nullptr : &at->second.texts;
}
const std::vector<int64_t> *numbers(const GraphAttrs &attrs, StringRef key) {
  auto at = attrs.find(key.str());
  return at == attrs.end() || at->second.kind != GraphAttr::Kind::ListInt ? nullptr : &at->second.numbers;
}

Error readHeads(const Graph &graph, GradientTable &table) {
  const GraphAttrs &attrs = graph.graphAttrs();
  const size_t count = graph.heads().size();
  for (StringRef key : {"head_kind", "grad_of", "grad_req"})
    if (!texts(attrs, key) || texts(attrs, key)->size() != count)
      return malformed(key, "a list_str with one element per head (" + Twine(count) + ")");
  for (StringRef key : {"grad_of_node", "grad_of_index", "grad_order", "x_slot"})
    if (!numbers(attrs, key) || numbers(attrs, key)->size() != count)
      return malformed(key, "a list_int with one element per head (" + Twine(count) + ")");
  for (size_t i = 0; i < count; ++i) {
    GradientTable::Head head;
    const StringRef *kind = llvm::find(kKinds, StringRef((*texts(attrs, "head_kind"))[i]));
    if (kind == std::end(kKinds)) return malformed("head_kind", "'forward', 'grad' or 'retained'");
    head.kind = static_cast<GradientTable::HeadKind>(kind - std::begin(kKinds));
    head.of = (*texts(attrs, "grad_of"))[i];
    std::optional<Request> request = parseRequest((*texts(attrs, "grad_req"))[i]);
    if (!request) return malformed("grad_req", "'null', 'write' or 'add'");
    head.request = *request;
    int64_t node = (*numbers(attrs, "grad_of_node"))[i];
    if (node >= static_cast<int64_t>(graph.numNodes()) || node < -1) return malformed("grad_of_node", "node ids");
    if (node >= 0) head.ofNode = NodeId(static_cast<uint32_t>(node));
    head.ofIndex = static_cast<uint32_t>((*numbers(attrs, "grad_of_index"))[i]);
    head.order = static_cast<uint32_t>((*numbers(attrs, "grad_order"))[i]);
    head.slot = (*numbers(attrs, "x_slot"))[i];
    table.heads.push_back(std::move(head));
  }
  return Error::success();
}

}  // namespace

void eraseGradientTable(GraphAttrs &attrs) {
  for (StringRef key : kTableKeys) attrs.erase(key.str());
}

void extendUpdates(GraphAttrs &attrs, size_t numHeads, size_t numHeadsNow) {
  const auto updates = attrs.find("update_of");
  if (updates == attrs.end()) return;
  std::vector<std::string> &names = updates->second.texts;
  if (names.size() == numHeads && numHeadsNow >= numHeads) return names.resize(numHeadsNow);
  attrs.erase("update_of");
  attrs.erase("optimizer_states");
}

uint32_t orderOfGradient(const Graph &graph, const std::optional<GradientTable> &table, ArrayRef<GradientHead> heads) {
  if (!table) return 1;
  DenseMap<uint32_t, uint32_t> orderOf;
  uint32_t highest = 0, order = 0;
  for (auto [row, head] : zip(table->heads, graph.heads())) {
    uint32_t &known = orderOf[graph.entry(head).value];
    known = std::max(known, row.order);
    highest = std::max(highest, row.order);
  }
  for (const GradientHead &head : heads) {
    const auto row = orderOf.find(graph.entry(head.y).value);
    if (row != orderOf.end()) order = std::max(order, row->second);
    else if (graph.origin(head.y.node).isValid()) order = highest;
  }
  return order + 1;
}

Graph withGradientTable(const GradientState &state, const Graph &emitted, const GradientResult &result,
                        const std::vector<NodeId> &newId) {
  const Graph &forward = state.graph;
  const GradientRequest &request = state.request;
  const GradientOptions &options = state.options;
  const std::optional<GradientTable> &earlier = state.earlier;
  TableWriter writer;
  writer.attrs = emitted.graphAttrs();
  writer.reserve(emitted.heads().size());
  if (!options.gradientOnly) addForwardRows(writer, forward, earlier, newId);
  using HeadKind = GradientTable::HeadKind;
  addGradientRows(writer, forward, request.wrt, result.wrt, HeadKind::Grad, state.order, newId);
  addGradientRows(writer, forward, request.retained, result.retained, HeadKind::Retained, state.order, newId);
  writer.finish();

  constexpr StringRef kStatus[] = {"grad", "zeros", "none"};
  std::vector<std::string> status, none, seeds;
  for (size_t i = 0; i < request.wrt.size(); ++i) {
    status.push_back(kStatus[static_cast<int>(result.wrt[i].status)].str());
    if (result.wrt[i].status == SlotStatus::None) none.push_back(readable(forward, request.wrt[i].x));
  }
  if (earlier)
    for (const auto &[variable, y] : earlier->headGradOf) seeds.insert(seeds.end(), {variable, y});
  for (size_t i = 0; i < request.heads.size(); ++i)
    if (!result.seedNames[i].empty())
      seeds.insert(seeds.end(), {result.seedNames[i], forward.listedName(request.heads[i].y)});
  writer.attrs["grad_mode"] = GraphAttr::ofStr(options.isTraining ? "train" : "infer");
  writer.attrs["slot_status"] = GraphAttr::ofStrs(std::move(status));
  writer.attrs["grad_none"] = GraphAttr::ofStrs(std::move(none));
  writer.attrs["head_grad_of"] = GraphAttr::ofStrs(std::move(seeds));
  size_t numForward = earlier ? earlier->numForwardHeads : forward.heads().size();
  writer.attrs["num_forward_heads"] = GraphAttr::ofInt(static_cast<int64_t>(options.gradientOnly ? 0 : numForward));
  return emitted.withGraphAttrs(std::move(writer.attrs));
}

Expected<std::optional<GradientTable>> readGradientTable(const Graph &graph) {
  const GraphAttrs &attrs = graph.graphAttrs();
  if (!attrs.count("head_kind")) return std::optional<GradientTable>();
  GradientTable table;
  if (Error error = readHeads(graph, table)) return error;
  for (auto [key, list] : {std::pair<StringRef, std::vector<std::string> *>{"slot_status", &table.slotStatus},
                           {"grad_none", &table.gradNone}}) {
    if (!texts(attrs, key)) return malformed(key, "a list_str");
    *list = *texts(attrs, key);
  }
  const std::vector<std::string> *seeds = texts(attrs, "head_grad_of");
  if (!seeds || seeds->size() % 2) return malformed("head_grad_of", "a list_str of pairs: variable, output");
  for (size_t i = 0; i < seeds->size(); i += 2) table.headGradOf.push_back({(*seeds)[i], (*seeds)[i + 1]});
  auto count = attrs.find("num_forward_heads");
  if (count == attrs.end() || count->second.kind != GraphAttr::Kind::Int) return malformed("num_forward_heads", "an int");
  table.numForwardHeads = static_cast<uint32_t>(count->second.number);
  auto mode = attrs.find("grad_mode");
  table.isTraining = mode == attrs.end() || mode->second.text != "infer";
  return std::optional<GradientTable>(std::move(table));
}

}  // namespace gradc
