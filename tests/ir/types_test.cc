// Codes, names and widths are MXNet's.
#include "ir/tensor/types.h"

#include "gtest/gtest.h"

namespace gradc {
namespace {

TEST(Types, NamesAndCodesReadBack) {
  for (int code = 0; code <= 12; ++code) {
    DType type = static_cast<DType>(code);
    EXPECT_EQ(parseDType(dtypeName(type)), type);
    EXPECT_EQ(parseDType(std::to_string(code)), type);
    EXPECT_GT(dtypeBytes(type), 0u);
  }
  EXPECT_EQ(parseDType("-1"), DType::Unknown);
  EXPECT_FALSE(parseDType("13").has_value());
  EXPECT_FALSE(parseDType("-2").has_value());
  EXPECT_FALSE(parseDType("unknown").has_value());
  EXPECT_FALSE(parseDType("").has_value());
}

TEST(Types, WidthsAndKinds) {
  EXPECT_EQ(dtypeBytes(DType::Float64), 8u);
  EXPECT_EQ(dtypeBytes(DType::BFloat16), 2u);
  EXPECT_EQ(dtypeBytes(DType::Bool), 1u);
  EXPECT_EQ(dtypeBytes(DType::Unknown), 0u);
  EXPECT_TRUE(isFloating(DType::Float16));
  EXPECT_TRUE(isFloating(DType::BFloat16));
  EXPECT_FALSE(isFloating(DType::Int64));
  EXPECT_FALSE(isFloating(DType::Unknown));
}

TEST(Types, SetsOfTypes) {
  EXPECT_EQ(kFloatingTypes.names(), "float32 and float64");
  EXPECT_EQ(DTypeSet({DType::BFloat16, DType::Int32, DType::Float32}).names(), "float32, int32 and bfloat16");
  EXPECT_EQ(DTypeSet({DType::Bool}).names(), "bool");
  EXPECT_EQ(DTypeSet().names(), "no type");
  for (int code = -1; code <= 12; ++code) {
    const DType type = static_cast<DType>(code);
    const bool isHalf = type == DType::Float16 || type == DType::BFloat16, isKnown = type != DType::Unknown;
    EXPECT_EQ(kFloatingAndIntegers.contains(type), isKnown && !isHalf) << code;
    EXPECT_EQ(kFloatingTypes.contains(type), isFloating(type) && !isHalf) << code;
  }
}

TEST(Types, NamesOfLayouts) {
  EXPECT_EQ(layoutName(Layout::Plain), "row-major");
  EXPECT_EQ(layoutName(Layout::ChannelsLast), "channels-last");
  EXPECT_EQ(layoutName(Layout::FilterTiles), "filter tiles");
}

TEST(Types, REQ_01_InPlaceIsNoUsersChoice) {
  EXPECT_EQ(parseRequest("add"), Request::Add);
  EXPECT_EQ(parseRequest("null"), Request::Null);
  EXPECT_EQ(parseRequest(requestName(Request::Write)), Request::Write);
  EXPECT_FALSE(parseRequest("inplace").has_value());
}

}  // namespace
}  // namespace gradc
