// Examples: which arrays feed what, rows of a batch, orders of epochs.
#include "runtime/training/dataset.h"

#include "tests/support/tensors.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace llvm;

namespace gradc {
namespace {

TEST(Dataset, SelectsArraysByName) {
  std::vector<NamedArray> arrays = {{"images", floats({2, 2}, {1, 2, 3, 4})}, {"labels", floats({2}, {0, 1})}};
  Dataset data = cantFail(Dataset::select(arrays, {{"label", "labels"}, {"data", "images"}}, "set.npz"));
  EXPECT_EQ(data.size(), 2);
  ASSERT_EQ(data.numColumns(), 2u);
  EXPECT_EQ(data.name(0), "label");
  EXPECT_EQ(data.rowShape(1), Dims({2}));
}

TEST(Dataset, E_70_AMissingArrayIsNamedWithThoseThereAre) {
  std::vector<NamedArray> arrays = {{"images", floats({1}, {1})}, {"labels", floats({1}, {0})}};
  GradcError error = errorOf(Dataset::select(arrays, {{"data", "pixels"}}, "set.npz"));
  EXPECT_EQ(error.kind, ErrorKind::BindingMissing);
  EXPECT_EQ(error.message, "'set.npz' has no array 'pixels' to feed 'data' from");
  EXPECT_EQ(error.notes[0].text, "it has 'images', 'labels'");
}

TEST(Dataset, E_71_RowsThatDoNotMatch) {
  GradcError rows = errorOf(Dataset::create({{"a", floats({2}, {1, 2})}, {"b", floats({3}, {1, 2, 3})}}));
  EXPECT_EQ(rows.kind, ErrorKind::BindingMismatch);
  EXPECT_EQ(rows.message, "'a' has shape (2,) and 'b' has shape (3,), expected the same number of rows");
  EXPECT_EQ(errorOf(Dataset::create({{"a", floats({}, {1})}})).message,
            "'a' has shape (), expected one row per example");
  EXPECT_EQ(errorOf(Dataset::create({{"a", floats({0, 2}, {})}})).kind, ErrorKind::BindingMismatch);
  EXPECT_EQ(errorOf(Dataset::create({})).kind, ErrorKind::BindingMissing);
}

TEST(Dataset, GathersRowsInTheDTypeOfTheVariable) {
  Dataset data = cantFail(Dataset::create({{"a", arrayOf<uint8_t>(DType::UInt8, {3, 2}, {1, 2, 3, 4, 5, 6})}}));
  cantFail(data.convert(0, DType::Float32));
  Array batch = floats({2, 2}, {0, 0, 0, 0});
  cantFail(data.gather(0, {2u, 0u}, batch.ref()));
  EXPECT_EQ(valuesOf<float>(batch), (std::vector<float>{5, 6, 1, 2}));
}

TEST(Dataset, E_71_WhatThereIsNot) {
  Dataset data = cantFail(Dataset::create({{"a", floats({2, 2}, {1, 2, 3, 4})}}));
  EXPECT_EQ(data.name(1), "");
  EXPECT_TRUE(data.rowShape(1).empty());
  EXPECT_EQ(data.column(1).data, nullptr);
  EXPECT_EQ(errorOf(data.convert(1, DType::Float64)).message, "column 1 is requested of examples that have 1 column");
  Array row = floats({1, 2}, {0, 0}), rows = floats({2, 2}, {0, 0, 0, 0}), wide = doubles({1, 2}, {0, 0});
  EXPECT_EQ(errorOf(data.gather(1, {0u}, row.ref())).kind, ErrorKind::BindingSurplus);
  EXPECT_EQ(errorOf(data.gather(0, {2u}, row.ref())).message,
            "'a' has shape (2,2), from which 1 row cannot be copied into (1,2) float32");
  EXPECT_EQ(errorOf(data.gather(0, {0u}, rows.ref())).kind, ErrorKind::BindingMismatch);
  EXPECT_EQ(errorOf(data.gather(0, {0u}, wide.ref())).kind, ErrorKind::BindingMismatch);
  EXPECT_EQ(valuesOf<float>(row), (std::vector<float>{0, 0}));
  EXPECT_EQ(errorOf(Dataset::create({{"a", Array{DType::Float32, {2, 2}, std::vector<char>(15)}}})).message,
            "'a' has 15 bytes, which are not those of shape (2,2) of float32");
}

TEST(Dataset, OrdersArePermutationsOfSeedAndEpochAlone) {
  EXPECT_EQ(epochOrder(4, std::nullopt, 7), (std::vector<uint32_t>{0, 1, 2, 3}));
  std::vector<uint32_t> first = epochOrder(100, 1, 0), sorted = first;
  EXPECT_EQ(first, epochOrder(100, 1, 0));
  EXPECT_NE(first, epochOrder(100, 1, 1));
  EXPECT_NE(first, epochOrder(100, 2, 0));
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, epochOrder(100, std::nullopt, 0));
  EXPECT_NE(first, sorted);
}

}  // namespace
}  // namespace gradc
