// Steps that Paddle 2.6.2 has added and run (testdata/paddle_steps, made by tests/oracles/paddle_record.py): what
// minimize adds is what Paddle adds, operator for operator, and leaves what Paddle left in parameters and states.
#include "tests/support/blocks/backward_programs.h"
#include "tests/support/blocks/block_runs.h"
#include "tests/support/blocks/recorded_arrays.h"
#include "tests/support/test_graph.h"

#include "formats/blocks/backward/minimize.h"
#include "formats/blocks/graph/graph_of_blocks.h"

#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

/// The optimizer of a call whose arguments are JSON.
FluidOptimizer optimizerOf(const BlockCall &call) {
  FluidOptimizer optimizer;
  optimizer.name = call.optimizer.value_or("SGD");
  for (const auto &[name, spelled] : *call.optimizerArguments) {
    const auto json = nlohmann::json::parse(spelled);
    const double value = json.is_boolean() ? json.get<bool>() : json.get<double>();
    const bool isNorm = name == "clip_by_global_norm";
    if (!isNorm && name != "clip_by_value") {
      optimizer.arguments[name] = value;
      continue;
    }
    optimizer.clip = isNorm ? FluidOptimizer::Clip::GlobalNorm : FluidOptimizer::Clip::Value;
    optimizer.clipMax = value;
    optimizer.clipMin = -value;
  }
  return optimizer;
}

class PaddleSteps : public ::testing::TestWithParam<std::string> {};

TEST_P(PaddleSteps, A_19_TheStepIsPaddlesProgramAndHasItsValues) {
  TestContext context;
  const auto buffer =
      cantFail(errorOrToExpected(MemoryBuffer::getFile("testdata/paddle_steps/" + GetParam() + ".json")));
  BlockFile file = cantFail(readBlocks(context, buffer->getBuffer()));
  const auto recorded = nlohmann::json::parse(file.others.at("recorded"));
  BlockFile emitted;
  if (file.call) {
    const nlohmann::json after = {{"program", recorded["program"]}};
    FluidResult made =
        cantFail(minimize(context, std::move(file.program), requestOf(*file.call), optimizerOf(*file.call)));
    emitted.program = std::move(made.program);
    EXPECT_EQ(text(emitted), text(cantFail(readBlocks(context, after.dump()))));
  } else {
    emitted.program = std::move(file.program);
  }
  BlockGraphOptions options;
  for (const auto &[name, value] : recorded["after"].items())
    if (!StringRef(name).starts_with("learning_rate")) options.heads.push_back(name);
  const Graph graph = cantFail(graphOfBlocks(context, emitted.program, options)).graph;
  std::vector<NamedArray> bindings;
  for (uint32_t n = 0; n < graph.numNodes(); ++n)
    if (graph.isVariable(NodeId(n)))
      bindings.push_back(
          {graph.name(NodeId(n)).str(), recordedArray(recorded["given"].at(graph.name(NodeId(n)).str()))});
  const std::vector<Array> values = cantFail(runHeads(context, graph, std::move(bindings)));
  ASSERT_EQ(values.size(), options.heads.size());
  for (auto [name, value] : zip(options.heads, values)) {
    const Array expected = recordedArray(recorded["after"].at(name));
    EXPECT_LE(largestDifference(value.view(), expected.view()), expected.dtype == DType::Float64 ? 1e-12 : 1e-6)
        << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded, PaddleSteps, ::testing::ValuesIn(recordedNames("testdata/paddle_steps")),
                         [](const auto &test) { return test.param; });

constexpr StringLiteral kTwo = "elementwise_mul X=pb Y=pa -> Out=a\nreduce_sum X=a -> Out=loss";

std::string refusal(const FluidOptimizer &optimizer) {
  TestContext context;
  Expected<FluidResult> result = minimize(context, programOf(kTwo), lossOf(), optimizer);
  return result ? "success" : describeWithNotes(result.takeError());
}

TEST(Minimize, NamesWhatAnOptimizerHas) {
  FluidOptimizer optimizer;
  optimizer.name = "rmsprop";
  EXPECT_EQ(refusal(optimizer), "success") << "in any case";
  optimizer.arguments = {{"beta1", 0.5}};
  EXPECT_EQ(refusal(optimizer),
            "[unsupported_option] optimizer RMSProp has no argument 'beta1', expected centered, rho, "
            "epsilon, momentum, weight_decay, l1_decay");
  optimizer.arguments = {{"weight_decay", 0.5}, {"l1_decay", 0.5}};
  EXPECT_EQ(refusal(optimizer),
            "[unsupported_option] both 'weight_decay' and 'l1_decay' are given, expected one of them");
  optimizer = {.name = "Lamb", .arguments = {{"weight_decay", 0.5}}};
  EXPECT_EQ(refusal(optimizer), "[unsupported_option] optimizer Lamb has no argument 'weight_decay', expected "
                                "always_adapt, beta1, beta2, epsilon, lamb_weight_decay");
  optimizer = {.name = "Rprop"};
  EXPECT_EQ(refusal(optimizer),
            "[unsupported_option] optimizer 'Rprop' is not supported, expected SGD, Momentum, Adam, AdamW, Adamax, "
            "Adagrad, Adadelta, RMSProp, Lamb or LarsMomentum");
}

// Paddle's kernel for processors ignores the factor; that for other devices does not.
TEST(Minimize, AGradientIsRescaled) {
  FluidOptimizer optimizer{.name = "Momentum", .arguments = {{"rescale_grad", 0.5}, {"momentum", 0}}};
  TestContext context;
  const FluidResult result = cantFail(minimize(context, programOf(kTwo), lossOf(), optimizer));
  BlockGraphOptions options;
  options.heads = {"pa_velocity_0"};
  const Graph graph = cantFail(graphOfBlocks(context, result.program, options)).graph;
  std::vector<NamedArray> bindings = drawnBindings(graph, 1);
  const auto pb = find_if(bindings, [](const NamedArray &each) { return each.name == "pb"; });
  ASSERT_NE(pb, bindings.end());
  Array expected = pb->array;
  for (size_t i = 0; i < expected.bytes.size() / sizeof(double); ++i) expected.ref().as<double>()[i] /= 2;
  const std::vector<Array> values = cantFail(runHeads(context, graph, std::move(bindings)));
  EXPECT_LE(largestDifference(values[0].view(), expected.view()), 1e-15);
}

TEST(Minimize, IsOfTheRoot) {
  constexpr StringLiteral text = "elementwise_mul X=pb Y=pa -> Out=a\nreduce_sum X=a -> Out=loss";
  TestContext context;
  FluidOptimizer optimizer;
  optimizer.learningRate = "Out";  // which so far names a slot
  const FluidResult result = cantFail(minimize(context, programOf(text), lossOf(), optimizer));
  const BlockVariable *rate = result.program.find(0, result.program.texts.find("Out"));
  EXPECT_TRUE(rate && rate->isPersistable);
  cantFail(verifyBlocks(result.program));
  optimizer.name = "Momentum";
  const FluidResult stepped = cantFail(minimize(context, programOf(text), lossOf(), optimizer));
  const BlockVariable *state = stepped.program.find(0, stepped.program.texts.find("pa_velocity_0"));
  EXPECT_TRUE(state && state->isPersistable && !state->stopsGradient) << "as Paddle declares it";
  constexpr StringLiteral loop = "while:1 Condition=cond X=s,p,n -> Out=s,cond StepScopes=scopes\n"
                                 "reduce_sum X=s -> Out=loss\n"
                                 "block 1 in 0\n"
                                 "matmul_v2 X=s Y=p -> Out=a\nassign X=a -> Out=s\nless_than X=s Y=n -> Out=cond";
  FluidRequest inner = lossOf();
  inner.block = 1;
  optimizer.clip = FluidOptimizer::Clip::Value;
  EXPECT_EQ(
      describeWithNotes(minimize(context, programOf(loop), inner, optimizer).takeError()),
      "[unsupported_option] the loss is in block 1, expected the root, which gets the operators of the optimizer");
}

TEST(Minimize, ClipsAndSteps) {
  auto minimized = [](FluidOptimizer optimizer) {
    TestContext context;
    FluidResult result = cantFail(minimize(
        context, programOf("elementwise_mul X=pb Y=pa -> Out=a\nreduce_sum X=a -> Out=loss"), lossOf(), optimizer));
    return dump(result.program, 0, 5);
  };
  FluidOptimizer optimizer;
  EXPECT_EQ(minimized(optimizer),
            "sgd Grad=pa@GRAD LearningRate=learning_rate_0 MasterParam= Param=pa -> ParamOut=pa\n"
            "sgd Grad=pb@GRAD LearningRate=learning_rate_0 MasterParam= Param=pb -> ParamOut=pb\n")
      << "in the order of the names";
  optimizer.name = "Momentum";
  optimizer.clip = FluidOptimizer::Clip::Value;
  EXPECT_EQ(minimized(optimizer),
            "clip Max= Min= X=pa@GRAD -> Out=clip_0.tmp_0\nclip Max= Min= X=pb@GRAD -> Out=clip_1.tmp_0\n"
            "momentum Grad=clip_0.tmp_0 LearningRate=learning_rate_0 MasterParam= Param=pa Velocity=pa_velocity_0 -> "
            "ParamOut=pa "
            "VelocityOut=pa_velocity_0\n"
            "momentum Grad=clip_1.tmp_0 LearningRate=learning_rate_0 MasterParam= Param=pb Velocity=pb_velocity_0 -> "
            "ParamOut=pb "
            "VelocityOut=pb_velocity_0\n");
  optimizer.name = "Adam";
  optimizer.clip = FluidOptimizer::Clip::Norm;
  const std::string adam = minimized(optimizer);
  EXPECT_TRUE(StringRef(adam).starts_with("clip_by_norm X=pa@GRAD -> Out=clip_by_norm_0.tmp_0\n"));
  EXPECT_TRUE(
      StringRef(adam).contains("adam Beta1Pow=pa_beta1_pow_acc_0 Beta1Tensor= "
                               "Beta2Pow=pa_beta2_pow_acc_0 Beta2Tensor= EpsilonTensor= Grad=clip_by_norm_0.tmp_0 "
                               "LearningRate=learning_rate_0 "));
}

}  // namespace
}  // namespace gradc
