// Conversions of float16 and bfloat16, every value and every rounding of them.
#include "ir/tensor/half.h"

#include "tests/support/ops/half_values.h"

#include <gtest/gtest.h>

#include <vector>

namespace gradc {
namespace {

using testing::halfValue;

class HalfFormats : public ::testing::TestWithParam<DType> {
 protected:
  float widened(uint16_t bits) const {
    return GetParam() == DType::Float16 ? float16ToFloat(bits) : bfloat16ToFloat(bits);
  }
  uint16_t narrowed(float value) const {
    return GetParam() == DType::Float16 ? floatToFloat16(value) : floatToBFloat16(value);
  }
  uint16_t infinity() const { return GetParam() == DType::Float16 ? 0x7c00 : 0x7f80; }
  /// NaN of any bits is NaN of the same sign.
  void expectSame(float expected, float found, uint32_t what) const {
    ASSERT_EQ(std::signbit(expected), std::signbit(found)) << what;
    if (std::isnan(expected)) ASSERT_TRUE(std::isnan(found)) << what;
    else ASSERT_EQ(expected, found) << what;
  }
};

TEST_P(HalfFormats, RUN_04_EveryValueIsWhatItsBitsSay) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double value = halfValue(GetParam(), static_cast<uint16_t>(bits));
    const float found = widened(static_cast<uint16_t>(bits));
    expectSame(std::copysign(static_cast<float>(value), bits & 0x8000 ? -1.0f : 1.0f), found, bits);
    if (!std::isnan(value)) ASSERT_EQ(narrowed(found), bits) << "there and back";
    else ASSERT_EQ(narrowed(found), bits | (infinity() == 0x7c00 ? 0x200 : 0x40)) << "payload kept, made quiet";
  }
}

// Between two neighbours everything on one side of the middle goes to one of them, and the middle to the even one.
TEST_P(HalfFormats, RUN_04_RoundsToNearestTiesToEven) {
  for (uint32_t bits = 0; bits < infinity(); ++bits) {
    const float low = widened(static_cast<uint16_t>(bits));
    const bool isLast = bits + 1u == infinity();
    // Infinity counts as what would come next.
    const double high = isLast ? 2.0 * low - static_cast<double>(widened(static_cast<uint16_t>(bits - 1)))
                               : static_cast<double>(widened(static_cast<uint16_t>(bits + 1)));
    const auto middle = static_cast<float>((static_cast<double>(low) + high) / 2);
    ASSERT_EQ(static_cast<double>(middle), (static_cast<double>(low) + high) / 2);
    const uint32_t even = bits % 2 ? bits + 1 : bits;
    for (const uint16_t sign : {0, 0x8000}) {
      const float side = sign ? -1.0f : 1.0f;
      ASSERT_EQ(narrowed(side * middle), even | sign) << bits;
      ASSERT_EQ(narrowed(side * std::nextafter(middle, 0.0f)), bits | sign) << bits;
      ASSERT_EQ(narrowed(side * std::nextafter(middle, HUGE_VALF)), (bits + 1) | sign) << bits;
    }
  }
  EXPECT_EQ(narrowed(HUGE_VALF), infinity());
  EXPECT_EQ(narrowed(-std::numeric_limits<float>::max()), infinity() | 0x8000);
  EXPECT_EQ(narrowed(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(narrowed(-0.0f), 0x8000);
}

// A double next to a tie is rounded away from it by its last bit, which float32 does not have.
TEST_P(HalfFormats, RUN_04_DoublesAreRoundedOnce) {
  for (uint32_t bits = 1; bits + 1u < infinity(); bits += 7) {
    const double low = widened(static_cast<uint16_t>(bits)), high = widened(static_cast<uint16_t>(bits + 1));
    const double middle = (low + high) / 2;
    EXPECT_EQ(doubleToHalf(GetParam(), middle), bits % 2 ? bits + 1 : bits);
    EXPECT_EQ(doubleToHalf(GetParam(), std::nextafter(middle, 0.0)), bits);
    EXPECT_EQ(doubleToHalf(GetParam(), -std::nextafter(middle, HUGE_VAL)), (bits + 1) | 0x8000);
  }
  EXPECT_EQ(doubleToHalf(GetParam(), 1e300), infinity());
  EXPECT_EQ(doubleToHalf(GetParam(), -1e-300), 0x8000);
  EXPECT_EQ(doubleToHalf(GetParam(), std::nan("")) & 0x7fff & infinity(), infinity());
}

// Whatever instructions the loops use, at any length and offset.
TEST_P(HalfFormats, RUN_02_LoopsGiveTheBitsOfSingleConversions) {
  std::vector<uint16_t> all(0x10000);
  for (uint32_t bits = 0; bits < all.size(); ++bits) all[bits] = static_cast<uint16_t>(bits);
  std::vector<float> wide(all.size());
  widenElements(GetParam(), all.data(), wide.data(), all.size());
  for (uint32_t bits = 0; bits < all.size(); ++bits)
    ASSERT_EQ(std::bit_cast<uint32_t>(wide[bits]), std::bit_cast<uint32_t>(widened(all[bits]))) << bits;

  std::vector<float> given;
  for (uint32_t bits = 0; bits < 0xffff0000u; bits += 0x1003) given.push_back(std::bit_cast<float>(bits));
  std::vector<uint16_t> narrow(given.size());
  narrowElements(GetParam(), given.data(), narrow.data(), given.size());
  for (size_t i = 0; i < given.size(); ++i)
    ASSERT_EQ(narrow[i], narrowed(given[i])) << std::hex << std::bit_cast<uint32_t>(given[i]);

  for (size_t size = 0; size < 40; ++size) {
    std::vector<uint16_t> few(size + 2, 0xabcd);
    narrowElements(GetParam(), given.data() + 300000 + size, few.data() + 1, size);
    EXPECT_EQ(few.front(), 0xabcd);
    EXPECT_EQ(few.back(), 0xabcd);
    for (size_t i = 0; i < size; ++i) ASSERT_EQ(few[i + 1], narrowed(given[300000 + size + i])) << size;
    std::vector<float> back(size + 1, 7);
    widenElements(GetParam(), few.data() + 1, back.data(), size);
    EXPECT_EQ(back.back(), 7);
  }
}

INSTANTIATE_TEST_SUITE_P(All, HalfFormats, ::testing::Values(DType::Float16, DType::BFloat16),
                         [](const ::testing::TestParamInfo<DType> &info) { return dtypeName(info.param).str(); });

}  // namespace
}  // namespace gradc
