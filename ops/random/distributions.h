// Distributions as standard noise, shifted and scaled: y = a + (b - a) · u for uniform u in [0, 1), and y = a + b · z
// for normal z. Only the noise is drawn; parameters get gradients through the formula.
// Tested by tests/ops/random_ops_test.cc
#pragma once

#include "ir/base/error.h"
#include "ir/rules/grad_rule.h"
#include "ir/tensor/random_stream.h"
#include "ops/kit/primitives.h"

#include <cmath>

namespace gradc {

/// The attribute dtype of operators that draw; None is float32, and integers are refused by `settleType`.
template <class P> constexpr AttrSpec kDrawTypeAttr = attr<&P::dtype>("dtype", "None", "element type; None: float32");

inline llvm::Error settleType(DType &dtype) {
  if (dtype == DType::Unknown) dtype = DType::Float32;
  if (isFloating(dtype)) return llvm::Error::success();
  return Failure(ErrorKind::BadAttribute, "attribute 'dtype' is " + dtypeName(dtype) + ", expected a floating type");
}

/// Shortest text, for messages.
inline std::string toText(double number) {
  std::string text;
  llvm::raw_string_ostream os(text);
  printAttr(os, number);
  return os.str();
}

/// Standard noise. Element i depends only on the key and i, whichever operator draws it.
struct Uniform {
  static double draw(const RandomStream &stream, uint64_t i) { return stream.uniform(i); }
  static Value noise(DecomposeRule &d, Value place) { return d.emit(kUniformLike, {place}); }
  template <class T> static T at(T low, T high, T u) { return low + (high - low) * u; }
};

// Box and Muller (1958) on draws 2i and 2i + 1. 1 - u is not 0.
struct Normal {
  static constexpr double kTurn = 6.283185307179586477;  // 2π

  static double draw(const RandomStream &stream, uint64_t i) {
    const double length = std::sqrt(-2 * std::log(1 - stream.uniform(2 * i)));
    return length * std::cos(kTurn * stream.uniform(2 * i + 1));
  }
  static Value noise(DecomposeRule &d, Value place) {
    const Value pairs = d.emit(kUniformLike, {d.emit(kStack, {place, place}, {{"axis", "-1"}, {"num_args", "2"}})});
    auto part = [&](llvm::StringRef begin, llvm::StringRef end) {
      const Value column = d.emit(kSliceAxis, {pairs}, {{"axis", "-1"}, {"begin", begin}, {"end", end}});
      return d.emit(kReshapeLike, {column, place});
    };
    auto times = [&](Value v, double factor) { return d.emit(kMulScalar, {v}, {{"scalar", d.number(factor)}}); };
    const Value rest = d.emit(kRminusScalar, {part("0", "1")}, {{"scalar", "1"}});
    const Value length = d.emit(kSqrt, {times(d.emit(kLog, {rest}), -2)});
    return d.emit(kElemwiseMul, {length, d.emit(kCos, {times(part("1", "2"), kTurn)})});
  }
  template <class T> static T at(T loc, T scale, T z) { return loc + scale * z; }
};

}  // namespace gradc
