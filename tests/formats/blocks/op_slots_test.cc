// The slots of operators: every known type has a row, and a program that does not keep to it is refused, whatever is
// made of it.
#include "tests/support/blocks/backward_programs.h"
#include "tests/support/test_graph.h"

#include "formats/blocks/graph/graph_of_blocks.h"
#include "formats/blocks/ops/op_row.h"
#include "formats/blocks/tables/gradient_forms.h"
#include "formats/blocks/tables/op_slots.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>

#include <set>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

std::string reading(StringRef text) {
  TestContext context;
  Expected<BlockGraph> made = graphOfBlocks(context, programOf(text), BlockGraphOptions());
  return made ? "success" : describeWithNotes(made.takeError());
}

/// The error of both uses, which must be the same.
std::string refused(StringRef text) {
  const std::string error = describeWithNotes(verifySlots(programOf(text)));
  EXPECT_EQ(reading(text), error) << text.str();
  EXPECT_EQ(emissionError(text, lossOf()), error) << text.str();
  return error;
}

TEST(OpSlots, E_48_AnOperandIsMissing) {
  EXPECT_EQ(refused("matmul_v2 X=p -> Out=a\nreduce_sum X=a -> Out=loss"),
            "[bad_entry] block 0, operator 0 (matmul_v2): slot 'Y' has no operand 0");
  EXPECT_EQ(refused("tanh X=p -> Out=a\nsum -> Out=b\nreduce_sum X=a -> Out=loss"),
            "[bad_entry] block 0, operator 1 (sum): slot 'X' has no operand 0")
      << "not on the path";
  EXPECT_EQ(refused("tanh X=@EMPTY@ -> Out=a\nreduce_sum X=p -> Out=loss"),
            "[bad_entry] block 0, operator 0 (tanh): slot 'X' names no variable");
  EXPECT_EQ(refused("concat X=p,@EMPTY@ -> Out=a\nreduce_sum X=a -> Out=loss"),
            "[bad_entry] block 0, operator 0 (concat): slot 'X' names no variable");
}

TEST(OpSlots, E_48_AResultIsMissing) {
  EXPECT_EQ(refused("tanh X=p -> \nreduce_sum X=p -> Out=loss"),
            "[bad_entry] block 0, operator 0 (tanh): slot 'Out' has no result 0");
  EXPECT_EQ(reading("tanh X=p -> Out=@EMPTY@\nreduce_sum X=p -> Out=loss"), "success") << "not requested";
}

TEST(OpSlots, E_48_ASlotHoldsMoreThanOne) {
  EXPECT_EQ(refused("tanh X=p,x -> Out=a\nreduce_sum X=a -> Out=loss"),
            "[bad_entry] block 0, operator 0 (tanh): slot 'X' holds 2 variables, from 'p' to 'x', expected one");
  EXPECT_EQ(refused("tanh X=p -> Out=a,b\nreduce_sum X=a -> Out=loss"),
            "[bad_entry] block 0, operator 0 (tanh): slot 'Out' holds 2 variables, from 'a' to 'b', expected one");
  EXPECT_EQ(refused("tanh X=p X=p -> Out=a\nreduce_sum X=a -> Out=loss"),
            "[bad_entry] block 0, operator 0 (tanh): has slot 'X' twice");
  EXPECT_EQ(reading("concat X=p,p -> Out=a\nreduce_sum X=a -> Out=loss"), "success");
}

TEST(OpSlots, E_48_AnArrayIsNotATensor) {
  for (auto [kind, name] :
       {std::pair(FluidType::LodTensorArray, "LOD_TENSOR_ARRAY"), {FluidType::StepScopes, "STEP_SCOPES"}}) {
    BlockProgram program = programOf("tanh X=p -> Out=a\nreduce_sum X=a -> Out=loss");
    program.find(0, program.texts.find("a"))->kind = kind;
    EXPECT_EQ(describeWithNotes(verifySlots(program)),
              std::string("[bad_entry] block 0, operator 0 (tanh): variable 'a' in slot 'Out' is a ") + name +
                  ", expected a tensor");
  }
}

TEST(OpSlots, E_48_ASlotThatTheTypeDoesNotHave) {
  EXPECT_EQ(
      refused("tanh X=p Y=x -> Out=a\nreduce_sum X=a -> Out=loss"),
      "[bad_entry] block 0, operator 0 (tanh): slot 'Y', which holds 'x', is not one of the slots of its operands; "
      "they are X");
  EXPECT_EQ(refused("tanh X=p -> Out=a Mask=b\nreduce_sum X=a -> Out=loss"),
            "[bad_entry] block 0, operator 0 (tanh): slot 'Mask', which holds 'b', is not one of the slots of its "
            "results; they are Out");
  EXPECT_EQ(reading("quux X=p Y=x,x -> Z=loss"), "success") << "of an unknown type";
}

TEST(OpSlots, E_48_InABlock) {
  EXPECT_EQ(refused("while:1 Condition=cond X=p -> Out=a,cond StepScopes=scopes\nreduce_sum X=a -> Out=loss\n"
                    "block 1 in 0\ntanh X=p,p -> Out=a\nless_than X=a Y=x -> Out=cond"),
            "[bad_entry] block 1, operator 0 (tanh): slot 'X' holds 2 variables, from 'p' to 'p', expected one");
}

TEST(OpSlots, E_48_GradientOperatorsHaveTheSlotsOfTheirForms) {
  EXPECT_EQ(refused("tanh X=p -> Out=a\ntanh_grad Out@GRAD=x -> X@GRAD=loss"),
            "[bad_entry] block 0, operator 1 (tanh_grad): slot 'Out' has no operand 0");
  EXPECT_EQ(refused("tanh X=p -> Out=a\ntanh_grad Out=a Out@GRAD=x,x -> X@GRAD=loss"),
            "[bad_entry] block 0, operator 1 (tanh_grad): slot 'Out@GRAD' holds 2 variables, from 'x' to 'x', expected "
            "one");
  EXPECT_EQ(
      refused("tanh X=p -> Out=a\ntanh_grad Out=a Out@GRAD=x -> X@GRADS=loss"),
      "[bad_entry] block 0, operator 1 (tanh_grad): slot 'X@GRADS', which holds 'loss', is not one of the slots of "
      "its results; they are X@GRAD");
}

TEST(OpSlots, E_48_AResultThatOnlyTheGradientNeeds) {
  const StringRef text = "dropout X=p -> Out=a\nreduce_sum X=a -> Out=loss";
  EXPECT_EQ(emissionError(text, lossOf()),
            "[bad_entry] block 0, operator 0 (dropout): slot 'Mask' has no result 0, which the gradient reads");
  EXPECT_EQ(reading(text), "success");
  EXPECT_EQ(describeWithNotes(verifySlots(programOf(text))), "success");
}

TEST(OpSlots, EveryTypeWithARowOrAGradientHasSlots) {
  std::set<std::string> types;
  for (const OpSlotRow &row : opSlotRows())
    for (StringRef type : split(row.types, ' ')) EXPECT_TRUE(types.insert(type.str()).second) << type.str();
  for (const BlockOpRow *row : allBlockOps()) EXPECT_TRUE(slotsOfType(row->type)) << row->type.str();
  for (const GradientFormRow &row : gradientFormRows())
    EXPECT_TRUE(row.form.empty() || isGradientType(row.type) || slotsOfType(row.type)) << row.type.str();
}

/// What a form reads and writes belongs to the slots of its forward type.
TEST(OpSlots, FormsNameSlotsOfTheirTypes) {
  for (const GradientFormRow &row : gradientFormRows()) {
    const std::optional<OpSlots> slots = slotsOfType(row.type);
    if (!slots || row.form.empty() || row.form == "none") continue;
    const GradientForm form = parseGradientForm(row.type, row.form);
    for (const auto *side : {&form.inputs, &form.outputs})
      for (const GradientForm::Slot &slot : *side) {
        StringRef source = slot.source;
        source.consume_back("@GRAD");
        auto isIt = [&](const OpSlot &known) { return known.name == source; };
        EXPECT_TRUE(any_of(slots->inputs, isIt) || any_of(slots->outputs, isIt))
            << row.type.str() << " has no slot " << source.str();
      }
  }
}

}  // namespace
}  // namespace gradc
