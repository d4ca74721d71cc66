// Programs of blocks with the operators that compute their gradients: path, nested blocks, calls, errors.
#include "tests/support/blocks/backward_programs.h"
#include "tests/support/test_graph.h"

#include "formats/blocks/program/block_attrs.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

TEST(AppendBackward, NAME_06_ReversedOperatorsAndPairs) {
  const Emitted program =
      emitted("matmul_v2 X=x Y=p -> Out=a\ntanh X=a -> Out=b\nreduce_sum X=b -> Out=loss", lossOf());
  EXPECT_EQ(program.ops(0, 3), "fill_constant -> Out=loss@GRAD\n"
                               "reduce_sum_grad Out@GRAD=loss@GRAD X=b -> X@GRAD=b@GRAD\n"
                               "tanh_grad Out=b Out@GRAD=b@GRAD -> X@GRAD=a@GRAD\n"
                               "matmul_v2_grad Out@GRAD=a@GRAD X=x Y=p -> X@GRAD=x@GRAD Y@GRAD=p@GRAD\n");
  EXPECT_EQ(program.pairs, "p=p@GRAD ");
  const BlockProgram &made = program.program;
  const BlockVariable &gradient = *made.find(0, made.texts.find("p@GRAD"));
  EXPECT_EQ(gradient.dtype, FluidType::Fp64);
  EXPECT_EQ(ArrayRef(gradient.shape), ArrayRef<int64_t>({2}));
  EXPECT_EQ(stringsAttr(made.blocks[0].ops.back().attrs, "op_role_var"), (std::vector<std::string>{"p", "p@GRAD"}));
  EXPECT_EQ(intAttr(made.blocks[0].ops[2].attrs, "op_role"), 256) << "who computes the loss";
  EXPECT_EQ(intAttr(made.blocks[0].ops[3].attrs, "op_role"), 257);
}

constexpr StringLiteral kShared = "tanh X=p -> Out=a\nelementwise_mul X=a Y=p -> Out=b\n"
                                  "elementwise_add X=b Y=a -> Out=d\nreduce_sum X=d -> Out=loss";

TEST(AppendBackward, AGG_08_SumsAreBeforeTheFirstReaderOrAtTheEnd) {
  EXPECT_EQ(emitted(kShared, lossOf()).ops(0, 6),
            "elementwise_add_grad Out@GRAD=d@GRAD X=b Y=a -> X@GRAD=b@GRAD Y@GRAD=a@GRAD@RENAME@block0@0\n"
            "elementwise_mul_grad Out@GRAD=b@GRAD X=a Y=p -> X@GRAD=a@GRAD@RENAME@block0@1 "
            "Y@GRAD=p@GRAD@RENAME@block0@0\n"
            "sum X=a@GRAD@RENAME@block0@0,a@GRAD@RENAME@block0@1 -> Out=a@GRAD\n"
            "tanh_grad Out=a Out@GRAD=a@GRAD -> X@GRAD=p@GRAD@RENAME@block0@1\n"
            "sum X=p@GRAD@RENAME@block0@0,p@GRAD@RENAME@block0@1 -> Out=p@GRAD\n");
}

TEST(AppendBackward, AGG_08_FewArrivalsAreAddedPairwiseWhereThatIsAskedFor) {
  std::string text = "tanh X=p -> Out=a\nexp X=p -> Out=b\nrelu X=p -> Out=d\n"
                     "elementwise_add X=a Y=b -> Out=e\nelementwise_add X=e Y=d -> Out=f\nreduce_sum X=f -> Out=loss";
  FluidRequest request = lossOf();
  request.sums.pairwiseLimit = 3;
  const std::string chain = "grad_add X=p@GRAD@RENAME@block0@0 Y=p@GRAD@RENAME@block0@1 -> Out=p@GRAD@ADD@1\n"
                            "grad_add X=p@GRAD@ADD@1 Y=p@GRAD@RENAME@block0@2 -> Out=p@GRAD\n";
  EXPECT_TRUE(StringRef(emitted(text, request).ops(0)).ends_with(chain));
  request.sums.pairwiseLimit = 2;
  EXPECT_FALSE(StringRef(emitted(text, request).ops(0)).contains("grad_add"));
}

constexpr StringLiteral kLoop = "assign X=x -> Out=s\n"
                                "while:1 Condition=cond X=s,p,n -> Out=s,cond StepScopes=scopes\n"
                                "reduce_sum X=s -> Out=loss\n"
                                "block 1 in 0\n"
                                "matmul_v2 X=s Y=p -> Out=a\nmatmul_v2 X=a Y=p -> Out=b\n"
                                "assign X=b -> Out=s\nless_than X=s Y=n -> Out=cond";

TEST(AppendBackward, CF_13_ABlockHasAGradientBlockAndCountersOfItsOwn) {
  const Emitted program = emitted(kLoop, lossOf());
  EXPECT_EQ(program.ops(0, 5),
            "while_grad:2 Out=s,cond Out@GRAD=s@GRAD StepScopes=scopes X=s,p,n -> X@GRAD=s@GRAD,p@GRAD,@EMPTY@\n"
            "assign X=s@GRAD -> Out=x@GRAD\n");
  EXPECT_EQ(program.ops(2), "assign X=s@GRAD -> Out=b@GRAD\n"
                            "matmul_v2_grad Out@GRAD=b@GRAD X=a Y=p -> X@GRAD=a@GRAD Y@GRAD=p@GRAD@RENAME@block1@0\n"
                            "matmul_v2_grad Out@GRAD=a@GRAD X=s Y=p -> X@GRAD=s@GRAD Y@GRAD=p@GRAD@RENAME@block1@1\n"
                            "sum X=p@GRAD@RENAME@block1@0,p@GRAD@RENAME@block1@1 -> Out=p@GRAD\n");
  EXPECT_EQ(program.program.blocks[2].parent, 0u);
  EXPECT_EQ(program.program.blocks[2].forward, 1u);
  EXPECT_EQ(stringsAttr(program.program.blocks[0].ops[5].attrs, "original_output_grad"),
            std::vector<std::string>{"s@GRAD"});
}

TEST(AppendBackward, CF_15_AStepDeclaresItsPartsAndTheBlockAroundTheirSum) {
  const Emitted program = emitted(kLoop, lossOf());
  const BlockProgram &made = program.program;
  EXPECT_EQ(made.blocks[2].ops.size(), 4u);
  EXPECT_TRUE(made.find(2, made.texts.find("p@GRAD"))) << "p's part of the step, which block 0 declares later";
  EXPECT_TRUE(made.find(0, made.texts.find("p@GRAD")));
  EXPECT_FALSE(made.find(2, made.texts.find("s@GRAD"))) << "block 0 has it already";
}

TEST(AppendBackward, CF_15_ACapturedVariableIsSummedInEachBlock) {
  std::string text = kLoop.str();
  text.replace(text.find("reduce_sum X=s"), 14, "elementwise_mul X=s Y=p -> Out=t\nreduce_sum X=t");
  const Emitted program = emitted(text, lossOf());
  EXPECT_TRUE(StringRef(program.ops(0)).contains("-> X@GRAD=s@GRAD,p@GRAD@RENAME@block0@1,@EMPTY@"));
  EXPECT_TRUE(StringRef(program.ops(0)).contains("sum X=p@GRAD@RENAME@block0@0,p@GRAD@RENAME@block0@1 -> Out=p@GRAD"));
  EXPECT_TRUE(StringRef(program.ops(2)).contains("sum X=p@GRAD@RENAME@block1@0,p@GRAD@RENAME@block1@1 -> Out=p@GRAD"));
}

TEST(AppendBackward, CF_14_D_17_D_28_WhatALoopCarriesExistsInsideUnderItsOwnName) {
  // s@GRAD arrives twice in block 0, so there it has other names; the step's operators still read s@GRAD.
  std::string text = "scale X=s -> Out=q\n" + kLoop.substr(kLoop.find("while")).str();
  text.replace(text.find("reduce_sum X=s"), 14, "elementwise_add X=s Y=q -> Out=t\nreduce_sum X=t");
  const Emitted program = emitted(text, lossOf());
  EXPECT_TRUE(StringRef(program.ops(0))
                  .contains("Out@GRAD=s@GRAD@RENAME@block0@0 StepScopes=scopes X=s,p,n -> "
                            "X@GRAD=s@GRAD@RENAME@block0@0,"));
  EXPECT_EQ(program.program.blocks[2].ops.size(), 4u);
}

TEST(AppendBackward, D_28_AStatePassedOnOrSwappedKeepsItsGradient) {
  // Paddle drops the reversed copies, which hang on gradients that only the next step hands over.
  const Emitted program = emitted("assign X=x -> Out=s\nassign X=x -> Out=t\n"
                                  "while:1 Condition=cond X=s,t,p,n -> Out=s,t,cond StepScopes=scopes\n"
                                  "elementwise_mul X=s Y=t -> Out=u\nreduce_sum X=u -> Out=loss\n"
                                  "block 1 in 0\n"
                                  "matmul_v2 X=s Y=p -> Out=a\nassign X=t -> Out=b\nassign X=b -> Out=s\n"
                                  "assign X=a -> Out=t\nless_than X=s Y=n -> Out=cond",
                                  lossOf());
  EXPECT_EQ(program.ops(2), "assign X=t@GRAD -> Out=a@GRAD\nassign X=s@GRAD -> Out=b@GRAD\n"
                            "assign X=b@GRAD -> Out=t@GRAD\n"
                            "matmul_v2_grad Out@GRAD=a@GRAD X=s Y=p -> X@GRAD=s@GRAD Y@GRAD=p@GRAD\n");
}

TEST(AppendBackward, NG_01_NoGradNamesCountInEveryBlock) {
  FluidRequest request = lossOf();
  request.noGrad = {"p"};
  const Emitted program = emitted(kLoop, request);
  EXPECT_FALSE(StringRef(program.ops(2)).contains("p@GRAD"));
  EXPECT_EQ(program.pairs, "");
  request.noGrad = {"nobody"};
  EXPECT_EQ(emissionError(kLoop, request), "[unknown_name] no-gradient variable 'nobody' is not in the program");
}

TEST(AppendBackward, CF_13_WhatAStepNeedsOfTheStepBeforeIsOnThePath) {
  // r is read by the state before last: a ← b ← d ← f(d); Paddle's second scan stops after one of them.
  const Emitted program = emitted("while:1 Condition=cond X=a,b,d,p,n -> Out=a,b,d,cond StepScopes=scopes\n"
                                  "reduce_sum X=a -> Out=loss\n"
                                  "block 1 in 0\n"
                                  "elementwise_mul X=d Y=p -> Out=e\nassign X=b -> Out=g\nassign X=d -> Out=h\n"
                                  "assign X=g -> Out=a\nassign X=h -> Out=b\nassign X=e -> Out=d\n"
                                  "less_than X=a Y=n -> Out=cond",
                                  lossOf());
  EXPECT_TRUE(StringRef(program.ops(2)).contains("elementwise_mul_grad"));
  EXPECT_EQ(program.pairs, "p=p@GRAD ");
}

TEST(AppendBackward, CF_17_AGradientTakenInABranchGetsABlockBesideIt) {
  FluidRequest request = lossOf();
  request.block = 1;
  const Emitted program = emitted("matmul_v2 X=x Y=p -> Out=a\n"
                                  "conditional_block:1 Cond=cond Input=a -> Out=b Scope=scope\n"
                                  "block 1 in 0\ntanh X=a -> Out=d\nreduce_sum X=d -> Out=loss",
                                  request);
  EXPECT_EQ(program.ops(2), "fill_constant -> Out=loss@GRAD\n"
                            "reduce_sum_grad Out@GRAD=loss@GRAD X=d -> X@GRAD=d@GRAD\n"
                            "tanh_grad Out=d Out@GRAD=d@GRAD -> X@GRAD=a@GRAD\n"
                            "matmul_v2_grad Out@GRAD=a@GRAD X=x Y=p -> X@GRAD=x@GRAD Y@GRAD=p@GRAD\n");
  EXPECT_EQ(program.program.blocks[2].forward, 1u);
  EXPECT_EQ(program.pairs, "p=p@GRAD ");
}

TEST(AppendBackward, D_25_ATargetThatAnotherTargetIsMadeOfGetsBoth) {
  constexpr StringLiteral text = "exp X=x -> Out=a\ntanh X=a -> Out=b";
  EXPECT_EQ(emitted(text, gradientsOf({"a", "b"}, {"x"})).ops(0, 2),
            "fill_any_like X=a -> Out=a@GRAD@RENAME@block0@0\nfill_any_like X=b -> Out=b@GRAD\n"
            "tanh_grad Out=b Out@GRAD=b@GRAD -> X@GRAD=a@GRAD@RENAME@block0@1\n"
            "sum X=a@GRAD@RENAME@block0@0,a@GRAD@RENAME@block0@1 -> Out=a@GRAD\n"
            "exp_grad Out=a Out@GRAD=a@GRAD -> X@GRAD=x@GRAD\n");
  FluidRequest given = gradientsOf({"a", "b"}, {"x"});
  given.targetGradients = {"x", "x"};
  EXPECT_EQ(emitted(text, given).ops(0, 2), "assign X=x -> Out=a@GRAD@RENAME@block0@0\n"
                                            "tanh_grad Out=b Out@GRAD=x -> X@GRAD=a@GRAD@RENAME@block0@1\n"
                                            "sum X=a@GRAD@RENAME@block0@0,a@GRAD@RENAME@block0@1 -> Out=a@GRAD\n"
                                            "exp_grad Out=a Out@GRAD=a@GRAD -> X@GRAD=x@GRAD\n")
      << "a given head is read in place where nothing else arrives";
}

TEST(AppendBackward, H_06_ATargetNamedTwiceCountsTwice) {
  EXPECT_TRUE(StringRef(emitted("exp X=x -> Out=a", gradientsOf({"a", "a"}, {"x"})).ops(0))
                  .contains("sum X=a@GRAD@RENAME@block0@0,a@GRAD@RENAME@block0@1 -> Out=a@GRAD"));
}

TEST(AppendBackward, D_24_ALossOfSeveralElementsIsSeededWithAllOfThem) {
  const Emitted program = emitted("tanh X=p -> Out=a", lossOf("a"));
  EXPECT_EQ(intsAttr(program.program.blocks[0].ops[1].attrs, "shape"), std::vector<int64_t>{2});
  BlockProgram open = programOf("tanh X=p -> Out=a");
  open.find(0, open.texts.find("a"))->shape = {-1, 2};
  TestContext context;
  const FluidResult result = cantFail(appendBackward(context, std::move(open), lossOf("a")));
  EXPECT_TRUE(StringRef(dump(result.program, 0)).contains("fill_any_like X=a -> Out=a@GRAD"));
}

TEST(AppendBackward, NAME_07_ALaterCallGetsNamesOfItsOwn) {
  TestContext context;
  FluidResult first = cantFail(appendBackward(context, programOf("exp X=x -> Out=a"), gradientsOf({"a"}, {"x"})));
  FluidRequest again = gradientsOf({"x@GRAD", "a"}, {"x"});
  again.priorCalls = 1;
  again.targets = {"a"};
  const FluidResult second = cantFail(appendBackward(context, std::move(first.program), again));
  EXPECT_EQ(dump(second.program, 0, 3), "fill_any_like X=a -> Out=a@GRAD\n"
                                        "exp_grad Out=a Out@GRAD=a@GRAD -> X@GRAD=grad/grad/x@GRAD\n");
  EXPECT_EQ(pairsOf(second), "x=grad/grad/x@GRAD ");
}

TEST(AppendBackward, NG_09_ALaterCallAddsOnlyWhatItsOwnGradientsReach) {
  TestContext context;
  FluidResult first = cantFail(appendBackward(context, programOf("tanh X=x -> Out=a"), gradientsOf({"a"}, {"x"})));
  FluidRequest again = gradientsOf({"x@GRAD"}, {"x"});
  again.priorCalls = 1;
  const FluidResult second = cantFail(appendBackward(context, std::move(first.program), again));
  EXPECT_TRUE(StringRef(dump(second.program, 0, 3))
                  .contains("tanh_grad_grad Out=a grad_out=a@GRAD "
                            "grad_x@GRAD=x@GRAD@GRAD"));
  EXPECT_EQ(pairsOf(second), "x=grad/grad/x@GRAD ");
}

/// With `i` a whole number.
std::string emittedWithCounter(StringRef text, const FluidRequest &request) {
  TestContext context;
  BlockProgram program = programOf(text);
  program.find(0, program.texts.find("i"))->dtype = FluidType::Int64;
  return dump(cantFail(appendBackward(context, std::move(program), request)).program, 0);
}

TEST(AppendBackward, NG_09_ALaterCallDropsWhatReadsNoGradient) {
  constexpr StringLiteral text = "increment X=i -> Out=i\nelementwise_mul X=x Y=i -> Out=a";
  FluidRequest request = gradientsOf({"a"}, {"x", "i"});
  EXPECT_EQ(StringRef(emittedWithCounter(text, request)).count("increment X=i -> Out=i"), 2u);
  request.priorCalls = 1;
  EXPECT_EQ(StringRef(emittedWithCounter(text, request)).count("increment X=i -> Out=i"), 1u);
}

TEST(AppendBackward, D_28_AnIncrementOfAValueWithAGradientPassesItOn) {
  const std::string ops = emittedWithCounter("increment X=x -> Out=a\nincrement X=i -> Out=i\n"
                                             "elementwise_mul X=a Y=i -> Out=b",
                                             gradientsOf({"b"}, {"x", "i"}));
  EXPECT_TRUE(StringRef(ops).ends_with("increment X=i -> Out=i\nassign X=a@GRAD -> Out=x@GRAD\n")) << ops;
}

TEST(AppendBackward, ZERO_07_ASeedThatIsPartOfASumIsNotFilledWithZeros) {
  const std::string ops = emitted("assign X=x -> Out=s\nassign X=s -> Out=d\n"
                                  "while:1 Condition=cond X=s,d,p -> Out=s,d,cond StepScopes=scopes\n"
                                  "block 1 in 0\nmatmul_v2 X=s Y=p -> Out=a\nassign X=a -> Out=s\n"
                                  "matmul_v2 X=d Y=p -> Out=b\nassign X=b -> Out=d",
                                  gradientsOf({"s", "d"}, {"x"}))
                              .ops(0, 3);
  EXPECT_TRUE(StringRef(ops).contains("fill_any_like X=s -> Out=s@GRAD@RENAME@block0@0\n")) << ops;
  EXPECT_EQ(StringRef(ops).count("fill_any_like"), 2u) << ops;
}

TEST(AppendBackward, ZERO_07_AGivenHeadIsAnArrivedGradient) {
  FluidRequest request = gradientsOf({"a"}, {"p"});
  request.targetGradients = {"ch"};
  const std::string ops = emitted("assign X=ch -> Out=cg\n"
                                  "conditional_block:1 Cond=cond Input=p -> Out=b Scope=s1\n"
                                  "conditional_block:2 Cond=cnot Input=p -> Out=d Scope=s2\n"
                                  "select_input Mask=cmask X=d,b -> Out=a\n"
                                  "block 1 in 0\nexp X=p -> Out=b1\nassign X=b1 -> Out=b\n"
                                  "block 2 in 0\ntanh X=p -> Out=d1\nassign X=d1 -> Out=d",
                                  request)
                              .ops(0, 4);
  EXPECT_TRUE(StringRef(ops).starts_with("select_output Mask=cmask X=ch -> Out=d@GRAD,b@GRAD\n")) << ops;
  EXPECT_FALSE(StringRef(ops).contains("fill_any_like")) << ops;
}

TEST(AppendBackward, HOOK_01_CallbacksHearOfEveryOperatorInOrder) {
  std::string heard;
  auto callback = [&](const BlockProgram &program, uint32_t block, size_t op, function_ref<TextId(TextId)> variableOf) {
    const BlockOp &made = program.blocks[block].ops[op];
    const TextId gradient = made.outputs[0].variables[0];
    const TextId variable = variableOf(gradient);
    heard += (program.text(made.type) + ":" + program.text(variable) + " ").str();
  };
  FluidRequest request = lossOf();
  request.callbacks = {callback};
  emitted("exp X=p -> Out=a\nreduce_sum X=a -> Out=loss", request);
  EXPECT_EQ(heard, "reduce_sum_grad:a exp_grad:p ");
}

TEST(AppendBackward, HOOK_02_ErrorsAreClippedWhereTheyHaveArrived) {
  FluidRequest request = lossOf();
  request.errorClips = {{"a", -0.5, 0.5}};
  const Emitted program = emitted(kShared, request);
  EXPECT_TRUE(StringRef(program.ops(0)).contains("-> Out=a@GRAD\nclip X=a@GRAD -> Out=a@GRAD\ntanh_grad"))
      << "behind the sum, not behind its parts";
  EXPECT_EQ(floatAttr(program.program.blocks[0].ops[9].attrs, "min"), -0.5);
}

TEST(AppendBackward, XS_07_ParametersThatAreAskedForInTheirOrder) {
  constexpr StringLiteral text = "elementwise_mul X=p1 Y=p2 -> Out=a\nelementwise_mul X=a Y=p3 -> Out=b\n"
                                 "reduce_sum X=b -> Out=loss";
  EXPECT_EQ(emitted(text, lossOf()).pairs, "p1=p1@GRAD p2=p2@GRAD p3=p3@GRAD ");
  FluidRequest request = lossOf();
  request.parameters = {{"p3", "p1"}};
  EXPECT_EQ(emitted(text, request).pairs, "p3=p3@GRAD p1=p1@GRAD ");
}

TEST(AppendBackward, E_47_AGradientThatIsInAnotherBlock) {
  BlockProgram program = programOf(kLoop);
  program.find(0, program.texts.find("p"))->stopsGradient = true;  // of the loop's operands, so only the step has it
  FluidRequest request = lossOf();
  request.parameters = {{"p"}};
  TestContext context;
  EXPECT_EQ(describeWithNotes(appendBackward(context, std::move(program), request).takeError()),
            "[missing_grad_var] the gradient 'p@GRAD' of parameter 'p' is a variable of block 2, expected of block 0");
}

TEST(AppendBackward, AGG_15_TheSumIsOnTheDeviceOfTheLastContribution) {
  TestContext context;
  BlockProgram program = programOf("exp X=p -> Out=a\nsin X=p -> Out=b\nelementwise_mul X=a Y=b -> Out=m\n"
                                   "reduce_sum X=m -> Out=loss");
  for (size_t i = 0; i < 2; ++i)
    program.blocks[0].ops[i].attrs =
        context.attrs({{"op_device", stringAttrText(AttrTag::String, i ? "gpu:1" : "gpu:0")}});
  const BlockProgram made = cantFail(appendBackward(context, std::move(program), lossOf())).program;
  const BlockOp &sum = made.blocks[0].ops.back();
  ASSERT_EQ(made.text(sum.type), "sum");
  EXPECT_EQ(sum.attrs.get("op_device"), StringRef(stringAttrText(AttrTag::String, "gpu:0"))) << "that of exp";
}

// Paddle has it as soon as another input has a gradient as well, and else returns nothing.
TEST(AppendBackward, ATargetThatIsAnInputHasItsSeed) {
  for (const std::vector<std::string> &inputs : {std::vector<std::string>{"a"}, {"a", "x"}})
    EXPECT_EQ(StringRef(emitted("exp X=x -> Out=a", gradientsOf({"a"}, inputs)).pairs).split(' ').first, "a=a@GRAD");
}

TEST(AppendBackward, ErrorsNameBlockOperatorAndVariable) {
  EXPECT_EQ(emissionError("vendor X=p -> Out=a\nreduce_sum X=a -> Out=loss", lossOf()),
            "[unknown_op] block 0, operator 0 (vendor): unknown operator 'vendor' is between a loss and a parameter, "
            "where it writes 'a'");
  EXPECT_EQ(emissionError("vendor X=p -> Out=a\nreduce_sum X=p -> Out=loss", lossOf()), "success")
      << "off the path (P-06)";
  EXPECT_EQ(
      emissionError("conditional_block_grad Cond=c Input=p -> Input@GRAD=a\nreduce_sum X=a -> Out=loss", lossOf()),
      "[not_differentiable] block 0, operator 0 (conditional_block_grad): 'conditional_block_grad' has no gradient "
      "operator and is between a loss and a parameter, where it writes 'a'; the gradient as a graph goes through it");
  EXPECT_EQ(emissionError("exp X=p -> Out=a", lossOf("q")),
            "[unknown_name] target 'q' is not declared in block 0 or in a block that encloses it");
  FluidRequest heads = gradientsOf({"a"}, {"x"});
  heads.targetGradients = {"", ""};
  EXPECT_EQ(emissionError("exp X=x -> Out=a", heads), "[head_count] 1 targets with 2 gradients");
  EXPECT_EQ(emissionError(kLoop, gradientsOf({"b"}, {})),
            "[foreign_entry] target 'b' is a variable of block 1, expected one that block 0 sees");
  EXPECT_EQ(emissionError("exp X=p -> Out=a", lossOf("p")), "[no_graph] no operator of block 0 writes the loss 'p'");
  EXPECT_EQ(emissionError("while:1 X=p -> Out=a\nreduce_sum X=a -> Out=loss\nblock 1 in 0\nexp X=p -> Out=a", lossOf()),
            "[bad_entry] block 0, operator 0 (while): slot 'Condition' has no operand 0");
  EXPECT_EQ(emissionError("while Condition=cond X=p -> Out=a\nreduce_sum X=a -> Out=loss", lossOf()),
            "[bad_entry] block 0, operator 0 (while): expected one variable in slot 'Condition' and a block");
  FluidRequest late = lossOf();
  late.priorCalls = 0xfffffffe;
  EXPECT_EQ(emissionError("exp X=p -> Out=loss", late),
            "[too_large] 4294967294 earlier calls on the program, expected at most 1000");
}

// `b` is first used in block 1, and so declared there.
TEST(AppendBackward, ANameThatABlockReadsBeforeItWritesIt) {
  constexpr StringLiteral branch = "assign X=p -> Out=a\nconditional_block:1 Cond=cond Input=p -> Out=a Scope=scope\n"
                                   "reduce_sum X=a -> Out=loss\nblock 1 in 0\n";
  const std::string what = emissionError((branch + "elementwise_mul X=b Y=p -> Out=a").str(), lossOf());
  EXPECT_EQ(StringRef(what).split(';').first,
            "[unknown_name] block 1, operator 0 (elementwise_mul): slot 'X' reads 'b' before any operator of its block "
            "writes it");
  EXPECT_EQ(emissionError((branch + "exp X=p -> Out=b\nelementwise_mul X=b Y=p -> Out=a").str(), lossOf()), "success");
  EXPECT_EQ(emissionError((branch + "conditional_block:2 Cond=cond Input=p -> Scope=s2\n"
                                    "elementwise_mul X=b Y=p -> Out=a\nblock 2 in 1\nexp X=p -> Out=b")
                              .str(),
                          lossOf()),
            "success")
      << "an inner block writes it";
}

constexpr StringLiteral kSplit = "split X=p -> Out=a,b,d\nelementwise_mul X=a Y=d -> Out=e\nreduce_sum X=e -> Out=loss";

TEST(AppendBackward, ZERO_07_ZerosAreFilledInBeforeTheReader) {
  EXPECT_EQ(emitted(kSplit, lossOf()).ops(0, 5),
            "elementwise_mul_grad Out@GRAD=e@GRAD X=a Y=d -> X@GRAD=a@GRAD Y@GRAD=d@GRAD\n"
            "fill_any_like X=b -> Out=b@GRAD\n"
            "concat AxisTensor= X=a@GRAD,b@GRAD,d@GRAD -> Out=p@GRAD\n");
}

TEST(AppendBackward, E_34_ANameOfAGradientWhereThereAreNone) {
  const std::string what =
      emissionError("tanh X=p -> Out=a\nelementwise_mul X=a Y=p@GRAD -> Out=b\nreduce_sum X=b -> Out=loss", lossOf());
  EXPECT_EQ(
      StringRef(what).split(';').first,
      "[ambiguous_name] block 0, operator 1 (elementwise_mul): 'p@GRAD' in slot 'Y' has a name of a gradient, in a "
      "program that has no gradients yet");
}

TEST(AppendBackward, E_48_ResultsAndOperandsWithoutAName) {
  const std::string rows = "X=p -> Y=a,@EMPTY@\nreduce_sum X=a -> Out=loss";
  EXPECT_TRUE(StringRef(emitted("unstack " + rows, lossOf()).ops(0))
                  .contains("unstack_grad Y@GRAD=a@GRAD,@EMPTY@ -> X@GRAD=p@GRAD\n"));
  const std::string what = emissionError("unbind X=p -> Out=a,@EMPTY@\nreduce_sum X=a -> Out=loss", lossOf());
  EXPECT_EQ(StringRef(what).split(';').first,
            "[bad_entry] block 0, operator 0 (unbind): slot 'Out' names no variable for result 1, whose gradient is an "
            "operand of 'X' in the gradient operator");
  EXPECT_TRUE(StringRef(emitted("conditional_block:1 Cond=c Input=@EMPTY@,p -> Out=a Scope=s\n"
                                "reduce_sum X=a -> Out=loss\nblock 1 in 0\ntanh X=p -> Out=a",
                                lossOf())
                            .ops(0))
                  .contains(" -> Input@GRAD=@EMPTY@,p@GRAD\n"));
}

TEST(AppendBackward, E_48_ALossIsATensor) {
  TestContext context;
  for (const auto &[kind, dtype, text] :
       {std::tuple(FluidType::LodTensorArray, std::optional(FluidType::Fp64), "as LOD_TENSOR_ARRAY"),
        {FluidType::SelectedRows, std::optional(FluidType::Fp64), "as SELECTED_ROWS"},
        {FluidType::LodTensor, std::nullopt, "without a type"}}) {
    BlockProgram program = programOf("sum X=p -> Out=loss");
    BlockVariable &loss = *program.find(0, program.texts.find("loss"));
    loss.kind = kind;
    loss.dtype = dtype;
    EXPECT_EQ(describeWithNotes(appendBackward(context, std::move(program), lossOf()).takeError()),
              std::string("[bad_entry] the loss 'loss' is declared ") + text +
                  ", expected a tensor with the type of its elements");
  }
}

// What `in_dtype` says, and whether it says anything, is nothing that a run reads.
TEST(AppendBackward, A_19_TheGradientOfACastHasTheDeclaredType) {
  TestContext context;
  for (const char *said : {"", "[\"INT\",2]", "[\"INT\",99]"}) {
    BlockProgram program = programOf("cast X=p -> Out=a\nreduce_sum X=a -> Out=loss");
    BlockOp &cast = program.blocks[0].ops[0];
    cast.attrs = context.attrs({{"out_dtype", "[\"INT\",6]"}});
    if (*said) cast.attrs = context.withAttrs(cast.attrs, {{"in_dtype", said}});
    const FluidResult made = cantFail(appendBackward(context, std::move(program), lossOf()));
    const Attrs &attrs = made.program.blocks[0].ops.back().attrs;
    EXPECT_EQ(intAttr(attrs, "out_dtype"), 6) << said;
    EXPECT_EQ(intAttr(attrs, "in_dtype"), 6) << said;
  }
}

TEST(AppendBackward, NAME_07_ALaterCallFillsInZerosUnderItsOwnNames) {
  TestContext context;
  FluidRequest request = lossOf();
  FluidResult made = cantFail(appendBackward(
      context, programOf("unbind X=p -> Out=a,b\nelementwise_mul X=a Y=a -> Out=d\nreduce_sum X=d -> Out=loss"),
      request));
  request.priorCalls = 1;
  const size_t first = made.program.blocks[0].ops.size();
  made = cantFail(appendBackward(context, std::move(made.program), request));
  EXPECT_EQ(describeWithNotes(verifyBlocks(made.program)), "success");
  EXPECT_TRUE(StringRef(dump(made.program, 0, first)).contains("fill_any_like X=b -> Out=grad/grad/b@GRAD\n"));
}

TEST(AppendBackward, D_28_ABranchKeepsTheNameOfItsGradientWhereAHeadIsGiven) {
  FluidRequest request = gradientsOf({"a"}, {"p"});
  request.targetGradients = {"h"};
  const Emitted program = emitted("conditional_block:1 Cond=c Input=p -> Out=a Scope=s\nassign X=a -> Out=h\n"
                                  "block 1 in 0\ntanh X=p -> Out=a",
                                  request);
  EXPECT_TRUE(StringRef(program.ops(0, 2)).starts_with("assign X=h -> Out=a@GRAD\n")) << program.ops(0, 2);
  EXPECT_EQ(program.ops(2), "tanh_grad Out=a Out@GRAD=a@GRAD -> X@GRAD=p@GRAD\n");
}

TEST(AppendBackward, D_28_AnOperandThatABranchListsTwiceHasOneGradient) {
  const Emitted program = emitted("conditional_block:1 Cond=c Input=p,p -> Out=a Scope=s\nreduce_sum X=a -> Out=loss\n"
                                  "block 1 in 0\ntanh X=p -> Out=a",
                                  lossOf());
  EXPECT_TRUE(StringRef(program.ops(0)).contains(" -> Input@GRAD=p@GRAD\n")) << program.ops(0);
}

TEST(AppendBackward, D_28_AFlaggedNameThatABranchIsTheFirstToWrite) {
  const Emitted program = emitted("conditional_block:1 Cond=c Input=p -> Out=ca Scope=s\n"
                                  "elementwise_mul X=ca Y=x -> Out=b\nreduce_sum X=b -> Out=loss\n"
                                  "block 1 in 0\ntanh X=p -> Out=ca",
                                  lossOf());
  EXPECT_EQ(program.pairs, "p=p@GRAD ");
}

}  // namespace
}  // namespace gradc
