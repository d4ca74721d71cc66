// Statements of one operator about its entries: merging, conflicts, and that nothing said later counts after one.
#include "ir/rules/inference.h"
#include "tests/support/test_graph.h"

#include <gtest/gtest.h>

using namespace llvm;

namespace gradc {
namespace {

using namespace gradc::testing;

struct TwoIntoOne {
  TestContext context;
  const KindRef handle = cantFail(context.kind(*context.ops.find("elemwise_add"), Attrs()));
  const NodeKind &kind = *handle;
  SmallVector<ShapeId, 2> in{kUnknownShape, kUnknownShape}, out{kUnknownShape};
  ShapeTable table;
  ShapeInference shapes{table, kind, in, out, false};

  std::string text(ShapeId shape) { return toString(table[shape]); }
};

TEST(ShapeInference, INF_04_PartsMerge) {
  TwoIntoOne t;
  t.shapes.setIn(0, {kUnknownDim, 3});
  t.shapes.setOut(0, {2, kUnknownDim});
  t.shapes.sameAll();
  EXPECT_EQ(t.text(t.in[0]) + t.text(t.in[1]) + t.text(t.out[0]), "(2,3)(2,3)(2,3)");
  EXPECT_FALSE(t.shapes.hasFailed());
}

TEST(ShapeInference, E_50_DimensionsThatNoTensorCanHaveEndTheNode) {
  TwoIntoOne t;
  t.shapes.setOut(0, {2, kBadDim});
  EXPECT_EQ(t.shapes.failureText(),
            "output 0 would have the shape (2,out of range), expected dimensions from 0 and at most "
            "2^48 elements");
  // What two entries know of one shape may be too much together.
  TwoIntoOne merged;
  merged.shapes.setIn(0, {int64_t{1} << 30, kUnknownDim});
  merged.shapes.setIn(1, {kUnknownDim, int64_t{1} << 30});
  merged.shapes.sameAll();
  EXPECT_EQ(merged.shapes.failureText(),
            "input 0 would have the shape (1073741824,1073741824), expected dimensions from 0 and "
            "at most 2^48 elements");
}

TEST(ShapeInference, RefusalSaysWhatTheOperatorHasAgainstItsOperands) {
  TwoIntoOne t;
  const ShapeId two = *t.table.intern({2}), three = *t.table.intern({3});
  EXPECT_EQ(refusalOf(t.table, t.kind, {two, two}, {two}), "");
  EXPECT_EQ(refusalOf(t.table, t.kind, {two, three}, {two}), "input 0 has shape (2,), but input 1 has shape (3,)");
}

TEST(ShapeInference, UnknownDimensionsStateTheirExistence) {
  TwoIntoOne t;
  t.shapes.setIn(0, {kUnknownDim, kUnknownDim});
  EXPECT_EQ(t.text(t.in[0]), "(?,?)");
  t.shapes.setIn(0, {4});
  EXPECT_TRUE(t.shapes.hasFailed());
}

TEST(ShapeInference, FirstConflictStandsAndEndsTheNode) {
  TwoIntoOne t;
  t.shapes.setIn(0, {2});
  t.shapes.setIn(0, {3});
  std::string first = t.shapes.failureText().str();
  EXPECT_NE(first.find("(2,)"), std::string::npos);
  EXPECT_NE(first.find("(3,)"), std::string::npos);
  t.shapes.fail("something else");
  t.shapes.setOut(0, {9});
  EXPECT_EQ(t.shapes.failureText(), first);
  EXPECT_EQ(t.text(t.out[0]), "?");
}

TEST(ShapeInference, EmptyDimensionIsNoUnknownOne) {
  TwoIntoOne t;
  t.shapes.setIn(0, {0, 2});
  t.shapes.setIn(1, {1, 2});
  t.shapes.sameInIn(0, 1);
  EXPECT_TRUE(t.shapes.hasFailed());
}

TEST(DTypeInference, REG_22_AllEqualByDefault) {
  TestContext context;
  const KindRef handle = cantFail(context.kind(*context.ops.find("elemwise_add"), Attrs()));
  const NodeKind &kind = *handle;
  SmallVector<DType, 2> in{DType::Unknown, DType::Float16}, out{DType::Unknown};
  DTypeInference types(kind, in, out);
  types.sameAll();
  EXPECT_EQ(in[0], DType::Float16);
  EXPECT_EQ(out[0], DType::Float16);
  types.setOut(0, DType::Int8);
  EXPECT_TRUE(types.hasFailed());
  EXPECT_NE(types.failureText().find("float16"), StringRef::npos);
  EXPECT_NE(types.failureText().find("int8"), StringRef::npos);
}

}  // namespace
}  // namespace gradc
