// Shapes: printing, counting, merging, axes.
#include "ir/shape.h"

#include "gtest/gtest.h"

namespace gradc {
namespace {

TEST(Shape, Printing) {
  EXPECT_EQ(toString(ShapeRef()), "?");
  EXPECT_EQ(toString(ShapeRef(Dims())), "()");
  EXPECT_EQ(toString(ShapeRef(Dims{3})), "(3,)");
  EXPECT_EQ(toString(ShapeRef({kUnknownDim, 4})), "(?,4)");
}

TEST(Shape, INF_02_UnknownParts) {
  EXPECT_EQ(ShapeRef().numUnknown(), 1u);
  EXPECT_EQ(ShapeRef(Dims()).numUnknown(), 0u);
  EXPECT_EQ(ShapeRef({kUnknownDim, 2, kUnknownDim}).numUnknown(), 2u);
  EXPECT_FALSE(ShapeRef().isFullyKnown());
  EXPECT_FALSE(ShapeRef({2, kUnknownDim}).isFullyKnown());
  EXPECT_TRUE(ShapeRef(Dims{0}).isFullyKnown());
}

TEST(Shape, ElementsDoNotOverflow) {
  EXPECT_EQ(numElements({}), 1);
  EXPECT_EQ(numElements({2, 3, 4}), 24);
  EXPECT_EQ(numElements({int64_t{1} << 40, 0, int64_t{1} << 40}), 0);
  EXPECT_EQ(numElements({int64_t{1} << 31, int64_t{1} << 31}), int64_t{1} << 62);
  EXPECT_FALSE(numElements({int64_t{1} << 31, int64_t{1} << 32}).has_value());
  EXPECT_FALSE(numElements({int64_t{1} << 40, int64_t{1} << 40}).has_value());
}

TEST(Shape, INF_04_Merging) {
  DimsBuffer dims{kUnknownDim, 10};
  EXPECT_TRUE(mergeDims(dims, {12, kUnknownDim}));
  EXPECT_EQ(dims, (DimsBuffer{12, 10}));
  EXPECT_FALSE(mergeDims(dims, {12, 11}));
  EXPECT_FALSE(mergeDims(dims, {12, 10, 1}));
}

TEST(Shape, AxesCountFromTheEnd) {
  EXPECT_EQ(normalizeAxis(-1, 3), 2u);
  EXPECT_EQ(normalizeAxis(0, 3), 0u);
  EXPECT_FALSE(normalizeAxis(3, 3).has_value());
  EXPECT_FALSE(normalizeAxis(-4, 3).has_value());
  EXPECT_FALSE(normalizeAxis(0, 0).has_value());
}

}  // namespace
}  // namespace gradc
