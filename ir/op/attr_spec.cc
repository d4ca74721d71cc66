// Every spelling of attribute values found in real files, and the one canonical way to print them.
// Tested by tests/ir/attr_spec_test.cc
#include "ir/op/attr_spec.h"

#include "llvm/ADT/StringExtras.h"

#include <charconv>

using namespace llvm;

namespace gradc {
namespace {

// "+3" is a number, "+-3" is not.
bool dropPlus(StringRef &text) { return !text.consume_front("+") || (!text.empty() && text.front() != '-'); }

// Python 2 wrote long integers as `64L`.
bool parseInteger(StringRef text, int64_t &out) {
  text = text.trim();
  if (!text.consume_back("L")) (void)text.consume_back("l");
  if (!dropPlus(text)) return false;
  if (text == "True" || text == "true") return out = 1, true;
  if (text == "False" || text == "false") return out = 0, true;
  return !text.empty() && !text.getAsInteger(10, out);
}

bool parseNumber(StringRef text, double &out) {
  text = text.trim();
  if (!dropPlus(text)) return false;
  // MXNet skips C's suffix of single precision. The digit or point before it rules out `inf`.
  if (text.size() > 1 && (isDigit(text[text.size() - 2]) || text[text.size() - 2] == '.') && !text.consume_back("f"))
    (void)text.consume_back("F");
  auto [end, code] = std::from_chars(text.begin(), text.end(), out);
  if (code == std::errc() && end == text.end() && !text.empty()) return true;
  int64_t integer;
  if (parseInteger(text, integer)) return out = static_cast<double>(integer), true;
  return false;
}

template <class T> bool parseList(StringRef text, ParamsArena &arena, ArrayRef<T> &out, bool (*parse)(StringRef, T &)) {
  SmallVector<StringRef, 8> elements;
  if (!splitList(text, elements)) return false;
  T *values = arena.Allocate<T>(elements.size());
  for (size_t i = 0; i < elements.size(); ++i) {
    new (values + i) T();
    if (!parse(elements[i], values[i])) return false;
  }
  out = ArrayRef<T>(values, elements.size());
  return true;
}

template <class T> void printList(raw_ostream &os, ArrayRef<T> values) {
  os << '(';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) os << ", ";
    printAttr(os, values[i]);
  }
  os << (values.size() == 1 ? ",)" : ")");
}

}  // namespace

bool splitList(StringRef text, SmallVectorImpl<StringRef> &elements) {
  text = text.trim();
  bool isBracketed = false;
  for (auto [open, close] : {std::pair{"(", ")"}, std::pair{"[", "]"}})
    if (text.consume_front(open)) {
      if (!text.consume_back(close)) return false;
      isBracketed = true;
      break;
    }
  text = text.trim();
  if (text.empty()) return isBracketed;
  if (isBracketed) (void)text.consume_back(",");
  text.split(elements, ',');
  return true;
}

bool parseAttr(StringRef text, ParamsArena &, bool &out) {
  text = text.trim();
  // Python writes True, C++ true, and R TRUE.
  if (text.equals_insensitive("true") || text == "1") return out = true, true;
  if (text.equals_insensitive("false") || text == "0") return out = false, true;
  return false;
}

bool parseAttr(StringRef text, ParamsArena &, int64_t &out) { return parseInteger(text, out); }
bool parseAttr(StringRef text, ParamsArena &, double &out) { return parseNumber(text, out); }

bool parseAttr(StringRef text, ParamsArena &, std::optional<int64_t> &out) {
  if (text.trim() == "None") return out = std::nullopt, true;
  return parseInteger(text, out.emplace());
}

bool parseAttr(StringRef text, ParamsArena &, std::optional<double> &out) {
  if (text.trim() == "None") return out = std::nullopt, true;
  return parseNumber(text, out.emplace());
}

bool parseAttr(StringRef text, ParamsArena &, DType &out) {
  if (text.trim() == "None") return out = DType::Unknown, true;
  std::optional<DType> type = parseDType(text.trim());
  if (type) out = *type;
  return type.has_value();
}

bool parseAttr(StringRef text, ParamsArena &arena, StringRef &out) {
  out = text.copy(arena);
  return true;
}

bool parseAttr(StringRef text, ParamsArena &arena, Dims &out) {
  if (text.trim() == "None") return out = Dims(), true;
  return parseList<int64_t>(text, arena, out, parseInteger);
}

bool parseAttr(StringRef text, ParamsArena &arena, std::optional<Dims> &out) {
  if (text.trim() == "None") return out = std::nullopt, true;
  return parseList<int64_t>(text, arena, out.emplace(), parseInteger);
}

bool parseAttr(StringRef text, ParamsArena &arena, OptDims &out) {
  return parseList<std::optional<int64_t>>(text, arena, out, [](StringRef element, std::optional<int64_t> &value) {
    return element.trim() == "None" || parseInteger(element, value.emplace());
  });
}

bool parseAttr(StringRef text, ParamsArena &arena, ArrayRef<double> &out) {
  return parseList<double>(text, arena, out, parseNumber);
}

void printAttr(raw_ostream &os, bool value) { os << (value ? "True" : "False"); }
void printAttr(raw_ostream &os, int64_t value) { os << value; }

void printAttr(raw_ostream &os, double value) {
  char text[32];
  auto [end, code] = std::to_chars(text, text + sizeof text, value);
  os << StringRef(text, static_cast<size_t>(end - text));
}

void printAttr(raw_ostream &os, const std::optional<int64_t> &value) {
  if (value) os << *value;
  else os << "None";
}

void printAttr(raw_ostream &os, const std::optional<double> &value) {
  if (value) printAttr(os, *value);
  else os << "None";
}

void printAttr(raw_ostream &os, DType value) { os << (value == DType::Unknown ? StringRef("None") : dtypeName(value)); }
void printAttr(raw_ostream &os, StringRef value) { os << value; }
void printAttr(raw_ostream &os, Dims value) { printList(os, value); }
void printAttr(raw_ostream &os, OptDims value) { printList(os, value); }
void printAttr(raw_ostream &os, ArrayRef<double> value) { printList(os, value); }

void printAttr(raw_ostream &os, const std::optional<Dims> &value) {
  if (value) printAttr(os, *value);
  else os << "None";
}

}  // namespace gradc
