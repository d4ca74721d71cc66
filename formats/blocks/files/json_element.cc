// Tested by tests/formats/blocks/block_file_test.cc
#include "formats/blocks/files/json_element.h"

#include "formats/blocks/program/json_stream.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace gradc {

void JsonElement::clear() {
  tokens.clear();
  levels.clear();
  text.clear();
}

void JsonElement::addScalar(JsonToken kind, StringRef spelled, int64_t offset) {
  const auto next = static_cast<uint32_t>(tokens.size() + 1);
  tokens.push_back(
      {kind, false, next, static_cast<uint32_t>(text.size()), static_cast<uint32_t>(spelled.size()), offset});
  text.append(spelled.data(), spelled.size());
}

void JsonElement::addKey(StringRef key, int64_t offset) {
  addScalar(JsonToken::String, key, offset);
  tokens.back().isKey = true;
}

void JsonElement::open(char bracket, int64_t offset) {
  levels.push_back(static_cast<uint32_t>(tokens.size()));
  addScalar(bracket == '{' ? JsonToken::Object : JsonToken::Array, "", offset);
}

void JsonElement::close() {
  tokens[levels.back()].next = static_cast<uint32_t>(tokens.size());
  levels.pop_back();
}

Error JsonCursor::failure(const Twine &what) const {
  return Failure(ErrorKind::BadJson,
                 "expected " + what + ", found " + (isNull() ? StringRef("null") : jsonTokenName(kind())))
      .atOffset(token().offset);
}

Expected<int64_t> JsonCursor::integer(const Twine &what) const {
  int64_t value;
  if (kind() != JsonToken::Number || spelled().getAsInteger(10, value)) return failure(what);
  return value;
}

Expected<bool> JsonCursor::boolean(const Twine &what) const {
  if (kind() != JsonToken::Literal || isNull()) return failure(what);
  return spelled() == "true";
}

Expected<StringRef> JsonCursor::string(const Twine &what) const {
  if (kind() != JsonToken::String) return failure(what);
  return spelled();
}

Expected<std::vector<int64_t>> JsonCursor::integers(const Twine &what) const {
  std::vector<int64_t> values;
  Error error = forEachElement(what, [&](JsonCursor value) -> Error {
    Expected<int64_t> number = value.integer(what);
    if (!number) return number.takeError();
    values.push_back(*number);
    return Error::success();
  });
  if (error) return error;
  return values;
}

Error JsonCursor::forEachMember(const Twine &what, function_ref<Error(StringRef, JsonCursor)> member) const {
  if (kind() != JsonToken::Object) return failure(what);
  SmallVector<StringRef, 16> few;
  StringSet<> keys;
  // Most objects are small.
  auto isNew = [&](StringRef key) {
    if (keys.empty() && few.size() < 16) {
      if (is_contained(few, key)) return false;
      few.push_back(key);
      return true;
    }
    if (keys.empty()) keys.insert(few.begin(), few.end());
    return keys.insert(key).second;
  };
  for (uint32_t i = at + 1; i < token().next; i = element->tokens[i + 1].next) {
    const JsonCursor key(*element, i);
    if (!isNew(key.spelled()))
      return Failure(ErrorKind::BadJson, "the object has the key '" + key.spelled() + "' twice")
          .atOffset(key.token().offset);
    if (Error error = member(key.spelled(), JsonCursor(*element, i + 1))) return error;
  }
  return Error::success();
}

Error JsonCursor::forEachElement(const Twine &what, function_ref<Error(JsonCursor)> visit) const {
  if (kind() != JsonToken::Array) return failure(what);
  for (uint32_t i = at + 1; i < token().next; i = element->tokens[i].next)
    if (Error error = visit(JsonCursor(*element, i))) return error;
  return Error::success();
}

void JsonCursor::print(std::string &to) const {
  JsonStream json(to);
  SmallVector<uint32_t, 16> open;  // objects and arrays
  auto bracket = [&](uint32_t i, StringRef brackets) {
    return brackets[element->tokens[i].kind == JsonToken::Object ? 0 : 1];
  };
  auto closeBefore = [&](uint32_t i) {
    while (!open.empty() && element->tokens[open.back()].next <= i) json.close(bracket(open.pop_back_val(), "}]"));
  };
  for (uint32_t i = at; i < token().next; ++i) {
    closeBefore(i);
    const JsonElement::Token &now = element->tokens[i];
    if (now.kind == JsonToken::Object || now.kind == JsonToken::Array) {
      json.open(bracket(i, "{["));
      open.push_back(i);
    } else if (now.isKey) {
      json.key(JsonCursor(*element, i).spelled());
    } else if (now.kind == JsonToken::String) {
      json.string(JsonCursor(*element, i).spelled());
    } else {
      json.raw(JsonCursor(*element, i).spelled());
    }
  }
  closeBefore(token().next);
}

}  // namespace gradc
