// What the tape recorded as a graph: saved, read and run by a session, it computes what the tape computed.
#include "formats/json/reader.h"
#include "imperative/imperative.h"
#include "runtime/session/session.h"
#include "tests/support/runs/imperative.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using testing::Doubles;
using testing::doublesOf;
using testing::scalar;
using testing::Tape;

using Names = std::vector<std::string>;

Names variablesOf(const Graph &graph) {
  Names names;
  for (NodeId n : listInputs(graph).args) names.push_back(graph.name(n).str());
  llvm::sort(names);
  return names;
}

size_t numNodes(const Graph &graph, StringRef op) {
  size_t number = 0;
  for (uint32_t n = 0; n < graph.numNodes(); ++n) number += graph.op(NodeId(n)) && graph.op(NodeId(n))->name == op;
  return number;
}

struct Named {
  std::string name;
  Tensor value;
};

/// Head 0 of the graph once it was saved and read again, on these values of all its variables.
Doubles run(Context &context, const Graph &graph, ArrayRef<Named> values) {
  const Graph read = cantFail(readJson(context, testing::written(graph), ReadOptions())).graph;
  std::vector<NamedArray> bindings;
  for (const auto &[name, value] : values) {
    const TensorRef ref = value.ref();
    bindings.push_back({name, doubles({ref.shape.begin(), ref.shape.end()}, doublesOf(value))});
  }
  SessionOptions options;
  options.exec.backend = Backend::Reference;
  Expected<Session> session = Session::create(context, read, std::move(bindings), options);
  if (!session) return ADD_FAILURE() << toString(session.takeError()), Doubles();
  if (Error error = session->run(0)) return ADD_FAILURE() << toString(std::move(error)), Doubles();
  return valuesOf<double>(session->head(0));
}

// The implied head gradient is part of the graph, also where the tape keeps nothing of y.
TEST(ImperativeGraph, H_01_HO_01_AGradientsOnlyVariablesAreItsTensors) {
  const StringRef ops[] = {"sin", "square", "exp", "log", "sqrt", "tanh", "negative", "sum", "mean", "Flatten"};
  for (StringRef last : {"square", "sum", "mean", "Flatten"})
    for (auto [i, first] : enumerate(ops)) {
      const StringRef second = ops[(i * 3 + last.size()) % std::size(ops)];
      SCOPED_TRACE((first + " " + second + " " + last).str());
      Tape t;
      Tensor x = t.leaf({2, 2}, {0.3, 0.4, 0.5, 0.25});
      cantFail(t.im.setName(x, "x"));
      // Something that is left at the second order.
      Tensor y = t(last, {t(second, {t("square", {t(first, {t("square", {x})})})})});
      if (first == "negative" && (second == "log" || second == "sqrt")) y = t.mul(t("square", {x}), x);
      Tensor before = y;
      for (int order = 1; order <= 2; ++order) {
        const Tensor gradient = t.grad({before}, {x}, {.createGraph = true})[0];
        ASSERT_TRUE(gradient.isTracked());
        const Graph graph = cantFail(t.im.graphOf({gradient}));
        EXPECT_EQ(variablesOf(graph), (Names{"x"})) << order;
        EXPECT_EQ(run(t.context, graph, {{"x", x}}), doublesOf(gradient)) << order;
        before = gradient;
      }
    }
}

TEST(ImperativeGraph, HO_01_SinIsOneVariableAndAConstant) {
  Tape t;
  Tensor x = t.leaf({2}, {0.3, 0.4});
  const Tensor gradient = t.grad({t("sin", {x})}, {x}, {.createGraph = true})[0];
  const Graph graph = cantFail(t.im.graphOf({gradient}));
  EXPECT_EQ(variablesOf(graph), (Names{"arg0"}));
  EXPECT_EQ(numNodes(graph, "_ones_like") + numNodes(graph, "ones_like"), 1u);
  const Doubles found = run(t.context, graph, {{"arg0", x}});
  EXPECT_EQ(found, (Doubles{std::cos(0.3), std::cos(0.4)}));
}

// What was overwritten is a value like any other.
TEST(ImperativeGraph, AnOverwrittenDerivedValueIsAVariable) {
  Tape t;
  Tensor x = t.leaf({2}, {1, 2}), z = t.leaf({2}, {3, 4});
  cantFail(t.im.setName(x, "x"));
  const Tensor ones = t.grad({t.sum(x)}, {x}, {.createGraph = true})[0];
  EXPECT_FALSE(ones.isTracked());
  EXPECT_TRUE(ones.isLeaf());
  EXPECT_EQ(variablesOf(cantFail(t.im.graphOf({t.mul(z, ones)}))), (Names{"arg0", "x"}));  // of the shape of x
  cantFail(t.into("_mul_scalar", {ones}, {ones}, {{"scalar", "5"}}));
  cantFail(t.im.setName(ones, "fives"));
  const Tensor y = t.mul(z, ones);
  const Graph graph = cantFail(t.im.graphOf({y}));
  EXPECT_EQ(variablesOf(graph), (Names{"arg0", "fives"}));
  EXPECT_EQ(run(t.context, graph, {{"arg0", z}, {"fives", ones}}), (Doubles{15, 20}));
  // So is a leaf.
  const Tensor leaf = t.grad({t.sum(x)}, {x}, {.createGraph = true})[0];
  cantFail(t.im.requireGrad(leaf));
  const Tensor product = t.mul(z, leaf);
  EXPECT_EQ(variablesOf(cantFail(t.im.graphOf({product}))), (Names{"arg0", "arg1"}));
  EXPECT_EQ(doublesOf(t.grad({product}, {leaf})[0]), (Doubles{3, 4}));
}

// Nothing is held that the gradient does not read: the ones hold no history of the ys.
TEST(ImperativeGraph, OnesHoldNoHistory) {
  Tape t;
  Tensor x = t.leaf({1000}, Doubles(1000, 1)), c = t.value({1000}, Doubles(1000, 2));
  Tensor y = t.mul(t("tanh", {t.mul(x, c)}), c);
  const Tensor ones = t.grad({y}, {y}, {.createGraph = true})[0];
  y = Tensor();
  EXPECT_EQ(t.im.memoryStats().pool.keptBytes, 0u);
}

TEST(ImperativeGraph, MA_12_ANameThatComesLater) {
  Tape t;
  Tensor x = t.leaf(3), c = t.value(2), y = t.mul(x, c);
  cantFail(t.im.setName(c, "c"));
  cantFail(t.im.setName(x, "x"));
  EXPECT_EQ(variablesOf(cantFail(t.im.graphOf({y}))), (Names{"c", "x"}));
  const Tensor z = t.mul(y, c);
  EXPECT_EQ(variablesOf(cantFail(t.im.graphOf({z}))), (Names{"c", "x"}));
  const Tensor head = t.value(5), gradient = t.grad({t.mul(x, x)}, {x}, {.heads = head, .createGraph = true})[0];
  cantFail(t.im.setName(head, "head"));
  EXPECT_EQ(variablesOf(cantFail(t.im.graphOf({gradient}))), (Names{"head", "x"}));
  cantFail(t.im.setName(c, "d"));
  c = Tensor();
  EXPECT_EQ(variablesOf(cantFail(t.im.graphOf({z}))), (Names{"d", "x"}));
}

// A mark that did not count when a tensor was read; or one that came later. What the file computes is what the tape
// did.
TEST(ImperativeGraph, MA_12_OneVariableForATensorThatIsReadTrackedAndUntracked) {
  for (bool isMarkedLater : {false, true}) {
    Tape t;
    Tensor w = t.value(2), z = t.leaf(3);
    cantFail(t.im.setName(w, "w"));
    cantFail(t.im.setName(z, "z"));
    if (!isMarkedLater) cantFail(t.im.mark(w, Request::Write));
    const Tensor a = t.mul(w, z);
    if (isMarkedLater) cantFail(t.im.requireGrad(w));
    Tensor b;
    {
      RecordScope record(t.im);
      b = t.mul(a, w);
    }
    const Graph graph = cantFail(t.im.graphOf({b}));
    EXPECT_EQ(variablesOf(graph), (Names{"w", "z"}));
    EXPECT_EQ(run(t.context, graph, {{"w", w}, {"z", z}}), (Doubles{12}));
    GradientRequest request;
    for (NodeId n : listInputs(graph).args) request.wrt.push_back({Value{n}});
    GradientOptions options;
    options.gradientOnly = true;
    const Graph compiled = cantFail(buildGradient(t.context, graph, request, options)).graph;
    const std::vector<Tensor> taped = t.grad({b}, {w, z});
    EXPECT_EQ(scalar(taped[0]), 6);  // by its second use alone
    EXPECT_EQ(scalar(taped[1]), 4);
    const bool isFirst = graph.name(listInputs(graph).args[0]) == "w";
    EXPECT_EQ(run(t.context, compiled, {{"w", w}, {"z", z}}), (Doubles{isFirst ? 6.0 : 4.0}));
  }
}

TEST(ImperativeGraph, RET_08_E_13_AGraphRunsInOneForm) {
  Tape t;
  Tensor x = t.leaf({8}, Doubles(8, 1)), inTraining;
  {
    TrainScope training(t.im);
    inTraining = t("Dropout", {x});
  }
  const Tensor inPredict = t("Dropout", {x}), sum = t.add(inTraining, inPredict);
  const GradcError error = errorOf(t.im.graphOf({sum}));
  EXPECT_EQ(error.kind, ErrorKind::UnsupportedOption);
  EXPECT_NE(error.message.find("call 1 of operator 'Dropout'"), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("call 2 of operator 'Dropout'"), std::string::npos) << error.message;
  // One form, and operators that compute the same in both.
  EXPECT_EQ(t.rowOf(t.im.graphOf({inTraining})), "success");
  EXPECT_EQ(t.rowOf(t.im.graphOf({inPredict})), "success");
  EXPECT_EQ(t.rowOf(t.im.graphOf({t.times(inTraining, "2")})), "success");
  EXPECT_EQ(t.rowOf(t.im.graphOf({t.grad({t("square", {inTraining})}, {x}, {.createGraph = true})[0]})), "success");
}

}  // namespace
}  // namespace gradc
