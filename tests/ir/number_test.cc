// Conversions and integer arithmetic that C++ leaves undefined.
#include "ir/base/number.h"

#include "gtest/gtest.h"

#include <cmath>

namespace gradc {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class T> void expectSaturates() {
  using Limits = std::numeric_limits<T>;
  EXPECT_EQ(convertNumber<T>(kInfinity), Limits::max());
  EXPECT_EQ(convertNumber<T>(-kInfinity), Limits::min());
  EXPECT_EQ(convertNumber<T>(1e300), Limits::max());
  EXPECT_EQ(convertNumber<T>(-1e38f), Limits::min());
  EXPECT_EQ(convertNumber<T>(std::nan("")), T{0});
  EXPECT_EQ(convertNumber<T>(std::nanf("")), T{0});
  EXPECT_EQ(convertNumber<T>(2.9), T{2});
  const double above = std::ldexp(1.0, Limits::digits);
  EXPECT_EQ(convertNumber<T>(above), Limits::max());
  EXPECT_EQ(convertNumber<T>(static_cast<float>(above)), Limits::max());
  EXPECT_EQ(convertNumber<T>(std::nextafter(above, 0)), static_cast<T>(std::nextafter(above, 0)));
  EXPECT_EQ(convertNumber<T>(static_cast<double>(Limits::min())), Limits::min());
}

TEST(Number, FloatToIntegerSaturates) {
  expectSaturates<int8_t>();
  expectSaturates<uint8_t>();
  expectSaturates<int16_t>();
  expectSaturates<uint16_t>();
  expectSaturates<int32_t>();
  expectSaturates<uint32_t>();
  expectSaturates<int64_t>();
  expectSaturates<uint64_t>();
}

TEST(Number, BoolIsWhatIsNotZero) {
  EXPECT_TRUE(convertNumber<bool>(0.5));
  EXPECT_TRUE(convertNumber<bool>(std::nan("")));
  EXPECT_FALSE(convertNumber<bool>(-0.0));
}

template <class T> void expectWraps() {
  constexpr T most = std::numeric_limits<T>::max(), least = std::numeric_limits<T>::min();
  EXPECT_EQ(wrappingAdd<T>(most, 1), least);
  EXPECT_EQ(wrappingSub<T>(least, 1), most);
  EXPECT_EQ(wrappingMul<T>(most, most), T{1});
  EXPECT_EQ(wrappingNegate<T>(least), least);
  EXPECT_EQ(wrappingSub<T>(5, 3), T{2});
}

TEST(Number, IntegersWrapAround) {
  expectWraps<int8_t>();
  expectWraps<uint16_t>();
  expectWraps<int32_t>();
  expectWraps<int64_t>();
  EXPECT_EQ(wrappingMul<uint16_t>(0xffff, 0xffff), 1) << "promotion to int would overflow";
  EXPECT_EQ(wrappingAdd(0.5, 0.25), 0.75);
}

}  // namespace
}  // namespace gradc
