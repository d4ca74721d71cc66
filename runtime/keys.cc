// Keys of tensors, kept unique. Tested by tests/session_test.cc
#include "ir/error.h"
#include "ir/out_of_memory.h"
#include "runtime/keys.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace gradc {

std::vector<std::string> variableKeys(const Graph &graph) {
  std::vector<std::string> keys(graph.numNodes());
  StringMap<uint32_t> seen;
  for (uint32_t id = 0; id < graph.numNodes(); ++id) {
    if (!graph.isVariable(NodeId(id))) continue;
    StringRef name = graph.name(NodeId(id));
    if (name.empty()) {
      keys[id] = ("#" + Twine(id)).str();
      continue;
    }
    uint32_t k = ++seen[name];
    keys[id] = k == 1 ? name.str() : name.str() + "#" + std::to_string(k);
  }
  return keys;
}

std::string gradientKey(const Graph &graph, ArrayRef<std::string> variableKeys, const GradientTable::Head &head,
                        StringRef separator) {
  std::string source = head.of;
  if (head.ofNode.isValid())
    source = graph.isVariable(head.ofNode)
                 ? variableKeys[head.ofNode.value]
                 : graph.listedName(Value{head.ofNode, static_cast<uint16_t>(head.ofIndex), 0});
  return source + separator.str() + "grad" + (head.order > 1 ? std::to_string(head.order) : "");
}

namespace {

class KeyMaker {
 public:
  Error add(OutputKey row, const std::string &key, const std::string &source) {
    StringMap<Taken>::iterator at = taken.try_emplace(key, Taken{source, 0}).first;
    Taken &first = at->second;
    if (first.source != source)
      return Failure(ErrorKind::AmbiguousName,
                     "two outputs are called '" + key + "': " + first.source + " and " + source)
          .note("give one of them another name");
    row.key = ++first.count == 1 ? key : key + "#" + std::to_string(first.count);
    rows.push_back(std::move(row));
    return Error::success();
  }
  std::vector<OutputKey> take() { return std::move(rows); }

 private:
  struct Taken {
    std::string source;
    uint32_t count;
  };
  std::vector<OutputKey> rows;
  StringMap<Taken> taken;
};

}  // namespace

Expected<std::vector<OutputKey>> outputKeys(const Graph &graph, const std::optional<GradientTable> &table,
                                            ArrayRef<NodeId> aux) {
  return catchingBadAlloc("to name the outputs", [&]() -> Expected<std::vector<OutputKey>> {
    KeyMaker maker;
    BitVector isHead(graph.numNodes());
    std::vector<std::string> names = variableKeys(graph);
    for (size_t i = 0; i < graph.heads().size(); ++i) {
      Value head = graph.heads()[i];
      isHead.set(head.node.value);
      bool isForward = !table || table->heads[i].kind == GradientTable::HeadKind::Forward;
      std::string key = isForward ? graph.listedName(head) : gradientKey(graph, names, table->heads[i], "_");
      // Nodes that share a name count as one source: a number distinguishes their keys.
      std::string source = isForward ? graph.describe(head.node) : "the gradient of '" + table->heads[i].of + "'";
      if (key.empty()) key = ("#" + Twine(head.node.value)).str();
      if (Error error = maker.add({OutputKey::From::Head, i, NodeId(), ""}, key, source)) return error;
    }
    for (NodeId n : aux) {
      if (isHead[n.value]) continue;
      if (Error error = maker.add({OutputKey::From::Aux, 0, n, ""}, names[n.value], "aux " + graph.describe(n)))
        return error;
    }
    return maker.take();
  });
}

}  // namespace gradc
