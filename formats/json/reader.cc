// The parser's adapter: nlohmann's SAX parser over a text whose position is known at every event.
//
// Only this file knows the parser; events go to JsonHandler as plain values. Tested by tests/json_reader_test.cc
#include "formats/json/reader.h"

#include "ir/error.h"
#include "ir/out_of_memory.h"

#include "formats/json/assemble.h"
#include "formats/json/handler.h"
#include "formats/json/json_path.h"

#include "nlohmann/json.hpp"

#include <iterator>

using namespace llvm;

namespace gradc {
namespace {

/// Walks the text and tells where it is: `*position` is one past the last byte read.
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

/// What the parser found wrong, without its own prefix, its line numbers and the bytes it quotes.
std::string explanation(StringRef what) {
  if (size_t at = what.find("syntax error"); at != StringRef::npos) what = what.drop_front(at);
  else what = what.rsplit("] ").second;
  auto [before, quoted] = what.split("; last read: ");
  StringRef after = quoted.rsplit("; expected ").second;
  return after.empty() ? before.str() : (before + "; expected " + after).str();
}

/// Names and signatures are the parser's.
struct Events {
  JsonHandler &handler;

  bool null() { return handler.onLiteral("null"); }
  bool boolean(bool value) { return handler.onLiteral(value ? "true" : "false"); }
  bool number_integer(int64_t value) { return handler.onInteger(value); }
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

// The path says what line and column do not where a file is one line.
Error withPath(Error error, StringRef text) {
  return amend(std::move(error), [&](GradcError &info) {
    if (info.place.offset < 0) return;
    std::string path = jsonPathAt(text, static_cast<size_t>(info.place.offset));
    if (!path.empty()) info.notes.push_back({"at " + path, {}});
  });
}

}  // namespace

Expected<LoadedGraph> readJson(Context &context, StringRef text, const ReadOptions &options) {
  return catchingBadAlloc("to read the graph", [&]() -> Expected<LoadedGraph> {
    if (text.trim().empty()) return Failure(ErrorKind::BadJson, "the input is empty, expected a graph").atOffset(0);
    const char *position = text.data();
    JsonHandler handler(context, text, position, options.maxNesting);
    Events events{handler};
    CountingIterator begin(text.begin(), &position), end(text.end(), &position);
    nlohmann::json::sax_parse(begin, end, &events);
    Expected<RawFile> file = handler.finish();
    if (!file) return withPath(file.takeError(), text);
    Expected<LoadedGraph> loaded = assembleFile(context, std::move(*file));
    if (!loaded) return withPath(loaded.takeError(), text);
    return loaded;
  });
}

}  // namespace gradc
