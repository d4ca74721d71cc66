// The adapter of nlohmann's SAX parser, which no other file of formats/ includes. Tested by
// tests/formats/json/json_reader_test.cc
#include "formats/json/events.h"

#include "ir/base/printable.h"

#include "llvm/ADT/Twine.h"

#include "nlohmann/json.hpp"

#include <cassert>
#include <iterator>

using namespace llvm;

namespace gradc {
namespace {

/// Walks the text and publishes its place: `*position` is one past the last byte read.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char *;
  using reference = const char &;

  CountingIterator(const char *at, const char **position) : at(at), position(position) {}
  reference operator*() const { return *at; }
  CountingIterator &operator++() {
    *position = ++at;
    return *this;
  }
  friend bool operator==(const CountingIterator &a, const CountingIterator &b) { return a.at == b.at; }

 private:
  const char *at;
  const char **position;
};

/// The parser's message without its prefix, line numbers and quoted bytes.
std::string explanation(StringRef what) {
  if (size_t at = what.find("syntax error"); at != StringRef::npos) what = what.drop_front(at);
  else what = what.rsplit("] ").second;
  auto [before, quoted] = what.split("; last read: ");
  StringRef after = quoted.rsplit("; expected ").second;
  return after.empty() ? before.str() : (before + "; expected " + after).str();
}

/// The parser prescribes the names and signatures.
struct Events {
  JsonEvents &handler;

  bool null() { return handler.onLiteral("null"); }
  bool boolean(bool value) { return handler.onLiteral(value ? "true" : "false"); }
  // Only of numbers with a minus sign.
  bool number_integer(int64_t value) { return value ? handler.onInteger(value) : handler.onNegativeZero(); }
  bool number_unsigned(uint64_t value) {
    return value <= uint64_t{INT64_MAX} ? handler.onInteger(static_cast<int64_t>(value))
                                        : handler.onOtherNumber(std::to_string(value));
  }
  bool number_float(double, const std::string &spelled) { return handler.onOtherNumber(spelled); }
  bool string(std::string &value) { return handler.onString(value); }
  bool binary(nlohmann::json::binary_t &) { return false; }
  bool start_object(size_t) { return handler.onOpen('{'); }
  bool key(std::string &value) { return handler.onKey(value); }
  bool end_object() { return handler.onClose('}'); }
  bool start_array(size_t) { return handler.onOpen('['); }
  bool end_array() { return handler.onClose(']'); }
  bool parse_error(size_t offset, const std::string &, const nlohmann::json::exception &error) {
    return handler.onSyntaxError(offset ? offset - 1 : 0, explanation(error.what()));
  }
};

}  // namespace

StringRef jsonTokenName(JsonToken token) {
  constexpr StringLiteral kNames[] = {"a string", "a number", "a literal", "an object", "an array"};
  return kNames[static_cast<size_t>(token)];
}

void parseJson(StringRef text, const char *&position, JsonEvents &handler) {
  position = text.data();
  Events events{handler};
  CountingIterator begin(text.begin(), &position), end(text.end(), &position);
  nlohmann::json::sax_parse(begin, end, &events);
}

int64_t jsonTokenBegin(StringRef text, int64_t position, JsonToken token) {
  int64_t at = position - 1;
  auto isNumberByte = [](char c) { return isdigit(static_cast<unsigned char>(c)) || StringRef("+-.eE").contains(c); };
  if (token == JsonToken::Number) {  // the byte after a number was read as well, unless the text ended
    if (!isNumberByte(text[at])) --at;
    while (at > 0 && isNumberByte(text[at - 1])) --at;
  } else if (token == JsonToken::Literal) {
    while (at > 0 && isalpha(static_cast<unsigned char>(text[at - 1]))) --at;
  } else if (token == JsonToken::String) {
    for (--at; at > 0; --at) {
      size_t slashes = 0;
      while (static_cast<int64_t>(slashes) < at && text[at - 1 - slashes] == '\\') ++slashes;
      if (text[at] == '"' && slashes % 2 == 0) break;
    }
  }
  return at;
}

void JsonText::clear() {
  text.clear();
  levels.clear();
  isAfterKey = false;
}

void JsonText::separate() {
  if (!isAfterKey && !levels.empty()) {
    if (levels.back().hasElements) text += ", ";
    levels.back().hasElements = true;
  }
  isAfterKey = false;
}

void JsonText::addScalar(StringRef spelled) {
  separate();
  text.append(spelled.data(), spelled.size());
}

void JsonText::addString(StringRef value) {
  separate();
  appendQuoted(text, value);
}

void JsonText::open(char bracket) {
  separate();
  text += bracket;
  levels.emplace_back();
}

void JsonText::close(char bracket) {
  assert(!levels.empty() && "brackets match in parsed text");
  text += bracket;
  levels.pop_back();
}

bool JsonText::addKey(StringRef key) {
  if (!levels.back().keys.insert(key).second) return false;
  separate();
  appendQuoted(text, key);
  text += ": ";
  isAfterKey = true;
  return true;
}

}  // namespace gradc
