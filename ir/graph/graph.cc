// Queries of a frozen graph. Tested by tests/ir/graph_test.cc
#include "ir/graph/graph.h"

#include "ir/base/dense_map.h"
#include "ir/op/hidden_keys.h"

using namespace llvm;

namespace gradc {

Graph Graph::partOf(const std::shared_ptr<const Graph> &whole) {
  Graph part;
  part.cols = {whole, whole->cols.get()};
  part.tab = {whole, whole->tab.get()};
  return part;
}

std::string Graph::listedName(Value v) const {
  StringRef nodeName = name(v.node);
  if (isVariable(v.node)) return nodeName.str();
  const NodeKind &k = kind(v.node);
  if (std::optional<StringRef> stated = k.attrs.get(outputNameKey(v.index))) return stated->str();
  // An operator's output names are used if it lists several; a single output is plain `output`.
  std::string port = k.op->outputs.names.count > 1 || k.numOutputs == 1 || k.numVisible == 1
                         ? outputName(k, v.index)
                         : "output" + std::to_string(v.index);
  return nodeName.empty() ? port : nodeName.str() + "_" + port;
}

std::string Graph::describe(NodeId n) const {
  std::string label = name(n).empty() ? "#" + std::to_string(n.value) : name(n).str();
  if (isVariable(n)) return "variable '" + label + "'";
  return "node '" + label + "' (" + opName(n).str() + ")";
}

size_t Graph::heapBytes() const {
  auto bytes = [](const auto &column) { return column.capacity() * sizeof(column[0]); };
  const GraphColumns &c = *cols;
  return sizeof(GraphColumns) + bytes(c.kinds) + bytes(c.kindList) + bytes(c.inputBegin) + bytes(c.inputs) +
         bytes(c.depBegin) + bytes(c.deps) + bytes(c.entryBegin) + bytes(c.nameBegin) + bytes(c.names) +
         bytes(c.origins) + bytes(c.heads);
}

namespace {

/// Compares graphs, and each pair of bodies once. Within one Context equal kinds are one object; across Contexts they
/// are compared by content.
class Comparison {
 public:
  bool isSame(const Graph &a, const Graph &b) {
    if (&a.table() != &b.table() && !(a.table() == b.table())) return false;
    const GraphColumns &l = a.columns(), &r = b.columns();
    if (&l == &r || !seen.insert({&l, &r}).second) return true;
    return l.kinds == r.kinds && l.inputBegin == r.inputBegin && l.inputs == r.inputs && l.depBegin == r.depBegin &&
           l.deps == r.deps && l.nameBegin == r.nameBegin && l.names == r.names && l.origins == r.origins &&
           l.heads == r.heads &&
           isSameList(a.kinds(), b.kinds(), [&](const KindRef &x, const KindRef &y) { return isSame(*x, *y); });
  }

 private:
  bool isSame(const NodeKind &a, const NodeKind &b) {
    if (&a == &b) return true;
    const bool isOpaque = a.op && b.op && a.op->flags.isOpaque && b.op->flags.isOpaque;
    return (a.op == b.op || isOpaque) && a.spelling == b.spelling && a.attrs == b.attrs &&
           a.numOutputs == b.numOutputs &&
           isSameList(a.bodies, b.bodies, [&](const Graph &x, const Graph &y) { return isSame(x, y); });
  }

  template <class T, class F> static bool isSameList(ArrayRef<T> a, ArrayRef<T> b, F isSame) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), isSame);
  }

  DenseSet<std::pair<const GraphColumns *, const GraphColumns *>> seen;  // no difference found so far
};

}  // namespace

bool operator==(const Graph &a, const Graph &b) { return Comparison().isSame(a, b); }

std::vector<NodeId> listMutators(const Graph &graph) {
  std::vector<NodeId> mutators(graph.numNodes());
  for (uint32_t id = 0; id < graph.numNodes(); ++id) {
    const NodeKind &kind = graph.kind(NodeId(id));
    if (kind.mutated.isEmpty()) continue;
    ArrayRef<Value> inputs = graph.inputs(NodeId(id));
    for (size_t i = 0; i < inputs.size(); ++i)
      if (kind.isMutated(i) && !mutators[inputs[i].node.value].isValid()) mutators[inputs[i].node.value] = NodeId(id);
  }
  return mutators;
}

InputLists listInputs(const Graph &graph) {
  std::vector<NodeId> mutators = listMutators(graph);
  InputLists lists;
  for (uint32_t id = 0; id < graph.numNodes(); ++id)
    if (graph.isVariable(NodeId(id))) (mutators[id].isValid() ? lists.aux : lists.args).push_back(NodeId(id));
  return lists;
}

}  // namespace gradc
