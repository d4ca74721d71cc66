// Tested by tests/control_flow_test.cc
#include "passes/infer_bodies.h"

#include "passes/infer_lattices.h"
#include "passes/propagate.h"

#include "ir/bodies.h"
#include "ir/body_flow.h"

using namespace llvm;

namespace gradc {

Error badHint(const Graph &graph, NodeId n, StringRef key, StringRef text, StringRef expected) {
  return Failure(ErrorKind::BadHint,
                 graph.describe(n) + ": attribute '" + key + "' is \"" + text + "\", expected " + expected)
      .at(n);
}

Expected<VariableHints> hintsOf(const Graph &graph, NodeId n, bool zeroIsUnknown) {
  VariableHints hints;
  if (std::optional<StringRef> text = graph.attrs(n).get("__shape__")) {
    Dims parsed;
    ParamsArena arena;
    if (!parseAttr(*text, arena, parsed)) return badHint(graph, n, "__shape__", *text, "a tuple of int");
    // An empty tuple is how MXNet spells that nothing is known.
    for (int64_t dim : parsed) hints.dims.push_back(dim == 0 && zeroIsUnknown ? kUnknownDim : dim);
  }
  if (std::optional<StringRef> text = graph.attrs(n).get("__dtype__")) {
    std::optional<DType> type = parseDType(*text);
    if (!type) return badHint(graph, n, "__dtype__", *text, "a type name or code");
    hints.dtype = *type;
  }
  return hints;
}

const Inference *Inference::body(NodeId n, size_t b) const {
  auto at = llvm::lower_bound(bodies, n, [](const NodeBodies &row, NodeId key) { return row.node < key; });
  return at != bodies.end() && at->node == n && b < at->bodies.size() ? at->bodies[b].get() : nullptr;
}

template <> BodyInferrer::Rows<ShapeId> &BodyInferrer::rows<ShapeId>() { return shapeRows; }
template <> BodyInferrer::Rows<DType> &BodyInferrer::rows<DType>() { return typeRows; }

template <>
Error BodyInferrer::propagate<ShapeId>(const Graph &body, ArrayRef<ShapeId> in, ArrayRef<ShapeId> heads,
                                       EntryMap<ShapeId> &entries) {
  const std::vector<NodeId> inputs = bodyInputs(body);
  for (size_t i = 0; i < inputs.size(); ++i) {
    ShapeId &shape = entries[body.firstEntry(inputs[i])];
    shape = in[i];
    Expected<VariableHints> hints = hintsOf(body, inputs[i], zeroIsUnknown);
    if (!hints) return hints.takeError();
    if (hints->dims.empty()) continue;
    DimsBuffer dims(hints->dims);
    const bool agrees = shape == kUnknownShape || mergeDims(dims, table[shape].dims());
    const std::optional<ShapeId> hinted = table.intern(dims);
    if (!agrees || !hinted)
      return badHint(body, inputs[i], "__shape__", *body.attrs(inputs[i]).get("__shape__"),
                     "a tuple that agrees with " + toString(table[shape]));
    shape = *hinted;
  }
  for (size_t h = 0; h < heads.size(); ++h) {
    ShapeId &shape = entries[body.entry(body.heads()[h])];
    if (shape == kUnknownShape) shape = heads[h];
  }
  ShapeLattice lattice{table, body, zeroIsUnknown, this};
  return Propagation<ShapeLattice>(body, lattice, summaries, entries).run();
}

template <>
Error BodyInferrer::propagate<DType>(const Graph &body, ArrayRef<DType> in, ArrayRef<DType> heads,
                                     EntryMap<DType> &entries) {
  const std::vector<NodeId> inputs = bodyInputs(body);
  for (size_t i = 0; i < inputs.size(); ++i) {
    DType &type = entries[body.firstEntry(inputs[i])];
    type = in[i];
    Expected<VariableHints> hints = hintsOf(body, inputs[i], zeroIsUnknown);
    if (!hints) return hints.takeError();
    if (type == DType::Unknown) type = hints->dtype;
    if (hints->dtype != DType::Unknown && hints->dtype != type)
      return badHint(body, inputs[i], "__dtype__", *body.attrs(inputs[i]).get("__dtype__"),
                     "a type that agrees with " + std::string(dtypeName(type)));
  }
  for (size_t h = 0; h < heads.size(); ++h) {
    DType &type = entries[body.entry(body.heads()[h])];
    if (type == DType::Unknown) type = heads[h];
  }
  DTypeLattice lattice{body, this};
  return Propagation<DTypeLattice>(body, lattice, summaries, entries).run();
}

template <class Element>
Expected<const BodyInferrer::Row<Element> *> BodyInferrer::infer(const Graph &graph, NodeId n, size_t b,
                                                                 MutableArrayRef<Element> in,
                                                                 MutableArrayRef<Element> heads) {
  const Graph &body = graph.bodies(n)[b];
  auto key = [&] {
    std::vector<Element> ends(in.begin(), in.end());
    ends.insert(ends.end(), heads.begin(), heads.end());
    return std::tuple(&body.columns(), &body.table(), std::move(ends));
  };
  std::shared_ptr<const Row<Element>> &row = rows<Element>()[key()];
  if (!row) {
    auto made = std::make_shared<Row<Element>>(Row<Element>{EntryMap<Element>(body, kUnknownEntry<Element>)});
    if (Error error = propagate<Element>(body, in, heads, made->entries))
      return withinBody(std::move(error), graph, n, static_cast<uint32_t>(b));
    row = std::move(made);
  }
  const EntryMap<Element> &entries = row->entries;
  const std::shared_ptr<const Row<Element>> found = row;
  const std::vector<NodeId> inputs = bodyInputs(body);
  for (size_t i = 0; i < in.size(); ++i) in[i] = entries[body.firstEntry(inputs[i])];
  for (size_t h = 0; h < heads.size(); ++h) heads[h] = entries[body.entry(body.heads()[h])];
  // Inferring the body again from the refined inputs and heads gives the same result.
  rows<Element>()[key()] = found;
  return found.get();
}

template Expected<const BodyInferrer::Row<ShapeId> *> BodyInferrer::infer<ShapeId>(const Graph &, NodeId, size_t,
                                                                                   MutableArrayRef<ShapeId>,
                                                                                   MutableArrayRef<ShapeId>);
template Expected<const BodyInferrer::Row<DType> *> BodyInferrer::infer<DType>(const Graph &, NodeId, size_t,
                                                                               MutableArrayRef<DType>,
                                                                               MutableArrayRef<DType>);

Error tooManyBytes(const Graph &graph, const Inference &inference, NodeId n, uint32_t output) {
  const EntryId e(graph.firstEntry(n).value + output);
  return Failure(ErrorKind::InferConflict, (graph.isVariable(n) ? Twine() : "operator '" + graph.opName(n) + "', ") +
                                               graph.describe(n) + ": output " + Twine(output) + " has shape " +
                                               toString(inference.shapeOf(e)) + " of " + dtypeName(inference.dtype[e]) +
                                               ", expected at most 2^48 bytes")
      .at(n);
}

namespace {

/// Visits a node once more to find the rows that hold what is known of its bodies: nothing if the operator has no function.
template <class Element, class I> Error revisit(BodyVisit<Element> &visit, I &inference, void (*run)(I &)) {
  inference.bodies = visit.hook();
  if (run) run(inference);
  return std::move(visit.error);
}

}  // namespace

Expected<BodyInferences> BodyInferrer::collect(const Graph &graph, const Inference &known, uint32_t firstNode,
                                               std::optional<DType> floatAs) {
  BodyInferences result;
  for (uint32_t id = firstNode; id < graph.numNodes(); ++id) {
    const NodeId n(id);
    const NodeKind &kind = graph.kind(n);
    if (!kind.flow) continue;
    SmallVector<ShapeId, 8> inShapes, outShapes;
    SmallVector<DType, 8> inTypes, outTypes;
    for (Value v : graph.inputs(n)) {
      inShapes.push_back(known.shape[graph.entry(v)]);
      inTypes.push_back(known.dtype[graph.entry(v)]);
    }
    for (uint32_t o = 0; o < graph.numOutputs(n); ++o) {
      outShapes.push_back(known.shape[EntryId(graph.firstEntry(n).value + o)]);
      outTypes.push_back(known.dtype[EntryId(graph.firstEntry(n).value + o)]);
    }
    BodyVisit<ShapeId> shapes{this, graph, n};
    ShapeInference shapeInference(table, kind, inShapes, outShapes, zeroIsUnknown);
    if (Error error = revisit(shapes, shapeInference, kind.op->shape)) return error;
    BodyVisit<DType> types{this, graph, n};
    DTypeInference typeInference(kind, inTypes, outTypes);
    if (Error error = revisit(types, typeInference, kind.op->dtype)) return error;
    NodeBodies &row = result.emplace_back(NodeBodies{n, {}});
    for (size_t b = 0; b < kind.bodies.size(); ++b) {
      Expected<std::shared_ptr<const Inference>> inside = nullptr;
      if (shapes.rows[b] && types.rows[b]) inside = assemble(kind.bodies[b], shapes.rows[b], types.rows[b], floatAs);
      if (!inside) return withinBody(inside.takeError(), graph, n, static_cast<uint32_t>(b));
      row.bodies.push_back(std::move(*inside));
    }
  }
  return result;
}

Error inferBodies(Context &context, const Graph &graph, const std::shared_ptr<ShapeTable> &table, Inference &known) {
  if (!graph.columns().hasBodies) return Error::success();
  RuleSummaries summaries(context);
  Expected<BodyInferences> found =
      BodyInferrer(summaries, table, zeroIsUnknown(graph)).collect(graph, known, 0, std::nullopt);
  if (!found) return found.takeError();
  known.bodies = std::move(*found);
  return Error::success();
}

// Recursion is as deep as bodies are nested.
Expected<std::shared_ptr<const Inference>> BodyInferrer::assemble(const Graph &body, const Row<ShapeId> *shapes,
                                                                  const Row<DType> *types,
                                                                  std::optional<DType> floatAs) {
  std::shared_ptr<const Inference> &known = inferences[{shapes, types}];
  if (known) return known;
  Inference made;
  made.shape = shapes->entries;
  made.dtype = types->entries;
  made.storage = EntryMap<StorageKind>(body, StorageKind::Dense);
  if (Error error = readStorage(body, 0, made.storage)) return error;
  made.shapes = tableHandle;
  Expected<BodyInferences> inner = collect(body, made, 0, floatAs);
  if (!inner) return inner.takeError();
  made.bodies = std::move(*inner);
  for (uint32_t n = 0; n < body.numNodes(); ++n)
    for (uint32_t o = 0; o < body.numOutputs(NodeId(n)); ++o) {
      const EntryId e(body.firstEntry(NodeId(n)).value + o);
      if (floatAs && isFloating(made.dtype[e])) made.dtype[e] = *floatAs;
      made.numUnknownShapes += !made.isKnownShape(e);
      made.numUnknownDTypes += made.dtype[e] == DType::Unknown;
      if (made.elements(e) * int64_t{dtypeBytes(made.dtype[e])} <= kMaxTensorBytes) continue;
      return tooManyBytes(body, made, NodeId(n), o);
    }
  return inferences[{shapes, types}] = std::make_shared<const Inference>(std::move(made));
}

}  // namespace gradc
