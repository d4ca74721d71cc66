// Nested blocks with named variables: lookup, repeated writes, blocks as bodies.
#include "tests/support/naive.h"
#include "tests/support/test_graph.h"

#include "formats/blocks/block_program.h"
#include "formats/json/reader.h"
#include "formats/json/writer.h"
#include "ir/verify.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

BlockOp op(std::string type, std::vector<std::string> inputs, std::vector<std::string> outputs) {
  return {std::move(type), std::move(inputs), std::move(outputs), Attrs(), std::nullopt};
}

BlockOp owner(std::string type, uint32_t block, std::vector<std::string> inputs, std::vector<std::string> outputs) {
  return {std::move(type), std::move(inputs), std::move(outputs), Attrs(), block};
}

/// while(x, i → y) over a body that reads an outer w and has a t of its own; its gradient block.
BlockProgram loop() {
  BlockProgram program;
  program.blocks.push_back({std::nullopt, std::nullopt, {"x", "w", "t", "y", "dx", "dy"}, {}});
  program.blocks.push_back({0, std::nullopt, {"t"}, {op("elemwise_mul", {"x", "w"}, {"t"}), op("exp", {"t"}, {"y"})}});
  program.blocks.push_back(
      {1, 1, {"dt"}, {op("elemwise_mul", {"dy", "t"}, {"dt"}), op("elemwise_mul", {"dt", "w"}, {"dx"})}});
  program.blocks[0].ops = {op("exp", {"x"}, {"t"}), owner("while", 1, {"x", "w"}, {"y"})};
  program.blocks[1].ops.push_back(owner("while_grad", 2, {"dy"}, {"dx"}));
  return program;
}

TEST(BlockProgram, NamesBelongToTheNearestBlockAround) {
  BlockProgram program = loop();
  EXPECT_EQ(program.declaringBlock(0, "t"), 0u);
  EXPECT_EQ(program.declaringBlock(1, "t"), 1u);
  EXPECT_EQ(program.declaringBlock(2, "t"), 1u);
  EXPECT_EQ(program.declaringBlock(2, "w"), 0u);
  EXPECT_EQ(program.declaringBlock(1, "dt"), std::nullopt) << "not looked up inwards";
  EXPECT_EQ(describeError(verifyBlocks(program)), "success");
}

TEST(BlockProgram, LinksAreChecked) {
  auto errorAfter = [](auto edit) {
    BlockProgram program = loop();
    edit(program);
    return describeError(verifyBlocks(program));
  };
  EXPECT_EQ(errorAfter([](BlockProgram &p) { p.blocks[2].forward = 0; }),
            "[bad_json] block 2 is the gradient of block 0, expected that of its parent");
  EXPECT_EQ(errorAfter([](BlockProgram &p) { p.blocks[1].parent = 2; }),
            "[bad_json] block 1 has parent 2, expected a block before it");
  EXPECT_EQ(errorAfter([](BlockProgram &p) { p.blocks[1].parent.reset(); }),
            "[bad_json] block 1 has no parent, expected a block before it");
  EXPECT_EQ(errorAfter([](BlockProgram &p) { p.blocks[0].parent = 0; }),
            "[bad_json] block 0 has parent 0, expected none: it is the root");
  EXPECT_EQ(errorAfter([](BlockProgram &p) { p.blocks[0].ops.push_back(owner("if", 1, {}, {})); }),
            "[bad_json] operator 'if' of block 0 owns block 1, expected a child of its block that no other owns");
  EXPECT_EQ(errorAfter([](BlockProgram &p) { p.blocks[0].ops.push_back(op("exp", {"dt"}, {"y"})); }),
            "[foreign_entry] operator 'exp' of block 0 uses 'dt', which neither this block nor one around it declares");
  EXPECT_EQ(describeError(verifyBlocks(BlockProgram())), "[bad_json] the program has no block, expected a root");
}

TEST(BlockProgram, CF_22_BlocksBecomeBodiesThatRoundTrip) {
  TestContext context;
  const Graph root = cantFail(graphOfBlocks(context, loop()));
  EXPECT_EQ(describeError(verifyGraph(root, 10)), "success");
  EXPECT_EQ(dump(root), "t = exp(x)\ny = while(x, w)\nheads t, y\n");
  ArrayRef<Graph> bodies = root.bodies(nodeNamed(root, "y"));
  ASSERT_EQ(bodies.size(), 1u);
  EXPECT_EQ(dump(bodies[0]), "t = elemwise_mul(x, w)\ny = exp(t)\ndx = while_grad(dy)\nheads t, y, dx\n");
  std::string text, again;
  raw_string_ostream os(text), osAgain(again);
  writeJson(os, root);
  writeJson(osAgain, cantFail(readJson(context, text, ReadOptions())).graph);
  EXPECT_EQ(again, text);
  EXPECT_NE(text.find("subgraphs"), std::string::npos);
}

TEST(BlockProgram, IR_12_EveryWriteIsAnEntryOfItsOwn) {
  // a is written three times, once in place; each reader sees the write before it.
  BlockProgram program;
  program.blocks.push_back(
      {std::nullopt,
       std::nullopt,
       {"x", "a", "b", "c"},
       {op("square", {"x"}, {"a"}), op("elemwise_mul", {"a", "x"}, {"b"}), op("elemwise_add", {"a", "b"}, {"a"}),
        op("elemwise_mul", {"a", "b"}, {"c"}), op("negative", {"x"}, {"a"})}});
  TestContext context;
  Graph graph = cantFail(graphOfBlocks(context, program));
  std::vector<testing::Array> heads = evaluate(graph, {{"x", testing::Array(2.0)}});
  ASSERT_EQ(heads.size(), 3u);
  EXPECT_EQ(heads[0].values[0], -2) << "a holds its last write";
  EXPECT_EQ(heads[2].values[0], (4 + 8) * 8);
  // And the gradient goes to the write that was read: c = (x² + x³)·x³.
  GradientRequest request = wrt(graph, {"x"});
  request.heads = {{graph.heads()[2], std::nullopt, ""}};
  Graph gradient = cantFail(buildGradient(context, graph, request, GradientOptions())).graph;
  EXPECT_EQ(evaluate(gradient, {{"x", testing::Array(2.0)}}).back().values[0], 5 * 16 + 6 * 32);
}

TEST(BlockProgram, E_48_OutputsAnOperatorDoesNotHave) {
  BlockProgram program;
  program.blocks.push_back({std::nullopt, std::nullopt, {"x", "a", "b"}, {op("exp", {"x"}, {"a", "b"})}});
  TestContext context;
  EXPECT_EQ(describeError(graphOfBlocks(context, program)), "[bad_entry] operator 'exp' names 2 outputs, it has 1");
}

}  // namespace
}  // namespace gradc
