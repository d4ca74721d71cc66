// Canonical text of JSON values: parser events collected back into text, for values that are kept without being
// understood. Tested by
// tests/formats/json/json_reader_test.cc and tests/formats/json/json_writer_test.cc
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

#include <cstdint>
#include <string>
#include <vector>

namespace gradc {

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
