#include "passes/inference/infer_storage.h"

#include "ir/base/error.h"
#include "ir/op/hidden_keys.h"
#include "passes/inference/infer_errors.h"

using namespace llvm;

namespace gradc {
namespace {

class StorageReader {
 public:
  StorageReader(const Graph &graph, uint32_t firstNode, EntryMap<StorageKind> &storage)
      : graph(graph), firstNode(firstNode), storage(storage) {}

  Error run() {
    seedFromAnnotation();
    for (uint32_t n = firstNode; n < graph.numNodes(); ++n)
      if (graph.isVariable(NodeId(n)) && !graph.attrs(NodeId(n)).isEmpty())
        if (Error error = seedFromAttrs(NodeId(n))) return error;
    return rejectSparse();
  }

 private:
  // The attribute of a variable takes precedence.
  void seedFromAnnotation() {
    const std::vector<int64_t> &codes = graph.table().entries.storages;
    for (uint32_t n = firstNode; n < graph.numNodes() && !codes.empty(); ++n) {
      const EntryId e = graph.firstEntry(NodeId(n));
      if (graph.isVariable(NodeId(n))) (void)set(e, codes[e.value]);
    }
  }

  Error seedFromAttrs(NodeId n) {
    const std::optional<StringRef> text = graph.attrs(n).get(kStorageKey);
    int64_t code;
    if (!text || (!text->getAsInteger(10, code) && set(graph.firstEntry(n), code))) return Error::success();
    return badHint(graph, n, kStorageKey, *text, "-1, 0, 1 or 2");
  }

  // Returns whether this is the code of a storage.
  bool set(EntryId e, int64_t code) {
    if (code < -1 || code > 2) return false;
    if (code >= 0) storage[e] = static_cast<StorageKind>(code);
    hasSparse |= code > 0;
    return true;
  }

  // E-51, E-59: no kernel handles other storage, and computing as if it were dense would be silently wrong.
  Error rejectSparse() const {
    if (!hasSparse) return Error::success();
    for (uint32_t n = firstNode; n < graph.numNodes(); ++n) {
      ArrayRef<Value> inputs = graph.inputs(NodeId(n));
      for (size_t i = 0; i < inputs.size(); ++i)
        if (StorageKind kind = storage[graph.entry(inputs[i])]; kind != StorageKind::Dense)
          return Failure(ErrorKind::Storage, "operator '" + graph.opName(NodeId(n)) + "', " +
                                                 graph.describe(NodeId(n)) + ": input " + Twine(i) + ", '" +
                                                 graph.listedName(inputs[i]) + "', has storage " + storageName(kind) +
                                                 ", expected dense")
              .at(NodeId(n));
    }
    for (Value head : graph.heads())
      if (StorageKind kind = storage[graph.entry(head)]; kind != StorageKind::Dense)
        return Failure(ErrorKind::Storage,
                       "head '" + graph.listedName(head) + "' has storage " + storageName(kind) + ", expected dense")
            .at(head.node);
    return Error::success();
  }

  const Graph &graph;
  const uint32_t firstNode;
  EntryMap<StorageKind> &storage;
  bool hasSparse = false;  // some variable has other than dense storage
};

}  // namespace

Error readStorage(const Graph &graph, uint32_t firstNode, EntryMap<StorageKind> &storage) {
  return StorageReader(graph, firstNode, storage).run();
}

}  // namespace gradc
