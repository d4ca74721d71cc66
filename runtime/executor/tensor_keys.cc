// Keys of tensors, kept unique. Tested by tests/runtime/session_test.cc
#include "ir/base/error.h"
#include "ir/base/out_of_memory.h"
#include "runtime/executor/tensor_keys.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace gradc {

std::vector<std::string> variableKeys(const Graph &graph) {
  std::vector<std::string> keys(graph.numNodes());
  StringMap<uint32_t> seen;  // names, and other keys that were given
  for (uint32_t id = 0; id < graph.numNodes(); ++id)
    if (graph.isVariable(NodeId(id)) && !graph.name(NodeId(id)).empty()) seen[graph.name(NodeId(id))] = 0;
  for (uint32_t id = 0; id < graph.numNodes(); ++id) {
    if (!graph.isVariable(NodeId(id))) continue;
    const std::string name = graph.name(NodeId(id)).str(), number = ("#" + Twine(id)).str();
    const uint32_t k = name.empty() ? 0 : ++seen[name];
    std::string &key = keys[id];
    key = k == 0 ? number : k == 1 ? name : name + "#" + std::to_string(k);
    if (k == 1) continue;
    // A variable whose name looks like such a key has that key.
    for (uint32_t other = 0; !seen.try_emplace(key, 0).second; ++other)
      key = other ? number + "#" + std::to_string(other) : number;
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
    auto [at, isNew] = taken.try_emplace(key, Taken{source, 1});
    if (at->second.source != source)
      return Failure(ErrorKind::AmbiguousName,
                     "two outputs are called '" + key + "': " + at->second.source + " and " + source)
          .note("give one of them another name");
    row.key = key;
    if (!isNew) repeated.push_back(rows.size());
    rows.push_back(std::move(row));
    return Error::success();
  }

  /// Numbers the outputs that share a key, without the numbers that are part of another key.
  std::vector<OutputKey> take() {
    for (size_t i : repeated) {
      uint32_t &count = taken.find(rows[i].key)->second.count;
      std::string key;
      do key = rows[i].key + "#" + std::to_string(++count);
      while (!taken.try_emplace(key, Taken{"", 1}).second);
      rows[i].key = std::move(key);
    }
    return std::move(rows);
  }

 private:
  struct Taken {
    std::string source;
    uint32_t count;
  };
  std::vector<OutputKey> rows;
  std::vector<size_t> repeated;  // rows whose key an earlier row has
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
