// What searches of edited programs found: names, slots and types that a program may have and none of Paddle's has.
#include "tests/support/blocks/backward_programs.h"
#include "tests/support/blocks/block_runs.h"
#include "tests/support/test_graph.h"

#include "formats/blocks/graph/graph_of_blocks.h"
#include "formats/blocks/tables/op_slots.h"

#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

std::string reading(StringRef text) {
  TestContext context;
  Expected<BlockGraph> made = graphOfBlocks(context, programOf(text), BlockGraphOptions());
  return made ? "success" : describeWithNotes(made.takeError());
}

std::string firstLine(const std::string &error) { return StringRef(error).split(';').first.str(); }

/// The gradient of `loss` by `p`, of the emitted program where the condition `c` has this value. `p` is (0.5, 0.5).
std::vector<double> gradientWhere(bool condition, StringRef text) {
  TestContext context;
  FluidResult made = cantFail(appendBackward(context, programOf(text), lossOf()));
  EXPECT_EQ(pairsOf(made), "p=p@GRAD ");
  BlockGraphOptions options;
  options.heads = {"p@GRAD"};
  options.numSeeds = 1;
  options.maxIterations = 4;
  const BlockGraph graph = cantFail(graphOfBlocks(context, made.program, options));
  std::vector<NamedArray> bindings = drawnBindings(graph.graph, 1);
  for (NamedArray &binding : bindings) {
    if (binding.name == "c") binding.array.bytes[0] = condition;
    if (binding.name == "p")
      for (double &x : elements(binding.array)) x = 0.5;
  }
  std::vector<Array> heads = cantFail(runHeads(context, graph.graph, std::move(bindings)));
  const ArrayRef<double> values = elements(heads[0]);
  return {values.begin(), values.end()};
}

constexpr StringLiteral kBranch = "conditional_block:1 Cond=c Input=x -> Out=p Scope=s\nreduce_sum X=p -> Out=loss\n"
                                  "block 1 in 0\ntanh X=x -> Out=p";

TEST(EditedPrograms, D_28_AParameterThatABranchMayReplace) {
  EXPECT_EQ(gradientWhere(false, kBranch), (std::vector<double>{1, 1}));
  EXPECT_EQ(gradientWhere(true, kBranch), (std::vector<double>{0, 0}));
}

// The second step would begin with a false condition.
TEST(EditedPrograms, D_28_AValueThatALoopWithoutStepsLeaves) {
  constexpr StringLiteral loop = "scale X=p -> Out=a\nwhile:1 Condition=c X=x -> Out=a,c StepScopes=s\n"
                                 "reduce_sum X=a -> Out=loss\n"
                                 "block 1 in 0\ntanh X=x -> Out=a\nlogical_not X=c -> Out=c";
  EXPECT_EQ(gradientWhere(false, loop), (std::vector<double>{1, 1}));
  EXPECT_EQ(gradientWhere(true, loop), (std::vector<double>{0, 0}));
}

// The condition `ctaken` has two values in a step; what merges the values of the branch reads the first one.
TEST(EditedPrograms, D_28_AConditionThatIsOverwrittenBehindItsBranch) {
  constexpr StringLiteral loop = "scale X=p -> Out=a\nwhile:1 Condition=c X=a,p -> Out=a,c StepScopes=s\n"
                                 "reduce_sum X=a -> Out=loss\n"
                                 "block 1 in 0\nlogical_not X=c -> Out=ctaken\n"
                                 "conditional_block:2 Cond=ctaken Input=a,p -> Out=a Scope=s2\n"
                                 "assign X=c -> Out=ctaken\nlogical_not X=c -> Out=c\n"
                                 "block 2 in 1\nelementwise_mul X=a Y=p -> Out=m\ntanh X=m -> Out=a";
  EXPECT_EQ(gradientWhere(true, loop), (std::vector<double>{1, 1}));
}

// Behind the last step, it arrives once.
TEST(EditedPrograms, D_28_WhatALoopWritesIsOneOfItsStates) {
  const Emitted program = emitted("while:1 Condition=c X=p -> Out=a,c StepScopes=s\nreduce_sum X=a -> Out=loss\n"
                                  "block 1 in 0\ntanh X=p -> Out=a\nlogical_not X=c -> Out=c",
                                  lossOf());
  EXPECT_TRUE(StringRef(program.ops(0)).starts_with("while:1 Condition=c X=p,a ->")) << program.ops(0);
  EXPECT_TRUE(StringRef(program.ops(0)).contains(" -> X@GRAD=p@GRAD,a@GRAD\n")) << program.ops(0);
}

// Nothing is copied from a name that no operator has written.
TEST(EditedPrograms, D_28_AResultThatHasNoValueBefore) {
  const Emitted branch = emitted("conditional_block:1 Cond=c Input=p,a -> Out=a Scope=s\nreduce_sum X=a -> Out=loss\n"
                                 "block 1 in 0\ntanh X=p -> Out=a",
                                 lossOf());
  EXPECT_TRUE(StringRef(branch.ops(0)).starts_with("conditional_block:1 Cond=c Input=p -> Out=a Scope=s\n"))
      << branch.ops(0);
  const Emitted step = emitted("while:1 Condition=c X=p,a -> Out=a,c StepScopes=s\nreduce_sum X=a -> Out=loss\n"
                               "block 1 in 0\nfill_constant -> Out=cgo\n"
                               "while:2 Condition=cgo X=p,b -> Out=b,cgo StepScopes=s2\ntanh X=b -> Out=a\n"
                               "block 2 in 1\ntanh X=p -> Out=b\ntanh X=b -> Out=b",
                               lossOf());
  EXPECT_FALSE(StringRef(step.ops(1)).contains("assign X=b ->")) << step.ops(1);
}

TEST(EditedPrograms, E_48_AConditionIsATruthValue) {
  TestContext context;
  for (const auto &[kind, dtype, text] :
       {std::tuple(FluidType::LodTensor, std::optional(FluidType::Fp64), "as FP64"),
        {FluidType::LodTensorArray, std::optional(FluidType::Bool), "without a type of elements"},
        {FluidType::LodTensor, std::nullopt, "without a type of elements"}}) {
    BlockProgram program = programOf(kBranch);
    BlockVariable &condition = *program.find(0, program.texts.find("c"));
    condition.kind = kind;
    condition.dtype = dtype;
    const std::string expected =
        std::string("[bad_entry] block 0, operator 0 (conditional_block): the condition 'c' is "
                    "declared ") +
        text + ", expected a tensor of BOOL";
    EXPECT_EQ(describeWithNotes(graphOfBlocks(context, program, BlockGraphOptions()).takeError()), expected);
    EXPECT_EQ(describeWithNotes(appendBackward(context, std::move(program), lossOf()).takeError()), expected);
  }
}

TEST(EditedPrograms, E_48_AConditionOfAnInnerBlockThatNothingWrote) {
  constexpr StringLiteral text = "while:1 Condition=cond X=a,p -> Out=a,cond StepScopes=scopes\n"
                                 "reduce_sum X=a -> Out=loss\n"
                                 "block 1 in 0\nconditional_block:2 Cond=cgo Input=p -> Out=a Scope=cscope\n"
                                 "block 2 in 1\ntanh X=p -> Out=a";
  const std::string expected = "[unknown_name] block 1, operator 0 (conditional_block): slot 'Cond' reads 'cgo' before "
                               "any operator of its block writes it";
  EXPECT_EQ(firstLine(reading(text)), expected);
  EXPECT_EQ(firstLine(emissionError(text, lossOf())), expected);
}

TEST(EditedPrograms, D_25_ATargetThatIsAnInputHasItsGivenHead) {
  for (const char *second : {"", "h"}) {
    FluidRequest request = gradientsOf({"a", "b"}, {"a"});
    request.targetGradients = {"h", second};
    const Emitted program = emitted("exp X=x -> Out=a\nexp X=x -> Out=b\nassign X=x -> Out=h", request);
    EXPECT_EQ(program.pairs, "a=a@GRAD ");
    EXPECT_TRUE(StringRef(program.ops(0)).contains("assign X=h -> Out=a@GRAD\n")) << program.ops(0);
  }
}

TEST(EditedPrograms, NG_01_AFlaggedInputThatALoopReads) {
  const Emitted program = emitted("assign X=x -> Out=a\nassign X=x -> Out=cw\n"
                                  "while:1 Condition=cond X=a -> Out=a,cond StepScopes=scopes\n"
                                  "block 1 in 0\nelementwise_mul X=a Y=cw -> Out=a",
                                  gradientsOf({"a"}, {"cw"}));
  EXPECT_EQ(program.pairs, "cw=none ");
}

TEST(EditedPrograms, ZERO_07_APartThatALoopListsAndDoesNotRead) {
  const Emitted program = emitted("split X=p -> Out=a,b\nwhile:1 Condition=cond X=a,b -> Out=d,cond StepScopes=scopes\n"
                                  "reduce_sum X=d -> Out=loss\n"
                                  "block 1 in 0\ntanh X=a -> Out=d",
                                  lossOf());
  EXPECT_EQ(describeWithNotes(verifyBlocks(program.program)), "success");
  EXPECT_TRUE(StringRef(program.ops(0)).contains("fill_any_like X=b -> Out=b@GRAD\nconcat")) << program.ops(0);
}

// Of `@EMPTY@@GRAD` as of any other variable that looks like a gradient.
TEST(EditedPrograms, ZERO_07_ZerosLikeAGradientWhoseVariableIsNotThere) {
  for (const std::string name : {"e@GRAD", "@EMPTY@@GRAD"}) {
    FluidRequest later = lossOf();
    later.priorCalls = 1;
    const Emitted program = emitted("conditional_block:1 Cond=c Input=p -> Out=a," + name +
                                        " Scope=s\nreduce_sum X=a -> Out=loss\nblock 1 in 0\ntanh X=p -> Out=a\n" +
                                        "exp X=p -> Out=" + name,
                                    later);
    EXPECT_EQ(describeWithNotes(verifyBlocks(program.program)), "success");
    EXPECT_TRUE(StringRef(program.ops(0)).contains("fill_any_like X=" + name + " -> Out=" + name + "@GRAD\n"))
        << program.ops(0);
  }
}

TEST(EditedPrograms, E_34_ABlockThatUsesTheNameOfAGradient) {
  FluidRequest later = lossOf();
  later.priorCalls = 1;
  EXPECT_EQ(firstLine(emissionError("while:1 Condition=cond X=p -> Out=loss,p@GRAD,cond StepScopes=scopes\n"
                                    "block 1 in 0\nreduce_sum X=p -> Out=loss\nfill_constant -> Out=p@GRAD",
                                    later)),
            "[ambiguous_name] block 0, operator 0 (while): its block uses the name 'p@GRAD', which a gradient has in "
            "the block of its gradient");
}

TEST(EditedPrograms, E_34_AnEarlierGradientThatIsOverwritten) {
  constexpr StringLiteral first = "tanh X=p -> Out=b\nscale X=h -> Out=b@GRAD\n";
  const FluidRequest request = gradientsOf({"b@GRAD"}, {"p"});
  EXPECT_EQ(firstLine(emissionError((first + "tanh_grad Out=b Out@GRAD=b@GRAD -> X@GRAD=b@GRAD").str(), request)),
            "[ambiguous_name] block 0, operator 2 (tanh_grad): the gradient 'b@GRAD' in slot 'Out@GRAD' is overwritten "
            "later, so the name is ambiguous");
  EXPECT_EQ(
      emissionError((first + "tanh_grad Out=b Out@GRAD=b@GRAD -> X@GRAD=p@GRAD").str(), gradientsOf({"p@GRAD"}, {"p"})),
      "success");
}

TEST(EditedPrograms, E_34_AValueNamedAsTheGradientOfTheLoss) {
  FluidRequest later = lossOf();
  later.priorCalls = 2;
  EXPECT_EQ(
      firstLine(emissionError("tanh X=p -> Out=loss@GRAD\nreduce_sum X=loss@GRAD -> Out=loss", later)),
      "[ambiguous_name] block 0, operator 0 (tanh): 'loss@GRAD' in slot 'Out' has the name of a target's gradient");
}

TEST(EditedPrograms, NAME_07_AStateOfALoopWhoseNameIsTaken) {
  TestContext context;
  BlockProgram program = programOf("while:1 Condition=cond X=p -> Out=loss,cond StepScopes=scopes\n"
                                   "block 1 in 0\nreduce_sum X=p -> Out=loss");
  BlockVariable taken{program.intern("loss@GRAD")};
  taken.dtype = FluidType::Fp64;
  ASSERT_TRUE(program.addVariable(0, std::move(taken)));
  const FluidResult made = cantFail(appendBackward(context, std::move(program), lossOf()));
  const std::string ops = dump(made.program, 0);
  EXPECT_TRUE(StringRef(ops).contains(" Out@GRAD=loss@GRAD_0 ") && StringRef(ops).contains(",loss@GRAD_0\n")) << ops;
}

// Its gradient would be taken for that of the variable outside.
TEST(EditedPrograms, E_48_AnOperandWhoseNameTheBlockDeclares) {
  for (const auto &[owner, slot] : {std::pair("while", "X"), {"conditional_block", "Input"}}) {
    TestContext context;
    const bool isLoop = StringRef(owner) == "while";
    BlockProgram program =
        programOf(std::string("tanh X=x -> Out=b\n") + owner + ":1 " + (isLoop ? "Condition" : "Cond") + "=c " + slot +
                  "=p,b -> Out=a " + (isLoop ? "StepScopes" : "Scope") +
                  "=s\nreduce_sum X=a -> Out=loss\n"
                  "block 1 in 0\ntanh X=b -> Out=p\nexp X=p -> Out=a");
    BlockVariable inner = *program.find(0, program.texts.find("p"));
    ASSERT_TRUE(program.addVariable(1, std::move(inner)));
    EXPECT_EQ(firstLine(describeWithNotes(appendBackward(context, std::move(program), lossOf()).takeError())),
              std::string("[bad_entry] block 0, operator 1 (") + owner + "): slot '" + slot +
                  "' lists 'p', but block 1 declares another variable of that name");
  }
}

// Without an earlier call, the operand is added to the slot.
TEST(EditedPrograms, E_48_AnOperandThatASlotLacksInALaterCall) {
  for (bool isLater : {false, true}) {
    TestContext context;
    BlockProgram program = programOf(
        "tanh X=p -> Out=a\nwhile:1 Condition=c X=a -> Out=a,c StepScopes=s\n"
        "reduce_sum X=a -> Out=loss\nblock 1 in 0\nelementwise_mul X=a Y=p -> Out=a\nlogical_not X=c -> Out=c");
    if (isLater) program.blocks.push_back({0, 1});
    Expected<FluidResult> made = appendBackward(context, std::move(program), lossOf());
    EXPECT_EQ(made ? pairsOf(*made) : firstLine(describeWithNotes(made.takeError())),
              isLater ? "[bad_entry] block 0, operator 1 (while): block 1 reads 'p', which slot 'X' does not list and "
                        "which cannot be added after an earlier call has made gradients"
                      : "p=p@GRAD ");
  }
}

TEST(EditedPrograms, D_28_AnOperatorWithoutAGradientThatWorksInPlace) {
  EXPECT_EQ(emitted("scale X=p -> Out=b\nshare_data X=b -> Out=b\nreduce_sum X=b -> Out=loss", lossOf()).pairs, "");
}

TEST(EditedPrograms, E_02_AGradientOperatorThatReadsNoGradient) {
  EXPECT_EQ(firstLine(emissionError("tanh X=p -> Out=b\ntanh_grad Out=b Out@GRAD=@EMPTY@ -> X@GRAD=p@GRAD",
                                    gradientsOf({"p@GRAD"}, {"p"}))),
            "[not_differentiable] block 0, operator 1 (tanh_grad): it reads no gradient of an output");
}

TEST(EditedPrograms, E_48_AResultThatTheGradientNeeds) {
  EXPECT_EQ(
      firstLine(emissionError("softmax_with_cross_entropy Label=x Logits=p -> Loss=a Softmax=@EMPTY@\n"
                              "reduce_sum X=a -> Out=loss",
                              lossOf())),
      "[bad_entry] block 0, operator 0 (softmax_with_cross_entropy): slot 'Softmax' names no variable for a result "
      "that the gradient reads");
}

// Positions tell operands apart.
TEST(EditedPrograms, NG_01_AListOfGradientsKeepsThePlaceOfOneThatIsCut) {
  EXPECT_TRUE(StringRef(emitted("meshgrid X=c,p -> Out=a,b\nreduce_sum X=b -> Out=loss", lossOf()).ops(0))
                  .contains("-> X@GRAD=@EMPTY@,p@GRAD\n"));
  for (const char *type : {"multi_dot", "broadcast_tensors"})
    EXPECT_TRUE(StringRef(emitted(std::string(type) + " X=c,p -> Out=a\nreduce_sum X=a -> Out=loss", lossOf()).ops(0))
                    .contains("-> X@GRAD=@EMPTY@,p@GRAD\n"))
        << type;
}

TEST(EditedPrograms, D_28_AFlaggedValueThatIsReplacedInPlace) {
  const Emitted program =
      emitted("nll_loss Label=x Weight=cw X=p -> Out=a Total_weight=cw\nreduce_sum X=a -> Out=loss", lossOf());
  EXPECT_TRUE(StringRef(program.ops(0)).contains("Label=x Weight=cw X=p -> Out=a Total_weight=cw@COPY@0\n"))
      << program.ops(0);
}

TEST(EditedPrograms, D_28_StatisticsThatReplaceABias) {
  const Emitted program = emitted("batch_norm X=x Scale=q Bias=p Mean=m Variance=v -> Y=y MeanOut=p VarianceOut=v "
                                  "SavedMean=sm SavedVariance=sv\nreduce_sum X=y -> Out=loss",
                                  lossOf());
  EXPECT_TRUE(StringRef(program.ops(0)).contains("MeanOut=p@COPY@0 ")) << program.ops(0);
  EXPECT_TRUE(StringRef(program.ops(0)).contains(" VarianceOut=v ")) << program.ops(0);
}

TEST(EditedPrograms, E_48_TwoResultsUnderOneName) {
  EXPECT_EQ(describeWithNotes(verifySlots(programOf("split X=p -> Out=a,a\nreduce_sum X=a -> Out=loss"))),
            "[bad_entry] block 0, operator 0 (split): slot 'Out' holds 'a', which is another result already");
  EXPECT_EQ(describeWithNotes(verifySlots(programOf("split X=p -> Out=@EMPTY@,a,@EMPTY@"))), "success");
}

// Its flag is about the value that it starts from.
TEST(EditedPrograms, D_28_AFlaggedStateThatNoSlotLists) {
  const Emitted program = emitted("assign X=p -> Out=ca\nwhile:1 Condition=cond X=p -> Out=a,cond StepScopes=scopes\n"
                                  "reduce_sum X=a -> Out=loss\n"
                                  "block 1 in 0\nelementwise_mul X=p Y=ca -> Out=ca\ntanh X=ca -> Out=a",
                                  lossOf());
  const std::string loop = StringRef(program.ops(0)).split("while:1").second.split('\n').first.str();
  EXPECT_TRUE(StringRef(loop).contains("X=p,ca@COPY@0,a ") && StringRef(loop).contains("Out=a,cond,ca@COPY@0 "))
      << loop;
}

TEST(EditedPrograms, E_33_AVariableWithoutAName) {
  BlockProgram program = programOf("tanh X=p -> Out=loss");
  BlockVariable variable{program.intern("")};
  ASSERT_TRUE(program.addVariable(0, std::move(variable)));
  EXPECT_EQ(describeWithNotes(verifyBlocks(program)), "[bad_json] block 0 declares a variable without a name");
}

TEST(EditedPrograms, E_48_ALengthIsATensor) {
  TestContext context;
  BlockProgram program = programOf("write_to_array X=p I=i -> Out=r\nlod_array_length X=r -> Out=r\n"
                                   "reduce_sum X=p -> Out=loss");
  program.find(0, program.texts.find("r"))->kind = FluidType::LodTensorArray;
  EXPECT_EQ(describeWithNotes(verifySlots(program)),
            "[bad_entry] block 0, operator 1 (lod_array_length): variable 'r' in slot 'Out' is a LOD_TENSOR_ARRAY, "
            "expected a tensor");
}

}  // namespace
}  // namespace gradc
