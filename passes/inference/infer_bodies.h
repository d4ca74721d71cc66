// Inference inside bodies (INF-16). The entries of a body depend only on what is known of its inputs and heads, so
// results are cached by these: bodies that many nodes have, and nodes that are visited many times, cost one propagation
// each time more becomes known. Tested by tests/ops/control_flow_test.cc
#pragma once

#include "passes/inference/backward_link.h"
#include "passes/inference/infer.h"

#include "ir/rules/inference.h"

#include <map>

namespace gradc {

/// Shape and type in the attributes of a variable.
struct VariableHints {
  DimsBuffer dims;  // empty: unknown
  DType dtype = DType::Unknown;
};
/// BadHint for `__shape__` or `__dtype__` that does not parse.
llvm::Expected<VariableHints> hintsOf(const Graph &graph, NodeId variable, bool zeroIsUnknown);

template <class Element> inline constexpr Element kUnknownEntry{};
template <> inline constexpr ShapeId kUnknownEntry<ShapeId> = kUnknownShape;
template <> inline constexpr DType kUnknownEntry<DType> = DType::Unknown;

template <class Element> struct BodyVisit;

class BodyInferrer {
 public:
  /// `table` belongs to the surrounding graph.
  BodyInferrer(RuleSummaries &summaries, std::shared_ptr<ShapeTable> table, bool zeroIsUnknown)
      : summaries(summaries), tableHandle(std::move(table)), table(*tableHandle), zeroIsUnknown(zeroIsUnknown) {}

  /// The entries of a body, given what is known of its inputs and heads.
  template <class Element> struct Row {
    EntryMap<Element> entries;
  };

  /// Refines what is known of body b of node n; errors have the path from `graph` down.
  template <class Element>
  llvm::Expected<const Row<Element> *> infer(const Graph &graph, NodeId n, size_t b, llvm::MutableArrayRef<Element> in,
                                             llvm::MutableArrayRef<Element> heads);

  /// What is known inside the bodies of nodes from `firstNode` on, given what is known of the graph.
  llvm::Expected<BodyInferences> collect(const Graph &graph, const Inference &known, uint32_t firstNode,
                                         std::optional<DType> floatAs);

  ShapeTable &shapes() { return table; }
  RuleSummaries &ruleSummaries() { return summaries; }
  bool isZeroUnknown() const { return zeroIsUnknown; }

 private:
  // The flow, which ties states, is null for a body without states.
  template <class Element>
  using Rows = std::map<std::tuple<const GraphColumns *, const GraphTable *, const BodyFlow *, std::vector<Element>>,
                        std::shared_ptr<const Row<Element>>>;
  template <class Element> Rows<Element> &rows();
  /// What is known of one entry from two places; `known` if they contradict each other, which the operator's function
  /// reports.
  template <class Element> Element merged(Element known, Element other);
  /// Sets the entries of the variables.
  template <class Element> llvm::Error seed(const Graph &body, llvm::ArrayRef<Element> in, EntryMap<Element> &entries);
  template <class Element>
  llvm::Error propagate(const NodeKind &kind, size_t b, llvm::ArrayRef<Element> in, llvm::ArrayRef<Element> heads,
                        EntryMap<Element> &entries);
  llvm::Error revisitNode(const Graph &graph, const Inference &known, NodeId n, BodyVisit<ShapeId> &shapes,
                          BodyVisit<DType> &types);
  llvm::Expected<std::shared_ptr<const Inference>> assemble(const Graph &body, const Row<ShapeId> *shapes,
                                                            const Row<DType> *types, std::optional<DType> floatAs);

  RuleSummaries &summaries;
  std::shared_ptr<ShapeTable> tableHandle;
  ShapeTable &table;
  const bool zeroIsUnknown;
  Rows<ShapeId> shapeRows;
  Rows<DType> typeRows;
  std::map<std::pair<const void *, const void *>, std::shared_ptr<const Inference>> inferences;  // by their rows
};

/// Adds what is known inside bodies to an inference whose entries are known; `table` holds its shapes. Linear.
llvm::Error inferBodies(Context &context, const Graph &graph, const std::shared_ptr<ShapeTable> &table,
                        Inference &known);

/// One visit of a node: the hook its functions call, the first error in a body, and the latest result for each body.
template <class Element> struct BodyVisit {
  BodyInferrer *inferrer;
  const Graph &graph;
  NodeId node;
  llvm::Error error = llvm::Error::success();
  llvm::SmallVector<const BodyInferrer::Row<Element> *, 2> rows = {};

  BodyInference<Element> hook() {
    rows.assign(graph.bodies(node).size(), nullptr);
    return {[](void *self, size_t b, llvm::MutableArrayRef<Element> in, llvm::MutableArrayRef<Element> heads) {
              return static_cast<BodyVisit *>(self)->infer(b, in, heads);
            },
            this};
  }

 private:
  bool infer(size_t b, llvm::MutableArrayRef<Element> in, llvm::MutableArrayRef<Element> heads) {
    if (error) return false;
    llvm::Expected<const BodyInferrer::Row<Element> *> row = inferrer->infer<Element>(graph, node, b, in, heads);
    if (!row) return error = row.takeError(), false;
    rows[b] = *row;
    return true;
  }
};

}  // namespace gradc
