// The walk down to bodies. Tested by tests/ir/bodies_test.cc
#include "ir/graph/bodies.h"

#include "ir/base/dense_map.h"
#include "ir/base/error.h"

#include "llvm/ADT/Hashing.h"

using namespace llvm;

namespace gradc {
namespace {

template <class T> uint64_t hashBytes(const std::vector<T> &column) {
  const char *bytes = reinterpret_cast<const char *>(column.data());
  return hash_combine_range(bytes, bytes + column.size() * sizeof(T));
}

}  // namespace

uint64_t contentHash(const Graph &graph) {
  const GraphColumns &c = graph.columns();
  hash_code code = hash_combine(hashBytes(c.kinds), hashBytes(c.inputs), hashBytes(c.names), hashBytes(c.heads));
  for (const KindRef &kind : c.kindList) code = hash_combine(code, kind.get());
  return code;
}

std::vector<NestedGraph> nestedGraphs(const Graph &root) {
  std::vector<NestedGraph> list = {{root}};
  DenseSet<BodyKey> seen;
  for (size_t i = 0; i < list.size(); ++i) {
    const Graph graph = list[i].graph;
    for (uint32_t n = 0; n < graph.numNodes() && graph.columns().hasBodies; ++n) {
      ArrayRef<Graph> bodies = graph.bodies(NodeId(n));
      for (size_t b = 0; b < bodies.size(); ++b)
        if (seen.insert(keyOf(bodies[b])).second)
          list.push_back({bodies[b], static_cast<uint32_t>(i), NodeId(n), static_cast<uint32_t>(b)});
    }
  }
  return list;
}

BodyNumbers numberBodies(ArrayRef<NestedGraph> list) {
  BodyNumbers numbers;
  for (size_t i = 1; i < list.size(); ++i) numbers[keyOf(list[i].graph)] = i;
  return numbers;
}

std::string bodyName(size_t numBodies, size_t body) { return numBodies == 1 ? "body" : "body " + std::to_string(body); }

std::string bodyStep(const Graph &graph, NodeId owner, uint32_t body) {
  const std::string label = graph.name(owner).empty() ? "#" + std::to_string(owner.value) : graph.name(owner).str();
  return "node '" + label + "' > " + bodyName(graph.bodies(owner).size(), body);
}

std::string bodiesText(const Graph &graph, NodeId n, const BodyNumbers &numbers) {
  ArrayRef<Graph> bodies = graph.bodies(n);
  std::string text;
  for (const Graph &body : bodies)
    text += (text.empty() ? bodies.size() == 1 ? "body @" : "bodies @" : ", @") +
            std::to_string(numbers.lookup(keyOf(body)));
  return text;
}

std::string bodyPath(ArrayRef<NestedGraph> list, size_t position) {
  std::string path;
  for (size_t at = position; at != 0; at = list[at].parent) {
    const NestedGraph &nested = list[at];
    path = bodyStep(list[nested.parent].graph, nested.owner, nested.body) + (path.empty() ? "" : " > ") + path;
  }
  return path;
}

Error withinBody(Error error, const Graph &graph, NodeId owner, uint32_t body) {
  return amend(std::move(error), [&](GradcError &info) {
    info.message = bodyStep(graph, owner, body) + " > " + info.message;
    const Graph inside(graph.bodies(owner)[body]);
    const NodeId node = info.place.node;
    // In a body a node is stopped as a whole: its outputs have no separate names.
    const bool isNamed = info.place.path.empty() && node.isValid() && node.value < inside.numNodes();
    for (Note &note : info.notes)
      if (note.remedy == Remedy::StopGradient) {
        if (isNamed) note.subject = inside.name(node).str();
        note.subject = (graph.name(owner) + "/" + Twine(body) + "/" + note.subject).str();
      }
    info.place.path.insert(info.place.path.begin(), {owner, body});
  });
}

Error withinBody(Error error, ArrayRef<NestedGraph> list, size_t position) {
  for (size_t at = position; at != 0 && error; at = list[at].parent) {
    const NestedGraph &nested = list[at];
    error = withinBody(std::move(error), list[nested.parent].graph, nested.owner, nested.body);
  }
  return error;
}

}  // namespace gradc
