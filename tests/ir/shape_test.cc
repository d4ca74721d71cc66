// Shapes: printing, counting, merging, axes.
#include "ir/tensor/dim.h"
#include "ir/tensor/shape_table.h"

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
  EXPECT_EQ(numElements({int64_t{1} << 24, int64_t{1} << 24}), kMaxElements);
  EXPECT_FALSE(numElements({int64_t{1} << 24, (int64_t{1} << 24) + 1}).has_value());
  EXPECT_FALSE(numElements({int64_t{1} << 32, int64_t{1} << 32}).has_value());
  EXPECT_FALSE(numElements({3, kUnknownDim}).has_value());
  EXPECT_FALSE(numElements({int64_t{1} << 40, int64_t{1} << 40}).has_value());
}

TEST(ShapeTable, A_03_EqualShapesShareAnId) {
  ShapeTable shapes;
  const ShapeId matrix = *shapes.intern({2, 3});
  EXPECT_EQ(shapes.intern({2, 3}), matrix);
  EXPECT_NE(shapes.intern({}), kUnknownShape);
  EXPECT_FALSE(shapes[kUnknownShape].hasRank());
  EXPECT_TRUE(shapes[*shapes.intern({})].hasRank());
  EXPECT_TRUE(shapes.isFullyKnown(*shapes.intern({})));
  EXPECT_FALSE(shapes.isFullyKnown(*shapes.intern({2, kUnknownDim})));
  const Dims seen = shapes[matrix].dims();
  for (int64_t i = 0; i < 10000; ++i) shapes.intern({i, i});
  EXPECT_EQ(shapes[matrix].dims().data(), seen.data()) << "what was read stays where it is";
  ShapeTable copy(shapes);
  EXPECT_EQ(copy.intern({2, 3}), matrix);
  EXPECT_EQ(copy[*shapes.intern({9, 9})].dims(), Dims({9, 9}));
}

TEST(ShapeTable, E_50_ImpossibleShapesAreNotInterned) {
  ShapeTable s;
  EXPECT_EQ(s.elements(*s.intern({int64_t{1} << 24, int64_t{1} << 24})), int64_t{1} << 48);
  EXPECT_EQ(s.elements(*s.intern({0, 7})), 0);
  EXPECT_EQ(s.elements(*s.intern({kUnknownDim, 7})), -1);
  EXPECT_EQ(s.elements(kUnknownShape), -1);
  EXPECT_FALSE(s.intern({int64_t{1} << 24, (int64_t{1} << 24) + 1}).has_value());
  EXPECT_FALSE(s.intern({2, -2}).has_value());
  EXPECT_FALSE(s.intern({2, kBadDim}).has_value());
  // Neither an empty tensor nor an unknown dimension hides the others.
  EXPECT_FALSE(s.intern({0, int64_t{1} << 49}).has_value());
  EXPECT_FALSE(s.intern({kUnknownDim, int64_t{1} << 30, int64_t{1} << 30}).has_value());
  EXPECT_FALSE(s.intern({int64_t{1} << 32, int64_t{1} << 32}).has_value()) << "a product of 2^64 is 0 modulo 2^64";
  EXPECT_FALSE(s.intern({2, -2}).has_value()) << "a refused shape stays refused";
}

constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();

TEST(Dim, ComputesAsIntegersDo) {
  EXPECT_EQ((Dim(7) + 5 - 2).nearest(), 10);
  EXPECT_EQ((Dim(-7) * 3).nearest(), -21);
  EXPECT_EQ((Dim(-7) / 2).nearest(), -3);
  EXPECT_EQ(ceilDiv(7, 2).nearest(), 4);
  EXPECT_EQ(ceilDiv(8, 2).nearest(), 4);
  EXPECT_EQ(productOf({2, 3, 4}).nearest(), 24);
  EXPECT_EQ(productOf({}).nearest(), 1);
  EXPECT_LT(Dim(-1), Dim(0));
}

TEST(Dim, NeverWrapsAround) {
  EXPECT_TRUE((Dim(kMost - 1) + 1).isEndless());
  EXPECT_TRUE((Dim(kMost - 1) + kMost - kMost).isEndless()) << "what was endless once stays so";
  EXPECT_GT(Dim(int64_t{1} << 32) * (int64_t{1} << 32), Dim(kMost - 1));
  EXPECT_LT(Dim(int64_t{1} << 32) * -(int64_t{1} << 32), Dim(-kMost + 1));
  EXPECT_LT(Dim(kLeast), Dim(-kMost + 1)) << "the least number has no negative, so it is endless";
  EXPECT_GT(-Dim(kLeast), Dim(0));
  EXPECT_TRUE((Dim(kMost) / 4).isEndless());
  EXPECT_EQ(ceilDiv(4, kMost).nearest(), 1);
  EXPECT_TRUE(productOf({int64_t{1} << 40, int64_t{1} << 40}).isEndless());
  EXPECT_EQ(productOf({int64_t{1} << 40, int64_t{1} << 40, 0}).nearest(), 0);
}

TEST(Dim, WhatNoShapeCanContainBecomesBad) {
  EXPECT_EQ(Dim(0).inShape(), 0);
  EXPECT_EQ(Dim(kMaxElements).inShape(), kMaxElements);
  EXPECT_EQ((Dim(kMaxElements) + 1).inShape(), kBadDim);
  EXPECT_EQ((Dim(2) - 3).inShape(), kBadDim) << "not -1, which means unknown";
  EXPECT_EQ((Dim(kMost) * 2).inShape(), kBadDim);
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
