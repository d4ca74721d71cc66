// The whole problem over jets: one evaluation per element of each x. Tested by tests/networks/differential_test.cc
#include "tests/support/drawn/jets.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;

namespace gradc::testing {

int64_t sizeOf(ArrayRef<int64_t> shape) {
  int64_t size = 1;
  for (int64_t d : shape) size *= d;
  return size;
}
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
    values = SketchValues();
    for (uint32_t n = 0; n < sketch.nodes.size(); ++n) {
      // NG-04: whoever reads a cut entry sees a constant.
      [[maybe_unused]] bool isAdded =
          values.add(sketch.nodes[n], [&](SketchEntry e) { return is_contained(sketch.noGrad, e); });
      assert(isAdded && "the draw took a node that cannot be evaluated");
      for (uint32_t o = 0; o < sketch.nodes[n].numOutputs; ++o) perturb({n, o}, moved);
    }
    Result result;
    SmallVector<uint32_t, 4> lossesSeen;
    for (size_t h = 0; h < sketch.heads.size(); ++h) addHead(h, lossesSeen, result);
    return result;
  }

  size_t sizeOf(SketchEntry e) const { return values.at(e).jets.size(); }
  Judged latest(uint32_t state) const {
    Judged judged;
    for (const Jet &jet : values.at({state, 0, values.latestVersion(state)}).jets)
      judged.values.push_back(jet.v), judged.bounds.push_back(jet.bv);
    return judged;
  }

 private:
  // A stopped entry has no derivatives through its operands; gradients requested there are by the entry itself.
  void perturb(SketchEntry e, const Perturbation &moved) {
    JetTensor &tensor = values.outputsOf(e.node)[e.output];
    std::vector<Jet> &jets = tensor.jets;
    if (is_contained(sketch.stop, e)) tensor.hold();
    for (const SketchTarget &target : wrt)
      if (target.x == e)
        for (Jet &jet : jets) jet.d1 += 1, jet.b1 += 1;
    if (moved.at == e && moved.element < jets.size()) jets[moved.element].d2 += 1, jets[moved.element].b2 += 1;
  }

  JetTensor read(SketchEntry e) const {
    JetTensor tensor = values.at(e);
    if (is_contained(sketch.noGrad, e)) tensor.hold();
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
  SketchValues values;
};

}  // namespace

Expectation expectedGradients(const Sketch &sketch) {
  Expectation expected;
  expected.error = expectedError(sketch);
  expected.status = expectedStatus(sketch);
  if (expected.error) return expected;

  std::vector<SketchTarget> wrt = withoutNull(sketch.wrt), retained = withoutNull(sketch.retained);
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
  for (uint32_t n = 0; n < sketch.nodes.size(); ++n)
    if (sketch.nodes[n].isState) expected.states.push_back(evaluation.latest(n));
  return expected;
}

}  // namespace gradc::testing
