// Nodes are proposed, evaluated, and taken where that went well. Tested by tests/networks/differential_test.cc
#include "tests/support/drawn/draw_graph.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;

namespace gradc::testing {
namespace {

constexpr StringRef kUnary[] = {"negative",  "exp",        "log",       "sqrt",        "square",      "reciprocal",
                                "abs",       "sign",       "relu",      "sigmoid",     "tanh",        "softsign",
                                "log1p",     "expm1",      "test_sine", "test_cosine", "Activation",  "_copy",
                                "BlockGrad", "zeros_like", "ones_like", "test_square", "test_split3", "transpose",
                                "Reshape",   "Flatten"};
constexpr StringRef kScalar[] = {"_plus_scalar", "_minus_scalar", "_rminus_scalar",  "_mul_scalar",     "_div_scalar",
                                 "_rdiv_scalar", "_power_scalar", "_maximum_scalar", "_minimum_scalar", "smooth_l1"};
constexpr StringRef kBinary[] = {"elemwise_add", "elemwise_sub", "elemwise_mul",
                                 "elemwise_div", "_power",       "test_ratio"};
constexpr StringRef kBroadcast[] = {"broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_div"};
constexpr StringRef kAxis[] = {"sum", "mean", "max", "softmax", "log_softmax", "reverse", "expand_dims"};
constexpr StringRef kCuts[] = {"SliceChannel", "SliceChannel", "slice_axis", "repeat"};
constexpr StringRef kOverwriting[] = {"test_accumulate", "test_scale", "test_scale",
                                      "BatchNorm",       "BatchNorm",  "sgd_mom_update"};
constexpr StringRef kInteger[] = {"Cast", "Cast", "Embedding", "_greater", "where", "elemwise_mul"};

std::vector<int64_t> dotPartner(ArrayRef<int64_t> shape, int64_t transposes) {
  const int64_t shared = transposes & 1 ? shape[0] : shape[1];
  return transposes & 2 ? std::vector<int64_t>{2, shared} : std::vector<int64_t>{shared, 2};
}

bool holdsNothing(SketchEntry) { return false; }

}  // namespace

void GraphDrawer::run() {
  drawShapes();
  const size_t numOps = dice.chance(6) ? 15 + dice.below(20) : 1 + dice.below(11);
  for (size_t i = 1 + dice.below(3); i-- > 0;) addVariable(dice.one<std::vector<int64_t>>(shapes));
  flowPercent = flowDepth ? 25 : 0;
  hubPercent = dice.chance(15) ? 60 : 0;
  statePercent = dice.chance(25) ? 30 : 0;
  integerPercent = dice.chance(20) ? 30 : 0;
  for (size_t tries = 0, added = 0; added < numOps && tries < 20 * numOps; ++tries) added += tryAdd(proposal());
  forgetUnwritten();
}

// Not every proposal was taken.
void GraphDrawer::forgetUnwritten() {
  for (uint32_t n = 0; n < numNodes(); ++n)
    if (sketch.nodes[n].isState) sketch.nodes[n].isState = values.latestVersion(n) > 0;
}

void GraphDrawer::drawShapes() {
  const std::vector<int64_t> pool[] = {{2}, {3}, {2, 3}, {3, 2}, {1, 3}, {2, 1}, {6}, {3, 3}, {2, 2}, {1}};
  for (size_t i = 1 + dice.below(2); i-- > 0;) shapes.push_back(dice.one<std::vector<int64_t>>(pool));
}

SketchEntry GraphDrawer::addNode(SketchNode node) {
  [[maybe_unused]] bool isAdded = values.add(node, holdsNothing);
  sketch.nodes.push_back(std::move(node));
  accesses.emplace_back();
  return {numNodes() - 1, 0};
}

SketchEntry GraphDrawer::addVariable(std::vector<int64_t> shape) {
  SketchNode node;
  node.shape = std::move(shape);
  const bool isPositive = dice.chance(50);
  for (int64_t i = 0, size = sizeOf(node.shape); i < size; ++i) {
    double value = dice.uniform(0.25, 1.75);
    node.values.push_back(isPositive || dice.chance(50) ? value : -value);
  }
  return addNode(std::move(node));
}

SketchEntry GraphDrawer::addInteger(std::vector<int64_t> shape) {
  SketchNode node;
  node.shape = std::move(shape);
  node.isInteger = true;
  for (int64_t i = 0, size = sizeOf(node.shape); i < size; ++i)
    node.values.push_back(static_cast<double>(dice.below(4)));
  return addNode(std::move(node));
}

// A state of the shape, at the version a node that overwrites it makes.
SketchEntry GraphDrawer::someState(const std::vector<int64_t> &shape) {
  SmallVector<uint32_t, 4> known;
  for (uint32_t n = 0; n < numNodes(); ++n)
    if (sketch.nodes[n].isState && sketch.nodes[n].shape == shape) known.push_back(n);
  if (!known.empty() && dice.chance(70)) {
    const uint32_t n = dice.one<uint32_t>(known);
    return {n, 0, values.latestVersion(n) + 1};
  }
  SketchNode node;
  node.shape = shape;
  node.isState = true;
  for (int64_t i = 0, size = sizeOf(shape); i < size; ++i) node.values.push_back(dice.uniform(0.25, 1.75));
  return {addNode(std::move(node)).node, 0, 1};
}

SketchEntry GraphDrawer::readState(uint32_t n) {
  const uint32_t latest = values.latestVersion(n);
  if (!sketch.hasVersions || dice.chance(50)) return {n, 0, latest};
  return {n, 0, static_cast<uint32_t>(dice.below(latest + 1))};
}

SketchEntry GraphDrawer::anyEntry() {
  if (hubPercent && dice.chance(hubPercent)) return {0, 0};
  for (;;) {
    uint32_t n = static_cast<uint32_t>(dice.below(numNodes()));
    if (dice.chance(40)) n = numNodes() - 1 - static_cast<uint32_t>(dice.below(std::min(numNodes(), 3u)));
    const SketchNode &node = sketch.nodes[n];
    if (node.isLoss() || node.isCount || at({n, 0}).jets.empty()) continue;
    if (node.isState) return readState(n);
    // What batch norm hides is for its gradient.
    const SketchEntry e{n, node.op == "BatchNorm" ? 0 : static_cast<uint32_t>(dice.below(node.numOutputs))};
    if (!at(e).jets.empty()) return e;
  }
}

SketchEntry GraphDrawer::entryOfShape(const std::vector<int64_t> &shape) {
  if (dice.chance(8)) return addVariable(shape);
  for (int tries = 0; tries < 12; ++tries)
    if (SketchEntry e = anyEntry(); shapeOf(e) == shape) return e;
  return addVariable(shape);
}

SketchNode GraphDrawer::proposal() {
  SketchNode node;
  if (flowPercent && dice.chance(flowPercent))
    if (std::optional<SketchNode> flow = flowProposal()) return std::move(*flow);
  node.inputs = {anyEntry()};
  if (statePercent && dice.chance(statePercent)) proposeOverwriting(node);
  else if (integerPercent && dice.chance(integerPercent)) proposeInteger(node);
  else propose(node);
  setAttributes(dice, node, shapeOf(node.inputs[0]));
  return node;
}

void GraphDrawer::propose(SketchNode &node) {
  switch (dice.below(12)) {
    case 0:
    case 1:
    case 2: node.op = dice.one<StringRef>(kUnary).str(); break;
    case 3: node.op = dice.one<StringRef>(kScalar).str(); break;
    case 4:
    case 5:
    case 6:
      node.op = dice.one<StringRef>(kBinary).str();
      node.inputs.push_back(entryOfShape(shapeOf(node.inputs[0])));
      break;
    case 7: proposeBroadcast(node); break;
    case 8: proposeMany(node); break;
    case 9: node.op = dice.one<StringRef>(kAxis).str(); break;
    case 10: node.op = dice.one<StringRef>(kCuts).str(); break;
    default: proposeRare(node); break;
  }
}

void GraphDrawer::proposeBroadcast(SketchNode &node) {
  node.op = dice.one<StringRef>(kBroadcast).str();
  std::vector<int64_t> shape = shapeOf(node.inputs[0]);
  shape[dice.below(shape.size())] = 1;
  node.inputs.push_back(entryOfShape(shape));
  if (dice.chance(40)) std::swap(node.inputs[0], node.inputs[1]);
}

void GraphDrawer::proposeMany(SketchNode &node) {
  constexpr StringRef kMany[] = {"add_n", "Concat", "stack", "where"};
  node.op = dice.one<StringRef>(kMany).str();
  const size_t count = node.op == "where" ? 3 : node.op == "add_n" && dice.chance(20) ? 9 : 1 + dice.below(3);
  while (node.inputs.size() < count)
    node.inputs.push_back(dice.chance(20) ? node.inputs[0] : entryOfShape(shapeOf(node.inputs[0])));
}

void GraphDrawer::proposeRare(SketchNode &node) {
  switch (dice.below(5)) {
    case 0: node.op = dice.chance(50) ? "make_loss" : "MakeLoss"; break;
    case 1: node.op = dice.chance(50) && !flowDepth ? "test_part" : "clip"; break;
    case 2:
      node.op = "dot";
      node.count = static_cast<int64_t>(dice.below(4));
      proposeMatrix(node);
      break;
    default:
      node.op = "FullyConnected";
      proposeMatrix(node);
      break;
  }
}

void GraphDrawer::proposeMatrix(SketchNode &node) {
  const std::vector<int64_t> shape = shapeOf(node.inputs[0]);
  if (shape.size() != 2) return;
  if (node.op == "dot") return void(node.inputs.push_back(entryOfShape(dotPartner(shape, node.count))));
  const int64_t features = 1 + static_cast<int64_t>(dice.below(3));
  node.inputs.push_back(entryOfShape({features, shape[1]}));
  node.flag = dice.chance(50);
  if (!node.flag) node.inputs.push_back(entryOfShape({features}));
  node.count = features;
}

// Batch norm and the optimizer read nothing they overwrite: their kernels need not be ready for that.
void GraphDrawer::proposeOverwriting(SketchNode &node) {
  std::vector<int64_t> shape = shapeOf(node.inputs[0]);
  const bool isMatrix = shape.size() >= 2;
  do node.op = dice.one<StringRef>(kOverwriting).str();
  while ((node.op == "BatchNorm" && !isMatrix) || (node.op == "sgd_mom_update" && flowDepth));
  const bool isFree = node.op == "test_accumulate" || node.op == "test_scale";
  if (node.op == "BatchNorm") shape = {shape[1]};
  for (size_t i = isFree ? 0 : node.op == "BatchNorm" ? 2 : 1; i > 0; --i) {
    SketchEntry e = entryOfShape(shape);
    node.inputs.push_back(sketch.nodeOf(e).isState ? addVariable(shape) : e);
  }
  if (!isFree && sketch.nodeOf(node.inputs[0]).isState) node.inputs[0] = addVariable(shapeOf(node.inputs[0]));
  node.inputs.push_back(someState(shape));
  if (node.op != "BatchNorm") return;
  node.count = sketch.isTraining;
  do node.inputs.resize(4), node.inputs.push_back(someState(shape));
  while (node.inputs[3].node == node.inputs[4].node);
}

// Under the permissive policy no gradient goes where it would be cut to whole numbers.
void GraphDrawer::proposeInteger(SketchNode &node) {
  node.op = dice.one<StringRef>(kInteger).str();
  const std::vector<int64_t> shape = shapeOf(node.inputs[0]);
  auto number = [&] {
    for (int tries = 0; tries < 6; ++tries)
      if (SketchEntry e = anyEntry(); at(e).isInteger && shapeOf(e) == shape) return e;
    return addInteger(shape);
  };
  if (node.op == "Cast") {
    if (dice.chance(50)) node.inputs = {number()};
    node.count = !at(node.inputs[0]).isInteger && sketch.integers == IntegerPolicy::Stop && dice.chance(80);
  } else if (node.op == "Embedding") {
    const int64_t rows = 1 + static_cast<int64_t>(dice.below(3)), columns = 1 + static_cast<int64_t>(dice.below(3));
    node.inputs = {number(), entryOfShape({rows, columns})};
    node.attrs = {{"input_dim", std::to_string(rows)}, {"output_dim", std::to_string(columns)}};
  } else if (node.op == "where") {
    node.inputs = {number(), entryOfShape(shape), entryOfShape(shape)};
  } else if (node.op == "elemwise_mul") {
    node.inputs = {number(), number()};
  } else {
    node.inputs.push_back(at(node.inputs[0]).isInteger ? number() : entryOfShape(shape));
  }
}

bool GraphDrawer::tryAdd(SketchNode node) {
  if (!values.add(node, holdsNothing)) return false;
  std::vector<JetTensor> &outputs = values.outputsOf(numNodes() - 1);
  bool isUsable = all_of(outputs, isBenign);
  for (size_t i = 0; i < node.inputs.size(); ++i)
    isUsable = isUsable && (!node.overwrites(i) || isBenign(at(node.inputs[i])));
  if (!isUsable) return values.removeLast(node), false;
  node.numOutputs = node.numVisible = static_cast<uint32_t>(outputs.size());
  if (node.op == "test_square" || node.op == "BatchNorm") node.numVisible = 1;
  if (dice.chance(8)) node.deps.push_back(static_cast<uint32_t>(dice.below(numNodes() - 1)));
  waitForStates(node);
  sketch.nodes.push_back(std::move(node));
  accesses.emplace_back();
  return true;
}

// Without versions the order of the nodes counts, and it is these dependencies that keep it.
void GraphDrawer::waitForStates(SketchNode &node) {
  if (sketch.hasVersions) return;
  const uint32_t self = numNodes() - 1;
  auto wait = [&](ArrayRef<uint32_t> nodes) {
    for (uint32_t n : nodes)
      if (n != self && !is_contained(node.deps, n)) node.deps.push_back(n);
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!sketch.nodeOf(node.inputs[i]).isState) continue;
    Accesses &state = accesses[node.inputs[i].node];
    wait(state.write);
    if (!node.overwrites(i)) {
      state.reads.push_back(self);
      continue;
    }
    wait(state.reads);
    state = {{self}, {}};
  }
}

}  // namespace gradc::testing
