// Parsers of flag values, shared by the tables of flags. All return false for text that does not fit.
// Tested by tests/tools/cli_test.cc
#pragma once

#include "tools/gradc/common/options.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

namespace gradc {

/// Sets `out` to the enumerator at the position of `value` among the choices in the flag's placeholder.
template <class E> bool choose(const Flag &flag, llvm::StringRef value, E &out) {
  llvm::SmallVector<llvm::StringRef, 4> choices;
  flag.value.split(choices, '|');
  for (size_t i = 0; i < choices.size(); ++i)
    if (choices[i] == value) {
      out = static_cast<E>(i);
      return true;
    }
  return false;
}

/// For two choices: whether it is the first.
inline bool chooseFirst(const Flag &flag, llvm::StringRef value, bool &isFirst) {
  bool isSecond = false;
  const bool isChoice = choose(flag, value, isSecond);
  if (isChoice) isFirst = !isSecond;
  return isChoice;
}

inline bool turnOn(bool &flag) {
  flag = true;
  return true;
}

inline bool setText(std::string &out, llvm::StringRef value) {
  out = value.str();
  return !value.empty();
}

inline bool parseCount(llvm::StringRef value, uint64_t &out) { return !value.getAsInteger(10, out); }

inline bool parsePositive(llvm::StringRef value, uint64_t &out) { return parseCount(value, out) && out > 0; }

/// Decimal digits, with a point and an exponent if need be: no sign, space, or base, as in parseCount. Finite.
inline bool parseNumber(llvm::StringRef value, double &out) {
  const bool isDecimal = !value.empty() && value.find_first_not_of("0123456789.eE+-") == llvm::StringRef::npos &&
                         llvm::StringRef("0123456789.").contains(value.front());
  return isDecimal && llvm::to_float(value, out) && std::isfinite(out);
}

inline bool append(std::vector<std::string> &list, llvm::StringRef value) {
  if (value.empty()) return false;
  list.push_back(value.str());
  return true;
}

/// Splits at the last `=`: names may contain one, values may not.
inline bool splitPair(llvm::StringRef text, llvm::StringRef &key, llvm::StringRef &value) {
  const size_t at = text.rfind('=');
  if (at == llvm::StringRef::npos || at == 0 || at + 1 == text.size()) return false;
  key = text.take_front(at);
  value = text.drop_front(at + 1);
  return true;
}

inline bool appendPair(std::vector<KeyValue> &list, llvm::StringRef text) {
  llvm::StringRef key, value;
  if (!splitPair(text, key, value)) return false;
  list.push_back({key.str(), value.str()});
  return true;
}

}  // namespace gradc
