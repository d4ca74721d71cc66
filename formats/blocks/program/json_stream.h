// Compact JSON text as Python's json.dumps(…, separators=(',', ':')) spells it. Tested by
// tests/formats/blocks/block_file_test.cc
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace gradc {

/// Appends values to a text. Call `key` before each value of an object.
class JsonStream {
 public:
  explicit JsonStream(std::string &to) : to(to) {}

  JsonStream &open(char bracket) {
    separate();
    to += bracket;
    isFirst = true;
    return *this;
  }
  JsonStream &close(char bracket) {
    to += bracket;
    isFirst = false;
    return *this;
  }
  JsonStream &key(llvm::StringRef name) {
    string(name);
    to += ':';
    isFirst = true;
    return *this;
  }
  /// A number, a literal or a whole value, copied verbatim.
  JsonStream &raw(llvm::StringRef spelled) {
    separate();
    to.append(spelled.data(), spelled.size());
    return *this;
  }
  /// Quoted, all but printable ASCII escaped.
  JsonStream &string(llvm::StringRef text);
  JsonStream &number(int64_t value) { return raw(std::to_string(value)); }
  JsonStream &boolean(bool value) { return raw(value ? "true" : "false"); }
  JsonStream &null() { return raw("null"); }
  JsonStream &numbers(llvm::ArrayRef<int64_t> values) {
    open('[');
    for (int64_t value : values) number(value);
    return close(']');
  }

 private:
  void separate() {
    if (!isFirst) to += ',';
    isFirst = false;
  }

  std::string &to;
  bool isFirst = true;  // the next value is the first of its list
};

/// A finite number as Python's repr spells it: "0.1", "1.0", "1e-05"; with `isSingle`, the shortest that is the same
/// float32. "nan", "inf" or "-inf" in quotes.
std::string spellFloat(double value, bool isSingle);

}  // namespace gradc
