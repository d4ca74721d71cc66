// Nested blocks with named variables: links, lookup, attributes.
#include "tests/support/blocks/block_programs.h"
#include "tests/support/test_graph.h"

#include "formats/blocks/program/block_attrs.h"
#include "formats/blocks/program/block_program.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

/// while(x, i → y) over a body that reads an outer w and has a t of its own; its gradient block.
BlockProgram loop() {
  BlockProgram program;
  addBlock(program, std::nullopt, {"x", "w", "t", "y", "dx", "dy"});
  addBlock(program, 0, {"t"});
  addOp(program, 1, "elemwise_mul", {{"X", {"x"}}, {"Y", {"w"}}}, {{"Out", {"t"}}});
  addOp(program, 1, "exp", {{"X", {"t"}}}, {{"Out", {"y"}}});
  addBlock(program, 1, {"dt"}, 1);
  addOp(program, 2, "elemwise_mul", {{"X", {"dy"}}, {"Y", {"t"}}}, {{"Out", {"dt"}}});
  addOp(program, 2, "elemwise_mul", {{"X", {"dt"}}, {"Y", {"w"}}}, {{"Out", {"dx"}}});
  addOp(program, 0, "exp", {{"X", {"x"}}}, {{"Out", {"t"}}});
  addOp(program, 0, "while", {{"X", {"x", "w"}}}, {{"Out", {"y"}}}, 1);
  addOp(program, 1, "while_grad", {{"Out@GRAD", {"dy"}}}, {{"X@GRAD", {"dx"}}}, 2);
  return program;
}

std::optional<uint32_t> declaringBlock(const BlockProgram &program, uint32_t block, StringRef name) {
  return program.declaringBlock(block, program.texts.find(name));
}

TEST(BlockProgram, IR_11_NamesBelongToTheNearestBlockAround) {
  BlockProgram program = loop();
  EXPECT_EQ(declaringBlock(program, 0, "t"), 0u);
  EXPECT_EQ(declaringBlock(program, 1, "t"), 1u);
  EXPECT_EQ(declaringBlock(program, 2, "t"), 1u);
  EXPECT_EQ(declaringBlock(program, 2, "w"), 0u);
  EXPECT_EQ(declaringBlock(program, 1, "dt"), std::nullopt) << "not looked up inwards";
  EXPECT_EQ(describeError(verifyBlocks(program)), "success");
}

TEST(BlockProgram, IR_11_AGradientBlockBesideSeesTheVariablesOfItsBlock) {
  BlockProgram program = loop();
  program.blocks[2].parent = 0;  // as Paddle writes it
  program.blocks[1].ops.pop_back();
  addOp(program, 0, "while_grad", {{"Out@GRAD", {"dy"}}}, {{"X@GRAD", {"dx"}}}, 2);
  EXPECT_EQ(declaringBlock(program, 2, "t"), 1u);
  EXPECT_EQ(describeError(verifyBlocks(program)), "success");
}

TEST(BlockProgram, E_33_LinksAreChecked) {
  auto errorAfter = [](auto edit) {
    BlockProgram program = loop();
    edit(program);
    return describeError(verifyBlocks(program));
  };
  EXPECT_EQ(errorAfter([](BlockProgram &p) { p.blocks[2].forward = 0; }),
            "[bad_json] block 2 is the gradient of block 0, expected a block before it that is not the root");
  EXPECT_EQ(errorAfter([](BlockProgram &p) { addBlock(p, 1, {}, 2); }), "success")
      << "a gradient of a gradient block, beside it";
  EXPECT_EQ(
      errorAfter([](BlockProgram &p) {
        addBlock(p, 0, {});
        addBlock(p, 3, {}, 2);
      }),
      "[bad_json] block 4 is the gradient of block 2, expected the gradient of its parent, or of a child of block 3");
  EXPECT_EQ(errorAfter([](BlockProgram &p) { p.blocks[1].parent = 2; }),
            "[bad_json] block 1 has parent 2, expected a block before it");
  EXPECT_EQ(errorAfter([](BlockProgram &p) { p.blocks[1].parent.reset(); }),
            "[bad_json] block 1 has no parent, expected a block before it");
  EXPECT_EQ(errorAfter([](BlockProgram &p) { p.blocks[0].parent = 0; }),
            "[bad_json] block 0 has parent 0, expected none: it is the root");
  EXPECT_EQ(
      errorAfter([](BlockProgram &p) { addOp(p, 0, "if", {}, {}, 1); }),
      "[bad_json] block 0, operator 2 (if): owns block 1, expected a child of its own block without another owner");
  EXPECT_EQ(errorAfter([](BlockProgram &p) {
              for (uint32_t i = 2; i < 70; ++i) addBlock(p, i, {});
            }),
            "[bad_json] block 65 is nested more than 64 levels deep");
  EXPECT_EQ(describeError(verifyBlocks(BlockProgram())), "[bad_json] the program has no block, expected a root");
}

TEST(BlockProgram, E_44_NamesAreDeclared) {
  BlockProgram program = loop();
  BlockOp &op = addOp(program, 0, "exp", {{"X", {"dt"}}}, {{"Out", {"@EMPTY@"}}});
  op.callstack = program.intern(
      R"json(["  File \"train.py\", line 12, in main","    y = exp(x)","  File \"/lib/paddle/ops.py\", line 3, in )json"
      R"json(exp","    a"])json");
  EXPECT_EQ(
      describeWithNotes(verifyBlocks(program)),
      "[foreign_entry] block 0, operator 2 (exp): slot 'X' names 'dt', which neither this block nor one around it "
      "declares; created at File \"train.py\", line 12, in main: y = exp(x)");
}

TEST(BlockProgram, IR_11_ADeclarationOfTheNameOfNoVariableIsLeftOut) {
  BlockProgram program = loop();
  const size_t before = program.blocks[1].variables.size();
  EXPECT_TRUE(program.addVariable(1, {kEmptyName}));  // as Paddle's programs of branches have it
  EXPECT_TRUE(program.addVariable(1, {kEmptyName}));
  EXPECT_EQ(program.blocks[1].variables.size(), before);
  EXPECT_EQ(program.find(1, kEmptyName), nullptr);
  EXPECT_EQ(describeError(verifyBlocks(program)), "success");
}

TEST(BlockProgram, CopiesShareNothing) {
  BlockProgram program = loop();
  const BlockProgram copy = program;
  program.intern("new");
  program.addVariable(1, {program.intern("u")});
  EXPECT_EQ(copy.texts.find("new"), TextId());
  EXPECT_EQ(copy.find(1, copy.texts.find("t"))->name, program.find(1, program.texts.find("t"))->name);
  EXPECT_EQ(describeError(verifyBlocks(copy)), "success");
  EXPECT_FALSE(program.addVariable(1, {program.intern("t")})) << "declared already";
}

TEST(BlockProgram, AttributesKeepTheirTypes) {
  TestContext context;
  const std::vector<AttrText> none;
  auto made = [&](StringRef key, const std::string &value) { return context.attrs({{key, value}}); };
  EXPECT_EQ(intAttrText(AttrTag::Long, -3), R"(["LONG",-3])");
  EXPECT_EQ(intAttr(made("a", intAttrText(AttrTag::Int, -3)), "a"), -3);
  EXPECT_EQ(intAttr(made("a", floatAttrText(AttrTag::Float, 1)), "a"), std::nullopt) << "another type";
  EXPECT_EQ(boolAttr(made("a", boolAttrText(true)), "a"), true);
  EXPECT_EQ(floatAttrText(AttrTag::Float, 0.1f), R"(["FLOAT",0.1])");
  EXPECT_EQ(floatAttrText(AttrTag::Float64, 1e-5), R"(["FLOAT64",1e-05])");
  EXPECT_EQ(floatAttrText(AttrTag::Float64, -1e16), R"(["FLOAT64",-1e+16])");
  EXPECT_EQ(floatAttrText(AttrTag::Float64, 123456.25), R"(["FLOAT64",123456.25])");
  EXPECT_EQ(floatAttrText(AttrTag::Float64, 0.00012), R"(["FLOAT64",0.00012])");
  EXPECT_EQ(floatAttrText(AttrTag::Float64, 1e15), R"(["FLOAT64",1000000000000000.0])");
  EXPECT_EQ(floatAttr(made("a", R"(["FLOAT","-inf"])"), "a"), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(floatAttr(made("a", R"(["SCALAR",["FLOAT64",0.5]])"), "a"), 0.5);
  const std::vector<std::string> texts = {"a,\"b\\", "ü\n😀", ""};
  EXPECT_EQ(stringsAttrText(AttrTag::Strings, texts), R"(["STRINGS",["a,\"b\\","\u00fc\n\ud83d\ude00",""]])");
  EXPECT_EQ(stringsAttr(made("a", stringsAttrText(AttrTag::Strings, texts)), "a"), texts);
  EXPECT_EQ(intsAttr(made("a", intsAttrText(AttrTag::Longs, {1, -2})), "a"), (std::vector<int64_t>{1, -2}));
  EXPECT_EQ(intsAttr(made("a", intsAttrText(AttrTag::Ints, {})), "a"), std::vector<int64_t>());
  EXPECT_EQ(floatsAttr(made("a", floatsAttrText(AttrTag::Floats, {1, 0.5})), "a"), (std::vector<double>{1, 0.5}));
}

}  // namespace
}  // namespace gradc
