#include "formats/blocks/arrays/size_operands.h"

#include "tests/support/blocks/block_programs.h"
#include "tests/support/test_graph.h"

#include "formats/blocks/program/block_attrs.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

class SizeOperandsTest : public ::testing::Test {
 protected:
  SizeOperandsTest() {
    addBlock(program, std::nullopt, {});
    program.addVariable(0, {program.intern("x"), FluidType::LodTensor, FluidType::Fp64, {-1, 3, 4}, 0});
  }

  BlockOp &add(StringRef type, const SlotNames &inputs, const std::string &out, ArrayRef<AttrText> attrs = {}) {
    BlockOp &op = addOp(program, 0, type, inputs, {{"Out", {out}}});
    op.attrs = context.attrs(attrs);
    return op;
  }
  void constant(const std::string &name, double value, int64_t number = 1) {
    const std::string shape = intsAttrText(AttrTag::Longs, {number}), text = floatAttrText(AttrTag::Float, value);
    add("fill_constant", {}, name, {{"shape", shape}, {"value", text}});
  }
  /// An attribute of the last operator, once sizes are attributes.
  std::vector<int64_t> sizes(StringRef key) {
    changed = withKnownSizes(context, program);
    if (!changed) return {};
    return intsAttr(changed->blocks[0].ops.back().attrs, key).value_or(std::vector<int64_t>());
  }

  TestContext context;
  BlockProgram program;
  std::optional<BlockProgram> changed;
};

using Numbers = std::vector<int64_t>;

TEST_F(SizeOperandsTest, A_13_ReshapeToDimensionsThatAreAndAreNotKnown) {
  add("shape", {{"Input", {"x"}}}, "s");
  const std::string axes = intsAttrText(AttrTag::Ints, {0}), one = intsAttrText(AttrTag::Ints, {1}),
                    zero = intsAttrText(AttrTag::Ints, {0}), three = intsAttrText(AttrTag::Ints, {3});
  add("slice", {{"Input", {"s"}}}, "batch", {{"axes", axes}, {"starts", zero}, {"ends", one}});
  add("slice", {{"Input", {"s"}}}, "rest", {{"axes", axes}, {"starts", one}, {"ends", three}});
  constant("c", 12);
  add("reshape2", {{"X", {"x"}}, {"ShapeTensor", {"batch", "c"}}}, "y");
  EXPECT_EQ(sizes("shape"), (Numbers{0, 12}));
  EXPECT_TRUE(changed->variables(changed->blocks[0].ops.back().inputs, "ShapeTensor").empty());
  add("reshape2", {{"X", {"y"}}, {"ShapeTensor", {"batch", "c"}}}, "z");
  EXPECT_EQ(sizes("shape"), (Numbers{-1, 12})) << "of another variable's axis";
  add("concat", {{"X", {"c", "rest"}}}, "joined");
  add("expand_v2", {{"X", {"w"}}, {"Shape", {"joined"}}}, "e");
  EXPECT_EQ(sizes("shape"), (Numbers{12, 3, 4}));
  add("expand_v2", {{"X", {"w"}}, {"Shape", {"s"}}}, "f");
  EXPECT_EQ(sizes("shape"), Numbers()) << "the first is not known";
}

TEST_F(SizeOperandsTest, A_13_SizesAreComputedFromConstants) {
  constant("a", 7);
  constant("b", 2);
  const std::string half = floatAttrText(AttrTag::Float, 2), less = floatAttrText(AttrTag::Float, -1);
  add("scale", {{"X", {"a"}}}, "scaled", {{"scale", half}, {"bias", less}});
  for (const char *how : {"add", "sub", "mul", "floordiv"})
    add(("elementwise_" + Twine(how)).str(), {{"X", {"a"}}, {"Y", {"b"}}}, how);
  add("tile", {{"X", {"x"}}, {"repeat_times_tensor", {"scaled", "add", "sub", "mul", "floordiv"}}}, "y");
  EXPECT_EQ(sizes("repeat_times"), (Numbers{13, 9, 5, 14, 3}));
}

TEST_F(SizeOperandsTest, IR_12_NamesThatTwoOperatorsWriteAreNotFollowed) {
  constant("c", 2);
  add("tile", {{"X", {"x"}}, {"RepeatTimes", {"c"}}}, "y");
  EXPECT_EQ(sizes("repeat_times"), (Numbers{2}));
  constant("c", 3);
  add("tile", {{"X", {"x"}}, {"RepeatTimes", {"c"}}}, "z");
  EXPECT_FALSE(withKnownSizes(context, program).has_value());
}

TEST_F(SizeOperandsTest, A_13_OtherProgramsStayAsTheyAre) {
  constant("c", 2);
  add("tile", {{"X", {"x"}}}, "y");
  EXPECT_FALSE(withKnownSizes(context, program).has_value());
}

TEST_F(SizeOperandsTest, A_13_ExtentsOfInterpolations) {
  constant("c", 6, 2);
  const std::string scales = floatsAttrText(AttrTag::Floats, {2, 2});
  add("bilinear_interp_v2", {{"X", {"x"}}, {"OutSize", {"c"}}}, "y", {{"scale", scales}});
  changed = withKnownSizes(context, program);
  ASSERT_TRUE(changed);
  const Attrs &attrs = changed->blocks[0].ops.back().attrs;
  EXPECT_EQ(intAttr(attrs, "out_h"), 6);
  EXPECT_EQ(intAttr(attrs, "out_w"), 6);
  EXPECT_FALSE(attrs.get("scale"));
}

}  // namespace
}  // namespace gradc
