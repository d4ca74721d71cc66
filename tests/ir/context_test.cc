// Interning: equal things have equal ids, and attribute errors say which value was bad.
#include "ir/graph/context.h"

#include "tests/support/small_ops.h"

#include "gtest/gtest.h"

using namespace llvm;

namespace gradc::testing {
namespace {

TEST(Context, A_03_EqualListsAreOneObject) {
  SmallContext c;
  const Attrs list = c.attrs({AttrText{"b", "1"}, AttrText{"a", "2"}});
  EXPECT_EQ(list.id(), c.attrs({AttrText{"a", "2"}, AttrText{"b", "1"}}).id());
  EXPECT_NE(c.attrs({AttrText{"a", "1"}}), c.attrs({AttrText{"a", "2"}}));
  EXPECT_EQ(c.attrs(ArrayRef<AttrText>()), Attrs());
  SmallContext other;
  EXPECT_EQ(list, other.attrs({AttrText{"b", "1"}, AttrText{"a", "2"}}))
      << "lists of two contexts are compared by content";
}

TEST(Context, AttrListsAreSortedAndTheLastValueStands) {
  SmallContext c;
  Attrs list = c.attrs({AttrText{"b", "1"}, AttrText{"a", "2"}, AttrText{"b", "3"}});
  ASSERT_EQ(list.pairs().size(), 2u);
  EXPECT_EQ(list.pairs()[0].key, "a");
  EXPECT_EQ(list.get("b"), StringRef("3"));
  EXPECT_FALSE(list.get("c").has_value());
  EXPECT_EQ(c.withAttrs(list, {AttrText{"b", "1"}}), c.attrs({AttrText{"a", "2"}, AttrText{"b", "1"}}));
  EXPECT_EQ(c.withoutAttrs(list, [](StringRef key) { return key == "b"; }), c.attrs({AttrText{"a", "2"}}));
  EXPECT_EQ(c.withoutAttrs(list, [](StringRef) { return true; }), Attrs());
}

TEST(Context, A_03_KindsAreParsedOncePerList) {
  SmallContext c;
  const OpDef &sum = *c.ops.find("sum_n");
  Attrs three = c.attrs({AttrText{"num_args", "3"}});
  KindRef kind = cantFail(c.kind(sum, three));
  EXPECT_EQ(cantFail(c.kind(sum, three)), kind);
  EXPECT_EQ(kind->numInputs, 3u);
  EXPECT_EQ(inputName(*kind, 2), "arg2");
  EXPECT_NE(cantFail(c.kind(sum, c.attrs({AttrText{"num_args", "4"}}))), kind);
}

TEST(Context, AliasesKeepTheirSpelling) {
  SmallContext c;
  const OpDef *pooling = c.ops.find("Pooling_v1");
  ASSERT_NE(pooling, nullptr);
  KindRef old = cantFail(c.kind(*pooling, Attrs(), "Pooling_v1")), now = cantFail(c.kind(*pooling, Attrs()));
  EXPECT_NE(old, now);
  EXPECT_EQ(old->spelling, "Pooling_v1");
  EXPECT_EQ(now->spelling, "Pooling");
  EXPECT_EQ(old->op, now->op);
}

TEST(Context, REG_19_AttributeErrorsSayValueAndExpectation) {
  SmallContext c;
  const OpDef &sum = *c.ops.find("sum_n");
  auto messageFor = [&](Attrs attrs) { return toString(c.kind(sum, attrs).takeError()); };
  EXPECT_EQ(messageFor(Attrs()), "required attribute 'num_args' is missing [bad_attribute]");
  EXPECT_EQ(messageFor(c.attrs({AttrText{"num_args", "0"}})),
            "attribute 'num_args' is \"0\", expected int from 1 [bad_attribute]");
  EXPECT_EQ(messageFor(c.attrs({AttrText{"num_args", "x"}})),
            "attribute 'num_args' is \"x\", expected int from 1 [bad_attribute]");
  EXPECT_EQ(describeAttrs("sum_n", "s", c.attrs({AttrText{"num_args", "0"}})),
            "in operator sum_n(name=\"s\", num_args=\"0\")");
}

TEST(Context, A_13_OpaqueKinds) {
  SmallContext c;
  const KindRef two = cantFail(c.opaqueKind("vendor", Attrs(), 2)),
                three = cantFail(c.opaqueKind("vendor", Attrs(), 3));
  EXPECT_EQ(two, cantFail(c.opaqueKind("vendor", Attrs(), 2)));
  EXPECT_NE(two, three);
  EXPECT_EQ(two->op, three->op);
  EXPECT_TRUE(two->op->flags.isOpaque);
  EXPECT_EQ(two->numInputs, NodeKind::kAnyInputs);
  EXPECT_TRUE(two->mutated.isEmpty());
}

}  // namespace
}  // namespace gradc::testing
