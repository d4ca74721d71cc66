// Drawing problems from a seed. Tested by tests/differential_test.cc
#include "tests/support/jets.h"
#include "tests/support/random_graph.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <cstdio>

using namespace llvm;

namespace gradc::testing {
namespace {

// Numbers after Steele, Lea and Flood's SplitMix64, so that a seed means the same everywhere.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state(seed) {}

  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  size_t below(size_t n) { return next() % n; }
  bool chance(int percent) { return below(100) < static_cast<size_t>(percent); }
  double uniform(double low, double high) { return low + (high - low) * (static_cast<double>(next() >> 11) * 0x1p-53); }
  template <class T> const T &one(ArrayRef<T> list) { return list[below(list.size())]; }

 private:
  uint64_t state;
};

constexpr StringRef kUnary[] = {"negative", "exp", "log", "sqrt", "square", "reciprocal", "abs", "sign", "relu",
                                "sigmoid", "tanh", "softsign", "log1p", "expm1", "test_sine", "test_cosine",
                                "Activation", "_copy", "BlockGrad", "zeros_like", "ones_like", "test_square",
                                "test_split3", "transpose", "Reshape", "Flatten"};
constexpr StringRef kScalar[] = {"_plus_scalar", "_minus_scalar", "_rminus_scalar", "_mul_scalar", "_div_scalar",
                                 "_rdiv_scalar", "_power_scalar", "_maximum_scalar", "_minimum_scalar", "smooth_l1"};
constexpr StringRef kBinary[] = {"elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div", "_power", "test_ratio"};
constexpr StringRef kBroadcast[] = {"broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_div"};
constexpr StringRef kAxis[] = {"sum", "mean", "max", "softmax", "log_softmax", "reverse", "expand_dims"};
constexpr double kScalars[] = {0.5, 2, -1.5, 3, 0.25, 1, -0.75};

std::string numberText(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

class Drawer {
 public:
  explicit Drawer(uint64_t seed) : dice(seed) {}

  Sketch run() {
    drawShapes();
    const size_t numOps = dice.chance(6) ? 15 + dice.below(20) : 1 + dice.below(11);
    for (size_t i = 1 + dice.below(3); i-- > 0;) addVariable(dice.one<std::vector<int64_t>>(shapes));
    hubPercent = dice.chance(15) ? 60 : 0;
    for (size_t tries = 0, added = 0; added < numOps && tries < 20 * numOps; ++tries) added += tryAdd(proposal());
    drawHeads();
    drawTargets();
    drawSets();
    sketch.headPolicy = dice.chance(25) ? HeadPolicy::Input : HeadPolicy::Ones;
    sketch.unused = dice.chance(8) ? UnusedPolicy::Error : dice.chance(50) ? UnusedPolicy::None : UnusedPolicy::Zeros;
    sketch.order = dice.chance(50) ? 2 : 1;
    if (sketch.order == 2) keepSecondOrderDefined();
    return std::move(sketch);
  }

 private:
  // ---- the graph

  void drawShapes() {
    const std::vector<int64_t> pool[] = {{2}, {3}, {2, 3}, {3, 2}, {1, 3}, {2, 1}, {6}, {3, 3}, {2, 2}, {1}};
    for (size_t i = 1 + dice.below(2); i-- > 0;) shapes.push_back(dice.one<std::vector<int64_t>>(pool));
  }

  SketchEntry addVariable(std::vector<int64_t> shape) {
    SketchNode node;
    node.shape = shape;
    int64_t size = 1;
    for (int64_t d : shape) size *= d;
    const bool isPositive = dice.chance(50);
    for (int64_t i = 0; i < size; ++i) {
      double value = dice.uniform(0.25, 1.75);
      node.values.push_back(isPositive || dice.chance(50) ? value : -value);
    }
    values.push_back({variableTensor(node)});
    sketch.nodes.push_back(std::move(node));
    return {static_cast<uint32_t>(sketch.nodes.size() - 1), 0};
  }

  uint32_t numNodes() const { return static_cast<uint32_t>(sketch.nodes.size()); }
  const std::vector<int64_t> &shapeOf(SketchEntry e) const { return values[e.node][e.output].shape; }

  // Any entry but a loss; hidden outputs may be read, and are.
  SketchEntry anyEntry() {
    if (hubPercent && dice.chance(hubPercent)) return {0, 0};
    for (;;) {
      uint32_t n = static_cast<uint32_t>(dice.below(numNodes()));
      if (dice.chance(40)) n = numNodes() - 1 - static_cast<uint32_t>(dice.below(std::min(numNodes(), 3u)));
      if (sketch.nodes[n].isLoss()) continue;
      return {n, static_cast<uint32_t>(dice.below(sketch.nodes[n].numOutputs))};
    }
  }

  SketchEntry entryOfShape(const std::vector<int64_t> &shape) {
    if (dice.chance(8)) return addVariable(shape);
    for (int tries = 0; tries < 12; ++tries)
      if (SketchEntry e = anyEntry(); shapeOf(e) == shape) return e;
    return addVariable(shape);
  }

  SketchNode proposal() {
    SketchNode node;
    node.inputs = {anyEntry()};
    switch (dice.below(12)) {
      case 0: case 1: case 2: node.op = dice.one<StringRef>(kUnary).str(); break;
      case 3: node.op = dice.one<StringRef>(kScalar).str(); break;
      case 4: case 5: case 6:
        node.op = dice.one<StringRef>(kBinary).str();
        node.inputs.push_back(entryOfShape(shapeOf(node.inputs[0])));
        break;
      case 7: proposeBroadcast(node); break;
      case 8: proposeMany(node); break;
      case 9: node.op = dice.one<StringRef>(kAxis).str(); break;
      case 10: proposeCut(node); break;
      default: proposeRare(node); break;
    }
    setAttributes(node);
    return node;
  }

  void proposeBroadcast(SketchNode &node) {
    node.op = dice.one<StringRef>(kBroadcast).str();
    std::vector<int64_t> shape = shapeOf(node.inputs[0]);
    shape[dice.below(shape.size())] = 1;
    node.inputs.push_back(entryOfShape(shape));
    if (dice.chance(40)) std::swap(node.inputs[0], node.inputs[1]);
  }

  void proposeMany(SketchNode &node) {
    constexpr StringRef kMany[] = {"add_n", "Concat", "stack", "where"};
    node.op = dice.one<StringRef>(kMany).str();
    const size_t count = node.op == "where" ? 3 : node.op == "add_n" && dice.chance(20) ? 9 : 1 + dice.below(3);
    while (node.inputs.size() < count)
      node.inputs.push_back(dice.chance(20) ? node.inputs[0] : entryOfShape(shapeOf(node.inputs[0])));
  }

  void proposeCut(SketchNode &node) {
    constexpr StringRef kCuts[] = {"SliceChannel", "SliceChannel", "slice_axis", "repeat"};
    node.op = dice.one<StringRef>(kCuts).str();
  }

  void proposeRare(SketchNode &node) {
    const std::vector<int64_t> shape = shapeOf(node.inputs[0]);
    switch (dice.below(5)) {
      case 0: node.op = dice.chance(50) ? "make_loss" : "MakeLoss"; break;
      case 1: node.op = dice.chance(50) ? "test_part" : "clip"; break;
      case 2: node.op = "dot"; node.count = static_cast<int64_t>(dice.below(4)); [[fallthrough]];
      default:
        if (node.op.empty()) node.op = "FullyConnected";
        if (shape.size() != 2) return;
        if (node.op == "dot") return void(node.inputs.push_back(entryOfShape(dotPartner(shape, node.count))));
        const int64_t features = 1 + static_cast<int64_t>(dice.below(3));
        node.inputs.push_back(entryOfShape({features, shape[1]}));
        node.flag = dice.chance(50);
        if (!node.flag) node.inputs.push_back(entryOfShape({features}));
        node.count = features;
    }
  }

  static std::vector<int64_t> dotPartner(const std::vector<int64_t> &shape, int64_t transposes) {
    const int64_t shared = transposes & 1 ? shape[0] : shape[1];
    return transposes & 2 ? std::vector<int64_t>{2, shared} : std::vector<int64_t>{shared, 2};
  }

  void set(SketchNode &node, StringRef key, const std::string &text) { node.attrs.push_back({key.str(), text}); }

  void setAttributes(SketchNode &node) {
    const std::vector<int64_t> &shape = shapeOf(node.inputs[0]);
    const StringRef op = node.op;
    node.axis = static_cast<int64_t>(dice.below(shape.size()));
    const std::string axis = std::to_string(node.axis), flag = dice.chance(50) ? "True" : "False";
    if (is_contained(kScalar, op)) set(node, "scalar", numberText(node.a = scalarFor(op)));
    if (op == "MakeLoss") set(node, "grad_scale", numberText(node.a = dice.chance(50) ? 0.5 : 2));
    if (op == "Activation") set(node, "act_type", "softrelu");
    if (op == "clip") set(node, "a_min", numberText(node.a = -0.5)), set(node, "a_max", numberText(node.b = 0.75));
    if (op == "add_n" || op == "Concat" || op == "stack") set(node, "num_args", std::to_string(node.inputs.size()));
    if (op == "Concat") set(node, "dim", axis);
    if (is_contained({"stack", "SliceChannel", "softmax", "log_softmax", "reverse", "expand_dims", "repeat", "slice_axis"}, op))
      set(node, "axis", axis);
    if (op == "sum" || op == "mean" || op == "max") {
      node.flag = flag == "True" || shape.size() < 2;
      set(node, "axis", axis), set(node, "keepdims", node.flag ? "True" : "False");
    }
    if (op == "SliceChannel") setCut(node, shape[node.axis]);
    if (op == "repeat") set(node, "repeats", std::to_string(node.count = 2));
    if (op == "slice_axis") setSlice(node, shape[node.axis]);
    if (op == "Reshape") set(node, "shape", "(-1,)");
    if (op == "dot") {
      set(node, "transpose_a", node.count & 1 ? "True" : "False");
      set(node, "transpose_b", node.count & 2 ? "True" : "False");
    }
    if (op == "FullyConnected") {
      set(node, "num_hidden", std::to_string(node.count));
      set(node, "no_bias", node.flag ? "True" : "False");
    }
  }

  double scalarFor(StringRef op) {
    if (op == "smooth_l1") return 1;
    return dice.one<double>(kScalars);
  }

  void setCut(SketchNode &node, int64_t length) {
    node.count = length % 2 == 0 ? 2 : length;
    node.flag = node.count == length && dice.chance(30);
    set(node, "num_outputs", std::to_string(node.count));
    set(node, "squeeze_axis", node.flag ? "True" : "False");
  }

  void setSlice(SketchNode &node, int64_t length) {
    node.count = static_cast<int64_t>(dice.below(length));
    node.a = static_cast<double>(node.count + 1 + static_cast<int64_t>(dice.below(length - node.count)));
    set(node, "begin", std::to_string(node.count));
    set(node, "end", numberText(node.a));
  }

  static bool isBenign(const JetTensor &tensor) {
    return tensor.jets.size() <= 24 && tensor.shape.size() <= 3 &&
           all_of(tensor.jets, [](const Jet &jet) { return std::abs(jet.v) <= 20 && jet.bv <= 1e4; });
  }

  bool tryAdd(SketchNode node) {
    SmallVector<const JetTensor *, 4> inputs;
    for (SketchEntry e : node.inputs) inputs.push_back(&values[e.node][e.output]);
    std::vector<JetTensor> outputs = evaluateNode(node, inputs);
    if (outputs.empty() || !all_of(outputs, isBenign)) return false;
    node.numOutputs = node.numVisible = static_cast<uint32_t>(outputs.size());
    if (node.op == "test_square") node.numVisible = 1;
    if (dice.chance(8)) node.deps.push_back(static_cast<uint32_t>(dice.below(numNodes())));
    sketch.nodes.push_back(std::move(node));
    values.push_back(std::move(outputs));
    return true;
  }

  // ---- the request

  SketchEntry visibleEntry() {
    uint32_t n = static_cast<uint32_t>(dice.below(numNodes()));
    if (dice.chance(50)) n = numNodes() - 1 - static_cast<uint32_t>(dice.below(std::min(numNodes(), 3u)));
    return {n, static_cast<uint32_t>(dice.below(sketch.nodes[n].numVisible))};
  }

  bool hasOperator(StringRef op) const {
    return any_of(sketch.nodes, [&](const SketchNode &node) { return node.op == op; });
  }

  void drawHeads() {
    for (size_t i = 1 + (dice.chance(50) ? dice.below(4) : 0); i-- > 0;) {
      SketchHead head;
      head.y = !sketch.heads.empty() && dice.chance(15) ? sketch.heads[0].y : visibleEntry();
      head.shape = shapeOf(head.y);
      if (dice.chance(30)) {
        // A name may serve several y of one shape.
        head.seedName = "seed" + join(map_range(shapeOf(head.y), [](int64_t d) { return std::to_string(d); }), "_");
        if (dice.chance(70)) head.seedName += "_of_" + std::to_string(i);
      } else if (dice.chance(20) && !sketch.nodes[head.y.node].isLoss() && !hasOperator("test_part")) {
        drawSeedEntry(head);
      }
      sketch.heads.push_back(std::move(head));
    }
  }

  void drawSeedEntry(SketchHead &head) {
    for (int tries = 0; tries < 10 && !head.hasSeed; ++tries) {
      head.seed = anyEntry();
      head.hasSeed = shapeOf(head.seed) == shapeOf(head.y);
    }
  }

  // A loss has no gradient of its own that readers could agree on; hidden outputs are not for users.
  SketchEntry askable(int percentVariable) {
    for (;;) {
      SketchEntry e = visibleEntry();
      if (dice.chance(percentVariable)) e = {static_cast<uint32_t>(dice.below(numNodes())), 0};
      if (e.output > 0) return e;
      const SketchNode &node = sketch.nodes[e.node];
      if (node.isLoss() || (dice.chance(percentVariable) && !node.op.empty())) continue;
      return e;
    }
  }

  void drawTargets() {
    for (size_t i = 1 + dice.below(4); i-- > 0;) {
      SketchTarget target;
      target.x = !sketch.wrt.empty() && dice.chance(15) ? sketch.wrt[0].x : askable(70);
      target.request = dice.chance(75) ? Request::Write : dice.chance(70) ? Request::Add : Request::Null;
      sketch.wrt.push_back(target);
    }
    for (size_t i = dice.chance(30) ? 1 + dice.below(2) : 0; i-- > 0;) {
      SketchEntry e = askable(0);
      if (any_of(sketch.retained, [&](const SketchTarget &t) { return t.x == e; })) continue;
      sketch.retained.push_back({e, dice.chance(80) ? Request::Write : dice.chance(50) ? Request::Add : Request::Null});
    }
    if (all_of(sketch.wrt, [](const SketchTarget &t) { return t.request == Request::Null; }))
      sketch.wrt[0].request = Request::Write;
  }

  void drawSets() {
    for (size_t i = dice.chance(25) ? 1 + dice.below(2) : 0; i-- > 0;) sketch.stop.push_back(visibleEntry());
    for (size_t i = dice.chance(25) ? 1 + dice.below(2) : 0; i-- > 0;) sketch.noGrad.push_back(visibleEntry());
  }

  // Whether an operator's gradient reads its output or works it out anew from its inputs is its own affair. So the
  // derivative of a first-order gradient by an intermediate value is defined only where no x lies below that value.
  void keepSecondOrderDefined() {
    // A zero of the graph stays one where it is a head gradient as well (ZERO-02), x or not.
    auto isUndefined = [&](const SketchTarget &t) {
      const std::string &op = sketch.nodes[t.x.node].op;
      return op == "zeros_like" || (!op.empty() && hasAskedBelow(t.x.node));
    };
    // Node 0 is a variable, so this ends.
    for (auto at = find_if(sketch.wrt, isUndefined); at != sketch.wrt.end(); at = find_if(sketch.wrt, isUndefined))
      at->x = {0, 0};
  }

  bool hasAskedBelow(uint32_t n) const {
    std::vector<bool> below(n + 1);
    below[n] = true;
    for (uint32_t m = n + 1; m-- > 0;) {
      if (!below[m]) continue;
      if (m != n && any_of(sketch.wrt, [&](const SketchTarget &t) { return t.x.node == m; })) return true;
      for (SketchEntry e : sketch.nodes[m].inputs) below[e.node] = true;
    }
    return false;
  }

  Dice dice;
  Sketch sketch;
  std::vector<std::vector<JetTensor>> values;
  std::vector<std::vector<int64_t>> shapes;
  int hubPercent = 0;
};

}  // namespace

Sketch drawSketch(uint64_t seed) { return Drawer(seed).run(); }

double seedValue(StringRef name, size_t index) {
  uint64_t hash = 1469598103934665603u;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return Dice(hash + index).uniform(-2, 2);
}

}  // namespace gradc::testing
