// Operators with bodies on the tape: what they compute and their gradients are, bit for bit, those of the compiled
// graph.
#include "imperative/imperative.h"
#include "ops/control/flow_operator.h"
#include "ops/control/loop_gradient.h"
#include "passes/gradient/higher_order/higher_order.h"
#include "tests/support/ops/op_table.h"
#include "tests/support/runs/imperative.h"
#include "tests/support/runs/loops.h"

#include <cmath>

using namespace llvm;

namespace gradc::testing {
namespace {

using Values = std::vector<Doubles>;

struct Case {
  StringRef file;
  std::vector<Binding> bindings;
  std::vector<StringRef> wrt;  // the others are not tracked
};

std::vector<Case> cases() {
  std::vector<Binding> lstm = {{"x", {4, 2, 5}, {}},        {"h", {2, 3}, {}},      {"c", {2, 3}, {}},
                               {"i2h_weight", {12, 5}, {}}, {"i2h_bias", {12}, {}}, {"h2h_weight", {12, 3}, {}},
                               {"h2h_bias", {12}, {}}};
  for (Binding &binding : lstm) {
    int64_t size = 1;
    for (int64_t dim : binding.shape) size *= dim;
    for (int64_t i = 0; i < size; ++i) binding.values.push_back(std::sin(static_cast<double>(i + size)));
  }
  return {
      {"cf03", {{"x", {3}, {0.5, -1, 2}}, {"s", {1}, {0.25}}, {"f", {1}, {1}}}, {"x", "s", "f"}},
      {"cf11", {{"x", {1}, {1}}, {"w", {1}, {2}}, {"n", {3, 1}, {0, 0, 0}}, {"m", {2, 1}, {0, 0}}}, {"x", "w"}},
      {"cf12", {{"x", {2}, {0.5, -0.25}}, {"h", {1}, {0.1}}, {"w", {1}, {0.8}}}, {"x", "h", "w"}},
      {"cf12", {{"x", {2}, {0.5, -0.25}}, {"h", {1}, {0.1}}, {"w", {1}, {0.8}}}, {"w"}},
      {"powers", {{"x", {1}, {2}}, {"i", {1}, {0.5}}, {"w", {1}, {1.5}}}, {"x", "w"}},
      {"powers", {{"x", {1}, {2}}, {"i", {1}, {7}}, {"w", {1}, {1.5}}}, {"x", "w"}},
      {"squares", {{"x", {1}, {1.1}}, {"i", {1}, {0.5}}}, {"x"}},
      {"cf08", {{"x", {1}, {1}}, {"i", {1}, {1}}}, {"x", "i"}},
      {"cond", {{"p", {1}, {1}}, {"a", {1}, {2}}, {"b", {1}, {3}}, {"c", {1}, {5}}}, {"a", "b", "c"}},
      {"cond", {{"p", {1}, {-1}}, {"a", {1}, {2}}, {"b", {1}, {3}}, {"c", {1}, {5}}}, {"a", "b", "c"}},
      {"two_states",
       {{"x", {2}, {1, 2}}, {"z", {2}, {3, 4}}, {"s", {1}, {5}}, {"t", {1}, {6}}, {"w", {1}, {7}}},
       {"x", "z", "s", "t", "w"}},
      {"swapped", {{"x", {2}, {1, 2}}, {"s", {1}, {5}}, {"t", {1}, {6}}}, {"x", "s", "t"}},
      {"only_states", {{"x", {3, 1}, {1, 2, 3}}, {"s", {1}, {7}}}, {"s", "x"}},
      {"while_in_foreach",
       {{"x", {3, 2}, {0.1, 0.2, 0.3, 0.1, 0.2, 0.4}}, {"h", {2}, {0.5, 0.25}}, {"w", {2}, {0.75, 1.5}}},
       {"x", "h", "w"}},
      {"branch_in_loop",
       {{"x", {4, 2}, {1, 0.5, 1, 0.5, 1, 0.5, 1, 0.5}}, {"s", {2}, {0.1, 0.2}}, {"w", {2}, {0.5, 0.25}}},
       {"x", "s", "w"}},
      {"lstm", lstm, {"x", "h", "c", "i2h_weight", "i2h_bias", "h2h_weight", "h2h_bias"}},
  };
}

/// A graph, call by call. The Context is that of the graphs.
class Taped {
 public:
  Taped(Imperative &im, const Graph &graph, ArrayRef<Binding> bindings, ArrayRef<StringRef> wrt,
        bool isTraining = false)
      : im(im) {
    RecordScope record(im, {.isTraining = isTraining});
    std::vector<TensorList> entries(graph.numNodes());
    for (uint32_t n = 0; n < graph.numNodes(); ++n) {
      const StringRef name = graph.name(NodeId(n));
      if (graph.isVariable(NodeId(n))) {
        const Binding &binding = *find_if(bindings, [&](const Binding &b) { return b.name == name; });
        entries[n].push_back(im.tensor(binding.shape, binding.values));
        cantFail(im.setName(entries[n][0], name));
        if (is_contained(wrt, name)) im.attachGrad(entries[n][0], Request::Write);
        named[name] = entries[n][0];
        continue;
      }
      TensorList inputs;
      for (Value v : graph.inputs(NodeId(n))) inputs.push_back(entries[v.node.value][v.index]);
      entries[n] = cantFail(im.callAll(cantFail(im.kind(graph.kindHandle(NodeId(n)))), inputs));
    }
    for (StringRef name : wrt) xs.push_back(named[name]);
    for (Value head : graph.heads()) heads.push_back(entries[head.node.value][head.index]);
    copy_if(heads, std::back_inserter(ys), [](const Tensor &head) { return head.isTracked(); });
  }

  Values grad(bool retain, bool createGraph = false) { return valuesOfAll(gradients(ys, retain, createGraph)); }

  /// By gradients of gradients; every one of an order is a head of the next.
  Values gradOfOrder(uint32_t order) {
    std::vector<Tensor> heads(ys.begin(), ys.end());
    for (uint32_t k = 1;; ++k) {
      std::vector<Tensor> found = gradients(heads, true, k < order);
      if (k == order) return valuesOfAll(found);
      heads.clear();
      copy_if(found, std::back_inserter(heads), [](const Tensor &g) { return g && g.isTracked(); });
      if (heads.empty()) return {};
    }
  }

  StringMap<Tensor> named;
  SmallVector<Tensor, 4> heads, ys;
  SmallVector<Tensor, 8> xs;

 private:
  std::vector<Tensor> gradients(ArrayRef<Tensor> of, bool retain, bool createGraph) {
    GradOptions options;
    options.retain = retain;
    options.createGraph = createGraph;
    options.unused = UnusedPolicy::Zeros;
    return cantFail(im.grad(of, xs, options));
  }
  static Values valuesOfAll(ArrayRef<Tensor> list) {
    Values values;
    for (const Tensor &tensor : list) values.push_back(doublesOf(tensor));
    return values;
  }

  Imperative &im;
};

/// The gradients of a graph, or without `slots` its heads; a variable that it lost needs no value.
Values runCompiled(const Graph &graph, ArrayRef<GradientSlot> slots, ArrayRef<Binding> bindings,
                   bool isTraining = false) {
  const InputLists lists = listInputs(graph);
  std::vector<Binding> needed;
  copy_if(bindings, std::back_inserter(needed), [&](const Binding &binding) {
    return any_of(concat<const NodeId>(lists.args, lists.aux), [&](NodeId n) { return graph.name(n) == binding.name; });
  });
  SessionOptions options;
  options.exec.backend = Backend::Reference;
  options.exec.isTraining = isTraining;
  options.infer.floatAs = DType::Float64;
  options.initSeed = 1;  // of variables whose shapes alone matter
  Expected<Session> session = Session::create(testContext(), graph, arraysOf(needed), options);
  if (!session) report_fatal_error(session.takeError());
  if (Error error = session->run(0)) report_fatal_error(std::move(error));
  Values values;
  const size_t numHeads = graph.heads().size();
  for (size_t h = 0; slots.empty() && h < numHeads; ++h) values.push_back(valuesOf<double>(session->head(h)));
  for (const GradientSlot &slot : slots)
    for (size_t h = numHeads; h-- > 0;)
      if (graph.heads()[h] == slot.value) {
        values.push_back(valuesOf<double>(session->head(h)));
        break;
      }
  return values;
}

TEST(ImperativeLoops, CF_19_RET_06_AreTheirCompiledGraph) {
  Imperative im(testContext(), Tape::referenceOptions());
  for (const Case &c : cases()) {
    const Graph graph = loopFile(c.file);
    Taped taped(im, graph, c.bindings, c.wrt);
    const Values expected = run(gradientOf(graph, c.wrt), c.bindings);
    EXPECT_EQ(taped.grad(true), expected) << c.file.str();
    const uint64_t hits = im.cacheStats().hits;
    EXPECT_EQ(taped.grad(true), expected) << c.file.str() << ", cached";
    EXPECT_EQ(taped.grad(true, true), expected) << c.file.str() << ", replayed";
    EXPECT_EQ(im.cacheStats().hits, hits + 2);
    EXPECT_EQ(taped.grad(false), expected) << c.file.str() << ", not retained";
    // Another step finds the same, with memory elsewhere.
    const Tensor between = im.zeros({1000}, DType::Float64);
    Taped again(im, graph, c.bindings, c.wrt);
    EXPECT_EQ(again.grad(false), expected) << c.file.str() << ", in another step";
    for (auto [h, head] : enumerate(again.heads))
      EXPECT_EQ(doublesOf(head), doublesOf(taped.heads[h])) << c.file.str() << ", head " << h;
  }
}

TEST(ImperativeLoops, CF_19_CF_20_HigherOrders) {
  Imperative im(testContext(), Tape::referenceOptions());
  int numCompared = 0;
  for (const Case &c : cases()) {
    const Graph graph = loopFile(c.file);
    Taped taped(im, graph, c.bindings, c.wrt);
    for (uint32_t order : {2, 3}) {
      if (order == 3 && c.file == "lstm") continue;  // slow
      GradientRequest request;
      for (StringRef name : c.wrt) request.wrt.push_back({Value{nodeNamed(graph, name)}});
      GradientOptions options;
      options.unused = UnusedPolicy::Zeros;
      options.headPolicy = HeadPolicy::Ones;
      Expected<GradientResult> made = buildGradientOfOrder(testContext(), graph, request, options, order);
      if (!made) {  // nothing depends on an x any more
        consumeError(made.takeError());
        break;
      }
      const Values expected = runCompiled(made->graph, made->wrt, c.bindings), found = taped.gradOfOrder(order);
      if (found.empty()) break;  // it depends on none
      ++numCompared;
      ASSERT_EQ(found.size(), expected.size());
      for (auto [i, list] : enumerate(expected)) {
        SCOPED_TRACE(c.file.str() + ", order " + std::to_string(order) + ", x " + std::to_string(i));
        expectClose(found[i], list, 1e-12);
      }
    }
  }
  EXPECT_GE(numCompared, 15);
}

// Rows of steps that are not run have no values: a NaN in memory there was not made by an operator.
TEST(ImperativeLoops, HOOK_09_CF_20_RowsOfStepsNotRunAreNotLookedAt) {
  Imperative im(testContext(), Tape::referenceOptions());
  const std::vector<Binding> bindings = {{"x", {1}, {2}}, {"i", {1}, {0}}, {"w", {1}, {3}}};
  const StringRef wrt[] = {"x", "w"};
  {
    SmallVector<Tensor, 64> used;  // of the size of a stack, and freed
    for (int k = 0; k < 64; ++k) used.push_back(im.tensor(std::vector<int64_t>{5, 1}, Doubles(5, std::nan(""))));
  }
  AnomalyScope anomaly(im);
  const Graph graph = loopFile("powers");
  for (uint32_t order : {2, 3}) {
    Taped taped(im, graph, bindings, wrt);
    for (const Doubles &gradient : taped.gradOfOrder(order))
      for (double element : gradient) EXPECT_TRUE(std::isfinite(element));
  }
}

// Statistics that every step overwrites: once per step, by the forward call alone.
TEST(ImperativeLoops, D_28_WhatStepsOverwrite) {
  const std::vector<Binding> bindings = {{"x", {2, 3, 2}, {1, 2, 3, 4, 5, 7, -1, 0.5, 2, 1, 0, 3}},
                                         {"s", {3, 2}, {0, 0, 0, 0, 0, 0}},
                                         {"gamma", {2}, {1, 2}},
                                         {"beta", {2}, {0.5, 0}},
                                         {"moving_mean", {2}, {0, 1}},
                                         {"moving_var", {2}, {1, 2}}};
  const Graph graph = loopFile("norm_in_loop");
  const StringRef wrt[] = {"x", "s", "gamma", "beta"};
  const GradientResult compiled = gradientOf(graph, wrt);
  const Values expected = runCompiled(compiled.graph, compiled.wrt, bindings, true);
  Imperative im(testContext(), Tape::referenceOptions());
  Taped taped(im, graph, bindings, wrt, true);
  const Doubles mean = doublesOf(taped.named["moving_mean"]);
  // 0.9 · (0.9 · 0 + 0.1 · 3) + 0.1 · 1/3, the mean of the rows of the first channel.
  EXPECT_NEAR(mean[0], 0.9 * 0.1 * 3 + 0.1 * (1. / 3), 1e-6);
  EXPECT_EQ(taped.named["moving_mean"].version(), 1u);
  EXPECT_EQ(taped.grad(true), expected);
  EXPECT_EQ(taped.grad(true, true), expected);
  EXPECT_EQ(doublesOf(taped.named["moving_mean"]), mean) << "overwritten by a gradient";
  EXPECT_EQ(taped.named["moving_mean"].version(), 1u);
}

Tensor callOne(Imperative &im, StringRef op, ArrayRef<AttrText> attrs, ArrayRef<Graph> bodies,
               ArrayRef<Tensor> inputs) {
  Context &context = testContext();
  const KindRef kind = cantFail(context.kind(*context.ops.find(op), context.attrs(attrs), op, bodies));
  return cantFail(im.call(cantFail(im.kind(kind)), inputs));
}

const AttrText kCall[] = {{"num_args", "2"}, {"num_outputs", "1"}};

TEST(ImperativeLoops, CF_20_CallsAndScans) {
  Imperative im(testContext(), Tape::referenceOptions());
  const Tensor x = im.tensor({3, 1}, Doubles{2, 3, 5}), s = im.tensor({1}, Doubles{1});
  cantFail(im.requireGrad(x));
  cantFail(im.requireGrad(s));
  const Graph step = body("n = elemwise_mul(s, x)\nheads n");
  const Tensor product = callOne(im, "_call", kCall, {step}, {s, s});
  EXPECT_EQ(scalar(product), 1);
  EXPECT_EQ(scalar(cantFail(im.grad({product}, {s}, {}))[0]), 2);
  const AttrText scan[] = {
      {"num_args", "2"}, {"num_data", "1"}, {"num_states", "1"}, {"num_out_data", "0"}, {"input_locs", "(1, 0)"}};
  const Tensor all = callOne(im, "_scan", scan, {step}, {x, s});
  EXPECT_EQ(scalar(all), 30);
  EXPECT_EQ(doublesOf(cantFail(im.grad({all}, {x}, {.retain = true}))[0]), (Doubles{15, 10, 6}));
  EXPECT_EQ(scalar(cantFail(im.grad({all}, {s}, {}))[0]), 30);
}

// The gradient reads output 1 of the call, which keeps it; output 0 has other values.
TEST(ImperativeLoops, TA_20_TheSecondOutputIsKept) {
  Imperative im(testContext(), Tape::referenceOptions());
  Context &context = testContext();
  const Tensor x = im.tensor({2}, Doubles{1, 2});
  cantFail(im.requireGrad(x));
  const AttrText attrs[] = {{"num_args", "1"}, {"num_outputs", "2"}};
  const KindRef kind = cantFail(context.kind(*context.ops.find("_call"), context.attrs(attrs), "_call",
                                             body("a = negative(x)\nb = exp(x)\nheads a, b")));
  const Tensor second = cantFail(im.callAll(cantFail(im.kind(kind)), {x}))[1];
  EXPECT_EQ(doublesOf(cantFail(im.grad({second}, {x}, {}))[0]), (Doubles{std::exp(1), std::exp(2)}));
}

// The recorded graph does not contain what is added for a gradient, unless a recorded gradient reads it.
TEST(ImperativeLoops, TA_89_GraphOfHasTheLoopAsItWasCalled) {
  Imperative im(testContext(), Tape::referenceOptions());
  const Case c = cases()[2];
  const Graph graph = loopFile(c.file);
  Taped taped(im, graph, c.bindings, c.wrt);
  auto textOf = [&](ArrayRef<Tensor> heads) { return written(cantFail(im.graphOf(heads))); };
  const std::string plain = textOf(taped.heads);
  EXPECT_EQ(plain.find("__saved__"), std::string::npos);
  const Graph saved = cantFail(readJson(testContext(), plain, ReadOptions())).graph;
  EXPECT_EQ(run(gradientOf(saved, c.wrt), c.bindings), run(gradientOf(graph, c.wrt), c.bindings));
  std::vector<Binding> bindings = c.bindings;
  std::vector<Tensor> given;
  for (StringRef name : {"g0", "g1"}) {
    const Tensor &y = taped.ys[given.size()];
    bindings.push_back({name, y.shape().vec(), Doubles(static_cast<size_t>(y.size()), 0.5)});
    given.push_back(im.tensor(y.shape(), bindings.back().values));
    cantFail(im.setName(given.back(), name));
  }
  bindings.push_back({"arg1", {1}, {0.5}});  // g1, of which no value is recorded
  const std::vector<Tensor> first = cantFail(im.grad(taped.ys, taped.xs, {.heads = given, .createGraph = true}));
  const std::string withGradient = textOf(first[2]);
  EXPECT_NE(withGradient.find("__saved__"), std::string::npos);
  const Graph recorded = cantFail(readJson(testContext(), withGradient, ReadOptions())).graph;
  EXPECT_EQ(runCompiled(recorded, {}, bindings), Values{doublesOf(first[2])});
}

TEST(ImperativeLoops, CF_12_StepsOfTrainingMissNoCache) {
  Imperative im(testContext(), ImperativeOptions());
  const Graph graph = loopFile("lstm");
  const Case c = cases().back();
  double last = 0;
  for (int step = 0; step < 4; ++step) {
    Taped taped(im, graph, c.bindings, c.wrt);
    cantFail(im.backward(taped.ys, BackwardOptions()));
    const Doubles g = doublesOf(taped.xs[3].grad());
    if (step != 0) {
      EXPECT_EQ(g[0], last);
    }
    last = g[0];
  }
  EXPECT_EQ(im.cacheStats().misses, 1u);
  const Values expected = run(gradientOf(graph, c.wrt), c.bindings);
  EXPECT_NEAR(last, expected[3][0], 1e-9);
}

TEST(ImperativeLoops, RET_05_RET_08_ErrorsNameTheBody) {
  Imperative im(testContext(), Tape::referenceOptions());
  Context &context = testContext();
  const std::vector<AttrText> attrs = scanAttrs(false, true);
  const KindRef kind = cantFail(context.kind(*context.ops.find("_scan"), context.attrs(attrs), "_scan",
                                             body("o = elemwise_add(x, s)\nn = elemwise_mul(x, s)\nheads o, n")));
  const Kind scan = cantFail(im.kind(kind));
  const Tensor steps = im.tensor({1}, std::vector<int64_t>{5}), x = im.tensor({2, 1}, Doubles{1, 2}),
               s = im.tensor({1}, Doubles{3});
  cantFail(im.requireGrad(s));
  const GradcError error = errorOf(im.callAll(scan, {steps, x, s}));
  EXPECT_EQ(error.kind, ErrorKind::LengthMismatch);
  EXPECT_NE(error.message.find("the requested number of steps is 5, expected 0 to 2"), std::string::npos)
      << error.message;
  const GradcError inside = errorOf(im.callAll(scan, {steps, x, im.tensor({2}, std::vector<float>{1, 2})}));
  EXPECT_NE(inside.message.find("node '_scan' > body > "), std::string::npos) << inside.message;
  const Tensor two = im.tensor({1}, std::vector<int64_t>{2});
  const TensorList good = cantFail(im.callAll(scan, {two, x, s}));
  EXPECT_EQ(doublesOf(good[0]), (Doubles{4, 5}));
  EXPECT_EQ(doublesOf(good[1]), (Doubles{6}));
  // A value that a gradient reads is overwritten.
  cantFail(im.willWrite(x));
  EXPECT_EQ(Tape::rowOf(im.grad({good[1]}, {s}, {})), "E-31");
}

// A loop that a host adds: it raises its first input to a power by repeated multiplication.
struct PowerParams {
  int64_t exponent;
  std::optional<Dims> saved;

  int64_t numInputs() const { return 2; }
  int64_t numVisible() const { return 1; }
  int64_t numHidden() const { return numSaved(saved); }
};
constexpr AttrSpec kPowerAttrs[] = {required<&PowerParams::exponent>("exponent", "number of steps").atLeast(0),
                                    savedAttr<&PowerParams::saved>()};

TEST(ImperativeLoops, A_19_ALoopOfAHost) {
  static const OpDef op = [] {
    OpDef def = flowOperator<PowerParams>("host_power", "x to a power", kPowerAttrs);
    def.inputs = {"x", "one"};
    def.flow = [](const NodeKind &kind) -> Expected<BodyFlow> {
      const PowerParams &p = kind.params<PowerParams>();
      FlowBuilder flow(kind, BodyFlow::Form::Loop);
      flow.flow().maxSteps = p.exponent;
      flow.addOperands(BodyFlow::Operand::Whole, 1);
      flow.addOperands(BodyFlow::Operand::State, 1);
      flow.addBody("bodies", {1, 0});
      flow.addState(1, 0);
      flow.addHeads(static_cast<size_t>(numSaved(p.saved)), 1, true);
      return std::move(flow).finish();
    };
    def.gradient = loopGradient;
    return def;
  }();
  Context context;
  registerBuiltinOps(context.ops);
  cantFail(context.ops.add(op));
  Imperative im(context, Tape::referenceOptions());
  const Graph step = cantFail(parseGraph(context, "y = elemwise_mul(p, x)"));
  const Kind cube =
      cantFail(im.kind(cantFail(context.kind(op, context.attrs({{"exponent", "3"}}), "host_power", step))));
  const Tensor x = im.tensor({2}, Doubles{2, 3}), one = im.tensor({2}, Doubles{1, 1});
  cantFail(im.requireGrad(x));
  const Tensor y = cantFail(im.call(cube, {x, one}));
  EXPECT_EQ(doublesOf(y), (Doubles{8, 27}));
  const std::vector<Tensor> first = cantFail(im.grad({y}, {x}, {.createGraph = true}));
  EXPECT_EQ(doublesOf(first[0]), (Doubles{12, 27}));
  EXPECT_EQ(doublesOf(cantFail(im.grad({first[0]}, {x}, {}))[0]), (Doubles{12, 18}));
}

// Another kernel comes and goes: what was prepared of bodies goes with it, and is made again.
TEST(ImperativeLoops, CF_01_BodiesAreDroppedAndPreparedAgain) {
  ImperativeOptions options = Tape::referenceOptions();
  options.maxKernels = 1;
  Imperative im(testContext(), options);
  for (int turn = 0; turn < 3; ++turn)
    for (size_t i : {0, 2, 4}) {
      const Case c = cases()[i];
      const Graph graph = loopFile(c.file);
      Taped taped(im, graph, c.bindings, c.wrt);
      EXPECT_EQ(taped.grad(false), run(gradientOf(graph, c.wrt), c.bindings)) << c.file.str();
    }
  EXPECT_EQ(im.memoryStats().numKernels, 1u);
}

}  // namespace
}  // namespace gradc::testing
