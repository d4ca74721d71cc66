// Gradient operators of a program by themselves: those whose slots are wrong, and one that is computed without its
// forward operator.
#include "tests/support/blocks/array_programs.h"
#include "tests/support/blocks/backward_programs.h"
#include "tests/support/blocks/block_programs.h"
#include "tests/support/blocks/block_runs.h"
#include "tests/support/test_graph.h"

#include "formats/blocks/graph/graph_of_blocks.h"
#include "formats/blocks/program/block_attrs.h"

#include <gtest/gtest.h>

#include <map>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

std::string errorOfGraph(const BlockProgram &program) {
  TestContext context;
  return describeWithNotes(graphOfBlocks(context, program, BlockGraphOptions()).takeError());
}

TEST(GradientOp, E_48_GradientsOfOperandsThatAreNotThere) {
  BlockProgram branch = programOf("conditional_block:1 Cond=q Input=x -> Out=y Scope=s\n"
                                  "conditional_block_grad:2 Cond=q Input=@EMPTY@ Out=y Out@GRAD=y@GRAD Scope=s -> "
                                  "Input@GRAD=x@GRAD\n"
                                  "block 1 in 0\ntanh X=x -> Out=y\n"
                                  "block 2 in 0\ntanh_grad Out=y Out@GRAD=y@GRAD -> X@GRAD=x@GRAD");
  branch.blocks[2].forward = 1;
  EXPECT_EQ(errorOfGraph(branch),
            "[bad_entry] block 0, operator 1 (conditional_block_grad): the operand whose gradient is "
            "'x@GRAD' names no variable");
  const std::string rest =
      " (stack_grad): 'b' would be the gradient of operand 1 in slot 'X' of 'stack', which has no such "
      "operand";
  constexpr StringLiteral gradient = "stack_grad X=x Y@GRAD=g -> X@GRAD=a,b";
  EXPECT_EQ(errorOfGraph(programOf(("stack X=x -> Y=y\n" + gradient).str())), "[bad_entry] block 0, operator 1" + rest);
  EXPECT_EQ(errorOfGraph(programOf(gradient)), "[bad_entry] block 0, operator 0" + rest) << "recomputed";
}

TEST(GradientOp, A_19_AGradientOperatorAloneIsComputed) {
  TestContext context;
  const BlockProgram program = programOf("abs_grad X=x Out@GRAD=g -> X@GRAD=a");
  const Graph graph = cantFail(graphOfBlocks(context, program, BlockGraphOptions())).graph;
  const std::vector<NamedArray> values = drawnBindings(graph, 1);
  std::map<std::string, std::vector<double>> given;
  for (const NamedArray &value : values) given[value.name] = doubles(value.array);
  ASSERT_EQ(given.size(), 2u);
  const std::vector<double> computed = doubles(cantFail(runHeads(context, graph, values))[0]);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(computed[i], given["x"][i] < 0 ? -given["g"][i] : given["g"][i]);
  BlockProgram other(program);
  for (const char *text : {"abs", "Out"}) other.intern(text);
  EXPECT_EQ(dump(cantFail(graphOfBlocks(context, other, BlockGraphOptions())).graph), dump(graph))
      << "other texts change nothing";
  // The operator does not read the bias, so nothing can be recomputed toward it.
  BlockProgram bias = programOf("layer_norm_grad X=x Scale=s Y@GRAD=g -> Bias@GRAD=b");
  bias.blocks[0].ops[0].attrs = context.attrs({{"begin_norm_axis", intAttrText(AttrTag::Int, 0)}});
  EXPECT_EQ(dump(cantFail(graphOfBlocks(context, bias, BlockGraphOptions())).graph),
            "b = layer_norm_grad(x, s, g)\nheads b\n");
}

}  // namespace
}  // namespace gradc
