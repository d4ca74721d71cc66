#include "tests/house/tree.h"

#include "tests/support/tool.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <set>

using namespace llvm;

namespace gradc::house {
namespace {

bool isCode(StringRef path) { return path.ends_with(".cc") || path.ends_with(".h") || path.ends_with(".def"); }

/// Folders in which nothing is a source of gradc: what Bazel makes, the oracles' files, Bazel's own.
bool isSkipped(StringRef name) {
  return name.starts_with(".") || name == "out" || name == "testdata" || name == "external";
}

/// Calls visit(path) for every source below the folder.
void forCode(const std::string &root, function_ref<void(StringRef path)> visit) {
  std::error_code code;
  for (sys::fs::recursive_directory_iterator at(root, code), end; at != end && !code; at.increment(code)) {
    const StringRef path = at->path();
    if (isSkipped(sys::path::filename(path))) at.no_push();
    else if (isCode(path) && sys::fs::is_regular_file(path)) visit(path.drop_front(root.size() + 1));
  }
}

bool isWordCharacter(char c) { return isAlnum(c) || c == '_'; }

class Scanner {
 public:
  explicit Scanner(StringRef source) : rest(source) {}

  std::vector<Token> run() {
    while (!rest.empty()) step();
    return std::move(tokens);
  }

 private:
  void drop(size_t count) {
    const StringRef gone = rest.take_front(count);
    const size_t numLines = gone.count('\n');
    line += numLines;
    isLineStart = numLines ? gone.rsplit('\n').second.trim().empty() : isLineStart && gone.trim().empty();
    rest = rest.drop_front(gone.size());
  }

  void add(Token::Kind kind, StringRef text, size_t length) {
    tokens.push_back({kind, text, line});
    drop(length);
  }

  /// `'x'`, `"text"`: what is between the quotes.
  void addQuoted(Token::Kind kind) {
    size_t end = 1;
    while (end < rest.size() && rest[end] != rest[0]) end += rest[end] == '\\' ? 2 : 1;
    add(kind, rest.slice(1, end), end + 1);
  }

  /// `R"mark(text)mark"`
  void addRaw() {
    const StringRef mark = rest.drop_front(2).take_until([](char c) { return c == '('; });
    const size_t begin = mark.size() + 3, end = rest.find((")" + mark + "\"").str(), begin);
    add(Token::Kind::String, rest.slice(begin, end), end == StringRef::npos ? end : end + mark.size() + 2);
  }

  void dropDirective() {
    size_t end = rest.find('\n');
    while (end != StringRef::npos && rest[end - 1] == '\\') end = rest.find('\n', end + 1);
    drop(end);
  }

  void addSign() {
    for (StringRef sign : {"::", "->", "[["})
      if (rest.starts_with(sign)) return add(Token::Kind::Sign, rest.take_front(2), 2);
    add(Token::Kind::Sign, rest.take_front(1), 1);
  }

  void step() {
    if (isSpace(rest.front())) return drop(1);
    if (rest.starts_with("//")) return drop(rest.find('\n'));
    if (rest.starts_with("/*"))
      return drop(rest.find("*/", 2) == StringRef::npos ? rest.size() : rest.find("*/", 2) + 2);
    if (rest.front() == '#' && isLineStart) return dropDirective();
    if (rest.starts_with("R\"")) return addRaw();
    if (rest.front() == '"') return addQuoted(Token::Kind::String);
    if (rest.front() == '\'') return addQuoted(Token::Kind::Character);
    if (!isWordCharacter(rest.front())) return addSign();
    size_t length = 0;  // 1'000 is one word
    while (length < rest.size() && (isWordCharacter(rest[length]) || (rest[length] == '\'' && isDigit(rest.front()))))
      ++length;
    add(Token::Kind::Word, rest.take_front(length), length);
  }

  StringRef rest;
  uint32_t line = 1;
  bool isLineStart = true;
  std::vector<Token> tokens;
};

}  // namespace

Tree readTree() {
  Tree tree;
  forCode(".", [&](StringRef path) { tree[path.str()] = testing::readText(path); });
  return tree;
}

std::vector<std::string> foldersWithCode(StringRef root) {
  std::set<std::string> folders;
  forCode(root.str(), [&](StringRef path) { folders.insert(folderOf(path).str()); });
  return {folders.begin(), folders.end()};
}

StringRef folderOf(StringRef path) { return path.contains('/') ? path.rsplit('/').first : ""; }
StringRef stemOf(StringRef path) { return path.rsplit('.').first; }
bool isHeader(StringRef path) { return path.ends_with(".h"); }

bool isProduct(StringRef path) {
  return none_of(ArrayRef<StringRef>{"tests/", "bench/", "docs/"},
                 [&](StringRef other) { return path.starts_with(other); });
}

std::vector<Token> tokensOf(StringRef source) { return Scanner(source).run(); }

std::vector<StringRef> includesOf(StringRef source) {
  std::vector<StringRef> found;
  for (StringRef line : split(source, '\n'))
    if (line.consume_front("#include \"")) found.push_back(line.take_until([](char c) { return c == '"'; }));
  return found;
}

std::string findIncluded(const Tree &tree, StringRef file, StringRef included) {
  for (const std::string &path :
       {included.str(), (folderOf(file) + "/" + included).str(), ("docs/examples/" + included).str()})
    if (tree.count(path)) return path;
  return "";
}

}  // namespace gradc::house
