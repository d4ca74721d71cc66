// The events of a JSON parser, one per token, with the position in the text. Every reader of JSON files uses
// them. JsonText turns events back into text, for values that are read without being understood. Tested by
// tests/formats/json/json_reader_test.cc, json_writer_test.cc and tests/formats/blocks/block_file_test.cc
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

#include <cstdint>
#include <string>
#include <vector>

namespace gradc {

/// The kind of a token. Keys of objects are strings.
enum class JsonToken : uint8_t { String, Number, Literal, Object, Array };

/// "a string", "a number", …
llvm::StringRef jsonTokenName(JsonToken token);

/// Receives the events of one text. An event returns false to stop the parser. A literal is `true`, `false` or `null`.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual bool onLiteral(llvm::StringRef literal) = 0;
  virtual bool onInteger(int64_t value) = 0;
  /// `-0`, which as an int64 would be 0.
  virtual bool onNegativeZero() { return onOtherNumber("-0"); }
  /// A number that is not an int64.
  virtual bool onOtherNumber(llvm::StringRef spelled) = 0;
  virtual bool onString(llvm::StringRef value) = 0;
  virtual bool onKey(llvm::StringRef key) = 0;
  virtual bool onOpen(char bracket) = 0;
  virtual bool onClose(char bracket) = 0;
  virtual bool onSyntaxError(size_t offset, llvm::StringRef explanation) = 0;
};

/// Parses one value and nothing after it. At each event `position` is one past the last byte that was read.
void parseJson(llvm::StringRef text, const char *&position, JsonEvents &events);

/// Where a token begins, given the `position` at its event. Only errors need this, so the parser does not keep it.
int64_t jsonTokenBegin(llvm::StringRef text, int64_t position, JsonToken token);

/// Rebuilds one JSON value as text: `", "` between elements, `": "` after keys, numbers as the file spells them.
class JsonText {
 public:
  void clear();
  /// A number or a literal, spelled out.
  void addScalar(llvm::StringRef spelled);
  void addString(llvm::StringRef text);
  void open(char bracket);
  void close(char bracket);
  /// False when the object has this key already.
  bool addKey(llvm::StringRef key);

  /// True when a whole value was collected.
  bool isComplete() const { return levels.empty() && !text.empty(); }
  const std::string &str() const { return text; }

 private:
  struct Level {
    bool hasElements = false;
    llvm::StringSet<> keys;  // of an object
  };
  void separate();

  std::string text;
  std::vector<Level> levels;
  bool isAfterKey = false;
};

}  // namespace gradc
