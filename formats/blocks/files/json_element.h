// One value of a JSON text, collected from the parser's events and then walked: for the operators and variables of a
// block program, each of which is small. Tested by tests/formats/blocks/block_file_test.cc
#pragma once

#include "formats/json/events.h"
#include "ir/base/error.h"

#include <vector>

namespace gradc {

class JsonCursor;

/// The tokens of one value in the order of the text. Reused from value to value, so most need no allocation.
class JsonElement {
 public:
  void clear();
  void addScalar(JsonToken kind, llvm::StringRef spelled, int64_t offset);
  void addKey(llvm::StringRef key, int64_t offset);
  void open(char bracket, int64_t offset);
  void close();
  /// Whether a whole value was collected.
  bool isComplete() const { return levels.empty() && !tokens.empty(); }
  JsonCursor root() const;

 private:
  friend class JsonCursor;
  struct Token {
    JsonToken kind;
    bool isKey;
    uint32_t next;         // the token behind the value
    uint32_t begin, size;  // in `text`: a string's content, a number or literal verbatim
    int64_t offset;        // where the value, or the key, begins in the file
  };

  std::vector<Token> tokens;
  std::vector<uint32_t> levels;  // open objects and arrays
  std::string text;
};

/// A value in an element. Errors are E-33 at the value's place; `what` is what was expected: "a number for 'idx' of
/// block 3".
class JsonCursor {
 public:
  JsonCursor(const JsonElement &element, uint32_t at) : element(&element), at(at) {}

  JsonToken kind() const { return token().kind; }
  bool isNull() const { return kind() == JsonToken::Literal && spelled() == "null"; }
  /// The content of a string; the text of a number or literal.
  llvm::StringRef spelled() const { return {element->text.data() + token().begin, token().size}; }
  int64_t offset() const { return token().offset; }

  llvm::Error failure(const llvm::Twine &what) const;
  llvm::Expected<int64_t> integer(const llvm::Twine &what) const;
  llvm::Expected<bool> boolean(const llvm::Twine &what) const;
  llvm::Expected<llvm::StringRef> string(const llvm::Twine &what) const;
  llvm::Expected<std::vector<int64_t>> integers(const llvm::Twine &what) const;
  /// Calls `member(key, value)` for each member; a repeated key is an error.
  llvm::Error forEachMember(const llvm::Twine &what,
                            llvm::function_ref<llvm::Error(llvm::StringRef key, JsonCursor value)> member) const;
  llvm::Error forEachElement(const llvm::Twine &what, llvm::function_ref<llvm::Error(JsonCursor value)> element) const;
  /// Appends the value as compact JSON.
  void print(std::string &to) const;

 private:
  const JsonElement::Token &token() const { return element->tokens[at]; }

  const JsonElement *element;
  uint32_t at;
};

inline JsonCursor JsonElement::root() const { return {*this, 0}; }

}  // namespace gradc
