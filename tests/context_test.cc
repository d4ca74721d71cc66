// Interning: equal things have equal ids, and attribute errors say which value was bad.
#include "ir/context.h"

#include "tests/support/small_ops.h"

#include "gtest/gtest.h"

using namespace llvm;

namespace gradc::testing {
namespace {

TEST(Context, A_3_EqualTextListsAndShapesShareAnId) {
  SmallContext c;
  EXPECT_EQ(c.intern("a"), c.intern(std::string("a")));
  EXPECT_NE(c.intern("a"), c.intern("b"));
  EXPECT_EQ(c.attrs({AttrText{"b", "1"}, AttrText{"a", "2"}}), c.attrs({AttrText{"a", "2"}, AttrText{"b", "1"}}));
  EXPECT_NE(c.attrs({AttrText{"a", "1"}}), c.attrs({AttrText{"a", "2"}}));
  EXPECT_EQ(c.attrs(ArrayRef<AttrText>()), AttrsId(0));
  EXPECT_EQ(c.shape({2, 3}), c.shape({2, 3}));
  EXPECT_NE(c.shape({}), kUnknownShape);
  EXPECT_FALSE(c.shape(kUnknownShape).hasRank());
  EXPECT_TRUE(c.shape(*c.shape({})).hasRank());
  EXPECT_TRUE(c.isFullyKnown(*c.shape({})));
  EXPECT_FALSE(c.isFullyKnown(*c.shape({2, kUnknownDim})));
}

TEST(Context, E_50_ImpossibleShapesAreNotInterned) {
  SmallContext c;
  EXPECT_EQ(c.elements(*c.shape({int64_t{1} << 24, int64_t{1} << 24})), int64_t{1} << 48);
  EXPECT_EQ(c.elements(*c.shape({0, 7})), 0);
  EXPECT_EQ(c.elements(*c.shape({kUnknownDim, 7})), -1);
  EXPECT_EQ(c.elements(kUnknownShape), -1);
  EXPECT_FALSE(c.shape({int64_t{1} << 24, (int64_t{1} << 24) + 1}).has_value());
  EXPECT_FALSE(c.shape({2, -2}).has_value());
  EXPECT_FALSE(c.shape({2, kBadDim}).has_value());
  // Neither an empty tensor nor an unknown dimension hides the others.
  EXPECT_FALSE(c.shape({0, int64_t{1} << 49}).has_value());
  EXPECT_FALSE(c.shape({kUnknownDim, int64_t{1} << 30, int64_t{1} << 30}).has_value());
  EXPECT_FALSE(c.shape({int64_t{1} << 32, int64_t{1} << 32}).has_value()) << "a product of 2^64 is 0 modulo 2^64";
  EXPECT_FALSE(c.shape({2, -2}).has_value()) << "a refused shape stays refused";
}

TEST(Context, AttrListsAreSortedAndTheLastValueStands) {
  SmallContext c;
  AttrsId list = c.attrs({AttrText{"b", "1"}, AttrText{"a", "2"}, AttrText{"b", "3"}});
  ASSERT_EQ(c.attrs(list).size(), 2u);
  EXPECT_EQ(c.text(c.attrs(list)[0].key), "a");
  EXPECT_EQ(c.attr(list, "b"), StringRef("3"));
  EXPECT_FALSE(c.attr(list, "c").has_value());
  EXPECT_EQ(c.withAttrs(list, {AttrText{"b", "1"}}), c.attrs({AttrText{"a", "2"}, AttrText{"b", "1"}}));
  EXPECT_EQ(c.withoutAttrs(list, [](StringRef key) { return key == "b"; }), c.attrs({AttrText{"a", "2"}}));
  EXPECT_EQ(c.withoutAttrs(list, [](StringRef) { return true; }), AttrsId(0));
}

TEST(Context, A_3_KindsAreParsedOncePerList) {
  SmallContext c;
  const OpDef &sum = *c.ops.find("sum_n");
  AttrsId three = c.attrs({AttrText{"num_args", "3"}});
  KindId kind = cantFail(c.kind(sum, three));
  EXPECT_EQ(cantFail(c.kind(sum, three)), kind);
  EXPECT_EQ(c.kind(kind).numInputs, 3u);
  EXPECT_EQ(c.inputName(c.kind(kind), 2), "arg2");
  EXPECT_NE(cantFail(c.kind(sum, c.attrs({AttrText{"num_args", "4"}}))), kind);
}

TEST(Context, AliasesKeepTheirSpelling) {
  SmallContext c;
  const OpDef *pooling = c.ops.find("Pooling_v1");
  ASSERT_NE(pooling, nullptr);
  KindId old = cantFail(c.kind(*pooling, AttrsId(0), "Pooling_v1")), now = cantFail(c.kind(*pooling, AttrsId(0)));
  EXPECT_NE(old, now);
  EXPECT_EQ(c.kind(old).spelling, "Pooling_v1");
  EXPECT_EQ(c.kind(now).spelling, "Pooling");
  EXPECT_EQ(c.kind(old).op, c.kind(now).op);
}

TEST(Context, REG_19_AttributeErrorsSayValueAndExpectation) {
  SmallContext c;
  const OpDef &sum = *c.ops.find("sum_n");
  auto messageFor = [&](AttrsId attrs) { return toString(c.kind(sum, attrs).takeError()); };
  EXPECT_EQ(messageFor(AttrsId(0)), "required attribute 'num_args' is missing [bad_attribute]");
  EXPECT_EQ(messageFor(c.attrs({AttrText{"num_args", "0"}})), "attribute 'num_args' is \"0\", expected int from 1 [bad_attribute]");
  EXPECT_EQ(messageFor(c.attrs({AttrText{"num_args", "x"}})), "attribute 'num_args' is \"x\", expected int from 1 [bad_attribute]");
  EXPECT_EQ(c.describe("sum_n", "s", c.attrs({AttrText{"num_args", "0"}})), "in operator sum_n(name=\"s\", num_args=\"0\")");
}

TEST(Context, A_13_OpaqueKinds) {
  SmallContext c;
  KindId two = c.opaqueKind("vendor", AttrsId(0), 2);
  EXPECT_EQ(two, c.opaqueKind("vendor", AttrsId(0), 2));
  EXPECT_NE(two, c.opaqueKind("vendor", AttrsId(0), 3));
  EXPECT_EQ(c.kind(two).op, c.kind(c.opaqueKind("vendor", AttrsId(0), 3)).op);
  EXPECT_TRUE(c.kind(two).op->flags.isOpaque);
  EXPECT_EQ(c.kind(two).numInputs, NodeKind::kAnyInputs);
  EXPECT_TRUE(c.kind(two).mutated.isEmpty());
}

}  // namespace
}  // namespace gradc::testing
