// Values that a gradient needs and that the program overwrites: names and copies of their own (D-16, D-28, IR-12).
#include "tests/support/blocks/backward_programs.h"
#include "tests/support/test_graph.h"

#include "formats/blocks/backward/copy_overwritten.h"

#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>

#include <numeric>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

OpPaths everyOp(const BlockProgram &program) {
  OpPaths paths;
  for (const Block &block : program.blocks) {
    paths.emplace_back().resize(block.ops.size());
    std::iota(paths.back().begin(), paths.back().end(), 0);
  }
  return paths;
}

BlockProgram copied(StringRef text) {
  TestContext context;
  BlockProgram program = programOf(text);
  std::vector<std::pair<TextId, TextId>> copies;
  copyOverwritten(context, program, false, countersOn(program, everyOp(program)), copies);
  return program;
}

std::string after(StringRef text, uint32_t block = 0) { return dump(copied(text), block); }

TEST(CopyOverwritten, IR_12_D_28_ANameWrittenAgainBecomesTwo) {
  EXPECT_EQ(after("matmul_v2 X=x Y=p -> Out=a\ntanh X=a -> Out=b\nassign X=b -> Out=a\nexp X=a -> Out=d"),
            "matmul_v2 X=x Y=p -> Out=a@COPY@0\ntanh X=a@COPY@0 -> Out=b\nassign X=b -> Out=a\nexp X=a -> Out=d\n")
      << "the last one keeps the name";
  EXPECT_EQ(after("exp X=x -> Out=b\ntanh X=b -> Out=x\nexp X=x -> Out=d"),
            "exp X=x -> Out=b\ntanh X=b -> Out=x@COPY@0\nexp X=x@COPY@0 -> Out=d\n")
      << "a value from outside keeps it";
}

TEST(CopyOverwritten, IR_12_WhereNothingIsLostNothingChanges) {
  for (StringRef text : {"matmul_v2 X=x Y=p -> Out=a\nrelu X=a -> Out=a\n",              // in place
                         "fill_constant -> Out=a\nassign X=x -> Out=a\n",                // no gradient before
                         "exp X=x -> Out=c\ntanh X=c -> Out=b\nassign X=b -> Out=c\n"})  // flagged
    EXPECT_EQ(after(text), text);
}

// Paddle takes the gradient of what a branch reads from variables that the gradient block declares itself. That of a
// state is declared outside, where it arrives.
TEST(CopyOverwritten, D_16_ABranchThatWritesAStateReadsACopyOfIt) {
  constexpr StringLiteral text = "while:1 Condition=cond X=s,p -> Out=s,cond StepScopes=scopes\n"
                                 "block 1 in 0\nconditional_block:2 Cond=cgo Input=s,p -> Out=s Scope=cscope\n"
                                 "block 2 in 1\nmatmul_v2 X=p Y=p -> Out=b\nassign X=b -> Out=s\n";
  EXPECT_EQ(after(text, 1),
            "assign X=s -> Out=s@COPY@0\n"
            "conditional_block:2 Cond=cgo Input=s@COPY@0,p -> Out=s@COPY@2 Scope=cscope\n"
            "logical_not X=cgo -> Out=otherwise@COPY@0\n"
            "conditional_block:3 Cond=otherwise@COPY@0 Input=s@COPY@0 -> Out=s@COPY@3 Scope=scope@COPY@0\n"
            "cast X=cgo -> Out=mask@COPY@0\n"
            "select_input Mask=mask@COPY@0 X=s@COPY@3,s@COPY@2 -> Out=s@COPY@1\n"
            "assign X=s@COPY@1 -> Out=s\n");
}

TEST(CopyOverwritten, D_16_ALoopInABranchWorksOnACopyOfWhatTheBranchReads) {
  const std::string loop = "while:2 Condition=cond X=s,p -> Out=s,cond StepScopes=scopes\n",
                    body = "block 2 in 1\nmatmul_v2 X=s Y=p -> Out=b\nassign X=b -> Out=s\n",
                    branch = "conditional_block:1 Cond=cgo Input=x,p -> Out=s,d Scope=cscope\nblock 1 in 0\n";
  EXPECT_EQ(after(branch + "assign X=x -> Out=s\nassign X=s -> Out=d\n" + loop + body, 1),
            "assign X=x -> Out=s@COPY@0\nassign X=s@COPY@0 -> Out=d\n"
            "while:2 Condition=cond X=s@COPY@0,p -> Out=s@COPY@0,cond StepScopes=scopes\nassign X=s@COPY@0 -> Out=s\n");
  EXPECT_EQ(after(branch + "assign X=x -> Out=s\n" + loop + body, 1), "assign X=x -> Out=s\n" + loop)
      << "no other gradient arrives under the name";
}

TEST(CopyOverwritten, D_16_D_28_ALoopWorksOnACopyOfWhatTheGradientReads) {
  const std::string loop = "while:1 Condition=cond X=s,p -> Out=s,cond StepScopes=scopes\nexp X=s -> Out=e\n"
                           "block 1 in 0\nmatmul_v2 X=s Y=p -> Out=b\nassign X=b -> Out=s\n";
  EXPECT_EQ(after("matmul_v2 X=s Y=p -> Out=a\n" + loop),
            "matmul_v2 X=s Y=p -> Out=a\nassign X=s -> Out=s@COPY@0\n"
            "while:1 Condition=cond X=s@COPY@0,p -> Out=s@COPY@0,cond StepScopes=scopes\nexp X=s@COPY@0 -> Out=e\n");
  EXPECT_EQ(after("matmul_v2 X=s Y=p -> Out=a\n" + loop, 1),
            "matmul_v2 X=s@COPY@0 Y=p -> Out=b\nassign X=b -> Out=s@COPY@0\n");
  EXPECT_EQ(after("tanh X=x -> Out=s\n" + loop),
            "tanh X=x -> Out=s@COPY@0\nassign X=s@COPY@0 -> Out=s\n"
            "while:1 Condition=cond X=s,p -> Out=s,cond StepScopes=scopes\nexp X=s -> Out=e\n")
      << "tanh's gradient reads what tanh wrote";
  EXPECT_EQ(after("matmul_v2 X=x Y=p -> Out=s\n" + loop), dump(programOf("matmul_v2 X=x Y=p -> Out=s\n" + loop), 0))
      << "nobody but the loop needs it";
}

// Paddle keeps no copy of a parameter for each step.
TEST(CopyOverwritten, D_28_ALoopWorksOnACopyOfAParameterThatItsGradientReads) {
  const std::string loop = "while:1 Condition=cond X=p,x -> Out=p,cond StepScopes=scopes\nexp X=p -> Out=e\n",
                    body = "block 1 in 0\nmatmul_v2 X=p Y=x -> Out=b\nassign X=b -> Out=p\n";
  EXPECT_EQ(after(loop + body), "assign X=p -> Out=p@COPY@0\n"
                                "while:1 Condition=cond X=p@COPY@0,x -> Out=p@COPY@0,cond StepScopes=scopes\n"
                                "exp X=p@COPY@0 -> Out=e\n");
  EXPECT_EQ(after(loop + "block 1 in 0\nscale X=p -> Out=b\nassign X=b -> Out=p\n"), loop) << "nothing reads the state";
}

TEST(CopyOverwritten, D_28_AStateIsWrittenOnceAtTheEndOfTheStep) {
  const std::string loop = "while:1 Condition=cond X=s,p -> Out=s,cond StepScopes=scopes\nblock 1 in 0\n";
  EXPECT_EQ(after(loop + "exp X=s -> Out=s\nmatmul_v2 X=s Y=p -> Out=a\nassign X=a -> Out=s\n", 1),
            "exp X=s -> Out=s@COPY@0\nmatmul_v2 X=s@COPY@0 Y=p -> Out=a\nassign X=a -> Out=s\n");
  EXPECT_EQ(after(loop + "assign X=p -> Out=s\nexp X=s -> Out=a\n", 1),
            "assign X=p -> Out=s@COPY@0\nexp X=s@COPY@0 -> Out=a\nassign X=s@COPY@0 -> Out=s\n")
      << "who reads it behind its last write";
}

TEST(CopyOverwritten, D_28_AStepThatWorksInPlaceWritesACopy) {
  const std::string loop = "while:1 Condition=cond X=s,p -> Out=s,cond StepScopes=scopes\nblock 1 in 0\n";
  EXPECT_EQ(after(loop + "tanh X=s -> Out=a\nscale X=s -> Out=s\n", 1),
            "tanh X=s -> Out=a\nscale X=s -> Out=s@COPY@0\nassign X=s@COPY@0 -> Out=s\n");
  EXPECT_EQ(after(loop + "floor_mod X=s -> Out=s\n", 1), "floor_mod X=s -> Out=s\n") << "without a gradient";
}

TEST(CopyOverwritten, D_28_AFlaggedValueThatAGradientReads) {
  const BlockProgram program = copied("fill_constant -> Out=c\nelementwise_mul X=p Y=c -> Out=a\n"
                                      "fill_constant -> Out=c\nelementwise_mul X=a Y=c -> Out=b\n");
  EXPECT_EQ(dump(program, 0), "fill_constant -> Out=c@COPY@0\nelementwise_mul X=p Y=c@COPY@0 -> Out=a\n"
                              "fill_constant -> Out=c\nelementwise_mul X=a Y=c -> Out=b\n");
  EXPECT_TRUE(program.find(0, program.texts.find("c@COPY@0"))->stopsGradient);
  const std::string loop = "while:1 Condition=n X=c,p,s -> Out=c,s,n StepScopes=scopes\nblock 1 in 0\n";
  EXPECT_EQ(after(loop + "elementwise_mul X=s Y=c -> Out=a\nassign X=a -> Out=s\nfloor X=c -> Out=c\n", 1),
            "elementwise_mul X=s Y=c -> Out=a\nassign X=a -> Out=s\nfloor X=c -> Out=c\n")
      << "the gradient has it as it was when the step began";
  EXPECT_EQ(after(loop + "floor X=c -> Out=c\nelementwise_mul X=s Y=c -> Out=a\nassign X=a -> Out=s\n", 1),
            "floor X=c -> Out=c@COPY@0\nelementwise_mul X=s Y=c@COPY@0 -> Out=a\nassign X=a -> Out=s\n"
            "assign X=c@COPY@0 -> Out=c\n");
}

TEST(CopyOverwritten, D_28_ACounterThatAGradientReads) {
  const std::string text = "fill_constant -> Out=c\ngather Index=c X=p -> Out=a\nincrement X=c -> Out=c\n";
  EXPECT_EQ(after(text), "fill_constant -> Out=c@COPY@0\ngather Index=c@COPY@0 X=p -> Out=a\n"
                         "increment X=c@COPY@0 -> Out=c\n")
      << "nothing counts back";
  EXPECT_EQ(after(text + "gather Index=c X=a -> Out=b\n"), text + "gather Index=c X=a -> Out=b\n");
  EXPECT_EQ(after(text + "assign X=x -> Out=c\ngather Index=c X=a -> Out=b\n"),
            "fill_constant -> Out=c@COPY@0\ngather Index=c@COPY@0 X=p -> Out=a\nincrement X=c@COPY@0 -> Out=c\n"
            "assign X=x -> Out=c\ngather Index=c X=a -> Out=b\n");
  const std::string step = "increment X=c -> Out=c\ngather Index=c X=p -> Out=a\nassign X=a -> Out=s\n";
  EXPECT_EQ(after("while:1 Condition=n X=c,p,s -> Out=c,s,n StepScopes=scopes\nblock 1 in 0\n" + step, 1), step);
}

TEST(CopyOverwritten, D_28_ACounterWhoseGradientDoesNotCountBack) {
  // c is flagged, so no gradient of its increment is among the operators.
  const std::string first = "gather Index=c X=p -> Out=a\n",
                    last = "gather Index=c X=a -> Out=b\nreduce_sum X=b -> Out=loss\n";
  const std::string ops =
      emitted("fill_constant -> Out=c\n" + first + "increment X=c -> Out=c\n" + last, lossOf()).ops(0);
  EXPECT_TRUE(StringRef(ops).contains("increment X=c@COPY@0 -> Out=c\n")) << ops;
  EXPECT_TRUE(StringRef(ops).contains("gather_grad Axis= Index=c@COPY@0 ")) << ops;
  // A loop that nothing flows through.
  const std::string counting =
      emitted("fill_constant -> Out=c\n" + first + "while:1 Condition=n X=c,s,p -> Out=c,s,n StepScopes=scopes\n" +
                  last + "block 1 in 0\ntanh X=p -> Out=s\nincrement X=c -> Out=c",
              lossOf())
          .ops(0);
  EXPECT_TRUE(StringRef(counting).contains("assign X=c@COPY@0 -> Out=c\nwhile:1")) << counting;
  EXPECT_TRUE(StringRef(counting).contains("gather_grad Axis= Index=c ")) << counting;
}

TEST(CopyOverwritten, IR_12_WhatIsStoredKeepsItsNameForTheLastValue) {
  const std::string text = "exp X=s -> Out=a\nmatmul_v2 X=s Y=a -> Out=b\nassign X=b -> Out=s\nexp X=s -> Out=loss\n";
  BlockProgram program = programOf(text);
  program.find(0, program.texts.find("s"))->isPersistable = true;
  TestContext context;
  std::vector<std::pair<TextId, TextId>> copies;
  copyOverwritten(context, program, false, countersOn(program, everyOp(program)), copies);
  EXPECT_EQ(dump(program, 0), "assign X=s -> Out=s@COPY@0\nexp X=s@COPY@0 -> Out=a\n"
                              "matmul_v2 X=s@COPY@0 Y=a -> Out=b\nassign X=b -> Out=s@COPY@1\n"
                              "exp X=s@COPY@1 -> Out=loss\nassign X=s@COPY@1 -> Out=s\n");
}

TEST(CopyOverwritten, D_28_ABlockWithinReadsACopyOfTheState) {
  const BlockProgram program = copied("while:1 Condition=cond X=s,p -> Out=s,cond StepScopes=scopes\nblock 1 in 0\n"
                                      "conditional_block:2 Cond=cond Input=s,p -> Out=a Scope=scope\n"
                                      "assign X=a -> Out=s\nblock 2 in 1\nmatmul_v2 X=s Y=p -> Out=a");
  EXPECT_EQ(dump(program, 1), "assign X=s -> Out=s@COPY@0\n"
                              "conditional_block:2 Cond=cond Input=s@COPY@0,p -> Out=a Scope=scope\n"
                              "assign X=a -> Out=s\n");
  EXPECT_EQ(dump(program, 2), "matmul_v2 X=s@COPY@0 Y=p -> Out=a\n");
}

TEST(CopyOverwritten, D_28_AFlaggedFirstStateDoesNotStopTheLoop) {
  const std::string text =
      "fill_constant -> Out=c\nwhile:1 Condition=n X=c,p -> Out=c,n StepScopes=scopes\n"
      "reduce_sum X=c -> Out=loss\nblock 1 in 0\nelementwise_add X=c Y=p -> Out=a\nassign X=a -> Out=c";
  BlockProgram program = programOf(text);
  program.find(0, program.texts.find("loss"))->stopsGradient = true;  // as Paddle's front end flags what it makes of c
  TestContext context;
  const FluidResult result = cantFail(appendBackward(context, std::move(program), lossOf()));
  EXPECT_TRUE(StringRef(dump(result.program, 0))
                  .starts_with("fill_constant -> Out=c\nassign X=c -> Out=c@COPY@0\n"
                               "while:1 Condition=n X=c@COPY@0,p -> Out=c@COPY@0,n StepScopes=scopes\n"
                               "assign X=c@COPY@0 -> Out=c\nreduce_sum X=c@COPY@0 -> Out=loss\n"))
      << dump(result.program, 0);
  EXPECT_EQ(pairsOf(result), "p=p@GRAD ");
  const std::string counter = "fill_constant -> Out=c\nwhile:1 Condition=n X=c,p -> Out=c,n StepScopes=scopes\n"
                              "block 1 in 0\nscale X=c -> Out=ca\nassign X=ca -> Out=c\n";
  EXPECT_EQ(after(counter), dump(programOf(counter), 0)) << "a counter depends on nothing that is not flagged";
}

TEST(CopyOverwritten, D_28_ABranchThatMayLeaveANameGetsTheOtherCase) {
  const BlockProgram program =
      copied("exp X=x -> Out=s\nconditional_block:1 Cond=cond Input=x -> Out=s Scope=scope\nexp X=s -> Out=a\n"
             "block 1 in 0\ntanh X=x -> Out=b\nassign X=b -> Out=s");
  EXPECT_EQ(dump(program, 0),
            "exp X=x -> Out=s@COPY@0\nconditional_block:1 Cond=cond Input=x -> Out=s@COPY@1 Scope=scope\n"
            "logical_not X=cond -> Out=otherwise@COPY@0\n"
            "conditional_block:2 Cond=otherwise@COPY@0 Input=s@COPY@0 -> Out=s@COPY@2 Scope=scope@COPY@0\n"
            "cast X=cond -> Out=mask@COPY@0\nselect_input Mask=mask@COPY@0 X=s@COPY@2,s@COPY@1 -> Out=s\n"
            "exp X=s -> Out=a\n");
  EXPECT_EQ(dump(program, 1), "tanh X=x -> Out=b\nassign X=b -> Out=s@COPY@1\n");
  EXPECT_EQ(dump(program, 2), "assign X=s@COPY@0 -> Out=s@COPY@2\n");
}

TEST(CopyOverwritten, D_28_ABranchInABranchThatMayLeaveAName) {
  const std::string ops = emitted("exp X=p -> Out=s\n"
                                  "conditional_block:1 Cond=c Input=x -> Out=s Scope=scope\n"
                                  "reduce_sum X=s -> Out=loss\n"
                                  "block 1 in 0\n"
                                  "conditional_block:2 Cond=c Input=x -> Out=s Scope=inner\n"
                                  "block 2 in 1\n"
                                  "tanh X=x -> Out=s\n",
                                  lossOf())
                              .ops(0);
  EXPECT_TRUE(StringRef(ops).contains("conditional_block:1 Cond=c Input=x,s@COPY@0 ->"))
      << "what the outer branch keeps for the inner one has a gradient too\n"
      << ops;
  EXPECT_TRUE(StringRef(ops).contains("sum X=s@COPY@0@GRAD@RENAME@block0@0,s@COPY@0@GRAD@RENAME@block0@1")) << ops;
}

TEST(CopyOverwritten, CF_16_AStateThatNobodyReadsBehindTheLoopStartsFromZeros) {
  const Emitted program = emitted("scale X=t -> Out=u\nwhile:1 Condition=n X=s,t,p -> Out=s,t,n StepScopes=scopes\n"
                                  "elementwise_add X=s Y=u -> Out=v\nreduce_sum X=v -> Out=loss\nblock 1 in 0\n"
                                  "elementwise_mul X=s Y=t -> Out=a\nelementwise_mul X=t Y=p -> Out=b\n"
                                  "assign X=a -> Out=s\nassign X=b -> Out=t",
                                  lossOf());
  const std::string ops = program.ops(0, 6);
  EXPECT_TRUE(StringRef(ops).contains("fill_any_like X=t -> Out=t@GRAD@RENAME@block0@0\nwhile_grad:2")) << ops;
  EXPECT_TRUE(StringRef(ops).contains("sum X=t@GRAD@RENAME@block0@0,t@GRAD@RENAME@block0@1 -> Out=t@GRAD")) << ops;
}

/// The first call's program with more operators, differentiated again.
std::string again(StringRef first, StringRef more) {
  TestContext context;
  FluidResult made = cantFail(appendBackward(context, programOf(first), lossOf()));
  for (StringRef line : llvm::split(more, "\n")) {
    auto [type, slots] = line.split(' ');
    auto [input, output] = slots.split(" -> ");
    made.program.addVariable(
        0, {made.program.intern(output.split('=').second), FluidType::LodTensor, FluidType::Fp64, {2}});
    addOp(made.program, 0, type, {{input.split('=').first.str(), {input.split('=').second.str()}}},
          {{output.split('=').first.str(), {output.split('=').second.str()}}});
  }
  FluidRequest request = lossOf();
  request.priorCalls = 1;
  return dump(cantFail(appendBackward(context, std::move(made.program), request)).program, 0);
}

TEST(CopyOverwritten, NAME_07_WhatTheFirstCallReadsIsKeptFromTheSecondOne) {
  const std::string ops = again("exp X=p -> Out=a\nreduce_sum X=a -> Out=loss", "tanh X=p -> Out=a");
  EXPECT_TRUE(StringRef(ops).starts_with("exp X=p -> Out=a@COPY@0\nreduce_sum X=a@COPY@0 -> Out=loss\n")) << ops;
  EXPECT_TRUE(StringRef(ops).contains("exp_grad Out=a@COPY@0 Out@GRAD=a@GRAD -> X@GRAD=p@GRAD\n")) << ops;
  EXPECT_TRUE(StringRef(ops).contains("tanh X=p -> Out=a\n")) << ops;
}

TEST(CopyOverwritten, NAME_07_TheFirstCallsBlocksKeepTheirNames) {
  const std::string ops = again("tanh X=x -> Out=s\nwhile:1 Condition=n X=s,p -> Out=s,n StepScopes=scopes\n"
                                "reduce_sum X=s -> Out=loss\n"
                                "block 1 in 0\nelementwise_mul X=s Y=p -> Out=a\nassign X=a -> Out=s",
                                "tanh X=p -> Out=s");
  EXPECT_TRUE(StringRef(ops).contains("while:1 Condition=n X=s,p -> Out=s,n StepScopes=scopes\n")) << ops;
  EXPECT_TRUE(StringRef(ops).contains("tanh X=p -> Out=s@COPY@1\n")) << ops;
}

TEST(CopyOverwritten, NAME_07_AnOptimizerOfTheFirstCallUpdatesItsParameter) {
  TestContext context;
  FluidResult made =
      cantFail(appendBackward(context, programOf("sin X=p -> Out=a\nreduce_sum X=a -> Out=loss"), lossOf()));
  made.program.find(0, made.program.texts.find("p"))->isPersistable = true;
  addOp(made.program, 0, "sgd", {{"Grad", {"p@GRAD"}}, {"LearningRate", {"x"}}, {"Param", {"p"}}},
        {{"ParamOut", {"p"}}});
  made.program.addVariable(0, {made.program.intern("x"), FluidType::LodTensor, FluidType::Fp64, {1}});
  FluidRequest request = lossOf();
  request.priorCalls = 1;
  const std::string ops = dump(cantFail(appendBackward(context, std::move(made.program), request)).program, 0);
  EXPECT_TRUE(StringRef(ops).contains("Param=p -> ParamOut=p\n")) << ops;
}

TEST(CopyOverwritten, NG_01_ACopyOfANoGradVariableIsOne) {
  FluidRequest request = lossOf();
  request.noGrad = {"x"};
  const Emitted program = emitted("exp X=p -> Out=x\ntanh X=x -> Out=a\nelementwise_mul X=a Y=p -> Out=x\n"
                                  "elementwise_add X=x Y=p -> Out=b\nreduce_sum X=b -> Out=loss",
                                  request);
  EXPECT_FALSE(StringRef(program.ops(0)).contains("exp_grad"));
  EXPECT_FALSE(StringRef(program.ops(0)).contains("elementwise_mul_grad"));
}

TEST(CopyOverwritten, D_28_AnOperatorInPlaceWhoseGradientReadsItsInput) {
  const std::string ops = emitted("cos X=p -> Out=a\n"
                                  "cos X=a -> Out=a\n"
                                  "reduce_sum X=a -> Out=loss\n",
                                  lossOf())
                              .ops(0);
  EXPECT_TRUE(StringRef(ops).starts_with("cos X=p -> Out=a@COPY@0\ncos X=a@COPY@0 -> Out=a\n")) << ops;
  EXPECT_NE(ops.find("cos_grad Out@GRAD=a@GRAD X=a@COPY@0 -> X@GRAD=a@COPY@0@GRAD"), std::string::npos) << ops;
}

TEST(CopyOverwritten, D_28_ABranchThatReadsWhatItHandsOut) {
  const Emitted made = emitted("tanh X=p -> Out=a\n"
                               "conditional_block:1 Cond=c Input=p -> Out=a,b Scope=scope\n"
                               "elementwise_mul X=a Y=b -> Out=t\n"
                               "reduce_sum X=t -> Out=loss\n"
                               "block 1 in 0\n"
                               "sin X=p -> Out=b\n"
                               "cos X=b -> Out=a\n",
                               lossOf());
  // The gradient of b that arrives is one, that of its reader another.
  EXPECT_NE(made.ops(1).find("assign X=b@COPY@0 -> Out=b"), std::string::npos) << made.ops(1);
}

}  // namespace
}  // namespace gradc
