// Values are compact JSON that the reader has checked against their tag. Tested by
// tests/formats/blocks/block_program_test.cc
#include "formats/blocks/program/block_attrs.h"

#include "formats/blocks/program/json_stream.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/ConvertUTF.h"

#include <charconv>
#include <cmath>
#include <limits>

using namespace llvm;

namespace gradc {
namespace {

struct Tagged {
  AttrTag tag;
  StringRef value;
};

std::optional<Tagged> taggedAttr(const Attrs &attrs, StringRef key) {
  std::optional<StringRef> text = attrs.get(key);
  if (!text || !text->consume_front("[\"") || !text->consume_back("]")) return std::nullopt;
  auto [name, value] = text->split("\",");
  std::optional<AttrTag> tag = parseAttrTag(name);
  if (!tag) return std::nullopt;
  return Tagged{*tag, value};
}

/// The value if its tag is one of `tags`.
std::optional<StringRef> valueOf(const Attrs &attrs, StringRef key, std::initializer_list<AttrTag> tags) {
  std::optional<Tagged> found = taggedAttr(attrs, key);
  if (!found || !is_contained(tags, found->tag)) return std::nullopt;
  return found->value;
}

/// Consumes one quoted string at the front of `text`.
std::string takeString(StringRef &text) {
  std::string out;
  SmallVector<UTF16, 8> units;
  auto flush = [&] {
    std::string utf8;
    if (!units.empty() && convertUTF16ToUTF8String(units, utf8)) out += utf8;
    units.clear();
  };
  size_t at = 1;
  for (; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] != '\\') {
      flush();
      out += text[at];
      continue;
    }
    const char escaped = text[++at];
    if (escaped == 'u') {
      unsigned unit = 0;
      text.substr(at + 1, 4).getAsInteger(16, unit);
      units.push_back(static_cast<UTF16>(unit));
      at += 4;
      continue;
    }
    flush();
    constexpr StringLiteral kLetters = "bfnrt", kMeaning = "\b\f\n\r\t";
    const size_t known = kLetters.find(escaped);
    out += known == StringRef::npos ? escaped : kMeaning[known];
  }
  flush();
  text = text.drop_front(std::min(at + 1, text.size()));
  return out;
}

// Files have the shortest text of a float32 number, which as a double is another one.
double rounded(double value) { return static_cast<double>(static_cast<float>(value)); }

double parseFloat(StringRef text) {
  if (text == "\"nan\"") return std::numeric_limits<double>::quiet_NaN();
  if (text == "\"inf\"") return std::numeric_limits<double>::infinity();
  if (text == "\"-inf\"") return -std::numeric_limits<double>::infinity();
  double value = 0;
  std::from_chars(text.begin(), text.end(), value);
  return value;
}

/// Of `["FLOAT64",0.5]`.
double parseScalar(StringRef text) {
  const StringRef value = text.drop_back().split(',').second;
  return value == "true" ? 1 : parseFloat(value);
}

template <class T, class Parse> std::vector<T> parseList(StringRef text, Parse parse) {
  std::vector<T> values;
  text = text.drop_front().drop_back();
  while (!text.empty()) {
    auto [first, rest] = text.split(',');
    values.push_back(parse(first));
    text = rest;
  }
  return values;
}

int64_t parseInt(StringRef text) {
  int64_t value = 0;
  text.getAsInteger(10, value);
  return value;
}

template <class Append> std::string tagged(AttrTag tag, Append append) {
  std::string text;
  JsonStream json(text);
  json.open('[').string(attrTagName(tag));
  append(json);
  json.close(']');
  return text;
}

template <class T, class Append> std::string taggedList(AttrTag tag, ArrayRef<T> values, Append append) {
  return tagged(tag, [&](JsonStream &json) {
    json.open('[');
    for (const T &value : values) append(json, value);
    json.close(']');
  });
}

}  // namespace

std::optional<AttrTag> attrTag(const Attrs &attrs, StringRef key) {
  std::optional<Tagged> found = taggedAttr(attrs, key);
  if (!found) return std::nullopt;
  return found->tag;
}

std::optional<int64_t> intAttr(const Attrs &attrs, StringRef key) {
  std::optional<StringRef> text = valueOf(attrs, key, {AttrTag::Int, AttrTag::Long, AttrTag::Boolean});
  if (!text) return std::nullopt;
  return *text == "true" ? 1 : parseInt(*text);
}

std::optional<bool> boolAttr(const Attrs &attrs, StringRef key) {
  std::optional<StringRef> text = valueOf(attrs, key, {AttrTag::Boolean});
  if (!text) return std::nullopt;
  return *text == "true";
}

std::optional<double> floatAttr(const Attrs &attrs, StringRef key) {
  if (std::optional<StringRef> text = valueOf(attrs, key, {AttrTag::Float})) return rounded(parseFloat(*text));
  if (std::optional<StringRef> text = valueOf(attrs, key, {AttrTag::Float64})) return parseFloat(*text);
  std::optional<StringRef> scalar = valueOf(attrs, key, {AttrTag::Scalar});  // ["FLOAT64",0.5]
  if (!scalar || scalar->contains("COMPLEX")) return std::nullopt;
  return parseScalar(*scalar);
}

std::optional<std::string> stringAttr(const Attrs &attrs, StringRef key) {
  std::optional<StringRef> text = valueOf(attrs, key, {AttrTag::String, AttrTag::Var});
  if (!text) return std::nullopt;
  return takeString(*text);
}

std::optional<std::vector<int64_t>> intsAttr(const Attrs &attrs, StringRef key) {
  std::optional<StringRef> text = valueOf(attrs, key, {AttrTag::Ints, AttrTag::Longs});
  if (!text) return std::nullopt;
  return parseList<int64_t>(*text, parseInt);
}

std::optional<std::vector<double>> floatsAttr(const Attrs &attrs, StringRef key) {
  if (std::optional<StringRef> text = valueOf(attrs, key, {AttrTag::Floats}))
    return parseList<double>(*text, [](StringRef part) { return rounded(parseFloat(part)); });
  if (std::optional<StringRef> text = valueOf(attrs, key, {AttrTag::Float64s}))
    return parseList<double>(*text, parseFloat);
  std::optional<StringRef> scalars = valueOf(attrs, key, {AttrTag::Scalars});  // [["FLOAT64",0.5],["LONG",1]]
  if (!scalars || scalars->contains("COMPLEX")) return std::nullopt;
  std::vector<double> values;
  for (StringRef rest = scalars->drop_front(); rest.starts_with("["); rest.consume_front(",")) {
    const size_t end = rest.find(']') + 1;
    values.push_back(parseScalar(rest.take_front(end)));
    rest = rest.drop_front(end);
  }
  return values;
}

std::optional<std::vector<std::string>> stringsAttr(const Attrs &attrs, StringRef key) {
  std::optional<StringRef> text = valueOf(attrs, key, {AttrTag::Strings, AttrTag::Vars});
  if (!text) return std::nullopt;
  return stringsOfJson(*text);
}

std::string intAttrText(AttrTag tag, int64_t value) {
  return tagged(tag, [&](JsonStream &json) { json.number(value); });
}

std::string boolAttrText(bool value) {
  return tagged(AttrTag::Boolean, [&](JsonStream &json) { json.boolean(value); });
}

std::string floatAttrText(AttrTag tag, double value) {
  return tagged(tag, [&](JsonStream &json) { json.raw(spellFloat(value, tag == AttrTag::Float)); });
}

std::string stringAttrText(AttrTag tag, StringRef value) {
  return tagged(tag, [&](JsonStream &json) { json.string(value); });
}

std::string intsAttrText(AttrTag tag, ArrayRef<int64_t> values) {
  return taggedList(tag, values, [](JsonStream &json, int64_t value) { json.number(value); });
}

std::string floatsAttrText(AttrTag tag, ArrayRef<double> values) {
  return taggedList(tag, values,
                    [&](JsonStream &json, double value) { json.raw(spellFloat(value, tag == AttrTag::Floats)); });
}

std::string stringsAttrText(AttrTag tag, ArrayRef<std::string> values) {
  return taggedList(tag, values, [](JsonStream &json, const std::string &value) { json.string(value); });
}

std::vector<std::string> stringsOfJson(StringRef json) {
  std::vector<std::string> values;
  for (json = json.drop_front(); !json.empty() && json.front() != ']'; json.consume_front(","))
    values.push_back(takeString(json));
  return values;
}

std::string callSite(StringRef callstack) {
  // Pairs of `  File "train.py", line 12, in main` and that source line, outermost first; the innermost are Paddle's
  // own.
  const std::vector<std::string> lines = stringsOfJson(callstack);
  size_t frame = 0;
  for (size_t i = 0; i < lines.size(); i += 2)
    if (!StringRef(lines[i]).contains("/paddle/")) frame = i;
  if (lines.empty()) return "an unknown place";
  std::string site = StringRef(lines[frame]).trim().str();
  if (frame + 1 < lines.size()) site += ": " + StringRef(lines[frame + 1]).trim().str();
  return site;
}

}  // namespace gradc
