// Gradients of gradients, grad, its policies, and what the tape recorded as a graph.
#include "imperative/imperative.h"
#include "runtime/session/session.h"
#include "tests/support/ops/differences.h"
#include "tests/support/runs/imperative.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

TEST(ImperativeOrder, TA_05_HessianTimesVector) {
  Tape t;
  Tensor x = t.leaf({2}, {1, 2}), y = t.leaf({2}, {3, 4});
  Tensor z = t.add(t.add(t("square", {x}), t.mul(y, x)), t("square", {y}));
  t.backward({z}, {.createGraph = true});
  EXPECT_EQ(t.gradOf(x), (Doubles{5, 8}));
  EXPECT_EQ(t.gradOf(y), (Doubles{7, 10}));
  Tensor both = t.add(t.times(x.grad(), "2"), y.grad());
  t.backward({both});
  EXPECT_EQ(t.gradOf(x), (Doubles{10, 13}));
  EXPECT_EQ(t.gradOf(y), (Doubles{11, 14}));
}

// What the gradient operator of CTCLoss decomposes to reads data and labels; the operator itself reads neither.
TEST(ImperativeOrder, TA_05_FusedGradientThatDecomposesReadsTheForwardNode) {
  Tape t;
  const Tensor labels = t.value({1, 1}, {1}), weights = t.value({3, 1, 2}, {1, -2, 0.5, 3, 1, -1});
  auto weighted = [&](const Tensor &x) {
    return t.sum(t.mul(t.grad({t("CTCLoss", {x, labels})}, {x}, {.createGraph = true})[0], weights));
  };
  Doubles at = {0.3, -0.2, 0.1, 0.5, -0.4, 0.2};
  const Tensor x = t.leaf({3, 1, 2}, at);
  const Doubles second = doublesOf(t.grad({weighted(x)}, {x})[0]);
  EXPECT_LT(relativeDistance(second, differences(at, 1e-5, [&] { return scalar(weighted(t.leaf({3, 1, 2}, at))); })),
            1e-8);
}

TEST(ImperativeOrder, TA_06_PD_01_GradTouchesNoMark) {
  Tape t;
  Tensor x = t.leaf({2}, {1, 2}), y = t.leaf({2}, {3, 4});
  Tensor z = t.add(t.add(t("square", {x}), t.mul(y, x)), t("square", {y}));
  std::vector<Tensor> first = t.grad({z}, {x, y}, {.createGraph = true});
  EXPECT_EQ(doublesOf(first[0]), (Doubles{5, 8}));
  std::vector<Tensor> second = t.grad({t.add(t.times(first[0], "2"), first[1])}, {x, y});
  EXPECT_EQ(doublesOf(second[0]), (Doubles{5, 5}));
  EXPECT_EQ(doublesOf(second[1]), (Doubles{4, 4}));
  EXPECT_FALSE(second[0].isTracked());
  EXPECT_FALSE(x.grad());
  EXPECT_FALSE(y.grad());
}

TEST(ImperativeOrder, TA_07_GradByComputedValues) {
  Tape t;
  Tensor seed = t.leaf({3}, {1, -2, 3}), x = t.times(seed, "1");
  double last = 1e9;
  for (int step = 0; step < 5; ++step) {
    Tensor y = t.sum(t("square", {x}));
    EXPECT_LT(scalar(y), last);
    last = scalar(y);
    Tensor g = t.grad({y}, {x}, {.retain = true})[0];
    x = t("elemwise_sub", {x, t.times(g, "0.1")});
  }
  EXPECT_FALSE(seed.grad());
}

TEST(ImperativeOrder, TA_08_XS_08_SiblingOutputs) {
  Tape t;
  Tensor x = t.leaf({2, 2}, {1, 2, 3, 4});
  llvm::SmallVector<Tensor, 2> parts = t.all("SliceChannel", {x}, {{"num_outputs", "2"}, {"axis", "0"}});
  Tensor y = t.add(parts[0], t.times(parts[1], "2"));
  std::vector<Tensor> g = t.grad({y}, parts, {.heads = t.value({1, 2}, {1, 10})});
  EXPECT_EQ(doublesOf(g[0]), (Doubles{1, 10}));
  EXPECT_EQ(doublesOf(g[1]), (Doubles{2, 20}));
}

TEST(ImperativeOrder, TA_10_HO_08_PD_02_UnusedPolicies) {
  Tape t;
  Tensor x = t.leaf(3), a = t.leaf(5), z = t.leaf(1);
  cantFail(t.im.setName(z, "z"));
  Tensor dx = t.grad({t.mul(x, a)}, {x}, {.createGraph = true})[0];
  EXPECT_EQ(scalar(dx), 5);
  EXPECT_FALSE(t.grad({dx}, {x}, {.retain = true, .unused = UnusedPolicy::None})[0]);
  Tensor zero = t.grad({dx}, {x}, {.retain = true, .createGraph = true, .unused = UnusedPolicy::Zeros})[0];
  EXPECT_EQ(scalar(zero), 0);
  // Zeros are a function of x that is zero, to every order.
  for (int order = 3; order <= 5; ++order) {
    EXPECT_TRUE(zero.isTracked()) << order;
    EXPECT_EQ(scalar(t.grad({zero}, {x}, {.retain = true, .unused = UnusedPolicy::None})[0]), 0);
    zero = t.grad({zero}, {x}, {.retain = true, .createGraph = true, .unused = UnusedPolicy::Zeros})[0];
    EXPECT_EQ(scalar(zero), 0);
  }
  EXPECT_FALSE(t.grad({dx}, {x}, {.retain = true, .unused = UnusedPolicy::Zeros})[0].isTracked());
  const GradcError error = errorOf(t.im.grad({dx}, {a, z}, {.retain = true}));
  EXPECT_EQ(error.kind, ErrorKind::Unreachable);
  EXPECT_NE(error.message.find("x number 2, 'z'"), std::string::npos) << error.message;
  std::vector<Tensor> some = t.grad({dx}, {a, z}, {.unused = UnusedPolicy::None});
  EXPECT_EQ(scalar(some[0]), 1);
  EXPECT_FALSE(some[1]);
}

TEST(ImperativeOrder, PD_03_E_10_E_11_Duplicates) {
  Tape t;
  Tensor x = t.leaf(3), y = t("square", {x});
  EXPECT_EQ(t.rowOf(t.im.grad({y}, {x, x}, {.duplicates = DuplicatePolicy::Strict})), "E-10");
  EXPECT_EQ(t.rowOf(t.im.grad({y, y}, {x}, {.duplicates = DuplicatePolicy::Strict})), "E-11");
  EXPECT_EQ(scalar(t.grad({y, y}, {x})[0]), 12);
}

TEST(ImperativeOrder, PD_04_PD_05_XS_09_H_07_RootsAndTargetsOnOnePath) {
  Tape t;
  Tensor x = t.leaf(3), a = t.times(x, "2"), y = t("square", {a});
  std::vector<Tensor> g = t.grad({y}, {x, a});
  EXPECT_EQ(scalar(g[0]), 24);
  EXPECT_EQ(scalar(g[1]), 12);
  EXPECT_EQ(scalar(t.grad({x}, {x})[0]), 1);
  Tensor next = t.plus(x, "1");
  EXPECT_EQ(scalar(t.grad({next, x}, {x}, {.retain = true})[0]), 2);
  EXPECT_EQ(scalar(t.grad({x, next}, {next}, {.retain = true})[0]), 1);
  EXPECT_EQ(t.rowOf(t.im.grad({x}, {next}, {})), "E-01");
}

TEST(ImperativeOrder, PD_06_PD_10_MA_14_E_06_E_07_E_13_E_14_BadRequests) {
  Tape t;
  Tensor x = t.leaf(1), plain = t.value(1), y = t.mul(x, plain);
  cantFail(t.im.setName(plain, "plain"));
  EXPECT_EQ(t.rowOf(t.im.grad({y}, {x}, {.noGrad = Tensor()})), "E-14");
  EXPECT_EQ(t.rowOf(t.im.grad({y}, {x}, {.heads = {x, x}})), "E-37");
  EXPECT_EQ(t.rowOf(t.im.grad({y}, {x}, {.onlyInputs = false})), "E-13");
  EXPECT_EQ(t.rowOf(t.im.grad({y}, {}, {})), "E-07");
  const GradcError error = errorOf(t.im.grad({y}, {x, plain}, {}));
  EXPECT_EQ(error.kind, ErrorKind::NotRequiresGrad);
  EXPECT_NE(error.message.find("x number 2, tensor 'plain'"), std::string::npos) << error.message;
  EXPECT_EQ(t.rowOf(t.im.grad({plain}, {x}, {})), "E-04");
}

TEST(ImperativeOrder, PD_07_NG_04_NG_05_NoGrad) {
  Tape t;
  Tensor x = t.leaf({2}, {2, -1});
  Tensor y1 = t("relu", {x}), y2 = t("relu", {x});
  Tensor w = t("mean", {t("square", {t.add(y1, y2)})});
  EXPECT_EQ(doublesOf(t.grad({w}, {x}, {.retain = true, .noGrad = y2})[0]), (Doubles{4, 0}));
  EXPECT_EQ(doublesOf(t.grad({w}, {x})[0]), (Doubles{8, 0}));
  EXPECT_TRUE(y2.isTracked());
}

TEST(ImperativeOrder, PD_08_H_12_HeadBytesAreUnchanged) {
  Tape t;
  Tensor x = t.leaf(2), y = t("square", {x}), z = t("square", {y});
  const Tensor heads[] = {t.value(3), t.value(5)};
  EXPECT_EQ(scalar(t.grad({y, z}, {x}, {.heads = heads})[0]), 172);
  EXPECT_EQ(scalar(heads[0]), 3);
  EXPECT_EQ(scalar(heads[1]), 5);
}

TEST(ImperativeOrder, PD_09_HO_07_TheFirstGradientInTheLoss) {
  for (bool createGraph : {true, false}) {
    Tape t;
    Tensor x = t.leaf({2}, {1, 2});
    for (int i = 1; i <= 2; ++i) {
      Tensor y = t.mul(t("square", {x}), x);
      Tensor dx = t.grad({y}, {x}, {.createGraph = createGraph})[0];  // 3 x²
      t.backward({t("mean", {t.add(t("square", {dx}), t("square", {x}))})});
      // d/dx (9 x⁴ + x²) / 2
      EXPECT_EQ(t.gradOf(x), (createGraph ? Doubles{19.0 * i, 146.0 * i} : Doubles{1.0 * i, 2.0 * i}));
    }
  }
}

TEST(ImperativeOrder, PD_11_CON_08_ALadderOfDiamonds) {
  Tape t;
  Tensor x = t.leaf(1), y = x;
  for (int i = 0; i < 40; ++i) y = t.add(y, y);
  t.backward({y});
  EXPECT_EQ(scalar(x.grad()), std::ldexp(1, 40));
}

TEST(ImperativeOrder, PD_18_PD_21_RET_04_PrunedBranchesAndPartialBackward) {
  Tape t;
  Tensor a = t.leaf(1), b = t.leaf(2), x = t.value(3);
  Tensor lossA = t.mul(a, x), lossB = t.mul(b, x);
  t.backward({lossA});
  EXPECT_EQ(scalar(a.grad()), 3);
  EXPECT_FALSE(b.grad());
  EXPECT_FALSE(b.isFresh());
  t.backward({lossB});
  EXPECT_EQ(scalar(b.grad()), 3);
  EXPECT_EQ(scalar(a.grad()), 3);
  // What one backward retains the next one does not clear.
  Tensor kept = t.mul(a, x), other = t.mul(b, x);
  t.backward({kept}, {.retain = true});
  t.backward({other});
  t.backward({kept});
  EXPECT_EQ(scalar(a.grad()), 9);
}

TEST(ImperativeOrder, PD_20_MA_01_HeadsOfWhichSomeAreMissing) {
  Tape t;
  Tensor x = t.leaf(2), y = t.leaf(3);
  const Tensor heads[] = {Tensor(), t.value(10)};
  std::vector<Tensor> g = t.grad({t.mul(x, y), t.add(x, t.mul(x, y))}, {x, y}, {.heads = heads});
  EXPECT_EQ(scalar(g[0]), 3 + 10 * 4);
  EXPECT_EQ(scalar(g[1]), 2 + 10 * 2);
}

TEST(ImperativeOrder, TA_27_BackwardWithGraph) {
  Tape t;
  Tensor x = t.leaf(2), y = t.mul(t("square", {x}), x);
  t.backward({y}, {.createGraph = true});
  Tensor g = x.grad();
  EXPECT_EQ(scalar(g), 12);
  cantFail(t.im.setGrad(x, Tensor()));
  t.backward({g});
  EXPECT_EQ(scalar(x.grad()), 12);
}

TEST(ImperativeOrder, TA_28_ThirdOrder) {
  Tape t;
  auto orders = [&](double at, function_ref<Tensor(Tensor)> f) {
    Tensor x = t.leaf(at), y = f(x);
    Doubles values;
    for (int order = 1; order <= 3; ++order) {
      y = t.grad({y}, {x}, {.createGraph = true})[0];
      values.push_back(scalar(y));
    }
    return values;
  };
  EXPECT_EQ(orders(2, [&](Tensor x) { return t("square", {t("square", {x})}); }), (Doubles{32, 48, 48}));
  const Doubles sine = orders(0.3, [&](Tensor x) { return t("sin", {x}); });
  for (auto [found, expected] : zip_equal(sine, Doubles{std::cos(0.3), -std::sin(0.3), -std::cos(0.3)}))
    EXPECT_NEAR(found, expected, 1e-15);
}

TEST(ImperativeOrder, MA_13_V_19_Gradient) {
  Tape t;
  Tensor x = t.leaf(1), z = t.add(t("exp", {x}), x);
  Tensor dx = t.grad({z}, {x}, {.createGraph = true})[0];
  EXPECT_NEAR(scalar(dx), 3.7182817, 1e-6);
  t.backward({dx});
  EXPECT_NEAR(scalar(x.grad()), 2.7182817, 1e-6);
}

TEST(ImperativeOrder, MA_19_HO_06_ByTheHead) {
  Tape t;
  for (StringRef op : {"sin", "exp", "tanh", "square", "sigmoid"}) {
    Tensor x = t.leaf(0.7), head = t.leaf(1.5), y = t(op, {x});
    Tensor dx = t.grad({y}, {x}, {.heads = head, .createGraph = true})[0];
    Tensor derivative = t.grad({y}, {x}, {.retain = true})[0];
    EXPECT_NEAR(scalar(t.grad({dx}, {head})[0]), scalar(derivative), 1e-12) << op.str();
  }
}

// Central differences of the gradient of one order less.
TEST(ImperativeOrder, MA_18_PD_13_OrdersAgainstDifferences) {
  Tape t;
  struct Case {
    StringRef name;
    std::function<Tensor(Tensor)> f;
  };
  const Tensor weight = t.value({3, 2}, {0.3, -0.2, 0.5, 0.1, -0.4, 0.7}), bias = t.value({3}, {0.1, 0.2, 0.3});
  const Case cases[] = {
      {"sin", [&](Tensor x) { return t("sin", {x}); }},
      {"cos", [&](Tensor x) { return t("cos", {x}); }},
      {"tan", [&](Tensor x) { return t("tan", {x}); }},
      {"log", [&](Tensor x) { return t("log", {t("cosh", {x})}); }},
      {"sigmoid", [&](Tensor x) { return t("sigmoid", {x}); }},
      {"tanh", [&](Tensor x) { return t("tanh", {x}); }},
      {"dense", [&](Tensor x) { return t("tanh", {t("FullyConnected", {x, weight, bias}, {{"num_hidden", "3"}})}); }},
      {"matmul", [&](Tensor x) { return t("tanh", {t("dot", {t("tanh", {t("dot", {x, x})}), x})}); }},
      {"softmax", [&](Tensor x) { return t("softmax", {x}); }},
  };
  for (const Case &c : cases) {
    Doubles at = {0.3, -0.4, 0.2, 0.6};
    auto headOf = [&](const Tensor &y, int order) {
      Doubles head;
      for (int64_t i = 0; i < y.size(); ++i)
        head.push_back(0.5 + RandomKey{7, static_cast<uint64_t>(order), 1}.uniform(static_cast<uint64_t>(i)));
      return t.value(y.shape(), head);
    };
    auto gradient = [&](int order) {
      Tensor x = t.leaf({2, 2}, at), y = c.f(x);
      for (int k = 1; k < order; ++k) y = t.grad({y}, {x}, {.heads = headOf(y, k), .createGraph = true})[0];
      const Tensor head = headOf(y, order);
      return std::pair(scalar(t.sum(t.mul(y, head))), doublesOf(t.grad({y}, {x}, {.heads = head})[0]));
    };
    for (int order = 1; order <= 3; ++order) {
      const Doubles found = gradient(order).second;
      EXPECT_LT(relativeDistance(found, differences(at, 1e-5, [&] { return gradient(order).first; })), 2e-8)
          << c.name.str() << " order " << order;
    }
  }
}

TEST(ImperativeOrder, PD_12_E_02_NamesTheOperatorAndTheCall) {
  Tape t;
  Tensor w = t.leaf(1), g = t.value(1), lr = t.value(0.1);
  Tensor y = t("_scheduled_sgd_update", {w, g, lr});
  const GradcError error = errorOf(t.im.backward({y}, {}));
  EXPECT_EQ(error.kind, ErrorKind::NotDifferentiable);
  EXPECT_NE(error.message.find("_scheduled_sgd_update#1"), std::string::npos) << error.message;
}

// At the second order the call that lacks a gradient is one that a backward made: the error leads back to the user's.
TEST(ImperativeOrder, PD_12_E_02_AtTheSecondOrderTheUsersCallToo) {
  Tape t;
  const auto function = std::make_shared<Function>();
  function->name = "once";
  function->isOnceDifferentiable = true;
  function->forward = [&](const FunctionContext &, Tensors in) -> Expected<TensorList> {
    return TensorList{t("square", {in[0]})};
  };
  function->backward = [&](const FunctionContext &, Tensors dy) -> Expected<TensorList> {
    return TensorList{t.times(dy[0], "2")};
  };
  Tensor x = t.leaf(3), y = cantFail(t.im.apply(function, {x}, CallSite{"model.cc", 7}))[0];
  const Tensor dx = t.grad({y}, {x}, {.createGraph = true})[0];
  AnomalyScope scope(t.im);
  const GradcError error = errorOf(t.im.grad({dx}, {x}, {}).takeError());
  EXPECT_EQ(error.kind, ErrorKind::NotDifferentiable);
  ASSERT_FALSE(error.notes.empty());
  EXPECT_NE(error.notes.back().text.find("'once' at model.cc:7, the gradient of call"), std::string::npos)
      << error.notes.back().text;
}

TEST(ImperativeOrder, MA_12_E_34_GraphOf) {
  Tape t;
  Tensor x = t.leaf({2}, {1, 2}), z = t.value({2}, {3, 4});
  Tensor one = t("_minus_scalar", {t.add(t.mul(x, x), t.times(x, "2"))}, {{"scalar", "1"}});
  Graph single = cantFail(t.im.graphOf({one}));
  EXPECT_EQ(listInputs(single).args.size(), 1u);
  EXPECT_EQ(single.name(listInputs(single).args[0]), "arg0");
  cantFail(t.im.setName(z, "z"));
  Tensor two = t("_minus_scalar", {t.add(t.mul(x, x), t.times(t.mul(z, x), "2"))}, {{"scalar", "1"}});
  Graph both = cantFail(t.im.graphOf({two}));
  ASSERT_EQ(listInputs(both).args.size(), 2u);
  EXPECT_EQ(both.name(listInputs(both).args[1]), "z");
  cantFail(t.im.setName(x, "z"));
  EXPECT_EQ(t.rowOf(t.im.graphOf({two})), "E-34");
  EXPECT_EQ(t.rowOf(t.im.graphOf({z})), "E-04");
  // Ahead of time it gives what the tape gave.
  cantFail(t.im.setName(x, ""));
  both = cantFail(t.im.graphOf({two}));
  GradientRequest request;
  request.wrt = {{Value{listInputs(both).args[0]}}};
  const Graph compiled = cantFail(buildGradient(t.context, both, request, GradientOptions())).graph;
  SessionOptions options;
  options.exec.backend = Backend::Reference;
  Session session = cantFail(
      Session::create(t.context, compiled, {{"arg0", doubles({2}, {1, 2})}, {"z", doubles({2}, {3, 4})}}, options));
  cantFail(session.run(0));
  t.backward({two});
  EXPECT_EQ(valuesOf<double>(session.head(1)), t.gradOf(x));
  EXPECT_EQ(t.rowOf(t.im.graphOf({two})), "E-20");
}

// Names that graphOf makes avoid those of tensors that come later.
TEST(ImperativeOrder, MA_12_E_34_NamesOfTensorsThatGraphOfCouldMake) {
  Tape t;
  Tensor a = t.leaf(1), b = t.leaf(2), c = t.value(3);
  cantFail(t.im.setName(b, "arg0"));
  cantFail(t.im.setName(c, "elemwise_mul0"));
  const Graph graph = cantFail(t.im.graphOf({t.mul(t.mul(t.mul(a, a), b), c)}));
  std::vector<std::string> names;
  for (uint32_t n = 0; n < graph.numNodes(); ++n) names.push_back(graph.name(NodeId(n)).str());
  llvm::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"arg0", "arg1", "elemwise_mul0", "elemwise_mul1", "elemwise_mul2",
                                             "elemwise_mul3"}));
}

// The graph would compute something else than what ran.
TEST(ImperativeOrder, MA_12_E_31_NoGraphHasTwoValuesOfOneTensor) {
  Tape t;
  auto overwrite = [&](const Tensor &x) {
    NoGradScope inside(t.im);
    cantFail(t.into("_plus_scalar", {x}, {x}, {{"scalar", "1"}}));
  };
  for (int which = 0; which < 3; ++which) {
    Tensor x = t.leaf(3), c = t.value(2), y = t.times(x, "2");
    const Tensor overwritten = which == 0 ? x : which == 1 ? c : y;
    Tensor before = t.add(t.add(x, c), y);
    EXPECT_EQ(t.rowOf(t.im.graphOf({before})), "success");
    overwrite(overwritten);
    Tensor after = t.add(t.add(x, c), y);
    // y has read x before; it has been computed before itself.
    EXPECT_EQ(t.rowOf(t.im.graphOf({after})), which == 1 ? "success" : "E-31");
    const GradcError error = errorOf(t.im.graphOf({t.add(before, after)}).takeError());
    EXPECT_EQ(error.kind, ErrorKind::StaleVersion);
    EXPECT_NE(error.message.find("no graph has both values"), std::string::npos) << error.message;
  }
  Tensor u = t.leaf(3), v = t("Flatten", {u});  // the same memory
  EXPECT_EQ(t.rowOf(t.im.graphOf({t.mul(v, v)})), "success");
  overwrite(u);
  EXPECT_EQ(t.rowOf(t.im.graphOf({t.mul(v, v)})), "E-31");
  const Tensor now = t("Flatten", {u});
  EXPECT_EQ(t.rowOf(t.im.graphOf({t.mul(now, now)})), "success");
  ImperativeOptions options = Tape::referenceOptions();
  options.inplace = InplacePolicy::Rebase;
  Tape rebasing(options);
  Tensor w = rebasing.times(rebasing.leaf(3), "2");
  cantFail(rebasing.into("_mul_scalar", {w}, {w}, {{"scalar", "10"}}));
  EXPECT_EQ(t.rowOf(rebasing.im.graphOf({rebasing.mul(w, w)})), "success");
  // What calls overwrite themselves has versions in a graph.
  Tensor x = t.leaf({2, 2}, {1, 2, 3, 5}), scale = t.value({2}, {1, 2}), mean = t.value({2}, {0, 0});
  Tensor y = t("BatchNorm", {x, scale, scale, mean, t.value({2}, {1, 1})});
  y = t("BatchNorm", {y, scale, scale, mean, t.value({2}, {1, 1})});
  EXPECT_EQ(t.rowOf(t.im.graphOf({y})), "success");
}

TEST(ImperativeOrder, GraphsOfGradientsAreGraphs) {
  Tape t;
  Tensor x = t.leaf(2), y = t("tanh", {x});
  Tensor dx = t.grad({y}, {x}, {.createGraph = true})[0];
  Expected<Graph> graph = t.im.graphOf({dx});
  ASSERT_TRUE(static_cast<bool>(graph)) << toString(graph.takeError());
  EXPECT_EQ(listInputs(*graph).args.size(), 1u);
}

}  // namespace
}  // namespace gradc
