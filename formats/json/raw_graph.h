// The graph objects of a file as the parser leaves them: columns of plain numbers, ids still those of the file.
//
// The operator of a node, and thus its number of outputs, is known only once the whole object has been read, because
// the keys of a JSON object come in any order. formats/json/reader.cc makes Graphs from them.
// Tested by tests/formats/json/json_reader_test.cc
#pragma once

#include "ir/base/dense_map.h"
#include "ir/graph/context.h"
#include "ir/graph/graph.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

#include <map>
#include <string>
#include <vector>

namespace gradc {

using StrId = Id<struct StrTag>;      // a text of RawTables
using AttrsId = Id<struct AttrsTag>;  // an attribute list of RawTables; 0 is the empty one

/// An attribute of the file.
struct RawAttr {
  StrId key, value;
};

/// Interns the texts and attribute lists of a file, so that nodes hold only ids.
class RawTables {
 public:
  StrId intern(llvm::StringRef text) {
    auto [at, isNew] = textIds.try_emplace(text, static_cast<uint32_t>(texts.size()));
    if (isNew) texts.push_back(at->getKey());
    return StrId(at->second);
  }
  llvm::StringRef text(StrId id) const { return texts[id.value]; }
  AttrsId add(const Attrs &attrs) {
    auto [at, isNew] = listIds.try_emplace(attrs.id(), static_cast<uint32_t>(lists.size()));
    if (isNew) lists.push_back(attrs);
    return AttrsId(at->second);
  }
  /// The list of these pairs; the last value of a repeated key counts.
  AttrsId intern(Context &context, llvm::ArrayRef<RawAttr> pairs) {
    auto [at, isNew] =
        pairIds.try_emplace({reinterpret_cast<const char *>(pairs.data()), pairs.size() * sizeof(RawAttr)});
    if (!isNew) return at->second;
    llvm::SmallVector<AttrText, 16> list;
    for (RawAttr pair : pairs) list.push_back({text(pair.key), text(pair.value)});
    return at->second = add(context.attrs(list));
  }
  const Attrs &attrs(AttrsId id) const { return lists[id.value]; }

 private:
  llvm::StringMap<uint32_t> textIds;
  std::vector<llvm::StringRef> texts;
  llvm::StringMap<AttrsId> pairIds;  // by the bytes of the pairs
  DenseMap<const void *, uint32_t> listIds = {{nullptr, 0}};
  std::vector<Attrs> lists = std::vector<Attrs>(1);
};

struct RawNode {
  StrId op;
  AttrsId attrs{0};
  NodeId origin;                           // file id from the attribute `__origin__`; invalid: none
  uint32_t nameBegin = 0, nameLength = 0;  // into RawGraph::names
  uint32_t inputBegin = 0;                 // into RawGraph::inputs; ends where the next node's begins
  int64_t begin = -1, end = -1;            // byte range of the object in the text; -1: made by the upgrade
};

struct RawGraph {
  std::vector<RawNode> nodes;
  std::vector<Value> inputs;
  std::vector<char> names;
  std::vector<std::pair<uint32_t, uint32_t>> deps;       // node, the node it waits for
  std::vector<std::pair<uint32_t, uint32_t>> subgraphs;  // node, position in RawFile::graphs
  std::vector<uint32_t> argNodes;
  std::vector<uint32_t> rowPtr;
  std::vector<Value> heads;
  GraphAttrs attrs;
  int64_t begin = 0, argNodesAt = 0, rowPtrAt = 0, headsAt = 0;  // byte offsets, for messages
  bool hasRowPtr = false;
  bool usesOldForm = false;  // `param`, `attr`, `backward_source_id` or entries of two numbers

  llvm::StringRef name(uint32_t node) const { return {names.data() + nodes[node].nameBegin, nodes[node].nameLength}; }
  llvm::ArrayRef<Value> inputsOf(uint32_t node) const {
    uint32_t begin = nodes[node].inputBegin;
    uint32_t end = node + 1 < nodes.size() ? nodes[node + 1].inputBegin : static_cast<uint32_t>(inputs.size());
    return llvm::ArrayRef(inputs.data() + begin, inputs.data() + end);
  }
};

struct RawFile {
  RawTables tables;
  std::vector<RawGraph> graphs;               // in the order their objects end, so the root is the last
  std::map<std::string, size_t> unknownKeys;  // ignored key of a graph or node → number of uses
};

}  // namespace gradc
