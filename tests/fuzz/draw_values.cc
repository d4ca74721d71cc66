// Draws of single values. Tested by tests/networks/fuzz_corpus_test.cc
#include "tests/fuzz/draw_values.h"

#include "tests/fuzz/sketch.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

using namespace llvm;

namespace gradc::fuzz {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max(), kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kHostileInts[] = {0,
                                    1,
                                    -1,
                                    2,
                                    3,
                                    -2,
                                    31,
                                    32,
                                    33,
                                    64,
                                    127,
                                    128,
                                    255,
                                    256,
                                    65535,
                                    65536,
                                    65537,
                                    2147483646,
                                    2147483647,
                                    2147483648,
                                    -2147483647,
                                    -2147483648,
                                    4294967295,
                                    4294967296,
                                    4294967297,
                                    int64_t{1} << 48,
                                    (int64_t{1} << 48) + 1,
                                    int64_t{1} << 53,
                                    int64_t{1} << 61,
                                    int64_t{1} << 62,
                                    (int64_t{1} << 62) + 1,
                                    kMax - 1,
                                    kMax,
                                    -kMax,
                                    kMin};
constexpr StringRef kHostileFloats[] = {"0",
                                        "-0.0",
                                        "1",
                                        "-1",
                                        "nan",
                                        "-nan",
                                        "inf",
                                        "-inf",
                                        "1e300",
                                        "-1e300",
                                        "1e-300",
                                        "4.9e-324",
                                        "1e38",
                                        "3.5e38",
                                        "1e-40",
                                        "2147483648",
                                        "9223372036854775808",
                                        "-129",
                                        "0.5"};
constexpr StringRef kGarbage[] = {"",
                                  " ",
                                  "None",
                                  "True",
                                  "False",
                                  "(",
                                  ")",
                                  "()",
                                  "[]",
                                  "(,)",
                                  "(1,",
                                  "((1,2),(3,))",
                                  "None,None",
                                  "99999999999999999999",
                                  "-99999999999999999999",
                                  "0x10",
                                  "1e5",
                                  "1.5",
                                  "+1",
                                  "--1",
                                  "1L",
                                  "(1L,2L)",
                                  "(1 2)",
                                  "(1.5,2)",
                                  "nan",
                                  "inf",
                                  "{\"a\": 1}",
                                  "[\"zero\", {}]",
                                  "\\",
                                  "\"",
                                  "\xc3\xa9",
                                  "\x01",
                                  "float32",
                                  "null",
                                  "-",
                                  "e",
                                  ".",
                                  "(None,)",
                                  "(nan,inf)"};

int64_t inRange(const AttrSpec &spec, int64_t value) {
  constexpr double kBig = 1e18;
  const auto low = static_cast<int64_t>(std::clamp(std::ceil(spec.lowest), -kBig, kBig));
  const auto high = static_cast<int64_t>(std::clamp(std::floor(spec.highest), -kBig, kBig));
  return std::clamp(value, low, std::max(low, high));
}

int64_t drawInt(Dice &dice, const AttrSpec &spec, Temper temper) {
  constexpr int64_t kUsual[] = {0, 1, 1, 2, 2, 3, 4, 5, -1, -2};
  if (temper == Temper::Hostile) return drawHostileInt(dice);
  if (temper == Temper::Plausible) return inRange(spec, dice.one<int64_t>(kUsual));
  const int64_t end = inRange(spec, dice.chance(50) ? kMin : kMax);
  // One step outside as well: only double arithmetic, since ends may be those of int64.
  if (dice.chance(30)) return end > 0 ? end - 1 : end + 1;
  return dice.chance(30) ? (end > 0 ? end + 1 : end - 1) : end;
}

std::string drawFloat(Dice &dice, const AttrSpec &spec, Temper temper) {
  constexpr double kUsual[] = {0, 0.5, 1, 2, -1, 0.1, 1e-3, 3, -0.5, 10};
  if (temper == Temper::Hostile) return dice.one<StringRef>(kHostileFloats).str();
  double value = dice.one<double>(kUsual);
  if (temper == Temper::Boundary) value = dice.chance(50) ? spec.lowest : spec.highest;
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", std::clamp(value, spec.lowest, std::max(spec.lowest, spec.highest)));
  return text;
}

/// `element` per place; spelled as a tuple, now and then as a list or as a bare element.
template <class F> std::string drawTuple(Dice &dice, Temper temper, F element) {
  constexpr size_t kHostileLengths[] = {0, 0, 1, 5, 7, 9, 33, 100};
  const size_t length = temper == Temper::Hostile ? dice.one<size_t>(kHostileLengths) : dice.below(5);
  if (length == 1 && dice.chance(20)) return element();
  const bool isList = dice.chance(10);
  std::string text(1, isList ? '[' : '(');
  for (size_t i = 0; i < length; ++i) text += (i ? "," : "") + element();
  if (length == 1 && !isList) text += ',';
  return text + (isList ? ']' : ')');
}

}  // namespace

Temper drawTemper(Dice &dice) {
  const size_t percent = dice.below(100);
  return percent < 80 ? Temper::Plausible : percent < 90 ? Temper::Boundary : Temper::Hostile;
}

int64_t drawHostileInt(Dice &dice) {
  const int64_t value = dice.one<int64_t>(kHostileInts);
  return dice.chance(10) ? static_cast<int64_t>(static_cast<uint64_t>(value) + dice.below(5) - 2) : value;
}

std::string drawGarbage(Dice &dice) {
  if (dice.chance(10)) return std::string(1 + dice.below(300), dice.chance(50) ? '(' : '7');
  return dice.one<StringRef>(kGarbage).str();
}

std::string drawDType(Dice &dice) {
  constexpr StringRef kFloating[] = {"float32", "float64", "float16", "0", "1", "2"};
  constexpr StringRef kOthers[] = {"int8", "uint8", "int32", "int64", "bool", "bfloat16", "uint16",
                                   "3",    "7",     "12",    "13",    "-1",   "-2",       "x"};
  return (dice.chance(60) ? dice.one<StringRef>(kFloating) : dice.one<StringRef>(kOthers)).str();
}

std::string drawValue(Dice &dice, const AttrSpec &spec, Temper temper) {
  const StringRef type = spec.typeName;
  if (temper == Temper::Hostile && dice.chance(30)) return drawGarbage(dice);
  if (!spec.isRequired && dice.chance(10)) return spec.defaultText.str();
  if (!spec.choices.empty()) return dice.one<StringRef>(spec.choices).str();
  if (type == "bool") return dice.chance(50) ? "True" : dice.chance(50) ? "False" : dice.chance(50) ? "1" : "0";
  if (type == "dtype") return drawDType(dice);
  if (type.ends_with(" or None") && !type.starts_with("tuple") && dice.chance(25)) return "None";
  if (type.starts_with("int")) return std::to_string(drawInt(dice, spec, temper));
  if (type.starts_with("float")) return drawFloat(dice, spec, temper);
  if (type == "tuple of float") return drawTuple(dice, temper, [&] { return drawFloat(dice, spec, temper); });
  if (type.starts_with("tuple"))
    return drawTuple(dice, temper, [&] {
      if (type.ends_with("None") && dice.chance(25)) return std::string("None");
      return std::to_string(drawInt(dice, spec, dice.chance(60) ? Temper::Plausible : temper));
    });
  return drawGarbage(dice);
}

int64_t drawDim(Dice &dice) {
  constexpr int64_t kUsual[] = {1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 7, 0};
  return dice.one<int64_t>(kUsual);
}

std::vector<int64_t> drawShape(Dice &dice) {
  std::vector<int64_t> dims(dice.chance(85) ? 1 + dice.below(4) : dice.below(7));
  for (int64_t &dim : dims) dim = drawDim(dice);
  return dims;
}

}  // namespace gradc::fuzz
