// Infers shape, dtype and storage of every entry, in both directions, with a worklist of entries.
//
// Linear in nodes + edges times the rank: an entry is revisited only when it became more precise. Fused backward nodes
// take shapes and dtypes from their forward node (INF-08), by the correspondence that its gradient rule defines.
#pragma once

#include "ir/graph/graph.h"
#include "ir/graph/tables.h"
#include "ir/tensor/shape_table.h"

#include "llvm/Support/Error.h"

namespace gradc {

/// What a 0 or -1 means in shape attributes of nodes (INF-03). Auto: 0 is unknown below mxnet_version 20000. Reading
/// keeps attributes unchanged; inference interprets them.
enum class UnknownDim : uint8_t { Auto, Zero, MinusOne };

struct ShapeHint {
  NodeId variable;
  DimsBuffer dims;  // kUnknownDim where unknown
};
struct DTypeHint {
  NodeId variable;
  DType dtype;
};

struct InferRequest {
  std::vector<ShapeHint> shapes;
  std::vector<DTypeHint> dtypes;
};

/// Hints from shapes of the graph's arguments in the order of listInputs (INF-06); arguments without a shape get no
/// hint. TooManyHints (E-52) for more shapes than arguments.
llvm::Expected<InferRequest> shapesInOrder(const Graph &graph, llvm::ArrayRef<DimsBuffer> shapes);

struct InferOptions {
  /// Unknown parts at the end are an error (E-58) unless allowed.
  bool allowUnknown = false;
  /// Every floating entry becomes this type. A 16-bit type only replaces defaultFloat and the floating types of an
  /// annotation: what operators and attributes keep in float32 stays so.
  std::optional<DType> floatAs;
  /// Type of floating variables that nothing determines.
  DType defaultFloat = DType::Float32;
  UnknownDim unknownDim = UnknownDim::Auto;
  /// Inference of a graph whose nodes are the first of this one (INF-11). Its entries are final, and hints for them are
  /// ignored; only later nodes are visited, and only their unknown entries are counted.
  const struct Inference *forward = nullptr;
};

struct Inference;

/// What is known inside the bodies of one node; null for a body of which nothing is known.
struct NodeBodies {
  NodeId node;
  std::vector<std::shared_ptr<const Inference>> bodies;
};
using BodyInferences = std::vector<NodeBodies>;

struct Inference {
  EntryMap<ShapeId> shape;  // ids of `shapes`
  std::shared_ptr<const ShapeTable> shapes;
  EntryMap<DType> dtype;
  EntryMap<StorageKind> storage;
  size_t numUnknownShapes = 0, numUnknownDTypes = 0;  // entries not fully known
  BodyInferences bodies;  // of the nodes with a flow, in id order; shapes are in the same table

  ShapeRef shapeOf(EntryId e) const { return (*shapes)[shape[e]]; }
  bool isKnownShape(EntryId e) const { return shapes->isFullyKnown(shape[e]); }
  /// Null where nothing is known.
  const Inference *body(NodeId n, size_t b) const;
  /// -1 where the shape is not fully known.
  int64_t elements(EntryId e) const { return shapes->elements(shape[e]); }
};

llvm::Expected<Inference> infer(Context &context, const Graph &graph, const InferRequest &request,
                                const InferOptions &options);

/// Whether an input or an output of the node is float16 or bfloat16.
bool hasHalf(const Graph &graph, const Inference &inference, NodeId n);

/// Whether a 0 in a shape attribute is an unknown dimension, as in files of MXNet before 2.0 (INF-03).
bool zeroIsUnknown(const Graph &graph);

/// The graph with what an inference found in its table (CLI-04).
Graph annotate(const Graph &graph, const Inference &inference);

}  // namespace gradc
