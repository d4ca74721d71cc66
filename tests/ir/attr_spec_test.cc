// Every spelling of attribute values seen in files, and the canonical one.
#include "ir/op/attr_spec.h"

#include "gtest/gtest.h"

using namespace llvm;

namespace gradc {
namespace {

template <class T> std::string reprinted(StringRef text) {
  ParamsArena arena;
  T value{};
  if (!parseAttr(text, arena, value)) return "refused";
  std::string out;
  raw_string_ostream os(out);
  printAttr(os, value);
  return out;
}

TEST(AttrSpec, Booleans) {
  for (StringRef yes : {"True", "true", "TRUE", "1", " True "}) EXPECT_EQ(reprinted<bool>(yes), "True") << yes.str();
  for (StringRef no : {"False", "false", "FALSE", "0"}) EXPECT_EQ(reprinted<bool>(no), "False") << no.str();
  for (StringRef bad : {"", "yes", "2", "None"}) EXPECT_EQ(reprinted<bool>(bad), "refused") << bad.str();
}

TEST(AttrSpec, Integers) {
  EXPECT_EQ(reprinted<int64_t>("64L"), "64");
  EXPECT_EQ(reprinted<int64_t>("-1"), "-1");
  EXPECT_EQ(reprinted<int64_t>("+3"), "3");
  EXPECT_EQ(reprinted<int64_t>("9223372036854775807"), "9223372036854775807");
  for (StringRef bad : {"", "L", "1.5", "9223372036854775808", "0x10", "None", "+-3"})
    EXPECT_EQ(reprinted<int64_t>(bad), "refused") << bad.str();
  EXPECT_EQ(reprinted<std::optional<int64_t>>("None"), "None");
  EXPECT_EQ(reprinted<std::optional<int64_t>>("7"), "7");
}

TEST(AttrSpec, NumbersPrintTheShortestTextThatReadsBack) {
  EXPECT_EQ(reprinted<double>("0.1"), "0.1");
  EXPECT_EQ(reprinted<double>("1e-05"), "1e-05");
  EXPECT_EQ(reprinted<double>("0."), "0");
  EXPECT_EQ(reprinted<double>("0.30000000000000004"), "0.30000000000000004");
  EXPECT_EQ(reprinted<double>("True"), "1");
  EXPECT_EQ(reprinted<double>("0.5f"), "0.5");
  EXPECT_EQ(reprinted<double>("-2.F"), "-2");
  EXPECT_EQ(reprinted<double>("inf"), "inf");
  for (StringRef bad : {"", "1e", "1.5x", "1,5", "f", "1ef", "1ff"})
    EXPECT_EQ(reprinted<double>(bad), "refused") << bad.str();
}

TEST(AttrSpec, Lists) {
  EXPECT_EQ(reprinted<Dims>("(3,3)"), "(3, 3)");
  EXPECT_EQ(reprinted<Dims>("[3, 3]"), "(3, 3)");
  EXPECT_EQ(reprinted<Dims>("(64L,)"), "(64,)");
  EXPECT_EQ(reprinted<Dims>("5"), "(5,)");
  EXPECT_EQ(reprinted<Dims>("()"), "()");
  EXPECT_EQ(reprinted<Dims>("[]"), "()");
  EXPECT_EQ(reprinted<OptDims>("(None, 2)"), "(None, 2)");
  EXPECT_EQ(reprinted<std::optional<Dims>>("None"), "None") << "not the list without elements";
  EXPECT_EQ(reprinted<std::optional<Dims>>("()"), "()");
  EXPECT_EQ(reprinted<std::optional<Dims>>("(0, -1)"), "(0, -1)");
  EXPECT_EQ(reprinted<std::optional<Dims>>("(0"), "refused");
  EXPECT_EQ(reprinted<ArrayRef<double>>("(0.5, 1)"), "(0.5, 1)");
  for (StringRef bad : {"(3", "(3]", "3,a", "(,)", "", "(1,,2)"})
    EXPECT_EQ(reprinted<Dims>(bad), "refused") << bad.str();
}

TEST(AttrSpec, Types) {
  EXPECT_EQ(reprinted<DType>("float16"), "float16");
  EXPECT_EQ(reprinted<DType>("1"), "float64");
  EXPECT_EQ(reprinted<DType>("None"), "None");
  EXPECT_EQ(reprinted<DType>("float80"), "refused");
}

enum class Mode : uint8_t { Max, Avg };
constexpr StringRef kModes[] = {"max", "avg"};
constexpr ArrayRef<StringRef> enumNames(Mode) { return kModes; }
struct Params {
  Mode mode = Mode::Max;
  Dims kernel;
};

TEST(AttrSpec, RowsParseRangeCheckAndPrint) {
  constexpr AttrSpec mode = attr<&Params::mode>("mode", "max", "what is kept");
  constexpr AttrSpec kernel = required<&Params::kernel>("kernel", "window").atLeast(1).atMost(9);
  ParamsArena arena;
  Params params;
  EXPECT_TRUE(mode.parse(mode, "avg", arena, &params));
  EXPECT_EQ(params.mode, Mode::Avg);
  EXPECT_FALSE(mode.parse(mode, "min", arena, &params));
  std::string text;
  raw_string_ostream os(text);
  mode.print(mode, os, &params);
  EXPECT_EQ(text, "avg");
  EXPECT_EQ(mode.typeName, "one of");
  EXPECT_TRUE(kernel.isRequired);
  ASSERT_TRUE(kernel.parse(kernel, "(3, 9)", arena, &params));
  EXPECT_TRUE(kernel.isInRange(kernel, &params));
  ASSERT_TRUE(kernel.parse(kernel, "(3, 10)", arena, &params));
  EXPECT_FALSE(kernel.isInRange(kernel, &params));
}

// As in MXNet; there a range does not exclude it, but what has a range is computed with.
TEST(AttrSpec, REG_19_NanIsANumberUnlessThereIsARangeOrNone) {
  struct Numbers {
    double number;
    std::optional<double> orNone;
    ArrayRef<double> list;
  };
  ParamsArena arena;
  Numbers numbers;
  auto isRead = [&](const AttrSpec &spec, StringRef text) {
    return spec.parse(spec, text, arena, &numbers) && spec.isInRange(spec, &numbers);
  };
  EXPECT_TRUE(isRead(attr<&Numbers::number>("x", "0", "any"), "nan"));
  EXPECT_TRUE(isRead(attr<&Numbers::list>("x", "()", "any"), "(1, nan)"));
  EXPECT_FALSE(isRead(attr<&Numbers::number>("x", "0", "some").atLeast(0), "nan"));
  EXPECT_FALSE(isRead(attr<&Numbers::number>("x", "0", "some").atMost(0), "nan"));
  EXPECT_FALSE(isRead(attr<&Numbers::list>("x", "()", "some").atLeast(0), "(1, nan)"));
  EXPECT_FALSE(isRead(attr<&Numbers::orNone>("x", "None", "any"), "nan"));
  EXPECT_TRUE(isRead(attr<&Numbers::orNone>("x", "None", "any"), "inf"));
}

}  // namespace
}  // namespace gradc
