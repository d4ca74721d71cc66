// The whole problem over jets: one evaluation per element of each x. Tested by tests/differential_test.cc
#include "tests/support/jets.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;

namespace gradc::testing {
namespace {

// Where a perturbation is set: ε2 at one element, ε1 at every x of the list at once.
struct Perturbation {
  SketchEntry at;
  size_t element = 0;
};

class Evaluation {
 public:
  Evaluation(const Sketch &sketch, ArrayRef<SketchTarget> wrt) : sketch(sketch), wrt(wrt) {}

  /// d(Σ seed·y)/dε2 for the first order, d²/dε1dε2 for the second, with their bounds.
  struct Result {
    double first = 0, firstBound = 0, second = 0, secondBound = 0;
  };

  Result run(const Perturbation &moved) {
    outputs.assign(sketch.nodes.size(), {});
    for (uint32_t n = 0; n < sketch.nodes.size(); ++n) {
      evaluate(n);
      for (uint32_t o = 0; o < outputs[n].size(); ++o) perturb({n, o}, moved);
    }
    Result result;
    SmallVector<uint32_t, 4> lossesSeen;
    for (size_t h = 0; h < sketch.heads.size(); ++h) addHead(h, lossesSeen, result);
    return result;
  }

  size_t sizeOf(SketchEntry e) const { return outputs[e.node][e.output].jets.size(); }

 private:
  void evaluate(uint32_t n) {
    const SketchNode &node = sketch.nodes[n];
    if (node.op.empty()) {
      outputs[n] = {variableTensor(node)};
      return;
    }
    std::vector<JetTensor> seen;
    for (SketchEntry e : node.inputs) seen.push_back(read(e));
    SmallVector<const JetTensor *, 4> inputs;
    for (const JetTensor &tensor : seen) inputs.push_back(&tensor);
    outputs[n] = evaluateNode(node, inputs);
    assert(outputs[n].size() == node.numOutputs && "the draw took a node that cannot be evaluated");
  }

  // A stopped entry keeps nothing of what its operands did; what is asked there is asked of the entry itself.
  void perturb(SketchEntry e, const Perturbation &moved) {
    std::vector<Jet> &jets = outputs[e.node][e.output].jets;
    if (is_contained(sketch.stop, e))
      for (Jet &jet : jets) jet = jet.held();
    for (const SketchTarget &target : wrt)
      if (target.x == e)
        for (Jet &jet : jets) jet.d1 += 1, jet.b1 += 1;
    if (moved.at == e) jets[moved.element].d2 += 1, jets[moved.element].b2 += 1;
  }

  // NG-04: whoever reads a cut entry sees a constant.
  JetTensor read(SketchEntry e) const {
    JetTensor tensor = outputs[e.node][e.output];
    if (is_contained(sketch.noGrad, e))
      for (Jet &jet : tensor.jets) jet = jet.held();
    return tensor;
  }

  void addHead(size_t h, SmallVectorImpl<uint32_t> &lossesSeen, Result &result) const {
    const SketchHead &head = sketch.heads[h];
    const std::string name = seedVariable(sketch, h);
    const SketchNode &node = sketch.nodes[head.y.node];
    if (node.isLoss()) {
      // STOP-02: a loss has one gradient, whatever and however many its heads.
      if (is_contained(lossesSeen, head.y.node)) return;
      lossesSeen.push_back(head.y.node);
    }
    JetTensor y = read(head.y), seed;
    if (head.hasSeed) seed = read(head.seed);
    for (size_t i = 0; i < y.jets.size(); ++i) {
      Jet weight(1);
      if (node.isLoss()) weight = Jet(node.op == "MakeLoss" ? node.a : 1);
      else if (head.hasSeed) weight = seed.jets[i];
      else if (!name.empty()) weight = Jet(seedValue(name, i));
      const Jet &jet = y.jets[i];
      // The first order holds the head gradient; only the second sees it move.
      result.first += weight.v * jet.d2, result.firstBound += weight.bv * jet.b2;
      result.second += weight.v * jet.d12 + weight.d2 * jet.d1;
      result.secondBound += weight.bv * jet.b12 + weight.b2 * jet.b1;
    }
  }

  const Sketch &sketch;
  ArrayRef<SketchTarget> wrt;
  std::vector<std::vector<JetTensor>> outputs;
};

// ---- which errors and statuses are due, from paths alone

// Whether a gradient that is not zero by structure can come from the output of a node to its inputs.
bool passesGradient(const SketchNode &node, size_t input) {
  if (node.op == "BlockGrad" || node.op == "zeros_like" || node.op == "ones_like") return false;
  return !(node.op == "where" && input == 0);
}

// NG-06, NG-07: what reaches the y through cut entries alone is as unused as what does not reach them.
bool isConnected(const Sketch &sketch, uint32_t wanted) {
  std::vector<bool> reached(sketch.nodes.size());
  auto reach = [&](SketchEntry e) {
    if (!is_contained(sketch.noGrad, e)) reached[e.node] = true;
  };
  for (const SketchHead &head : sketch.heads) reach(head.y);
  for (uint32_t n = sketch.nodes.size(); n-- > 0;)
    if (reached[n])
      for (SketchEntry e : sketch.nodes[n].inputs) reach(e);
  return reached[wanted];
}

// P-06: whether some x reaches an operator without gradient from which some y is reached.
bool crossesNonDifferentiable(const Sketch &sketch) {
  auto isCut = [&](SketchEntry e) { return is_contained(sketch.noGrad, e); };
  auto isStopped = [&](SketchEntry e) { return is_contained(sketch.stop, e); };
  auto isAsked = [&](SketchEntry e) {
    auto is = [&](const SketchTarget &t) { return t.x == e && t.request != Request::Null; };
    return any_of(sketch.wrt, is) || any_of(sketch.retained, is);
  };
  // Bit 0: an x is below on a data path; bit 1: on one through an operator without gradient, which a gradient reaches.
  std::vector<std::vector<uint8_t>> marks(sketch.nodes.size());
  for (uint32_t n = 0; n < sketch.nodes.size(); ++n) {
    const SketchNode &node = sketch.nodes[n];
    uint8_t mark = 0;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      mark |= marks[node.inputs[i].node][node.inputs[i].output] & (passesGradient(node, i) ? 3 : 1);
    if (node.op == "test_part" && mark) mark |= 2;
    for (uint32_t o = 0; o < node.numOutputs; ++o) {
      SketchEntry e{n, o};
      uint8_t own = isStopped(e) ? 0 : mark;
      if (isAsked(e)) own |= 1;
      marks[n].push_back(isCut(e) ? 0 : own);
    }
  }
  return any_of(sketch.heads, [&](const SketchHead &h) { return marks[h.y.node][h.y.output] & 2; });
}

std::vector<SketchTarget> withoutNull(ArrayRef<SketchTarget> targets) {
  std::vector<SketchTarget> kept(targets.begin(), targets.end());
  erase_if(kept, [](const SketchTarget &t) { return t.request == Request::Null; });
  return kept;
}

}  // namespace

Expectation expectedGradients(const Sketch &sketch) {
  Expectation expected;
  std::vector<SketchTarget> wrt = withoutNull(sketch.wrt), retained = withoutNull(sketch.retained);
  for (const SketchTarget &target : wrt) {
    const bool isUsed = !is_contained(sketch.noGrad, target.x) && isConnected(sketch, target.x.node);
    const SlotStatus unused = sketch.unused == UnusedPolicy::None ? SlotStatus::None : SlotStatus::Zeros;
    expected.status.push_back(isUsed ? SlotStatus::Grad : unused);
    if (!isUsed && sketch.unused == UnusedPolicy::Error) expected.error = ErrorKind::Unreachable;
  }
  if (crossesNonDifferentiable(sketch)) expected.error = ErrorKind::NotDifferentiable;
  // H-10
  if (all_of(sketch.heads, [&](const SketchHead &h) { return is_contained(sketch.noGrad, h.y); }))
    expected.error = ErrorKind::NoLiveOutput;
  if (expected.error) return expected;

  Evaluation evaluation(sketch, wrt);
  auto gradient = [&](SketchEntry x, bool second) {
    Judged judged;
    evaluation.run({x, 0});
    for (size_t i = 0; i < evaluation.sizeOf(x); ++i) {
      Evaluation::Result at = evaluation.run({x, i});
      judged.values.push_back(second ? at.second : at.first);
      judged.bounds.push_back(second ? at.secondBound : at.firstBound);
    }
    return judged;
  };
  for (const SketchTarget &target : wrt) expected.first.push_back(gradient(target.x, false));
  for (const SketchTarget &target : retained) expected.retained.push_back(gradient(target.x, false));
  if (sketch.order > 1)
    for (const SketchTarget &target : wrt) expected.second.push_back(gradient(target.x, true));
  return expected;
}

}  // namespace gradc::testing
