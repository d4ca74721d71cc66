// Graph-level attributes in files: ["int", 10901], ["list_shape", [[1, 2], []]] and so on; other values stay text.
// Tested by tests/formats/json/json_reader_test.cc
#pragma once

#include "formats/json/events.h"
#include "ir/graph/graph.h"

#include <string>

namespace gradc {

/// NNVM's name of the kind; empty for Raw.
llvm::StringRef graphAttrKindName(GraphAttr::Kind kind);

/// Collects the parser events of one value. An event returns false when the value does not have the form that its kind
/// requires; `expected()` then describes that form.
class GraphAttrReader {
 public:
  void begin();
  bool addNumber(int64_t value, llvm::StringRef spelled);
  /// A literal, or a number that is not an int64.
  bool addScalar(llvm::StringRef spelled);
  bool addString(llvm::StringRef text);
  bool addKey(llvm::StringRef key) { return raw.addKey(key); }
  bool open(char bracket);
  bool close(char bracket);

  bool isComplete() const { return state == State::Done; }
  GraphAttr take() { return std::move(attr); }
  std::string expected() const;

 private:
  enum class State : uint8_t { Start, Kind, Payload, List, Shape, Close, Raw, Done };
  bool isList() const;
  bool goRaw();
  bool finishRaw();

  State state = State::Start;
  GraphAttr attr;
  JsonText raw;
};

}  // namespace gradc
