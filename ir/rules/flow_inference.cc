// Shapes and types through bodies, in both directions. Tested by tests/ops/control_flow_test.cc
#include "ir/rules/flow_inference.h"

#include "ir/graph/body_flow.h"
#include "ir/graph/bodies.h"
#include "ir/rules/inference.h"

using namespace llvm;

namespace gradc {
namespace {

/// What differs between shapes and types.
struct ShapeFacts {
  using Inference = ShapeInference;
  using Element = ShapeId;
  static constexpr StringLiteral kWhat = "shape";
  ShapeInference &inference;

  static Element unknown() { return kUnknownShape; }
  std::string text(Element e) const { return toString(inference.table()[e]); }

  /// Refines each by the other; false if they contradict each other.
  bool unify(Element &a, Element &b) const {
    if (a == b) return true;
    if (a == kUnknownShape || b == kUnknownShape) {
      (a == kUnknownShape ? a : b) = a == kUnknownShape ? b : a;
      return true;
    }
    DimsBuffer dims(inference.table()[a].dims());
    if (!mergeDims(dims, inference.table()[b].dims())) return false;
    const std::optional<ShapeId> merged = inference.table().intern(dims);
    if (merged) a = b = *merged;
    return merged.has_value();
  }

  // CF-01: rows of a vector have shape (1,), except those that a loop stacked.
  Element rowOf(Element whole) const {
    const ShapeRef shape = inference.table()[whole];
    if (!shape.hasRank() || shape.rank() == 0) return kUnknownShape;
    return *inference.table().intern(shape.rank() == 1 ? DimsBuffer(1, 1) : DimsBuffer(shape.dims().drop_front()));
  }
  Element rowOfStack(Element stack) const {
    const ShapeRef shape = inference.table()[stack];
    if (!shape.hasRank() || shape.rank() == 0) return kUnknownShape;
    return *inference.table().intern(shape.dims().drop_front());
  }

  /// Refines the whole by the shape of its rows. Rows of shape (1,) may belong to a vector.
  bool setWhole(Element &whole, Element row, bool isStacked) const {
    const ShapeRef shape = inference.table()[row], known = inference.table()[whole];
    if (!shape.hasRank() || (known.hasRank() && known.rank() == 1 && !isStacked)) return true;
    if (!known.hasRank() && !isStacked && shape.rank() == 1 && (shape[0] == 1 || shape[0] == kUnknownDim)) return true;
    DimsBuffer dims(1, kUnknownDim);
    dims.append(shape.dims().begin(), shape.dims().end());
    std::optional<ShapeId> stated = inference.table().intern(dims);
    return stated && unify(whole, *stated);
  }
};

struct TypeFacts {
  using Inference = DTypeInference;
  using Element = DType;
  static constexpr StringLiteral kWhat = "type";
  DTypeInference &inference;

  static Element unknown() { return DType::Unknown; }
  static std::string text(Element e) { return dtypeName(e).str(); }
  static bool unify(Element &a, Element &b) {
    if (a == DType::Unknown) a = b;
    if (b == DType::Unknown) b = a;
    return a == b;
  }
  static Element rowOf(Element whole) { return whole; }
  static Element rowOfStack(Element stack) { return stack; }
  static bool setWhole(Element &whole, Element row, bool) { return unify(whole, row); }
};

/// Bodies nest, and so do the frames of `run` and `inferBody`: what composes texts is kept out of these.
template <class Facts> class FlowInference {
  using Element = typename Facts::Element;

 public:
  explicit FlowInference(typename Facts::Inference &inference)
      : inference(inference), facts{inference}, kind(inference.kind()), flow(*kind.flow) {}

  void run() {
    for (const BodyFlow::State &state : flow.states) unifyState(state);
    if (!inference.bodies) return;
    const std::vector<Element> before = givenToFirst();
    for (size_t b = 0; b < flow.bodies.size() && !inference.hasFailed(); ++b) inferBody(b);
    for (const BodyFlow::State &state : flow.states) unifyState(state);
    // The other bodies may have refined what the decision reads.
    if (flow.isDecision(0) && !inference.hasFailed() && before != givenToFirst()) inferBody(0);
  }

 private:
  std::vector<Element> givenToFirst() const {
    auto given = llvm::map_range(flow.bodies[0].operandOf, [&](uint32_t operand) { return inference.inId(operand); });
    return {given.begin(), given.end()};
  }

  std::string nodeOf(size_t b, size_t head) const {
    return kind.bodies[b].describe(kind.bodies[b].heads()[head].node) + " of " + bodyName(kind.bodies.size(), b);
  }

  LLVM_ATTRIBUTE_NOINLINE void unifyState(const BodyFlow::State &state) {
    if (inference.hasFailed()) return;
    Element &first = inference.inId(state.operand), &last = inference.outId(flow.bodies.back().outputOf[state.head]);
    if (!facts.unify(first, last))
      inference.fail("the state that starts as input " + Twine(state.operand) + " has " + Facts::kWhat + " " +
                         facts.text(first) + " at the start, and " + nodeOf(flow.bodies.size() - 1, state.head) +
                         ", which is the state after a step, has " + facts.text(last),
                     ErrorKind::StateChanged);
  }

  void inferBody(size_t b) {
    const BodyFlow::Body &body = flow.bodies[b];
    std::vector<Element> in, heads(kind.bodies[b].heads().size(), Facts::unknown());
    for (uint32_t operand : body.operandOf) {
      const Element given = inference.inId(operand);
      if (flow.isStack[operand]) in.push_back(facts.rowOfStack(given));
      else in.push_back(flow.operands[operand] == BodyFlow::Operand::Rows ? facts.rowOf(given) : given);
    }
    // First without what is known of the outputs: a contradiction with them is then reported at the node, not inside
    // the body.
    if (!inference.bodies(b, in, heads)) return;
    if (!flow.isDecision(b)) {
      bool isRefined = false;
      for (size_t h = 0; h < heads.size(); ++h)
        if (!meet(b, h, heads[h], isRefined)) return;
      if (isRefined && !inference.bodies(b, in, heads)) return;
      for (size_t h = 0; h < heads.size(); ++h)
        if (!meet(b, h, heads[h], isRefined)) return;
    } else {
      checkDecision(b, heads);
    }
    for (size_t i = 0; i < in.size() && !inference.hasFailed(); ++i) refineOperand(b, i, in[i]);
  }

  LLVM_ATTRIBUTE_NOINLINE void checkDecision(size_t b, ArrayRef<Element> heads) {
    if constexpr (std::is_same_v<Element, ShapeId>) {
      const ShapeRef shape = inference.table()[heads[0]];
      if (shape.isFullyKnown() && inference.table().elements(heads[0]) != 1)
        inference.fail(nodeOf(b, 0) + " is the condition and has shape " + toString(shape) + ", expected one element",
                       ErrorKind::BranchesDiffer);
    }
  }

  // Refines a head of a body and the output that it becomes by each other.
  LLVM_ATTRIBUTE_NOINLINE bool meet(size_t b, size_t h, Element &head, bool &isRefined) {
    const uint32_t o = flow.bodies[b].outputOf[h];
    Element &out = inference.outId(o), known = flow.isStacked[o] ? facts.rowOfStack(out) : out;
    const Element before = head;
    bool agrees = facts.unify(head, known);
    if (agrees) agrees = flow.isStacked[o] ? facts.setWhole(out, head, true) : facts.unify(out, head);
    isRefined |= head != before;
    if (agrees) return true;
    const bool isState = llvm::any_of(flow.states, [&](const BodyFlow::State &state) { return state.head == h; });
    if (isState)
      inference.fail("a state has " + Twine(Facts::kWhat) + " " + facts.text(known) + " before a step, and " +
                         nodeOf(b, h) + ", which is the state after it, has " + facts.text(head),
                     ErrorKind::StateChanged);
    else if (flow.form == BodyFlow::Form::Branch)
      inference.fail(nodeOf(b, h) + " has " + Facts::kWhat + " " + facts.text(head) + ", but output " + Twine(o) +
                         " has " + facts.text(known) + ", as determined by the other branch or by a reader",
                     ErrorKind::BranchesDiffer);
    else
      inference.fail(nodeOf(b, h) + " has " + Facts::kWhat + " " + facts.text(head) + ", but output " + Twine(o) +
                     " expects " + facts.text(known));
    return false;
  }

  LLVM_ATTRIBUTE_NOINLINE void refineOperand(size_t b, size_t i, Element found) {
    const uint32_t operand = flow.bodies[b].operandOf[i];
    Element &given = inference.inId(operand);
    const bool isRow = flow.operands[operand] == BodyFlow::Operand::Rows;
    if (isRow ? facts.setWhole(given, found, flow.isStack[operand]) : facts.unify(given, found)) return;
    inference.fail("input " + Twine(operand) + " has " + Facts::kWhat + " " + facts.text(given) + ", but " +
                   kind.bodies[b].describe(flow.bodies[b].inputs[i]) + " of " + bodyName(kind.bodies.size(), b) +
                   " has " + facts.text(found));
  }

  typename Facts::Inference &inference;
  const Facts facts;
  const NodeKind &kind;
  const BodyFlow &flow;
};

// E-27: sliced operands and stacked outputs have one length.
void unifyLengths(ShapeInference &s, const BodyFlow &flow) {
  int64_t length = flow.maxSteps;
  std::string from = "the node";
  auto look = [&](ShapeRef shape, const Twine &what) {
    if (!shape.hasRank() || s.hasFailed()) return;
    if (shape.rank() == 0) return s.fail(what + " has no axis to slice", ErrorKind::LengthMismatch);
    if (shape[0] == kUnknownDim || shape[0] == length) return;
    if (length != kUnknownDim)
      return s.fail(what + " has " + Twine(shape[0]) + " rows, but " + from + " has " + Twine(length),
                    ErrorKind::LengthMismatch);
    length = shape[0];
    from = what.str();
  };
  for (size_t i = 0; i < flow.operands.size(); ++i)
    if (flow.operands[i] == BodyFlow::Operand::Rows) look(s.in(i), "input " + Twine(i));
  for (size_t o = 0; o < flow.isStacked.size(); ++o)
    if (flow.isStacked[o]) look(s.out(o), "output " + Twine(o));
  if (length == kUnknownDim) return;
  auto fill = [&](ShapeRef shape, auto set) {
    if (!shape.hasRank() || shape.rank() == 0 || shape[0] == length || s.hasFailed()) return;
    DimsBuffer dims(shape.dims());
    dims[0] = length;
    set(dims);
  };
  for (size_t i = 0; i < flow.operands.size(); ++i)
    if (flow.operands[i] == BodyFlow::Operand::Rows) fill(s.in(i), [&](Dims dims) { s.setIn(i, dims); });
  for (size_t o = 0; o < flow.isStacked.size(); ++o)
    if (flow.isStacked[o]) fill(s.out(o), [&](Dims dims) { s.setOut(o, dims); });
}

}  // namespace

void inferFlowShapes(ShapeInference &s) {
  const BodyFlow &flow = *s.kind().flow;
  for (std::optional<uint32_t> one : {flow.countOutput, flow.decisionOutput})
    if (one) s.setOut(*one, {1});
  if (flow.countOperand) s.setIn(*flow.countOperand, {1});
  unifyLengths(s, flow);
  if (!s.hasFailed()) FlowInference<ShapeFacts>(s).run();
  unifyLengths(s, flow);
}

void inferFlowTypes(DTypeInference &t) {
  const BodyFlow &flow = *t.kind().flow;
  for (std::optional<uint32_t> one : {flow.countOutput, flow.decisionOutput})
    if (one) t.setOut(*one, DType::Int64);
  if (flow.countOperand) t.setIn(*flow.countOperand, DType::Int64);
  if (!t.hasFailed()) FlowInference<TypeFacts>(t).run();
}

}  // namespace gradc
