// Shape, dtype and storage inference. Phases: seed variables from hints and attributes, propagate shapes, propagate
// dtypes, give undetermined floating variables a type, count what is left. Tested by tests/passes/infer_test.cc
#include "passes/inference/infer.h"

#include "ir/base/error.h"
#include "ir/base/out_of_memory.h"
#include "ir/op/hidden_keys.h"

#include "passes/inference/carry.h"
#include "passes/inference/head_checks.h"
#include "passes/inference/infer_bodies.h"
#include "passes/inference/infer_errors.h"
#include "passes/inference/infer_lattices.h"
#include "passes/inference/infer_storage.h"
#include "passes/inference/propagate.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

class Inferrer {
 public:
  Inferrer(Context &ctx, const Graph &graph, const InferOptions &options)
      : graph(graph), options(options), summaries(ctx),
        table(options.forward ? std::make_shared<ShapeTable>(*options.forward->shapes)
                              : std::make_shared<ShapeTable>()),
        bodies(summaries, table, zeroIsUnknown()) {
    result = unknownInference(graph, table);
    if (options.forward) takeForward(*options.forward);
  }

  Expected<Inference> run(const InferRequest &request) {
    if (Error error = seed(request)) return error;
    ShapeLattice shapes{*table, graph, zeroIsUnknown(), &bodies};
    if (Error error = readStorage(graph, firstNode, result.storage)) return error;
    Propagation<ShapeLattice> propagation(graph, shapes, summaries, result.shape);
    propagation.keepFirst(firstNode);
    Error error = propagation.run();
    if (!error && !request.shapes.empty()) error = completeFromAnnotation(propagation);
    if (!error && !request.dtypes.empty()) error = completeDTypes();
    if (!error) error = inferDTypes();
    if (Error headError = checkHeadPairs(graph, result)) return joinHeadError(std::move(headError), std::move(error));
    if (error) return error;
    if (Error wrong = checkGradientShapes(graph, result)) return wrong;
    count();
    if (hasLarge)
      if (Error error = checkBytes(graph, result, firstNode)) return error;
    if (!options.allowUnknown)
      if (Error error = checkKnown(graph, result, firstNode)) return error;
    return std::move(result);
  }

 private:
  // A head gradient of the wrong shape is the cause; where it first conflicted matters less.
  static Error joinHeadError(Error headError, Error error) {
    consumeError(std::move(error));
    return headError;
  }

  void takeForward(const Inference &forward) {
    assert(forward.shape.size() <= graph.numEntries() && "the forward graph is a prefix of this one");
    firstEntry = static_cast<uint32_t>(forward.shape.size());
    while (firstNode < graph.numNodes() && graph.firstEntry(NodeId(firstNode)).value < firstEntry) ++firstNode;
    for (uint32_t e = 0; e < firstEntry; ++e) setEntry(result, EntryId(e), forward, EntryId(e));
  }

  bool zeroIsUnknown() const {
    if (options.unknownDim != UnknownDim::Auto) return options.unknownDim == UnknownDim::Zero;
    return gradc::zeroIsUnknown(graph);
  }

  Error seed(const InferRequest &request) {
    if (Error error = checkHints(request)) return error;
    auto isOpen = [&](NodeId variable) { return variable.value >= firstNode; };
    for (const ShapeHint &hint : request.shapes)
      if (isOpen(hint.variable))
        if (Error error = seedHint(hint)) return error;
    for (const DTypeHint &hint : request.dtypes)
      if (isOpen(hint.variable)) result.dtype[graph.firstEntry(hint.variable)] = hint.dtype;
    if (request.shapes.empty())
      if (Error error = seedShapesFromAnnotation().takeError()) return error;
    if (request.dtypes.empty()) seedDTypesFromAnnotation();
    for (uint32_t n = firstNode; n < graph.numNodes(); ++n)
      if (graph.isVariable(NodeId(n)) && !graph.attrs(NodeId(n)).isEmpty())
        if (Error error = seedFromAttrs(NodeId(n))) return error;
    return Error::success();
  }

  Error checkHints(const InferRequest &request) const {
    auto check = [&](NodeId n, StringRef what) -> Error {
      if (n.value < graph.numNodes() && graph.isVariable(n)) return Error::success();
      if (n.value < graph.numNodes())
        return Failure(ErrorKind::BadHint, what + " is given for " + graph.describe(n) + ", which is not a variable")
            .at(n);
      return Failure(ErrorKind::BadHint, what + " is given for a node that the graph does not have");
    };
    for (const ShapeHint &hint : request.shapes)
      if (Error error = check(hint.variable, "a shape")) return error;
    for (const DTypeHint &hint : request.dtypes)
      if (Error error = check(hint.variable, "a type")) return error;
    return Error::success();
  }

  // A file that `infer` annotated needs no second set of hints. Variables whose shape is known, or contradicts the
  // annotation, are left alone. Returns whether any was changed.
  Expected<bool> seedShapesFromAnnotation() {
    const EntryNotes &notes = graph.table().entries;
    if (notes.shapes.empty()) return false;
    bool hasChanged = false;
    for (uint32_t n = firstNode; n < graph.numNodes(); ++n) {
      EntryId e = graph.firstEntry(NodeId(n));
      if (!graph.isVariable(NodeId(n)) || result.isKnownShape(e)) continue;
      if (!notes.shapeKnown.empty() && !notes.shapeKnown[e.value]) continue;
      DimsBuffer dims(notes.shapes[e.value].begin(), notes.shapes[e.value].end());
      if (notes.shapeKnown.empty() && zeroIsUnknown()) {  // written by NNVM
        if (dims.empty()) continue;
        std::replace(dims.begin(), dims.end(), int64_t{0}, kUnknownDim);
      }
      if (result.shape[e] != kUnknownShape && !mergeDims(dims, result.shapeOf(e).dims())) continue;
      if (Error error = seedShape(NodeId(n), dims)) return error;
      hasChanged = true;
    }
    return hasChanged;
  }

  // Several hints for one variable are all true.
  Error seedHint(const ShapeHint &hint) {
    const ShapeRef current = result.shapeOf(graph.firstEntry(hint.variable));
    DimsBuffer dims(hint.dims.begin(), hint.dims.end());
    if (current.hasRank() && !mergeDims(dims, current.dims()))
      return Failure(ErrorKind::BadHint, graph.describe(hint.variable) + " is given the shapes " + toString(current) +
                                             " and " + toString(ShapeRef(hint.dims)))
          .at(hint.variable);
    return seedShape(hint.variable, dims);
  }

  Error seedShape(NodeId n, Dims dims) {
    std::optional<ShapeId> shape = table->intern(dims);
    if (!shape)
      return Failure(ErrorKind::InferConflict,
                     graph.describe(n) + " is given the shape " + toString(ShapeRef(dims)) + ", " + kPossible)
          .at(n);
    result.shape[graph.firstEntry(n)] = *shape;
    return Error::success();
  }

  // Returns whether any type was changed.
  bool seedDTypesFromAnnotation() {
    const std::vector<int64_t> &types = graph.table().entries.dtypes;
    if (types.empty()) return false;
    bool hasChanged = false;
    for (uint32_t n = firstNode; n < graph.numNodes(); ++n) {
      EntryId e = graph.firstEntry(NodeId(n));
      if (!graph.isVariable(NodeId(n)) || result.dtype[e] != DType::Unknown) continue;
      const std::optional<DType> type = parseDType(std::to_string(types[e.value]));
      if (!type || (isFloating(*type) && asksForHalf())) continue;
      result.dtype[e] = *type;
      hasChanged = true;
    }
    return hasChanged;
  }

  // Adds what is known of bodies at the end. Those of the forward graph's nodes are taken from its inference.
  Error addBodies() {
    if (!graph.columns().hasBodies) return Error::success();
    if (options.forward) result.bodies = options.forward->bodies;
    Expected<BodyInferences> found = bodies.collect(graph, result, firstNode, options.floatAs);
    if (!found) return found.takeError();
    llvm::append_range(result.bodies, *found);
    return Error::success();
  }

  // The annotation may determine what hints leave open; if the two contradict each other, explicit hints take
  // precedence.
  Error completeFromAnnotation(Propagation<ShapeLattice> &propagation) {
    if (graph.table().entries.shapes.empty()) return Error::success();
    EntryMap<ShapeId> hinted = result.shape;
    Expected<bool> hasChanged = seedShapesFromAnnotation();
    if (!hasChanged) return hasChanged.takeError();
    if (!*hasChanged) return Error::success();
    if (Error error = propagation.resume()) {
      consumeError(std::move(error));
      result.shape = std::move(hinted);
    }
    return Error::success();
  }

  // The same for types.
  Error completeDTypes() {
    if (graph.table().entries.dtypes.empty()) return Error::success();
    DTypeLattice types{graph, &bodies};
    Propagation<DTypeLattice> propagation(graph, types, summaries, result.dtype);
    propagation.keepFirst(firstNode);
    if (Error error = propagation.run()) return error;
    EntryMap<DType> hinted = result.dtype;
    if (!seedDTypesFromAnnotation()) return Error::success();
    if (Error error = propagation.resume()) {
      consumeError(std::move(error));
      result.dtype = std::move(hinted);
    }
    return Error::success();
  }

  Error seedFromAttrs(NodeId n) {
    EntryId e = graph.firstEntry(n);
    Expected<VariableHints> hints = hintsOf(graph, n, zeroIsUnknown());
    if (!hints) return hints.takeError();
    if (!hints->dims.empty())
      if (Error error = unifyHint(n, e, hints->dims, *graph.attrs(n).get(kShapeKey))) return error;
    if (result.dtype[e] == DType::Unknown) result.dtype[e] = hints->dtype;
    return Error::success();
  }

  Error unifyHint(NodeId n, EntryId e, Dims dims, StringRef text) {
    ShapeRef current = result.shapeOf(e);
    DimsBuffer merged(dims.begin(), dims.end());
    if (current.hasRank() && !mergeDims(merged, current.dims()))
      return Failure(ErrorKind::BadHint, graph.describe(n) + ": attribute '" + kShapeKey + "' is \"" + text +
                                             "\", but the given shape is " + toString(current))
          .at(n);
    return seedShape(n, merged);
  }

  /// Variables read together with a computed value of unknown type, which may determine their type once other variables
  /// have the default; such as the head gradient of a value that is cast. `isEarlier`: only if the value comes before
  /// the variable, as the y of a head gradient does, but not the other values that a gradient reads beside an x.
  BitVector variablesBesideUnknown(bool isEarlier) const {
    BitVector waiting(graph.numNodes());
    auto isUnknown = [&](Value v) { return result.dtype[graph.entry(v)] == DType::Unknown; };
    for (uint32_t n = firstNode; n < graph.numNodes(); ++n) {
      const ArrayRef<Value> inputs = graph.inputs(NodeId(n));
      uint32_t first = ~0u;  // the first such value
      for (Value v : inputs)
        if (!graph.isVariable(v.node) && isUnknown(v)) first = std::min(first, isEarlier ? v.node.value : 0);
      for (Value v : inputs)
        if (graph.isVariable(v.node) && v.node.value >= first) waiting.set(v.node.value);
    }
    return waiting;
  }

  /// Variables that are no operator's first operand. With 16-bit data some of them are float32, if the operator
  /// requires it.
  BitVector variablesBehindFirst() const {
    BitVector behind(graph.numNodes());
    for (uint32_t n = firstNode; n < graph.numNodes(); ++n)
      for (Value v : graph.inputs(NodeId(n)))
        if (graph.isVariable(v.node)) behind.set(v.node.value);
    for (uint32_t n = firstNode; n < graph.numNodes(); ++n)
      if (ArrayRef<Value> inputs = graph.inputs(NodeId(n)); !inputs.empty()) behind.reset(inputs[0].node.value);
    return behind;
  }

  bool asksForHalf() const { return options.floatAs && isHalf(*options.floatAs); }
  DType defaultFloat() const { return asksForHalf() ? *options.floatAs : options.defaultFloat; }

  Error inferDTypes() {
    DTypeLattice types{graph, &bodies};
    Propagation<DTypeLattice> propagation(graph, types, summaries, result.dtype);
    propagation.keepFirst(firstNode);
    if (Error error = propagation.run()) return error;
    SmallVector<BitVector, 4> rounds = {variablesBesideUnknown(false), variablesBesideUnknown(true)};
    if (isHalf(defaultFloat())) {
      const BitVector behind = variablesBehindFirst();
      for (BitVector &waiting : rounds) waiting |= behind;
      rounds.push_back(behind);
    }
    rounds.push_back(BitVector(graph.numNodes()));
    for (const BitVector &waiting : rounds) {
      bool hasChanged = false;
      for (uint32_t n = firstNode; n < graph.numNodes(); ++n) {
        DType &type = result.dtype[graph.firstEntry(NodeId(n))];
        if (!graph.isVariable(NodeId(n)) || type != DType::Unknown || waiting.test(n)) continue;
        type = defaultFloat();
        hasChanged = true;
      }
      if (!hasChanged) continue;
      if (Error error = propagation.resume()) return error;
    }
    if (Error error = addBodies()) return error;
    if (options.floatAs && !asksForHalf())
      for (uint32_t e = firstEntry; e < graph.numEntries(); ++e)
        if (isFloating(result.dtype[EntryId(e)])) result.dtype[EntryId(e)] = *options.floatAs;
    return Error::success();
  }

  void count() {
    for (uint32_t e = firstEntry; e < graph.numEntries(); ++e) {
      const int64_t elements = result.elements(EntryId(e));
      result.numUnknownShapes += elements < 0;
      hasLarge |= elements > kMaxTensorBytes / 8;
      result.numUnknownDTypes += result.dtype[EntryId(e)] == DType::Unknown;
    }
  }

  const Graph &graph;
  const InferOptions &options;
  RuleSummaries summaries;
  std::shared_ptr<ShapeTable> table;  // of the result
  BodyInferrer bodies;
  uint32_t firstNode = 0, firstEntry = 0;  // everything before is given (INF-11)
  bool hasLarge = false;                   // some entry has so many elements that its bytes must be checked
  Inference result;
};

}  // namespace

Expected<Inference> infer(Context &context, const Graph &graph, const InferRequest &request,
                          const InferOptions &options) {
  return catchingBadAlloc("to infer shapes",
                          [&]() -> Expected<Inference> { return Inferrer(context, graph, options).run(request); });
}

Expected<InferRequest> shapesInOrder(const Graph &graph, ArrayRef<DimsBuffer> shapes) {
  const std::vector<NodeId> args = listInputs(graph).args;
  if (shapes.size() > args.size())
    return Failure(ErrorKind::TooManyHints,
                   countOf(shapes.size(), "shape") + " for " + countOf(args.size(), "argument") + " of the graph");
  InferRequest request;
  for (const auto &[n, dims] : llvm::zip(args, shapes)) request.shapes.push_back({n, dims});
  return request;
}

bool hasHalf(const Graph &graph, const Inference &inference, NodeId n) {
  const uint32_t first = graph.firstEntry(n).value;
  for (uint32_t e = first; e < first + graph.numOutputs(n); ++e)
    if (isHalf(inference.dtype[EntryId(e)])) return true;
  return llvm::any_of(graph.inputs(n), [&](Value v) { return isHalf(inference.dtype[graph.entry(v)]); });
}

bool zeroIsUnknown(const Graph &graph) { return graph.table().mxnetVersion.value_or(0) < 20000; }

Graph annotate(const Graph &graph, const Inference &inference) {
  EntryNotes notes;
  for (uint32_t i = 0; i < graph.numEntries(); ++i) {
    EntryId e(i);
    ShapeRef shape = inference.shapeOf(e);
    notes.shapes.push_back(shape.dims().vec());
    notes.shapeKnown.push_back(shape.hasRank());
    notes.dtypes.push_back(static_cast<int64_t>(inference.dtype[e]));
    notes.storages.push_back(static_cast<int64_t>(inference.storage[e]));
  }
  GraphTable table = graph.table();
  table.entries = std::move(notes);
  return graph.withTable(std::move(table));
}

const Inference *Inference::body(NodeId n, size_t b) const {
  auto at = llvm::lower_bound(bodies, n, [](const NodeBodies &row, NodeId key) { return row.node < key; });
  return at != bodies.end() && at->node == n && b < at->bodies.size() ? at->bodies[b].get() : nullptr;
}

}  // namespace gradc
