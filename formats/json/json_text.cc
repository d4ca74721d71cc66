// Tested by tests/formats/json/json_reader_test.cc
#include "formats/json/json_text.h"

#include "ir/base/escapes.h"

#include <cassert>

using namespace llvm;

namespace gradc {

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
