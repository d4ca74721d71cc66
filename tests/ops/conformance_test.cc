// Every operator against what its definition promises: shapes, gradients of three orders, decompositions, requests,
// in-place pairs, pieces, precision. Samples are in tests/conformance_samples/.
#include "tests/support/ops/cells.h"
#include "tests/support/ops/conformance.h"

#include "passes/lowering/lower_to.h"
#include "tests/support/test_graph.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <tuple>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

/// Operators of our own that cannot be expressed in MXNet's, and the lowest order of a gradient that has them. An
/// operator that is not here has to be lowered in every graph.
struct Refusal {
  StringRef op;
  uint32_t order;
  const char *reason;
};
constexpr uint32_t kByItself = 99;  // no graph of MXNet's operators leads to it: only its own samples have it
constexpr Refusal kRefusals[] = {
    {"_adagrad_update", kByItself, "MXNet takes row-sparse gradients only"},
    {"_assign", kByItself, "MXNet overwrites states inside the operators that have them"},
    {"_constant", kByItself, "MXNet makes tensors of one value alone"},
    {"_convolution_data_grad", 2, "MXNet has it inside _backward_Convolution, which has no gradient"},
    {"_deconvolution_weight_grad", 2, "MXNet has it inside _backward_Deconvolution, which has no gradient"},
    {"_in_training", 1,
     "MXNet's operators do not tell a graph in which form it runs; batch statistics as heads need it"},
    {"_polygamma", 2, "MXNet has psi inside its gradient operators alone"},
    {"_pool_gather", 2, "MXNet has no gradient of _backward_Pooling"},
    {"_pooling_grad", 2, "MXNet has no gradient of _backward_Pooling"},
    {"_scatter_nd", kByItself, "MXNet puts values on zeros alone"},
    {"_sample_normal", 1, "MXNet's keeps the noise to itself, which the gradient reads"},
    {"_sample_uniform", 1, "MXNet's keeps the noise to itself, which the gradient reads"},
    {"_scheduled_adagrad_update", kByItself, "MXNet takes row-sparse gradients only"},
    {"_scheduled_adam_update", kByItself, "MXNet's takes the rate as an attribute"},
    {"_scheduled_adamw_update", kByItself, "MXNet's takes the rate as an attribute"},
    {"_scheduled_ftml_update", kByItself, "MXNet's takes the rate and the step as attributes"},
    {"_scheduled_ftrl_update", kByItself, "MXNet's takes the rate as an attribute"},
    {"_scheduled_lamb_update_phase1", kByItself, "MXNet's takes the step as an attribute"},
    {"_scheduled_nag_mom_update", kByItself, "MXNet's takes the rate as an attribute"},
    {"_scheduled_rmsprop_update", kByItself, "MXNet's takes the rate as an attribute"},
    {"_scheduled_rmspropalex_update", kByItself, "MXNet's takes the rate as an attribute"},
    {"_scheduled_sgd_mom_update", kByItself, "MXNet's takes the rate as an attribute"},
    {"_sort_order", kByItself, "MXNet's argsort leaves open where NaN goes"},
    {"_scheduled_signum_update", kByItself, "MXNet's takes the rate as an attribute"},
    {"digamma", kByItself, "MXNet has psi inside its gradient operators alone"},
    {"_uniform_like", kByItself, "MXNet draws inside the operators that are random"},
};

// How many cells of each check have something to check, at least.
constexpr Cells::Floor kFloors[] = {
    {"INF_Inference", 1815},
    {"RUN_03_HO_02_Gradients", 1350},
    {"HO_01_Decompositions", 1580},
    {"REQ_03_UnrequestedOutputsAreLeftAlone", 1455},
    {"MEM_04_InplacePairs", 1280},
    {"RUN_03_PiecesAtTheBasePoint", 400},
    {"A_14_LoweredToMxnet", 205},
    {"A_14_LoweredGradients", 1615},
    {"A_17_LoweredGradients", 1605},
    {"A_17_LoweredToPrimitives", 1785},
    {"A_17_LoweredWithoutTheFirstAxis", 1785},
    {"RET_08_Forms", 1680},
    {"STOP_02_HeadGradients", 1110},
    {"RUN_03_SinglePrecision", 1560},
};

/// What the suite has seen so far.
struct Seen {
  Cells cells;
  size_t numLowered = 0;                  // samples whose graphs were lowered or refused
  std::map<StringRef, uint32_t> refused;  // by operator: the lowest order, kByItself for its own samples alone
  size_t numInBothForms = 0;              // samples whose kernels ran in both forms
  std::map<StringRef, bool> formReaders;  // operators that declare that they depend on the form, and whether one did
  std::map<StringRef, LoweredGradients> lowered;  // by target
  std::map<StringRef, size_t> numDifferentiated;  // by target: samples whose lowered forms were differentiated
} seen;

/// The operators that docs/gradient.md lists in a row of a table.
std::set<std::string> listedIn(const Twine &title) {
  std::ifstream page("docs/gradient.md");
  std::set<std::string> listed;
  for (std::string line; std::getline(page, line);)
    if (StringRef row = line; row.consume_front(("| " + title + " | ").str()))
      for (auto [at, name] = row.split('`').second.split('`'); !at.empty();
           std::tie(at, name) = name.split('`').second.split('`'))
        listed.insert(at.str());
  return listed;
}

const Refusal *findRefusal(StringRef op) {
  const Refusal *row = llvm::find_if(kRefusals, [&](const Refusal &r) { return r.op == op; });
  return row == std::end(kRefusals) ? nullptr : row;
}

class Conformance : public ::testing::TestWithParam<Sample> {
 protected:
  static void TearDownTestSuite() {
    seen.cells.print(allSamples().size(), kFloors);
    expectFormReaders();
    for (const auto &[target, number] : seen.numDifferentiated) {
      if (number != allSamples().size()) continue;
      EXPECT_EQ(listedIn(target), seen.lowered[target].refused) << "docs/gradient.md, " << target.str();
      EXPECT_EQ(listedIn(target + ", at singular points"), seen.lowered[target].singular)
          << "docs/gradient.md, " << target.str();
    }
    if (seen.numLowered != allSamples().size()) return;  // chosen by a filter
    for (const Refusal &row : kRefusals) {
      auto found = seen.refused.find(row.op);
      EXPECT_TRUE(found != seen.refused.end()) << row.op.str() << " is lowered after all";
      if (found == seen.refused.end()) continue;
      EXPECT_EQ(found->second, row.order) << row.op.str() << " is refused from another order on";
    }
  }

  // Each operator that declares it has been seen to depend on the form. RNNs that drop values have no samples, but a
  // test below.
  static void expectFormReaders() {
    if (seen.numInBothForms != allSamples().size()) return;  // chosen by a filter
    for (const auto &[op, differs] : seen.formReaders) EXPECT_TRUE(differs) << op.str() << " is the same in both forms";
    TestContext context;
    for (const OpDef *op : context.ops.all())
      if ((op->readsForm.fixed || op->readsForm.holds) && !op->name.contains("RNN")) {
        EXPECT_TRUE(seen.formReaders.count(op->name)) << "no sample of " << op->name.str() << " depends on the form";
      }
  }

  /// One check on the sample and its gradient graphs, `number` in all.
  template <class F> Findings overOrders(uint32_t number, F check) {
    Orders orders(context, sample, std::min(number, GetParam().orders + 1));
    Findings all;
    if (!orders.failure.empty()) all.problems.push_back(orders.failure);
    for (uint32_t order = 0; order < orders.graphs.size(); ++order) {
      const Graph &graph = orders.graphs[order];
      Findings found = check(graph, orders.bindings, order);
      all.numChecked += found.numChecked;
      for (std::string &problem : found.problems) all.problems.push_back(problem + "\n" + dump(graph));
    }
    return all;
  }

  /// Decompositions that name a type are held to it: constants that MXNet rounds are rounded by casts.
  NaiveOptions withDeclaredTypes() const {
    NaiveOptions options = sample.options;
    options.keepsTypes = true;
    return options;
  }

  Findings checkLoweringOf(const Graph &graph, const Bindings &bindings, uint32_t order) {
    StringRef refusal;
    Findings found = checkLowering(context, graph, bindings, withDeclaredTypes(), refusal);
    if (refusal.empty()) return found;
    const uint32_t from = !isMxnets(*context.ops.find(GetParam().op)) ? kByItself : order;
    const Refusal *row = findRefusal(refusal);
    if (!row || from < row->order)
      return {{"operator " + refusal.str() + " is not lowered at order " + std::to_string(order)}};
    uint32_t &lowest = seen.refused.try_emplace(row->op, kByItself).first->second;
    lowest = std::min(lowest, from);
    return found;
  }

  /// The sample and its gradient graphs in primitives alone, or up to what is irreducible.
  void checkPrimitivesOf(bool knowsFirstAxis) {
    auto check = [&](const Graph &graph, const Bindings &bindings, uint32_t) {
      std::map<const OpDef *, std::string> missing;
      Findings found = checkPrimitives(context, graph, bindings, withDeclaredTypes(), knowsFirstAxis, missing);
      for (const auto &[op, why] : missing)
        if (op->irreducible.empty()) found.problems.push_back("operator " + op->name.str() + " " + why);
      return found;
    };
    seen.cells.conclude(overOrders(3, check), "an irreducible operator");
  }

  void checkLoweredGradientsOf(const Target &target) {
    ++seen.numDifferentiated[target.name];
    // Also of operators whose gradients are declared: central differences of their values are of no order.
    const bool isDifferentiable = sample.graph.op(sample.node)->isDifferentiable();
    Orders orders(context, sample, std::min(3u, std::max(GetParam().orders + 1, isDifferentiable ? 2u : 1u)));
    Findings all;
    if (!orders.failure.empty()) all.problems.push_back(orders.failure);
    for (uint32_t order = 0; order + 1 < orders.graphs.size(); ++order) {
      Findings found = checkLoweredGradients(context, sample, orders, order, target, seen.lowered[target.name]);
      all.numChecked += found.numChecked;
      append_range(all.problems, found.problems);
    }
    seen.cells.conclude(all, "nothing to differentiate");
  }

  TestContext context;
  SampleGraph sample{context, GetParam()};
};

TEST_P(Conformance, INF_Inference) { seen.cells.conclude(checkInference(sample), "no shape function"); }

TEST_P(Conformance, RUN_03_HO_02_Gradients) {
  seen.cells.conclude(checkGradients(context, sample, GetParam().orders), "nothing to differentiate");
}

TEST_P(Conformance, HO_01_Decompositions) {
  auto check = [&](const Graph &graph, const Bindings &bindings, uint32_t) {
    return checkDecompositions(context, graph, bindings, withDeclaredTypes());
  };
  seen.cells.conclude(overOrders(3, check), "no decomposition");
}

TEST_P(Conformance, REQ_03_UnrequestedOutputsAreLeftAlone) {
  auto check = [&](const Graph &graph, const Bindings &bindings, uint32_t) {
    return checkRequests(graph, bindings, sample.options);
  };
  seen.cells.conclude(overOrders(3, check), "no element in any output of an operator that overwrites nothing");
}

TEST_P(Conformance, MEM_04_InplacePairs) {
  auto check = [&](const Graph &graph, const Bindings &bindings, uint32_t) {
    return checkInplace(graph, bindings, sample.options);
  };
  seen.cells.conclude(overOrders(3, check), "no in-place pair with an element");
}

TEST_P(Conformance, RUN_03_PiecesAtTheBasePoint) {
  auto check = [&](const Graph &graph, Bindings bindings, uint32_t) {
    Findings found = checkPieces(graph, bindings, sample.options);
    if (!sample.graph.op(sample.node)->piece) return found;
    // At a kink itself as well.
    for (auto &[name, array] : bindings)
      for (size_t i = 0; i < array.values.size(); i += 2) array.values[i] = 0;
    llvm::append_range(found.problems, checkPieces(graph, bindings, sample.options).problems);
    return found;
  };
  seen.cells.conclude(overOrders(2, check), "no piece with an element");
}

TEST_P(Conformance, A_14_LoweredToMxnet) {
  ++seen.numLowered;
  auto check = [&](const Graph &graph, const Bindings &bindings, uint32_t order) {
    return checkLoweringOf(graph, bindings, order);
  };
  seen.cells.conclude(overOrders(3, check), "no operator of our own that MXNet's can express");
}

TEST_P(Conformance, A_17_LoweredToPrimitives) { checkPrimitivesOf(true); }

TEST_P(Conformance, A_17_LoweredWithoutTheFirstAxis) { checkPrimitivesOf(false); }

TEST_P(Conformance, RET_08_Forms) {
  ++seen.numInBothForms;
  auto check = [&](const Graph &graph, const Bindings &bindings, uint32_t order) {
    return checkForms(graph, bindings, sample.options, order ? NodeId() : sample.node, seen.formReaders);
  };
  seen.cells.conclude(overOrders(3, check), "no element in any output");
}

TEST_P(Conformance, STOP_02_HeadGradients) {
  const Orders orders(context, sample, 2);
  seen.cells.conclude(checkHeads(sample, orders), "no gradient other than 0");
}

TEST_P(Conformance, A_17_LoweredGradients) { checkLoweredGradientsOf(kPrimitivesTarget); }

TEST_P(Conformance, A_14_LoweredGradients) { checkLoweredGradientsOf(kMxnetTarget); }

TEST_P(Conformance, RUN_03_SinglePrecision) {
  auto check = [&](const Graph &graph, const Bindings &bindings, uint32_t) {
    return checkPrecision(graph, bindings, sample.options);
  };
  seen.cells.conclude(overOrders(2, check), "no element in any output");
}

INSTANTIATE_TEST_SUITE_P(Samples, Conformance, ::testing::ValuesIn(allSamples()),
                         [](const ::testing::TestParamInfo<Sample> &info) {
                           return cellName(info.param.op, info.index);
                         });

TEST(ConformanceChecks, CellsWithNothingToCheckAreNotReal) {
  static Cells few;
  static constexpr Cells::Floor kOne[] = {{"check", 1}}, kTwo[] = {{"check", 2}};
  few.count("check", true);
  few.count("check", false);
  few.print(2, kOne);
  EXPECT_NONFATAL_FAILURE(few.print(2, kTwo), "check");
  EXPECT_NONFATAL_FAILURE(few.print(2, {}), "check has no floor");
  few.print(3, kTwo);  // not all rows ran
}

TEST(ConformanceChecks, SmallTensorsAreComparedAsSharplyAsLargeOnes) {
  TestGraph g("y = elemwise_sub(x, w)");
  for (double unit : {1.0, 1e-9}) {
    const NaiveRun run = cantFail(NaiveRun::run(g, {{"x", Array(3 * unit)}, {"w", Array(2 * unit)}}, NaiveOptions()));
    EXPECT_DOUBLE_EQ((Tolerance{1e-5, 1e-6}(run, g.at("y"))), 1.3e-5 * unit)
        << "of the difference, and of what it is of";
  }
}

// Its decomposition draws other numbers, so the suite has no samples of it.
TEST(ConformanceChecks, RET_08_AnRnnThatDropsValuesDependsOnTheForm) {
  std::map<StringRef, bool> readers;
  for (bool hasLengths : {false, true}) {
    Sample row{"RNN", "state_size=2, num_layers=2, mode=rnn_tanh, p=0.5", {{3, 2, 3}, {26}, {2, 2, 2}}, 1};
    if (hasLengths) {
      row.attrs = "state_size=2, num_layers=2, mode=rnn_tanh, p=0.5, use_sequence_length=True";
      row.inputs.push_back({2});
    }
    TestContext context;
    const SampleGraph sample(context, row);
    const Orders orders(context, sample, 2);
    ASSERT_EQ(orders.graphs.size(), 2u) << orders.failure;
    for (const Graph &graph : orders.graphs) {
      const NodeId exact = &graph == &orders.graphs[0] ? sample.node : NodeId();
      const Findings found = checkForms(graph, orders.bindings, sample.options, exact, readers);
      EXPECT_EQ(found.problems, std::vector<std::string>());
    }
  }
  EXPECT_EQ(readers, (std::map<StringRef, bool>{{"RNN", true}, {"_RNN_grad", true}, {"_backward_RNN", true}}));
}

// An operator with a gradient has samples of its own, or is what samples' gradients are made of.
TEST(ConformanceSamples, EveryDifferentiableOperatorIsSampled) {
  StringSet<> sampled;
  for (const Sample &row : allSamples()) {
    TestContext context;
    sampled.insert(row.op);
    SampleGraph sample(context, row);
    Orders orders(context, sample, std::min(4u, row.orders + 1));
    EXPECT_EQ(orders.failure, "") << row.op;
    std::vector<Graph> graphs = orders.graphs;
    if (graphs.size() > 1) {
      if (Expected<Graph> lowered = lowerTo(context, graphs[1], kMxnetTarget, nullptr)) graphs.push_back(*lowered);
      else consumeError(lowered.takeError());
    }
    for (const Graph &graph : graphs)
      for (uint32_t n = 0; n < graph.numNodes(); ++n)
        if (const OpDef *op = graph.op(NodeId(n))) sampled.insert(op->name);
  }
  TestContext context;
  std::string missing;
  for (const OpDef *op : context.ops.all()) {
    if (op->flow) continue;  // tests/ops/control_flow_test.cc and tests/passes/gradient/loop_gradient_test.cc have them
    const bool isDifferentiable = (op->gradient || op->decompose) && (op->inputs.names.count || op->inputs.number);
    if (isDifferentiable && !op->name.contains("test_") && !sampled.contains(op->name)) missing += op->name.str() + " ";
  }
  EXPECT_EQ(missing, "");
}

}  // namespace
}  // namespace gradc
