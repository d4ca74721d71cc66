// Filters in tiles between the steps of a session: which ones are, what somebody who looks at them sees, training.
#include "runtime/arrays/npz_reader.h"
#include "runtime/kernels/dnnl/weight_reorder.h"

#include "runtime/kernels/kernel_set.h"
#include "runtime/training/trainer.h"
#include "tests/support/runs/training.h"
#include "tests/support/tensors.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

#include <dnnl.hpp>

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using gradc::testing::advance;
using gradc::testing::bytesOf;
using gradc::testing::describeError;
using gradc::testing::nodeNamed;
using gradc::testing::openTrainer;
using gradc::testing::TestGraph;
using Floats = std::vector<float>;

/// Tiles are for processors with vectors of sixteen numbers.
bool hasTiles() {
  constexpr int kWanted = static_cast<int>(dnnl::cpu_isa::avx512_core);
  return (static_cast<int>(dnnl::get_effective_cpu_isa()) & kWanted) == kWanted;
}

class FilterTiles : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!hasTiles()) GTEST_SKIP() << "no filter is in tiles: the processor has no vectors of sixteen numbers";
  }
};

Graph gradientOf(TestGraph &g, Request request) {
  GradientRequest all;
  for (const GradientTarget &target : allTargets(g, nullptr).targets) all.wrt.push_back({target.x, request});
  return cantFail(buildGradient(g.context, g, all, {})).graph;
}

SessionOptions optionsFor(const Graph &graph, std::vector<int64_t> data) {
  SessionOptions options;
  options.hints.shapes.push_back({nodeNamed(graph, "data"), DimsBuffer(data.begin(), data.end())});
  options.initSeed = 1;
  options.exec.isTraining = true;
  options.exec.threads = 2;
  return options;
}

Session open(const Graph &graph, const SessionOptions &options) {
  Expected<Session> session = Session::create(testing::testContext(), graph, {}, options);
  if (!session) report_fatal_error(Twine(describeError(session.takeError())));
  return std::move(*session);
}

/// The first array that differs by more than `tolerance` of its largest element.
std::string difference(ArrayRef<NamedArray> found, ArrayRef<NamedArray> expected, float tolerance) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const Floats a = valuesOf<float>(found[i].array), b = valuesOf<float>(expected[i].array);
    if (found[i].name != expected[i].name || a.size() != b.size()) return found[i].name + " is another array";
    float scale = 0;
    for (float value : b) scale = std::max(scale, std::abs(value));
    for (size_t k = 0; k < b.size(); ++k)
      if (!(std::abs(a[k] - b[k]) <= tolerance * scale)) return found[i].name + " at " + std::to_string(k);
  }
  return found.size() == expected.size() ? "" : "another number of arrays";
}

// ---- which filters are tiles

struct Case {
  const char *what, *net;
  std::vector<std::string> tiled;  // variables in tiles
};

constexpr char kPlainConv[] = "{kernel=(3,3), pad=(1,1), num_filter=16, no_bias=True}";

std::vector<Case> cases() {
  return {
      {"two layers", "a = Convolution(data, v) $; r = relu(a); y = Convolution(r, w) $", {"v", "w"}},
      {"a bias", "y = Convolution(data, w, b) {kernel=(3,3), pad=(1,1), num_filter=16}", {"w"}},
      {"not whole tiles",
       "a = Convolution(data, v) {kernel=(3,3), num_filter=20, no_bias=True};"
       "y = Convolution(a, w) $",
       {}},
      {"groups", "y = Convolution(data, w) {kernel=(3,3), num_filter=32, num_group=2, no_bias=True}", {}},
      {"shared by two convolutions", "a = Convolution(data, w) $; y = Convolution(a, w) $", {"w"}},
      {"a head", "y = Convolution(data, w) $; heads y, w", {"w"}},
      {"computed by elements", "u = elemwise_mul(w, v); t = square(u); y = Convolution(data, t) $", {"v", "w"}},
      {"decayed", "y = Convolution(data, w) $; q = square(w); z = sum(q); heads y, z", {}},
      {"read in another shape", "y = Convolution(data, w) $; z = Reshape(w) {shape=(16,-1)}; heads y, z", {}},
      {"reshaped to rank four", "y = Convolution(data, w) $; z = Reshape(w) {shape=(3,3,16,16)}; heads y, z", {}},
      {"one tap, also rows",
       "y = Convolution(data, w) {kernel=(1,1), num_filter=16, no_bias=True};"
       "z = FullyConnected(w, m) {num_hidden=4, no_bias=True}; heads y, z",
       {}},
      {"also an image", "y = Convolution(data, w) $; z = Convolution(w, v) $; heads y, z", {"v"}},
      {"joined with others",
       "v = var {__shape__=(16,8,3,3)}; y = Convolution(data, w) $;"
       "z = Concat(w, v) {num_args=2, dim=1}; heads y, z",
       {}},
      {"the result of a convolution", "f = Convolution(w, v) $; y = Convolution(data, f) $", {"v"}},
      // oneDNN makes an inner product of it, and has none for tiles but reference code.
      {"one pixel", "y = Convolution(data, w) {kernel=(9,9), num_filter=16, no_bias=True}", {}},
  };
}

std::string textOf(const Case &row) {
  std::string text = row.net;
  for (size_t at; (at = text.find('$')) != std::string::npos;) text.replace(at, 1, kPlainConv);
  if (text.find("w, v") != std::string::npos) text = "w = var {__shape__=(16,16,3,3)};" + text;
  return "data = var {__shape__=(0,16,0,0)};" + text;
}

std::vector<std::string> tiledVariables(const Graph &graph, const Session &session) {
  std::vector<std::string> names;
  for (uint32_t id = 0; id < graph.numNodes(); ++id)
    if (graph.isVariable(NodeId(id)) && session.variableLayout(NodeId(id)) == Layout::FilterTiles)
      names.push_back(graph.name(NodeId(id)).str());
  llvm::sort(names);
  return names;
}

TEST_F(FilterTiles, RUN_02_MixedReadersAgreeWithReference) {
  for (const Case &row : cases())
    for (Request request : {Request::Write, Request::Add}) {
      SCOPED_TRACE(row.what);
      TestGraph g(textOf(row));
      const Graph graph = gradientOf(g, request);
      SessionOptions options = optionsFor(graph, {2, 16, 9, 9});
      Session fast = open(graph, options);
      options.exec.backend = Backend::Reference;
      Session reference = open(graph, options);
      EXPECT_EQ(tiledVariables(graph, fast), row.tiled);
      EXPECT_EQ(tiledVariables(graph, reference), std::vector<std::string>());
      for (uint64_t step = 0; step < 3; ++step) {
        cantFail(fast.run(step));
        cantFail(reference.run(step));
        if (step == 0) continue;  // a run that follows another without a look
        EXPECT_EQ(difference(cantFail(fast.outputs()), cantFail(reference.outputs()), 1e-5f), "") << "step " << step;
      }
    }
}

// Windows of one pixel, and enough pixels for the weight gradient to be one product.
TEST_F(FilterTiles, RUN_02_PixelProductsAgreeWithReference) {
  for (Request request : {Request::Write, Request::Add})
    for (int64_t extent : {11, 12}) {  // 242 and 288 pixels
      SCOPED_TRACE(extent);
      TestGraph g(
          "data = var {__shape__=(0,16,0,0)}; a = Convolution(data, u, b) {kernel=(1,1), num_filter=48}; r = relu(a);"
          "y = Convolution(r, v, e) {kernel=(1,1), num_filter=16};"
          "z = Convolution(r, w, c) {kernel=(1,1), num_filter=32, stride=(2,2)}; heads y, z");
      const Graph graph = gradientOf(g, request);
      SessionOptions options = optionsFor(graph, {2, 16, extent, extent});
      Session fast = open(graph, options);
      options.exec.backend = Backend::Reference;
      Session reference = open(graph, options);
      EXPECT_EQ(tiledVariables(graph, fast), (std::vector<std::string>{"u", "v", "w"}));
      for (uint64_t step = 0; step < 2; ++step) {
        cantFail(fast.run(step));
        cantFail(reference.run(step));
        EXPECT_EQ(difference(cantFail(fast.outputs()), cantFail(reference.outputs()), 1e-5f), "") << "step " << step;
      }
    }
}

// Weight gradients from copies of the images: strided windows, and rows of pixels in few sets of the cache. Others read
// channels-last images as they are, those of depthwise convolutions too.
TEST_F(FilterTiles, RUN_02_WeightGradientsOfCopiesAgreeWithReference) {
  struct Case {
    const char *window;
    int64_t width;
    uint32_t numCopies;  // images that the gradient converts
  };
  for (const Case &row : {Case{"kernel=(3,3), pad=(1,1), stride=(1,2), num_filter=256", 13, 2},
                          Case{"kernel=(1,3), num_filter=512", 28, 2}, Case{"kernel=(1,3), num_filter=512", 24, 0},
                          Case{"kernel=(1,1), stride=(2,2), num_filter=256", 13, 0},
                          Case{"kernel=(3,3), num_filter=512, num_group=512", 9, 0}}) {
    SCOPED_TRACE(row.window);
    TestGraph g(
        "data = var {__shape__=(0,16,0,0)}; a = Convolution(data, v) {kernel=(1,1), num_filter=512, no_bias=True};"
        "y = Convolution(a, w, b) {" +
        std::string(row.window) +
        "}; r = relu(y);"
        "z = Convolution(r, u) {kernel=(1,1), num_filter=16, no_bias=True}");
    const Graph graph = gradientOf(g, Request::Write);
    SessionOptions options = optionsFor(graph, {1, 16, 3, row.width});
    Session fast = open(graph, options);
    options.exec.backend = Backend::Reference;
    Session reference = open(graph, options);
    fast.setProfiling(true);
    cantFail(fast.run(0));
    cantFail(reference.run(0));
    EXPECT_EQ(difference(cantFail(fast.outputs()), cantFail(reference.outputs()), 1e-5f), "");
    const auto *gradient = llvm::find_if(
        fast.timings(), [&](const Executor::Timing &timing) { return graph.name(timing.node) == "y_backward"; });
    ASSERT_NE(gradient, fast.timings().end());
    EXPECT_EQ(gradient->reorders.numImages, row.numCopies);
  }
}

TEST_F(FilterTiles, RUN_02_EverythingTiedToAFilterLiesLikeIt) {
  TestGraph g(textOf(cases()[0]));
  const Graph graph = gradientOf(g, Request::Write);
  Session session = open(graph, optionsFor(graph, {2, 16, 9, 9}));
  size_t numTiled = 0;
  for (size_t i = 0; i < graph.heads().size(); ++i) numTiled += session.headLayout(i) == Layout::FilterTiles;
  EXPECT_EQ(numTiled, 2u) << "the gradients of two filters";
}

// ---- looking at them

TEST_F(FilterTiles, RUN_04_WhoeverLooksSeesRowMajorOrder) {
  TestGraph g(textOf(cases()[0]));
  const Graph graph = gradientOf(g, Request::Write);
  const NodeId w = nodeNamed(graph, "w");
  Session session = open(graph, optionsFor(graph, {2, 16, 9, 9}));
  const Floats before = valuesOf<float>(session.variable(w));
  cantFail(session.run(0));
  const std::vector<NamedArray> first = cantFail(session.outputs());
  EXPECT_EQ(valuesOf<float>(session.variable(w)), before);
  cantFail(session.run(1));
  EXPECT_EQ(difference(cantFail(session.outputs()), first, 0), "") << "a look changes nothing";
  EXPECT_EQ(valuesOf<float>(session.variable(w)), before);
}

TEST_F(FilterTiles, RUN_04_WhatIsWrittenBetweenRunsCounts) {
  TestGraph g(textOf(cases()[0]));
  const Graph graph = gradientOf(g, Request::Write);
  const NodeId w = nodeNamed(graph, "w");
  SessionOptions options = optionsFor(graph, {2, 16, 9, 9});
  Session fast = open(graph, options);
  options.exec.backend = Backend::Reference;
  Session reference = open(graph, options);
  for (Session *session : {&fast, &reference}) {
    cantFail(session->run(0));
    TensorRef filters = session->variable(w);
    for (int64_t i = 0; i < filters.size(); ++i) filters.as<float>()[i] = static_cast<float>(i % 13) - 6;
    cantFail(session->run(1));
  }
  EXPECT_EQ(difference(cantFail(fast.outputs()), cantFail(reference.outputs()), 1e-5f), "");
}

TEST_F(FilterTiles, RUN_04_ValuesGoFromSessionToSession) {
  TestGraph g(textOf(cases()[0]));
  const NodeId w = nodeNamed(g, "w");
  SessionOptions options = optionsFor(g, {2, 16, 9, 9});
  std::vector<Session> sessions;
  for (Backend backend : {Backend::Auto, Backend::Reference}) {
    options.exec.backend = backend;
    for (int i = 0; i < 2; ++i) sessions.push_back(open(g, options));
  }
  for (size_t from = 0; from < 4; ++from)
    for (size_t to = 0; to < 4; ++to) {
      if (from == to) continue;
      Floats values;
      for (int i = 0; i < 16 * 16 * 9; ++i) values.push_back(static_cast<float>(i * (1 + from + 4 * to) % 101));
      std::memcpy(sessions[from].variable(w).data, values.data(), values.size() * sizeof(float));
      cantFail(sessions[from].run(0));
      cantFail(sessions[to].run(0));
      cantFail(sessions[to].assignVariable(w, sessions[from]));
      EXPECT_EQ(valuesOf<float>(sessions[to].variable(w)), values) << from << " to " << to;
      EXPECT_EQ(valuesOf<float>(sessions[from].variable(w)), values) << from << " to " << to;
    }
}

// ---- who owns arguments decides

TEST_F(FilterTiles, RUN_04_MemoryOfAHostStaysRowMajorAndTheBitsAreEqual) {
  TestGraph g(textOf(cases()[0]));
  const Graph graph = gradientOf(g, Request::Write);
  // So many pixels that the forward primitive is the same for tiles.
  const SessionOptions options = optionsFor(graph, {4, 16, 20, 20});
  Session session = open(graph, options);
  KernelSetOptions setOptions;
  setOptions.isTraining = true;
  setOptions.threads = options.exec.threads;
  EXPECT_EQ(
      KernelSet::create(graph, session.inference(), session.requests(), setOptions).numEntries(Layout::FilterTiles),
      0u);
  PlanOptions planOptions;
  const MemoryPlan plan =
      cantFail(planMemory(testing::testContext(), graph, session.inference(), session.requests(), planOptions));
  Executor host = cantFail(Executor::create(graph, session.inference(), session.requests(), plan, options.exec));
  for (uint32_t id = 0; id < graph.numNodes(); ++id)
    if (graph.isVariable(NodeId(id))) cantFail(host.bind(NodeId(id), session.variable(NodeId(id))));
  cantFail(host.run(0));
  std::vector<Floats> expected;
  for (size_t i = 0; i < graph.heads().size(); ++i) expected.push_back(valuesOf<float>(host.head(i)));
  cantFail(session.run(0));
  for (size_t i = 0; i < graph.heads().size(); ++i) EXPECT_EQ(valuesOf<float>(session.head(i)), expected[i]) << i;
}

// ---- training

constexpr StringRef kNet =
    "data = var; c = Convolution(data, c1_weight, c1_bias) {kernel=(3,3), pad=(1,1), num_filter=16};"
    "n = BatchNorm(c, bn_gamma, bn_beta, bn_mean, bn_var) {fix_gamma=False}; r = Activation(n) {act_type=relu};"
    "d = Convolution(r, c2_weight) {kernel=(3,3), num_filter=32, no_bias=True};"
    "e = Convolution(d, c3_weight) {kernel=(1,1), num_filter=16, no_bias=True};"
    "o = FullyConnected(e, fc_weight, fc_bias) {num_hidden=3}; y = SoftmaxOutput(o, label)";

Dataset examples(int64_t rows) {
  Floats pixels, labels;
  const RandomKey key{11, 0, 0};
  for (int64_t i = 0; i < rows; ++i) {
    labels.push_back(static_cast<float>(i % 3));
    for (int64_t k = 0; k < 16 * 36; ++k)
      pixels.push_back(static_cast<float>(key.uniform(static_cast<uint64_t>(i * 1000 + k)) - 0.5 + (k % 3 == i % 3)));
  }
  return cantFail(Dataset::create({{"data", floats({rows, 16, 6, 6}, pixels)}, {"label", floats({rows}, labels)}}));
}

TrainerOptions trainerOptions(OptimizerKind kind) {
  TrainerOptions options;
  options.batch = 8;
  options.shuffle = 3;
  options.optimizer.kind = kind;
  options.optimizer.momentum = kind == OptimizerKind::Sgd ? 0.9 : 0;
  options.optimizer.weightDecay = 0.001;
  options.schedule = {.kind = ScheduleKind::Cosine, .rate = 0.01, .warmup = 2, .total = 20};
  options.session.exec.threads = 2;
  return options;
}

TEST_F(FilterTiles, StatesOfTheOptimizerLieLikeTheirFilter) {
  for (OptimizerKind kind : {OptimizerKind::Sgd, OptimizerKind::Adam}) {
    TestGraph g(kNet);
    Trainer trainer = openTrainer(g, examples(28), trainerOptions(kind));
    const std::vector<std::string> tiled = tiledVariables(trainer.training().graph, trainer.session());
    EXPECT_EQ(tiled.size(), kind == OptimizerKind::Sgd ? 6u : 9u);
    for (const TrainingGraph::Parameter &parameter : trainer.training().parameters) {
      const Layout layout = trainer.session().variableLayout(parameter.variable);
      EXPECT_EQ(trainer.session().headLayout(parameter.head), layout);
      for (NodeId state : parameter.states) EXPECT_EQ(trainer.session().variableLayout(state), layout);
    }
    advance(trainer, 1);
    for (const TrainingGraph::Parameter &parameter : trainer.training().parameters)
      EXPECT_EQ(valuesOf<float>(trainer.session().head(parameter.head)),
                valuesOf<float>(trainer.session().variable(parameter.variable)));
  }
}

TEST_F(FilterTiles, RUN_02_ResumedRunsAreTheSameBytes) {
  for (OptimizerKind kind : {OptimizerKind::Sgd, OptimizerKind::Adam}) {
    TestGraph g(kNet);
    Trainer whole = openTrainer(g, examples(28), trainerOptions(kind));
    advance(whole, 10);
    Trainer first = openTrainer(g, examples(28), trainerOptions(kind));
    advance(first, 5);
    const std::string saved = bytesOf(first.checkpoint());
    Trainer second = openTrainer(g, examples(28), trainerOptions(kind));
    advance(second, 2);
    cantFail(second.resume(cantFail(parseNpz(saved, "saved.npz")), "saved.npz"));
    EXPECT_EQ(bytesOf(second.checkpoint()), saved);
    advance(second, 5);
    EXPECT_EQ(bytesOf(second.checkpoint()), bytesOf(whole.checkpoint()));
    EXPECT_EQ(bytesOf(second.parameters()), bytesOf(whole.parameters()));
  }
}

TEST_F(FilterTiles, RUN_02_LookingAndEvaluatingLeaveTheRunAlone) {
  TestGraph g(kNet);
  Trainer one = openTrainer(g, examples(28), trainerOptions(OptimizerKind::Sgd));
  Trainer other = openTrainer(g, examples(28), trainerOptions(OptimizerKind::Sgd));
  Dataset heldOut = examples(19);
  advance(one, 4);
  for (int i = 0; i < 4; ++i) {
    advance(other, 1);
    cantFail(other.evaluate(heldOut));
    (void)other.checkpoint();
    cantFail(other.evaluate(heldOut));
  }
  EXPECT_EQ(bytesOf(one.checkpoint()), bytesOf(other.checkpoint()));
}

/// The parameters but for the bias before batch normalisation, whose gradient is zero: it stays zero but for rounding.
std::vector<NamedArray> withoutRounding(std::vector<NamedArray> parameters) {
  auto bias = llvm::find_if(parameters, [](const NamedArray &array) { return array.name == "c1_bias"; });
  for (float value : valuesOf<float>(bias->array)) EXPECT_LE(std::abs(value), 1e-7f);
  parameters.erase(bias);
  return parameters;
}

TEST_F(FilterTiles, TrainingAgreesWithTheReference) {
  TestGraph g(kNet);
  TrainerOptions options = trainerOptions(OptimizerKind::Sgd);
  Trainer fast = openTrainer(g, examples(28), options);
  options.session.exec.backend = Backend::Reference;
  Trainer reference = openTrainer(g, examples(28), options);
  Dataset heldOut = examples(19);
  for (int round = 0; round < 2; ++round) {
    advance(fast, 3);
    advance(reference, 3);
    EXPECT_EQ(difference(withoutRounding(fast.parameters()), withoutRounding(reference.parameters()), 1e-4f), "");
    const Score found = cantFail(fast.evaluate(heldOut)), expected = cantFail(reference.evaluate(heldOut));
    EXPECT_NEAR(found.loss(), expected.loss(), 1e-4);
    EXPECT_EQ(found.metric(), expected.metric());
  }
}

}  // namespace
}  // namespace gradc
