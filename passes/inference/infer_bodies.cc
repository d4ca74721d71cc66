// Tested by tests/ops/control_flow_test.cc
#include "passes/inference/infer_bodies.h"

#include "passes/inference/infer_errors.h"
#include "passes/inference/infer_lattices.h"
#include "passes/inference/infer_storage.h"
#include "passes/inference/propagate.h"

#include "ir/graph/bodies.h"
#include "ir/graph/body_flow.h"
#include "ir/op/hidden_keys.h"

using namespace llvm;

namespace gradc {
namespace {

template <class Element> struct Propagating;

template <> struct Propagating<ShapeId> {
  Propagating(const Graph &body, BodyInferrer &inferrer, EntryMap<ShapeId> &entries)
      : lattice{inferrer.shapes(), body, inferrer.isZeroUnknown(), &inferrer},
        propagation(body, lattice, inferrer.ruleSummaries(), entries) {}
  ShapeLattice lattice;
  Propagation<ShapeLattice> propagation;
};

template <> struct Propagating<DType> {
  Propagating(const Graph &body, BodyInferrer &inferrer, EntryMap<DType> &entries)
      : lattice{body, &inferrer}, propagation(body, lattice, inferrer.ruleSummaries(), entries) {}
  DTypeLattice lattice;
  Propagation<DTypeLattice> propagation;
};

// A state is the same before and after a step, which determines all states of a chain at once.
template <class P> void tieStates(const BodyFlow &flow, const Graph &body, P &propagation) {
  if (flow.states.empty()) return;
  const BodyFlow::Body &ports = flow.bodies.back();
  DenseMap<uint32_t, uint32_t> headOf;  // by operand
  for (const BodyFlow::State &state : flow.states) headOf[state.operand] = state.head;
  for (size_t i = 0; i < ports.inputs.size(); ++i)
    if (auto head = headOf.find(ports.operandOf[i]); head != headOf.end())
      propagation.tie(Value{ports.inputs[i]}, body.heads()[head->second]);
}

}  // namespace

Expected<VariableHints> hintsOf(const Graph &graph, NodeId n, bool zeroIsUnknown) {
  VariableHints hints;
  if (std::optional<StringRef> text = graph.attrs(n).get(kShapeKey)) {
    Dims parsed;
    ParamsArena arena;
    if (!parseAttr(*text, arena, parsed)) return badHint(graph, n, kShapeKey, *text, "a tuple of int");
    // An empty tuple is how MXNet spells that nothing is known.
    for (int64_t dim : parsed) hints.dims.push_back(dim == 0 && zeroIsUnknown ? kUnknownDim : dim);
  }
  if (std::optional<StringRef> text = graph.attrs(n).get(kDTypeKey)) {
    std::optional<DType> type = parseDType(*text);
    if (!type) return badHint(graph, n, kDTypeKey, *text, "a type name or code");
    hints.dtype = *type;
  }
  return hints;
}

template <> BodyInferrer::Rows<ShapeId> &BodyInferrer::rows<ShapeId>() { return shapeRows; }
template <> BodyInferrer::Rows<DType> &BodyInferrer::rows<DType>() { return typeRows; }

template <> Error BodyInferrer::seed<ShapeId>(const Graph &body, ArrayRef<ShapeId> in, EntryMap<ShapeId> &entries) {
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
      return badHint(body, inputs[i], kShapeKey, *body.attrs(inputs[i]).get(kShapeKey),
                     "a tuple that agrees with " + toString(table[shape]));
    shape = *hinted;
  }
  return Error::success();
}

template <> Error BodyInferrer::seed<DType>(const Graph &body, ArrayRef<DType> in, EntryMap<DType> &entries) {
  const std::vector<NodeId> inputs = bodyInputs(body);
  for (size_t i = 0; i < inputs.size(); ++i) {
    DType &type = entries[body.firstEntry(inputs[i])];
    type = in[i];
    Expected<VariableHints> hints = hintsOf(body, inputs[i], zeroIsUnknown);
    if (!hints) return hints.takeError();
    if (type == DType::Unknown) type = hints->dtype;
    if (hints->dtype != DType::Unknown && hints->dtype != type)
      return badHint(body, inputs[i], kDTypeKey, *body.attrs(inputs[i]).get(kDTypeKey),
                     "a type that agrees with " + std::string(dtypeName(type)));
  }
  return Error::success();
}

template <> ShapeId BodyInferrer::merged<ShapeId>(ShapeId known, ShapeId other) {
  if (known == other || known == kUnknownShape || other == kUnknownShape) return known == kUnknownShape ? other : known;
  DimsBuffer dims(table[known].dims());
  return mergeDims(dims, table[other].dims()) ? table.intern(dims).value_or(known) : known;
}

template <> DType BodyInferrer::merged<DType>(DType known, DType other) {
  return known == DType::Unknown ? other : known;
}

// Bodies nest, and so do the frames of `infer` and `propagate`: what is large is on the heap.
template <class Element>
Error BodyInferrer::propagate(const NodeKind &kind, size_t b, ArrayRef<Element> in, ArrayRef<Element> heads,
                              EntryMap<Element> &entries) {
  const Graph &body = kind.bodies[b];
  if (Error error = seed<Element>(body, in, entries)) return error;
  for (size_t h = 0; h < heads.size(); ++h) {
    Element &entry = entries[body.entry(body.heads()[h])];
    entry = merged(entry, heads[h]);
  }
  auto run = std::make_unique<Propagating<Element>>(body, *this, entries);
  if (b + 1 == kind.bodies.size()) tieStates(*kind.flow, body, run->propagation);
  return run->propagation.run();
}

template <class Element>
Expected<const BodyInferrer::Row<Element> *> BodyInferrer::infer(const Graph &graph, NodeId n, size_t b,
                                                                 MutableArrayRef<Element> in,
                                                                 MutableArrayRef<Element> heads) {
  const Graph &body = graph.bodies(n)[b];
  auto key = [&] {
    std::vector<Element> ends(in.begin(), in.end());
    ends.insert(ends.end(), heads.begin(), heads.end());
    const NodeKind &kind = graph.kind(n);
    const bool hasStates = !kind.flow->states.empty() && b + 1 == kind.bodies.size();
    return std::tuple(&body.columns(), &body.table(), hasStates ? kind.flow : nullptr, std::move(ends));
  };
  std::shared_ptr<const Row<Element>> &row = rows<Element>()[key()];
  if (!row) {
    auto made = std::make_shared<Row<Element>>(Row<Element>{EntryMap<Element>(body, kUnknownEntry<Element>)});
    if (Error error = propagate<Element>(graph.kind(n), b, in, heads, made->entries))
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

namespace {

/// Visits a node once more to find the rows that hold what is known of its bodies: nothing if the operator has no
/// function.
template <class Element, class I> Error revisit(BodyVisit<Element> &visit, I &inference, void (*run)(I &)) {
  inference.bodies = visit.hook();
  if (run) run(inference);
  return std::move(visit.error);
}

}  // namespace

LLVM_ATTRIBUTE_NOINLINE Error BodyInferrer::revisitNode(const Graph &graph, const Inference &known, NodeId n,
                                                        BodyVisit<ShapeId> &shapes, BodyVisit<DType> &types) {
  const NodeKind &kind = graph.kind(n);
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
  ShapeInference shapeInference(table, kind, inShapes, outShapes, zeroIsUnknown);
  if (Error error = revisit(shapes, shapeInference, kind.op->shape)) return error;
  DTypeInference typeInference(kind, inTypes, outTypes);
  return revisit(types, typeInference, kind.op->dtype);
}

// Recursion through `assemble` is as deep as bodies are nested.
Expected<BodyInferences> BodyInferrer::collect(const Graph &graph, const Inference &known, uint32_t firstNode,
                                               std::optional<DType> floatAs) {
  BodyInferences result;
  for (uint32_t id = firstNode; id < graph.numNodes(); ++id) {
    const NodeId n(id);
    const NodeKind &kind = graph.kind(n);
    if (!kind.flow) continue;
    BodyVisit<ShapeId> shapes{this, graph, n};
    BodyVisit<DType> types{this, graph, n};
    if (Error error = revisitNode(graph, known, n, shapes, types)) return error;
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
