// RNN: shapes both ways, refusals, projection, lengths of sequences, dropout, clipping, orders of the gradient.
//
// What MXNet 1.9.1 computes on a processor is in testdata/conformance/RNN.json, but for a projection, which it computes
// in inference alone.
#include "tests/support/ops/derivative.h"
#include "tests/support/ops/mxnet_rows.h"
#include "tests/support/ops/op_table.h"
#include "tests/support/test_graph.h"

#include "ir/graph/bodies.h"
#include "ops/sequence/rnn_cells.h"
#include "passes/gradient/gradient.h"
#include "passes/inference/infer.h"
#include "passes/lowering/lower_to.h"
#include "passes/gradient/higher_order/higher_order.h"

#include <cmath>
#include <gtest/gtest.h>
#include <set>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;
using Numbers = std::vector<double>;

std::vector<AttrText> rnn(StringRef mode, std::initializer_list<AttrText> more = {}) {
  std::vector<AttrText> attrs = {{"state_size", "2"}, {"num_layers", "1"}, {"mode", mode}};
  attrs.insert(attrs.end(), more);
  return attrs;
}

TEST(Rnn, INF_04_ShapesBothWays) {
  EXPECT_EQ(inferShapes("RNN", rnn("gru"), "(5,3,4) ? ? -> ?"), "(5,3,4) (48,) (1,3,2) -> (5,3,2)");
  EXPECT_EQ(inferShapes("RNN", rnn("gru"), "? (48,) (?,3,?) -> (5,?,?)"), "(5,3,4) (48,) (1,3,2) -> (5,3,2)");
  EXPECT_EQ(inferShapes("RNN", rnn("rnn_tanh", {{"bidirectional", "True"}, {"use_sequence_length", "True"}}),
                        "(5,?,4) ? ? (3,) -> ?"),
            "(5,3,4) (32,) (2,3,2) (3,) -> (5,3,4)");
  EXPECT_EQ(inferShapes("RNN", rnn("lstm", {{"state_outputs", "True"}, {"projection_size", "1"}}),
                        "? (50,) ? ? -> ? ? (1,7,2)"),
            "(?,7,3) (50,) (1,7,1) (1,7,2) -> (?,7,1) (1,7,1) (1,7,2)");
}

TEST(Rnn, E_50_RefusedShapes) {
  EXPECT_EQ(inferShapes("RNN", rnn("gru"), "(5,3) ? ? -> ?"), "input 0 has shape (5,3), expected (?,?,?)");
  EXPECT_EQ(inferShapes("RNN", rnn("gru"), "(5,3,0) ? ? -> ?"),
            "data of shape (5,3,0) has no features, expected at least one");
  EXPECT_EQ(inferShapes("RNN", rnn("gru"), "(5,3,4) (47,) ? -> ?"), "input 1 has shape (47,), expected (48,)");
  EXPECT_EQ(inferShapes("RNN", rnn("gru"), "? (47,) ? -> ?"), "parameters have 47 elements, which fits no input size");
  EXPECT_EQ(inferShapes("RNN", rnn("gru"), "? (11,) ? -> ?"), "parameters have 11 elements, which fits no input size");
  EXPECT_EQ(inferShapes("RNN", rnn("gru"), "(5,3,4) ? (2,3,2) -> ?"), "input 2 has shape (2,3,2), expected (1,3,2)");
  EXPECT_EQ(inferShapes("RNN", {{"state_size", "1048576"}, {"num_layers", "1"}, {"mode", "lstm"}},
                        "(1,1,1099511627776) ? ? ? -> ?"),
            "input 1 would have the shape (out of range,), expected dimensions from 0 and at most 2^48 elements");
  EXPECT_EQ(inferShapes("_backward_RNN", rnn("gru", {{"use_sequence_length", "True"}}), "(5,3,4) ? ? ? ? -> ? ? ?"),
            "has no input of the lengths of sequences");
}

TEST(Rnn, BadAttributes) {
  auto refused = [](StringRef mode, std::initializer_list<AttrText> more) {
    TestContext context;
    Expected<KindRef> kind = context.kind(*context.ops.find("RNN"), context.attrs(ArrayRef<AttrText>(rnn(mode, more))));
    return describeError(std::move(kind));
  };
  EXPECT_EQ(refused("lstm", {}), "success");
  EXPECT_NE(refused("elman", {}).find("mode"), std::string::npos);
  for (StringRef size : {"2147483647", "16777216"})
    EXPECT_EQ(refused("lstm", {{"state_size", size}}),
              "[bad_attribute] attributes 'state_size' and 'num_layers' ask for more than 2^48 parameters");
  EXPECT_EQ(refused("lstm", {{"num_layers", "256"}}), "success");
  EXPECT_EQ(refused("lstm", {{"num_layers", "257"}}),
            "[bad_attribute] attribute 'num_layers' is \"257\", expected int from 1 to 256");
  EXPECT_EQ(refused("lstm", {{"p", "1"}}), "[bad_attribute] attribute 'p' is 1, expected less than 1");
  EXPECT_EQ(refused("gru", {{"projection_size", "1"}}),
            "[bad_attribute] attribute 'projection_size' is for mode lstm, and mode is gru");
  EXPECT_EQ(refused("lstm", {{"projection_size", "3"}}),
            "[bad_attribute] attribute 'projection_size' is 3, expected at most 'state_size', 2");
  EXPECT_EQ(refused("rnn_relu", {{"lstm_state_clip_min", "0"}, {"lstm_state_clip_max", "1"}}),
            "[bad_attribute] attributes 'lstm_state_clip_min' and 'lstm_state_clip_max' are for mode lstm, and mode is "
            "rnn_relu");
  EXPECT_EQ(
      refused("lstm", {{"lstm_state_clip_min", "0"}}),
      "[bad_attribute] attributes 'lstm_state_clip_min' and 'lstm_state_clip_max' are given together or not at all");
  EXPECT_EQ(refused("lstm", {{"lstm_state_clip_min", "1"}, {"lstm_state_clip_max", "0"}}),
            "[bad_attribute] attribute 'lstm_state_clip_min' exceeds 'lstm_state_clip_max'");
}

// Values of MXNet 1.9.1 in inference, in single precision.
TEST(Rnn, RUN_02_Projection) {
  TestGraph g("y = RNN(x, w, h, c) {state_size=2, num_layers=1, mode=lstm, state_outputs=True, projection_size=1};"
              "heads y, y:1, y:2");
  const Numbers parameters = {-0.375, 0,     0.75,  0.75,  -0.75, -0.625, -0.875, -0.125, -1,     -0.125, 0.25,  -0.5,
                              0.375,  0.125, -1,    0.125, -0.5,  -0.125, -0.375, 0.375,  -0.125, -0.625, 0.125, 0.5,
                              -0.375, -0.5,  -0.25, 0.875, 1,     0.375,  0.75,   0.75,   -0.25,  -0.875};
  const std::vector<Array> found = evaluate(g, {{"x", Array({2, 1, 1}, {0.125, 0.375})},
                                                {"w", Array({34}, parameters)},
                                                {"h", Array({1, 1, 1}, {0.25})},
                                                {"c", Array({1, 1, 2}, {0.125, -0.25})}});
  expectClose(found[0].values, {-0.05120881, -0.07084964}, 1e-7);
  expectClose(found[1].values, {-0.07084964}, 1e-7);
  expectClose(found[2].values, {0.39222956, 0.87177324}, 1e-7);
}

// One unit of state 1 and parameters 1: the same numbers as sequences of their own.
TEST(Rnn, RUN_02_LengthsOfSequences) {
  const std::string attrs = "state_size=1, num_layers=1, mode=gru, bidirectional=True, state_outputs=True";
  Numbers parameters;
  for (int i = 0; i < 24; ++i) parameters.push_back(std::sin(i));
  auto run = [&](int64_t time, Numbers x, bool withLength) {
    TestGraph g("y = RNN(x, w, h" + std::string(withLength ? ", n" : "") + ") {" + attrs +
                (withLength ? ", use_sequence_length=True" : "") + "}; heads y, y:1");
    Bindings bindings{
        {"x", Array({time, 1, 1}, x)}, {"w", Array({24}, parameters)}, {"h", Array({2, 1, 1}, {0.5, -0.3})}};
    if (withLength) bindings["n"] = Array({1}, {2.9});
    return evaluate(g, bindings);
  };
  const std::vector<Array> whole = run(2, {0.7, -0.4}, false), cut = run(4, {0.7, -0.4, 3, NAN}, true);
  Numbers padded = whole[0].values;
  padded.resize(8, 0);
  EXPECT_EQ(cut[0].values, padded) << "0 beyond the end, where data is not read";
  EXPECT_EQ(cut[1].values, whole[1].values);
}

// h = o·tanh(c) at states beyond the bounds.
TEST(Rnn, RUN_02_ClippedCells) {
  auto cellOf = [](double start, const std::string &more) {
    TestGraph g(
        "y = RNN(x, w, h, c) {state_size=1, num_layers=1, mode=lstm, state_outputs=True, lstm_state_clip_min=-0.5,"
        "lstm_state_clip_max=2" +
        more + "}; heads y:2");
    Numbers forgetsNothing(16, 0);
    forgetsNothing[9] = 100;  // the bias of the second gate
    return evaluate(g, {{"x", Array({1, 1, 1}, {0})},
                        {"w", Array({16}, forgetsNothing)},
                        {"h", Array({1, 1, 1}, {0})},
                        {"c", Array({1, 1, 1}, {start})}})[0]
        .values[0];
  };
  EXPECT_EQ(cellOf(5, ""), 2);
  EXPECT_EQ(cellOf(1, ""), 1);
  EXPECT_EQ(cellOf(-5, ""), -0.5);
  EXPECT_TRUE(std::isnan(cellOf(NAN, "")));
  EXPECT_EQ(cellOf(NAN, ", lstm_state_clip_nan=True"), -0.5);
}

size_t nestedNodes(const Graph &graph) {
  size_t count = 0;
  for (const NestedGraph &nested : nestedGraphs(graph)) count += nested.graph.numNodes();
  return count;
}

Bindings ones(std::initializer_list<std::pair<const char *, std::vector<int64_t>>> shapes) {
  Bindings bindings;
  uint64_t stream = 0;
  for (const auto &[name, shape] : shapes) {
    int64_t size = 1;
    for (int64_t dim : shape) size *= dim;
    Numbers values;
    for (int64_t i = 0; i < size; ++i) values.push_back(drawNumber(stream, static_cast<uint64_t>(i)));
    ++stream;
    bindings[name] = Array(shape, values);
  }
  return bindings;
}

TEST(Rnn, RUN_02_DropoutBetweenLayers) {
  TestGraph g("y = RNN(x, w, h) {state_size=2, num_layers=2, mode=rnn_tanh, p=0.5}");
  const Bindings bindings = ones({{"x", {3, 2, 2}}, {"w", {24}}, {"h", {2, 2, 2}}});
  NaiveOptions training, inference;
  inference.isTraining = false;
  TestGraph without("y = RNN(x, w, h) {state_size=2, num_layers=2, mode=rnn_tanh}");
  auto values = [&](const Graph &graph, const NaiveOptions &options) {
    return cantFail(NaiveRun::run(graph, bindings, options)).heads()[0].values;
  };
  EXPECT_EQ(values(g, inference), values(without, training));
  EXPECT_NE(values(g, training), values(without, training));
  // The gradient is that of what was drawn.
  DerivativeOptions options;
  options.orders = 1;
  EXPECT_EQ(checkDerivatives(g.context, g, {"x", "w", "h"}, bindings, options).problems, std::vector<std::string>());
}

// Each output of the last layer counts the elements of the first one that were kept, times 2.
TEST(Rnn, RUN_02_DropoutIsScaled) {
  TestGraph g("y = RNN(x, w, h) {state_size=1, num_layers=2, mode=rnn_relu, p=0.5}");
  const Array x({1, 2000, 1}, Numbers(2000, 1)), h({2, 2000, 1}, Numbers(4000, 0));
  const Bindings bindings{{"x", x}, {"w", Array({8}, {1, 0, 1, 0, 0, 0, 0, 0})}, {"h", h}};
  size_t numKept = 0;
  const std::vector<Array> outputs = evaluate(g, bindings);
  for (double y : outputs[0].values) {
    EXPECT_TRUE(y == 0 || y == 2) << y;
    numKept += y == 2;
  }
  EXPECT_NEAR(static_cast<double>(numKept), 1000, 150);
}

// Loops in place of steps: as many nodes for any length.
TEST(Rnn, HO_01_NodesDoNotGrowWithSteps) {
  std::set<size_t> numNodes;
  for (const char *shape : {"(1,1,2)", "(10,1,2)", "(1000000,1,2)", "(2147483648,1,2)"}) {
    TestGraph g(std::string("x = var {__shape__=") + shape +
                "}; y = RNN(x, w, h, n) {state_size=1, num_layers=2, mode=gru, bidirectional=True,"
                "use_sequence_length=True}");
    const Inference known = cantFail(infer(g.context, g, {}, InferOptions()));
    GradientOptions options;
    options.inference = &known;
    const Graph gradient = cantFail(buildGradientOfOrder(g.context, g, wrt(g, {"x", "w"}), options, 2)).graph;
    numNodes.insert(nestedNodes(gradient));
    const Inference all = cantFail(infer(g.context, gradient, {}, InferOptions()));
    numNodes.insert(nestedNodes(cantFail(lowerTo(g.context, gradient, kPrimitivesTarget, &all))));
  }
  EXPECT_EQ(numNodes.size(), 2u);
}

// Not even how many features data has, which sizes the first layer's matrices.
TEST(Rnn, HO_01_NoSizeHasToBeKnown) {
  for (StringRef mode : enumNames(RnnMode())) {
    TestGraph g(("y = RNN(x, w, h" + std::string(mode == "lstm" ? ", c" : "") +
                 ") {state_size=2, num_layers=2, bidirectional=True, mode=" + mode + "}")
                    .str());
    EXPECT_EQ(describeError(buildGradientOfOrder(g.context, g, wrt(g, {"x", "w"}), GradientOptions(), 3)), "success");
    EXPECT_EQ(describeError(lowerTo(g.context, g, kPrimitivesTarget, nullptr)), "success");
  }
}

TEST(Rnn, HO_01_DropoutHasOneOrder) {
  TestGraph g("y = RNN(x, w, h) {state_size=1, num_layers=2, mode=gru, p=0.5}");
  const Bindings bindings = ones({{"x", {2, 1, 1}}, {"w", {24}}, {"h", {2, 1, 1}}});
  const Inference known = cantFail(infer(g.context, g, hintsOf(g, bindings), InferOptions()));
  GradientOptions options;
  options.inference = &known;
  EXPECT_EQ(describeError(buildGradientOfOrder(g.context, g, wrt(g, {"x"}), options, 2)),
            "[unsupported_option] the decomposition of operator '_backward_RNN' repeats the draws of its forward node, "
            "which no other operator can");
}

}  // namespace
}  // namespace gradc
