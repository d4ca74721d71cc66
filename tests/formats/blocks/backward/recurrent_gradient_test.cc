// The gradient of `recurrent` as a program: the operators of Paddle's maker, which are what the gradient engine
// computes.
#include "tests/support/blocks/backward_programs.h"
#include "tests/support/blocks/recurrent_programs.h"

#include <gtest/gtest.h>

#include <functional>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

TEST(RecurrentGradient, CF_18_HasTheOperatorsOfPaddlesMaker) {
  RecurrentProgram p;
  p.addCell();
  p.addLoss("y");
  BlockProgram made;
  cantFail(emittedGradients(p, &made));
  EXPECT_EQ(dump(made, 0, 3),
            "fill_constant -> Out=loss@GRAD\n"
            "reduce_sum_grad Out@GRAD=loss@GRAD X=y_2 -> X@GRAD=y_2@GRAD\n"
            "square_grad Out@GRAD=y_2@GRAD X=y -> X@GRAD=y@GRAD\n"
            "recurrent_grad:2 initial_states=h0 inputs=p outputs=y outputs@GRAD=y@GRAD parameters=w step_scopes=scopes "
            "step_scopes@GRAD=scopes -> initial_states@GRAD=h0@GRAD inputs@GRAD=p@GRAD parameters@GRAD=w@GRAD\n");
  EXPECT_EQ(dump(made, 2), "rnn_memory_helper_grad Out=s Out@GRAD=s@GRAD X=n -> X@GRAD=n@GRAD@RENAME@block1@0\n"
                           "rnn_memory_helper_grad Out=y Out@GRAD=y@GRAD X=n -> X@GRAD=n@GRAD@RENAME@block1@1\n"
                           "sum X=n@GRAD@RENAME@block1@0,n@GRAD@RENAME@block1@1 -> Out=n@GRAD\n"
                           "tanh_grad Out=n Out@GRAD=n@GRAD -> X@GRAD=a@GRAD\n"
                           "elementwise_add_grad Out@GRAD=a@GRAD X=m Y=p -> X@GRAD=m@GRAD Y@GRAD=p@GRAD\n"
                           "elementwise_mul_grad Out@GRAD=m@GRAD X=h Y=w -> X@GRAD=h@GRAD Y@GRAD=w@GRAD\n");
  EXPECT_FALSE(made.find(2, made.texts.find("s@GRAD"))) << "there is none in the last step";
  EXPECT_EQ(made.find(2, made.texts.find("p@GRAD"))->shape.size(), 1u) << "of a row";
}

TEST(RecurrentGradient, CF_18_BothWaysHaveTheSameBits) {
  for (bool isReverse : {false, true}) {
    RecurrentProgram p;
    p.addCell(isReverse);
    p.addLoss("y");
    expectBothWays(p, isReverse ? "down" : "up");
  }
}

/// Step blocks that Paddle's front end does not write.
TEST(RecurrentGradient, CF_18_OutputsAndStatesThatTheStepReads) {
  using Ports = RecurrentProgram::Ports;
  for (int variant = 0; variant < 8; ++variant) {
    const bool isHelped = variant >= 6;
    RecurrentProgram p;
    p.locals({"p", "h", "m", "a", "n", "s", "y"});
    p.step("elementwise_mul", {{"X", {"h"}}, {"Y", {"w"}}}, "m");
    p.step("tanh", {{"X", {"m"}}}, "a");
    p.step("elementwise_add", {{"X", {"a"}}, {"Y", {"p"}}}, isHelped ? "n" : "s");
    if (isHelped) p.step("rnn_memory_helper", {{"X", {"n"}}}, "s");
    if (variant == 7) p.step("elementwise_add", {{"X", {"n"}}, {"Y", {"m"}}}, "y");
    else if (variant == 1) p.step("elementwise_mul", {{"X", {"s"}}, {"Y", {"s"}}}, "y");  // a state that is read
    else if (variant != 4) p.step("elementwise_add", {{"X", {"s"}}, {"Y", {"m"}}}, "y");
    Ports ports;
    if (variant == 2) ports.outputs = {"y", "s"};  // a state that is an output
    if (variant == 3) ports.outputs = {"h"};       // what the state was
    if (variant == 4) ports.outputs = {"m"};       // an output that is read
    if (variant == 5) ports.parameters = {};       // found anyway
    // A state that a helper makes and that is read, or an output too.
    if (variant == 7) ports.outputs = {"y", "s"};
    for (const std::string &name : ports.outputs) p.declare(name, {3, 2});
    p.close(ports);
    p.addLoss(ports.outputs.back());
    expectBothWays(p, std::to_string(variant), variant != 2 && !isHelped);
  }
}

/// Paddle's own programs may have one name for both: what arrives from outside and from the step after is summed.
TEST(RecurrentGradient, CF_18_AnOutputThatIsAState) {
  RecurrentProgram p;
  p.addCell();
  p.addLoss("y");
  BlockProgram made;
  const NamedGradients expected = cantFail(emittedGradients(p, &made));
  std::vector<BlockOp> &inner = made.blocks[2].ops;  // s is dropped, so that y is the only one
  inner.erase(inner.begin());
  inner[1].inputs[0].variables.erase(inner[1].inputs[0].variables.begin());
  const std::string states = stringsAttrText(AttrTag::Strings, {"y"});
  for (BlockOp &op : made.blocks[0].ops)
    if (op.subBlock) op.attrs = p.context.withAttrs(op.attrs, {{"states", states}});
  BlockGraphOptions options;
  options.heads = {"p", "w", "h0", "p@GRAD", "w@GRAD", "h0@GRAD"};
  const BlockGraph graph = cantFail(graphOfBlocks(p.context, made, options));
  const NamedGradients at = drawnParameters(p);
  std::vector<NamedArray> given = drawnBindings(graph.graph, 1);
  for (NamedArray &array : given)
    std::copy(at.at(array.name).begin(), at.at(array.name).end(), reinterpret_cast<double *>(array.array.bytes.data()));
  const std::vector<Array> heads = cantFail(runHeads(p.context, graph.graph, std::move(given)));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(doubles(heads[3 + i]), expected.at(options.heads[i])) << options.heads[i];
}

TEST(RecurrentGradient, CF_18_TwoStatesFromOneVariable) {
  for (bool isOne : {false, true}) {  // one behind the step too
    RecurrentProgram p;
    p.locals({"p", "h", "g", "n", "s", "t", "y"});
    p.step("elementwise_mul", {{"X", {"h"}}, {"Y", {"g"}}}, "n");
    p.step("rnn_memory_helper", {{"X", {"n"}}}, "s");
    p.step("elementwise_add", {{"X", {"g"}}, {"Y", {"p"}}}, "t");
    p.step("elementwise_mul", {{"X", {"n"}}, {"Y", {"w"}}}, "y");
    p.declare("y", {3, 2});
    RecurrentProgram::Ports ports;
    ports.initialStates = {"h0", "h0"};
    ports.exStates = {"h", "g"};
    ports.states = {"s", isOne ? "s" : "t"};
    p.close(ports);
    p.addLoss("y");
    expectBothWays(p, isOne ? "one state twice" : "h0 twice", !isOne);
  }
}

TEST(RecurrentGradient, CF_18_AStateThatIsPassedOnOrLost) {
  for (bool isLost : {false, true}) {
    RecurrentProgram p;
    p.locals({"p", "h", "s", "y"});
    p.step("elementwise_mul", {{"X", {"p"}}, {"Y", {"w"}}}, "s");
    p.step("elementwise_add", {{"X", {isLost ? "s" : "h"}}, {"Y", {"p"}}}, "y");
    p.declare("y", {3, 2});
    RecurrentProgram::Ports ports;
    if (!isLost) ports.states = {"h"};
    p.close(ports);
    p.addLoss("y");
    expectBothWays(p, isLost ? "lost" : "passed on");
  }
}

TEST(RecurrentGradient, CF_18_ValuesThatAreOverwritten) {
  for (int variant = 0; variant < 4; ++variant) {
    RecurrentProgram p;
    if (variant == 3) {  // in the step: what it is given
      p.locals({"p", "h", "m", "n", "s", "y"});
      p.step("elementwise_mul", {{"X", {"h"}}, {"Y", {"w"}}}, "m");
      p.step("tanh", {{"X", {"m"}}}, "h");
      p.step("elementwise_mul", {{"X", {"h"}}, {"Y", {"p"}}}, "p");
      p.step("elementwise_add", {{"X", {"p"}}, {"Y", {"h"}}}, "n");
      p.step("rnn_memory_helper", {{"X", {"n"}}}, "s");
      p.step("rnn_memory_helper", {{"X", {"n"}}}, "y");
      p.declare("y", {3, 2});
      p.close();
    } else {
      p.declare("x", {3, 2});
      p.declare("h1");
      p.op("tanh", {{"X", {"p"}}}, "x");
      p.op("tanh", {{"X", {"h0"}}}, "h1");
      p.locals({"x", "h", "m", "n", "s", "y"});
      p.step("elementwise_mul", {{"X", {"h"}}, {"Y", {"h1"}}}, "m");
      p.step("elementwise_add", {{"X", {"m"}}, {"Y", {"x"}}}, "n");
      p.step("rnn_memory_helper", {{"X", {"n"}}}, "s");
      p.step("rnn_memory_helper", {{"X", {"n"}}}, "y");
      p.declare("y", {3, 2});
      RecurrentProgram::Ports ports;
      ports.inputs = {"x"};
      ports.initialStates = {"h1"};
      ports.parameters = {"h1"};
      p.close(ports);
      if (variant == 0) p.op("elementwise_mul", {{"X", {"x"}}, {"Y", {"y"}}}, "x");
      if (variant == 1) p.op("elementwise_mul", {{"X", {"h1"}}, {"Y", {"w"}}}, "h1");
      if (variant == 2) p.op("elementwise_mul", {{"X", {"y"}}, {"Y", {"y"}}}, "y");
      if (variant < 2) p.op("elementwise_add", {{"X", {"y"}}, {"Y", {variant == 0 ? "x" : "h1"}}}, "y");
    }
    p.addLoss("y");
    expectBothWays(p, std::to_string(variant), false);
  }
}

TEST(RecurrentGradient, CF_18_WhatAStepIsGivenAndOverwritesUnread) {
  for (int variant = 0; variant < 3; ++variant) {
    RecurrentProgram p;
    p.locals({"p", "h", "n", "s", "y"});
    const std::string given = variant == 2 ? "p" : "h", other = variant == 2 ? "h" : "p";
    p.step("tanh", {{"X", {"w"}}}, given);
    if (variant == 1) p.step("elementwise_mul", {{"X", {given}}, {"Y", {given}}}, given);
    p.step("elementwise_mul", {{"X", {given}}, {"Y", {other}}}, "n");
    p.step("rnn_memory_helper", {{"X", {"n"}}}, "s");
    p.step("rnn_memory_helper", {{"X", {"n"}}}, "y");
    p.declare("y", {3, 2});
    p.close();
    p.addLoss("y");
    expectBothWays(p, std::to_string(variant), false);
  }
}

TEST(RecurrentGradient, CF_18_AnOutputThatNobodyReads) {
  RecurrentProgram p;
  p.locals({"p", "h", "m", "s", "y", "z"});
  p.step("elementwise_mul", {{"X", {"h"}}, {"Y", {"w"}}}, "m");
  p.step("elementwise_add", {{"X", {"m"}}, {"Y", {"p"}}}, "s");
  p.step("tanh", {{"X", {"s"}}}, "y");
  p.step("square", {{"X", {"s"}}}, "z");
  for (const char *name : {"y", "z"}) p.declare(name, {3, 2});
  RecurrentProgram::Ports ports;
  ports.outputs = {"y", "z"};
  p.close(ports);
  p.addLoss("y");
  expectBothWays(p, "z");
}

/// s = the mean of the rows of tanh(h · w + x), by a `recurrent` in block `around`: x and h0 are what it is given, y is
/// stacked.
void addInner(RecurrentProgram &p, uint32_t around, const std::string &x, const std::string &h0,
              const std::string &mean) {
  p.steps = addBlock(p.program, around, {});
  p.locals({x, "h_in", "m_in", "a_in", "s_in", "y_in"});
  p.step("elementwise_mul", {{"X", {"h_in"}}, {"Y", {"w"}}}, "m_in");
  p.step("elementwise_add", {{"X", {"m_in"}}, {"Y", {x}}}, "a_in");
  p.step("tanh", {{"X", {"a_in"}}}, "s_in");
  p.step("assign", {{"X", {"s_in"}}}, "y_in");
  p.declare("y_in", {3, 2}, FluidType::Fp64, FluidType::LodTensor, around);
  RecurrentProgram::Ports ports;
  ports.inputs = {x};
  ports.initialStates = {h0};
  ports.exStates = {"h_in"};
  ports.states = {"s_in"};
  ports.outputs = {"y_in"};
  p.close(ports);
  p.op("reduce_mean", {{"X", {"y_in"}}}, mean, {{"dim", intsAttrText(AttrTag::Ints, {0})}}, around);
}

TEST(RecurrentGradient, CF_18_StepsWithinSteps) {
  RecurrentProgram p;
  const uint32_t outer = p.steps;
  p.locals({"p", "h", "m", "n", "y"});
  p.declare("x", {3, 2}, FluidType::Fp64, FluidType::LodTensor, outer);
  p.step("elementwise_mul", {{"X", {"q"}}, {"Y", {"p"}}}, "x");
  p.step("elementwise_mul", {{"X", {"h"}}, {"Y", {"w"}}}, "m");
  addInner(p, outer, "x", "m", "n");
  p.steps = outer;
  p.step("elementwise_mul", {{"X", {"n"}}, {"Y", {"p"}}}, "y");
  p.declare("y", {3, 2});
  p.declare("q", {3, 2});
  p.op("tanh", {{"X", {"p"}}}, "q");
  RecurrentProgram::Ports ports;
  ports.states = {"n"};
  p.close(ports);
  p.addLoss("y");
  expectBothWays(p, "recurrent in recurrent", false);
}

/// for (i = 0; i < 2; ++i) s = tanh(s · w), in a block.
void addCountedLoop(RecurrentProgram &p, uint32_t around, const std::function<void(uint32_t body)> &addBody,
                    const std::string &state) {
  auto number = [&](const std::string &name, double value) {
    p.declare(name, {1}, FluidType::Int64, FluidType::LodTensor, around);
    p.op("fill_constant", {}, name,
         {{"dtype", intAttrText(AttrTag::Int, static_cast<int64_t>(FluidType::Int64))},
          {"shape", intsAttrText(AttrTag::Longs, {1})},
          {"value", floatAttrText(AttrTag::Float, value)}},
         around);
  };
  number("i", 0), number("end", 2);
  p.declare("go", {1}, FluidType::Bool, FluidType::LodTensor, around);
  p.declare("loop_scopes", {}, FluidType::Fp64, FluidType::StepScopes, around).dtype.reset();
  p.op("less_than", {{"X", {"i"}}, {"Y", {"end"}}}, "go", {}, around);
  const uint32_t body = addBlock(p.program, around, {});
  addBody(body);
  p.op("increment", {{"X", {"i"}}}, "i", {{"step", floatAttrText(AttrTag::Float, 1)}}, body);
  p.op("less_than", {{"X", {"i"}}, {"Y", {"end"}}}, "go", {}, body);
  addOp(p.program, around, "while", {{"Condition", {"go"}}, {"X", {"i", "end", state, "w", "p"}}},
        {{"Out", {"i", state, "go"}}, {"StepScopes", {"loop_scopes"}}}, body);
}

TEST(RecurrentGradient, CF_18_StepsWithinALoop) {
  RecurrentProgram p;
  p.program.blocks.pop_back();
  p.declare("s");
  p.op("tanh", {{"X", {"h0"}}}, "s");
  addCountedLoop(
      p, 0,
      [&](uint32_t body) {
        p.declare("mean", {2}, FluidType::Fp64, FluidType::LodTensor, body);
        p.declare("scopes", {}, FluidType::Fp64, FluidType::StepScopes, body).dtype.reset();
        addInner(p, body, "p", "s", "mean");
        p.op("assign", {{"X", {"mean"}}}, "s", {}, body);
      },
      "s");
  p.addLoss("s");
  expectBothWays(p, "recurrent in while", false);
}

TEST(RecurrentGradient, CF_18_ALoopWithinSteps) {
  RecurrentProgram p;
  const uint32_t outer = p.steps;
  p.locals({"p", "h", "s", "n", "y"});
  p.step("elementwise_add", {{"X", {"h"}}, {"Y", {"p"}}}, "s");
  addCountedLoop(
      p, outer,
      [&](uint32_t body) {
        for (const char *name : {"m", "t"}) p.declare(name, {2}, FluidType::Fp64, FluidType::LodTensor, body);
        p.op("elementwise_mul", {{"X", {"s"}}, {"Y", {"w"}}}, "m", {}, body);
        p.op("elementwise_mul", {{"X", {"m"}}, {"Y", {"p"}}}, "t", {}, body);
        p.op("tanh", {{"X", {"t"}}}, "s", {}, body);
      },
      "s");
  p.step("tanh", {{"X", {"s"}}}, "y");
  p.declare("y", {3, 2});
  p.close();
  p.addLoss("y");
  expectBothWays(p, "while in recurrent", false);
}

TEST(RecurrentGradient, E_02_ASecondGradientOperator) {
  RecurrentProgram p;
  p.locals({"p", "h", "s", "y"});
  p.step("elementwise_mul", {{"X", {"h"}}, {"Y", {"p"}}}, "s");
  p.step("elementwise_mul", {{"X", {"h"}}, {"Y", {"p"}}}, "y");
  p.declare("y", {3, 2});
  p.close();
  p.addLoss("y");
  BlockProgram made;
  cantFail(emittedGradients(p, &made));
  FluidRequest request;
  request.api = FluidRequest::Api::Gradients;
  request.targets = {"p@GRAD"};
  request.inputs = {"h0"};
  request.priorCalls = 1;
  Expected<FluidResult> again = appendBackward(p.context, std::move(made), request);
  EXPECT_EQ(
      describeWithNotes(again.takeError()),
      "[not_differentiable] block 2, operator 1 (rnn_memory_helper_grad): 'rnn_memory_helper_grad' has no gradient "
      "operator and is between a loss and a parameter, where it writes 's@GRAD'; the gradient as a graph goes "
      "through it");
}

/// A later call gives the gradient of an output another name, in the block too.
TEST(RecurrentGradient, NAME_07_ALaterCall) {
  RecurrentProgram p;
  p.addCell();
  p.addLoss("y");
  BlockProgram once;
  cantFail(emittedGradients(p, &once));
  FluidRequest request;
  request.targets = {"loss"};
  request.priorCalls = 1;
  const FluidResult twice = cantFail(appendBackward(p.context, std::move(once), request));
  BlockGraphOptions options;
  for (const FluidPair &pair : twice.pairs) {
    options.heads.push_back((twice.program.text(pair.variable) + "@GRAD").str());
    options.heads.push_back(twice.program.text(pair.gradient).str());
  }
  ASSERT_EQ(options.heads.size(), 6u);
  EXPECT_EQ(options.heads[1], "grad/grad/p@GRAD");
  const BlockGraph graph = cantFail(graphOfBlocks(p.context, twice.program, options));
  const std::vector<Array> heads = cantFail(runHeads(p.context, graph.graph, drawnBindings(graph.graph, 1)));
  for (size_t i = 0; i < heads.size(); i += 2) EXPECT_EQ(doubles(heads[i]), doubles(heads[i + 1])) << options.heads[i];
}

}  // namespace
}  // namespace gradc
