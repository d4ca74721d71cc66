// Typed graph attributes from parser events. Tested by tests/formats/json/json_reader_test.cc
#include "formats/json/graph_attrs.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {
namespace {

using Kind = GraphAttr::Kind;
constexpr Kind kTypedKinds[] = {Kind::Int, Kind::SizeT, Kind::Str, Kind::ListInt, Kind::ListStr, Kind::ListShape};

}  // namespace

StringRef graphAttrKindName(Kind kind) {
  switch (kind) {
    case Kind::Int: return "int";
    case Kind::SizeT: return "size_t";
    case Kind::Str: return "str";
    case Kind::ListInt: return "list_int";
    case Kind::ListStr: return "list_str";
    case Kind::ListShape: return "list_shape";
    case Kind::Raw: return "";
  }
  return "";
}

void GraphAttrReader::begin() {
  state = State::Start;
  attr = GraphAttr();
  raw.clear();
}

bool GraphAttrReader::isList() const {
  return attr.kind == Kind::ListInt || attr.kind == Kind::ListStr || attr.kind == Kind::ListShape;
}

// Called at the first event that rules out every known kind.
bool GraphAttrReader::goRaw() {
  if (state == State::Kind) raw.open('[');
  state = State::Raw;
  attr.kind = Kind::Raw;
  return true;
}

bool GraphAttrReader::finishRaw() {
  if (raw.isComplete()) {
    attr.text = raw.str();
    state = State::Done;
  }
  return true;
}

bool GraphAttrReader::addNumber(int64_t value, StringRef spelled) {
  switch (state) {
    case State::Payload:
      if (attr.kind != Kind::Int && attr.kind != Kind::SizeT) return false;
      if (attr.kind == Kind::SizeT && value < 0) return false;
      attr.number = value;
      state = State::Close;
      return true;
    case State::List:
      if (attr.kind != Kind::ListInt) return false;
      attr.numbers.push_back(value);
      return true;
    case State::Shape: attr.shapes.back().push_back(value); return true;
    default: return addScalar(spelled);
  }
}

bool GraphAttrReader::addScalar(StringRef spelled) {
  if (state == State::Start || state == State::Kind) goRaw();
  if (state != State::Raw) return false;
  raw.addScalar(spelled);
  return finishRaw();
}

bool GraphAttrReader::addString(StringRef text) {
  if (state == State::Kind) {
    const Kind *kind = find_if(kTypedKinds, [&](Kind known) { return graphAttrKindName(known) == text; });
    if (kind != std::end(kTypedKinds)) {
      attr.kind = *kind;
      state = State::Payload;
      return true;
    }
  }
  if (state == State::Start || state == State::Kind) goRaw();
  if (state == State::Raw) {
    raw.addString(text);
    return finishRaw();
  }
  if (state == State::Payload && attr.kind == Kind::Str) {
    attr.text = text.str();
    state = State::Close;
    return true;
  }
  if (state != State::List || attr.kind != Kind::ListStr) return false;
  attr.texts.push_back(text.str());
  return true;
}

bool GraphAttrReader::open(char bracket) {
  if (state == State::Start && bracket == '[') {
    state = State::Kind;
    return true;
  }
  if (state == State::Start || state == State::Kind) goRaw();
  if (state == State::Raw) {
    raw.open(bracket);
    return true;
  }
  if (bracket != '[') return false;
  if (state == State::Payload && isList()) {
    state = State::List;
    return true;
  }
  if (state != State::List || attr.kind != Kind::ListShape) return false;
  attr.shapes.emplace_back();
  state = State::Shape;
  return true;
}

bool GraphAttrReader::close(char bracket) {
  switch (state) {
    case State::Kind: goRaw(); [[fallthrough]];
    case State::Raw: raw.close(bracket); return finishRaw();
    case State::Shape: state = State::List; return true;
    case State::List: state = State::Close; return true;
    case State::Close: state = State::Done; return true;
    default: return false;
  }
}

std::string GraphAttrReader::expected() const {
  std::string form = "[\"" + graphAttrKindName(attr.kind).str() + "\", ";
  switch (attr.kind) {
    case Kind::Int: return form + "integer]";
    case Kind::SizeT: return form + "integer from 0]";
    case Kind::Str: return form + "string]";
    case Kind::ListInt: return form + "[integer, …]]";
    case Kind::ListStr: return form + "[string, …]]";
    case Kind::ListShape: return form + "[[integer, …], …]]";
    case Kind::Raw: return "distinct keys in an object";
  }
  return form;
}

}  // namespace gradc
