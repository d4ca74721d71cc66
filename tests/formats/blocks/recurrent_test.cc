// `recurrent`, a step block that is run for each row, as a graph: its values are those of the steps written out, its
// gradient is compared with central differences of them.
#include "tests/support/blocks/recurrent_programs.h"
#include "tests/support/ops/differences.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

/// The rows of y = tanh(h · w + p).
std::vector<double> unrolled(const NamedGradients &at, bool isReverse) {
  std::vector<double> h = at.at("h0"), y(6);
  for (size_t k = 0; k < 3; ++k) {
    const size_t row = isReverse ? 2 - k : k;
    for (size_t i = 0; i < 2; ++i) y[2 * row + i] = h[i] = std::tanh(h[i] * at.at("w")[i] + at.at("p")[2 * row + i]);
  }
  return y;
}

double lossOf(const NamedGradients &at, bool isReverse) {
  double loss = 0;
  for (double y : unrolled(at, isReverse)) loss += y * y;
  return loss;
}

TEST(Recurrent, CF_18_StepsAreRunForTheRows) {
  for (bool isReverse : {false, true}) {
    RecurrentProgram p;
    p.addCell(isReverse);
    const std::vector<Array> heads = cantFail(p.run(p.program, {"p", "w", "h0", "y"}));
    const std::vector<double> y = doubles(heads[3]);
    const std::vector<double> expected =
        unrolled({{"p", doubles(heads[0])}, {"w", doubles(heads[1])}, {"h0", doubles(heads[2])}}, isReverse);
    ASSERT_EQ(y.size(), expected.size());
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 1e-15) << i << isReverse;
  }
}

TEST(Recurrent, CF_18_ItsGradientIsThatOfTheSteps) {
  for (bool isReverse : {false, true}) {
    RecurrentProgram p;
    p.addCell(isReverse);
    p.addLoss("y");
    NamedGradients at = drawnParameters(p);
    const NamedGradients gradients = cantFail(engineGradients(p));
    ASSERT_EQ(gradients.size(), 3u);
    for (const auto &[name, gradient] : gradients)
      EXPECT_LT(relativeDistance(gradient, differences(at[name], 1e-6, [&] { return lossOf(at, isReverse); })), 1e-8)
          << name;
  }
}

TEST(Recurrent, AStepWithoutAState) {
  RecurrentProgram p;
  p.locals({"p", "y"});
  p.step("elementwise_mul", {{"X", {"p"}}, {"Y", {"w"}}}, "y");
  p.declare("y", {3, 2});
  RecurrentProgram::Ports ports;
  ports.initialStates = ports.exStates = ports.states = {};
  p.close(ports);
  const std::vector<Array> heads = cantFail(p.run(p.program, {"p", "w", "y"}));
  const std::vector<double> rows = doubles(heads[0]), w = doubles(heads[1]), y = doubles(heads[2]);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(y[i], rows[i] * w[i % 2]);
}

TEST(Recurrent, AFlagOnWhatAStepIsGivenCutsItsGradient) {
  RecurrentProgram p;
  p.addCell();
  p.addLoss("y");
  p.program.find(p.steps, p.program.texts.find("h"))->stopsGradient = true;
  const NamedGradients at = drawnParameters(p), gradients = cantFail(engineGradients(p));
  const std::vector<double> y = unrolled(at, false);
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(gradients.at("p")[i], 2 * y[i] * (1 - y[i] * y[i]), 1e-15);
  for (double gradient : gradients.at("h0")) EXPECT_EQ(gradient, 0);
}

TEST(Recurrent, AStateBeginsAsAConstantOfTheBatch) {
  RecurrentProgram p;
  p.declare("boot", {3, 5});
  p.op("fill_constant_batch_size_like", {{"Input", {"p"}}}, "boot",
       {{"shape", intsAttrText(AttrTag::Ints, {-1, 5})},
        {"dtype", intAttrText(AttrTag::Int, static_cast<int64_t>(FluidType::Fp64))},
        {"value", floatAttrText(AttrTag::Float, 0.5)}});
  p.declare("wide", {5, 2});
  p.op("fill_constant_batch_size_like", {{"Input", {"p"}}}, "wide",
       {{"shape", intsAttrText(AttrTag::Ints, {5, -1})},
        {"dtype", intAttrText(AttrTag::Int, static_cast<int64_t>(FluidType::Fp64))},
        {"input_dim_idx", intAttrText(AttrTag::Int, 1)},
        {"output_dim_idx", intAttrText(AttrTag::Int, 1)}});
  const std::vector<Array> heads = cantFail(p.run(p.program, {"boot", "wide"}));
  EXPECT_EQ(doubles(heads[0]), std::vector<double>(15, 0.5));
  EXPECT_EQ(doubles(heads[1]), std::vector<double>(10, 0.0));
}

TEST(Recurrent, ANameAroundThatAStepWritesIsCarried) {
  RecurrentProgram p;
  p.locals({"p", "h", "s", "y"});
  p.declare("y", {3, 2});
  p.declare("sum");
  p.op("scale", {{"X", {"w"}}}, "sum", {{"scale", floatAttrText(AttrTag::Float, 0)}});
  p.step("elementwise_add", {{"X", {"sum"}}, {"Y", {"p"}}}, "sum");
  p.step("assign", {{"X", {"sum"}}}, "y");
  p.step("assign", {{"X", {"h"}}}, "s");
  p.close();
  const std::vector<Array> heads = cantFail(p.run(p.program, {"y", "sum", "p"}));
  const std::vector<double> y = doubles(heads[0]), sum = doubles(heads[1]), rows = doubles(heads[2]);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_DOUBLE_EQ(y[i], rows[i]);
    EXPECT_DOUBLE_EQ(y[2 + i], rows[i] + rows[2 + i]);
    EXPECT_DOUBLE_EQ(sum[i], rows[i] + rows[2 + i] + rows[4 + i]);
  }
}

std::string failure(const RecurrentProgram::Ports &ports) {
  RecurrentProgram p;
  p.locals({"p", "h", "s", "y"});
  p.declare("y", {3, 2});
  p.step("elementwise_mul", {{"X", {"h"}}, {"Y", {"w"}}}, "s");
  p.step("elementwise_add", {{"X", {"h"}}, {"Y", {"p"}}}, "y");
  p.close(ports);
  Expected<std::vector<Array>> made = p.run(p.program, {"y"});
  return made ? "success" : describeWithNotes(made.takeError());
}

TEST(Recurrent, E_32_WhatDoesNotFitIsAnError) {
  using Ports = RecurrentProgram::Ports;
  const std::string at = "block 0, operator 0 (recurrent): ";
  EXPECT_EQ(failure(Ports()), "success");
  Ports none;
  none.inputs = {};
  EXPECT_EQ(failure(none),
            "[bad_entry] " + at + "slot 'inputs' is empty, expected a variable whose rows are the steps");
  Ports empty;
  empty.outputs = {"@EMPTY@"};
  EXPECT_EQ(failure(empty), "[bad_entry] " + at + "slot 'outputs' names no variable");
  Ports foreign;
  foreign.inputs = {"w"};
  EXPECT_EQ(failure(foreign), "[bad_entry] " + at + "slot 'inputs' has 'w', which block 1 does not declare");
  Ports unknown;
  unknown.states = {"w"};
  EXPECT_EQ(failure(unknown), "[bad_attribute] " + at + "attribute 'states' names 'w', which block 1 does not declare");
  Ports few;
  few.exStates = {};
  EXPECT_EQ(failure(few),
            "[bad_attribute] " + at + "attribute 'ex_states' has 0 names, and slot 'initial_states' 1 variables");
  Ports given;
  given.exStates = {"p"};
  EXPECT_EQ(failure(given),
            "[bad_attribute] " + at + "attribute 'ex_states' names 'p', which the step is given already");
  Ports twice;
  twice.outputs = {"y", "p"};
  EXPECT_NE(failure(twice).find("slot 'outputs' lists 'p' again"), std::string::npos);
}

TEST(Recurrent, E_32_BlocksOfAnotherKind) {
  for (const char *type : {"while", "conditional_block", "recurrent"}) {
    RecurrentProgram p;
    p.addCell();
    const uint32_t gradient = addBlock(p.program, 0u, {"p", "h", "s", "y"}, p.steps);
    BlockOp &op = p.program.blocks[0].ops[0];
    op.type = p.program.intern(type);
    op.subBlock = gradient;
    if (StringRef(type) != "recurrent") {
      op.inputs = {{p.program.intern(StringRef(type) == "while" ? "Condition" : "Cond"), {p.program.intern("p")}}};
      op.outputs.clear();
    }
    Expected<std::vector<Array>> made = p.run(p.program, {"p"});
    EXPECT_EQ(describeWithNotes(made.takeError()), std::string("[bad_entry] block 0, operator 0 (") + type +
                                                       "): block 2 is a gradient block, expected one that is not");
  }
  for (const char *type : {"while_grad", "recurrent_grad", "conditional_block_grad"}) {
    RecurrentProgram p;
    p.addCell();
    const bool isBranch = StringRef(type) == "conditional_block_grad";
    addOp(p.program, 0, type, isBranch ? SlotNames{{"Cond", {"p"}}} : SlotNames(), {});
    Expected<std::vector<Array>> made = p.run(p.program, {"p"});
    EXPECT_EQ(describeWithNotes(made.takeError()),
              std::string("[bad_entry] block 0, operator 1 (") + type + "): expected a gradient block");
  }
}

TEST(Recurrent, E_32_AnOutputThatNoStepComputes) {
  RecurrentProgram p;
  p.locals({"p", "h", "s", "y"});
  p.declare("y", {3, 2});
  p.step("elementwise_mul", {{"X", {"h"}}, {"Y", {"w"}}}, "s");
  p.close();
  Expected<std::vector<Array>> made = p.run(p.program, {"y"});
  EXPECT_EQ(describeWithNotes(made.takeError()),
            "[unknown_name] block 0, operator 0 (recurrent): block 1 does not compute 'y'");
}

}  // namespace
}  // namespace gradc
