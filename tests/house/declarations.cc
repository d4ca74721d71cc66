#include "tests/house/declarations.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc::house {
namespace {

using Tokens = ArrayRef<Token>;

bool isAny(const Token &token, ArrayRef<StringRef> words) {
  return any_of(words, [&](StringRef word) { return token.is(word); });
}

bool opens(const Token &token) { return isAny(token, {"(", "[", "[[", "{"}); }
bool closes(const Token &token) { return isAny(token, {")", "]", "}"}); }

/// The position after the bracket that closes the one at `at`.
size_t afterBracket(Tokens tokens, size_t at) {
  size_t depth = 0;
  for (; at < tokens.size(); ++at) {
    if (opens(tokens[at])) depth += tokens[at].is("[[") ? 2 : 1;
    if (closes(tokens[at]) && --depth == 0) return at + 1;
  }
  return at;
}

/// The position after the `>` that closes the `<` at `at`; `at` + 1 for a `<` that compares.
size_t afterAngle(Tokens tokens, size_t at) {
  size_t depth = 0;
  for (size_t i = at; i < tokens.size();) {
    if (tokens[i].is(";") || tokens[i].is("{")) break;
    if (opens(tokens[i])) {
      i = afterBracket(tokens, i);
      continue;
    }
    if (tokens[i].is("<")) ++depth;
    if (tokens[i].is(">") && --depth == 0) return i + 1;
    ++i;
  }
  return at + 1;
}

bool isName(const Token &token) { return token.kind == Token::Kind::Word; }

/// The text of a declaration up to its body, its value or its end.
struct Head {
  std::vector<Token> tokens;
  size_t name = SIZE_MAX;   // position of the name
  size_t paren = SIZE_MAX;  // position of the parenthesis of a function
  bool hasValue = false;    // `=` or `{` gives a variable its value
  bool hasInitializers = false;

  bool isFunction() const { return paren != SIZE_MAX; }
  bool has(StringRef word) const {
    return any_of(tokens, [&](const Token &token) { return token.is(word); });
  }
};

/// Words before a parenthesis that is not the list of parameters.
bool isNoFunction(const Token &token) {
  return isAny(token, {"__attribute__", "alignas", "decltype", "noexcept", "explicit", "requires", "static_assert",
                       "__declspec", "asm", "constexpr", "const"});
}

/// Finds the name, or the parameters and the name before them, in the tokens of a head.
void findName(Head &head) {
  const Tokens tokens = head.tokens;
  for (size_t i = 0; i < tokens.size();) {
    if (tokens[i].is("operator")) {
      size_t end = i + 1;
      while (end < tokens.size() &&
             (!tokens[end].is("(") || (end == i + 1 && end + 1 < tokens.size() && tokens[end + 1].is(")"))))
        end += tokens[end].is("(") ? 2 : 1;
      head.name = i, head.paren = end < tokens.size() ? end : SIZE_MAX;
      return;
    }
    if (tokens[i].is("(") && i && isName(tokens[i - 1]) && !isNoFunction(tokens[i - 1])) {
      head.name = i - 1, head.paren = i;
      return;
    }
    if (tokens[i].is("(") && i && tokens[i - 1].is(">") && head.name != SIZE_MAX) {  // f<int>(
      head.paren = i;
      return;
    }
    if (tokens[i].is("=")) break;
    if (tokens[i].is("[") && i && isName(tokens[i - 1])) {
      head.name = i - 1;
      return;
    }
    if (isName(tokens[i])) head.name = i;
    i = tokens[i].is("<") ? afterAngle(tokens, i) : opens(tokens[i]) ? afterBracket(tokens, i) : i + 1;
  }
}

/// The name that ends at `last`, with what qualifies it: "Graph::build". Template arguments are left out.
std::string qualified(Tokens tokens, size_t last, size_t end) {
  std::string name;
  for (size_t i = last; i < end; ++i) name += tokens[i].text;
  if (last && tokens[last - 1].is("~")) {
    name = "~" + name;
    --last;
  }
  while (last >= 2 && tokens[last - 1].is("::")) {
    size_t at = last - 2;
    if (tokens[at].is(">")) {
      size_t depth = 0;
      do {
        depth += tokens[at].is(">") ? 1 : tokens[at].is("<") ? -1 : 0;
      } while (depth && at-- > 0);
      if (at == 0 || at == SIZE_MAX) break;
      --at;
    }
    if (!isName(tokens[at])) break;
    name = tokens[at].text.str() + "::" + name;
    last = at;
  }
  return name;
}

/// "const Graph &" of "const llvm::Graph &graph = x".
std::string typeOf(Tokens tokens) {
  size_t end = 0;
  while (end < tokens.size() && !tokens[end].is("=")) end = tokens[end].is("<") ? afterAngle(tokens, end) : end + 1;
  tokens = tokens.take_front(end);
  const bool endsInName = tokens.size() > 1 && isName(tokens.back());
  const Token before = endsInName ? tokens[tokens.size() - 2] : Token();
  if (endsInName && !isAny(before, {"::", "const", "unsigned", "typename", "struct", "class"}))
    tokens = tokens.drop_back();
  std::string type;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i + 1 < tokens.size() && tokens[i + 1].is("::") && isAny(tokens[i], {"llvm", "std", "gradc", "testing"})) {
      ++i;
      continue;
    }
    type += (tokens[i].kind == Token::Kind::Word && !type.empty() ? " " : "") + tokens[i].text.str();
  }
  return type;
}

/// Types and number of the parameters in the parenthesis at `paren`.
void readParameters(Tokens tokens, size_t paren, Declared &declared) {
  const size_t end = afterBracket(tokens, paren) - 1;
  size_t begin = paren + 1;
  for (size_t i = begin; i <= end && i < tokens.size();) {
    if (i == end || tokens[i].is(",")) {
      if (i > begin) {
        ++declared.numParameters;
        declared.parameters += typeOf(tokens.slice(begin, i - begin)) + ",";
      }
      begin = ++i;
    } else {
      i = tokens[i].is("<") ? afterAngle(tokens, i) : opens(tokens[i]) ? afterBracket(tokens, i) : i + 1;
    }
  }
}

class Reader {
 public:
  explicit Reader(StringRef source) : all(tokensOf(source)), tokens(all) {}

  std::vector<Declared> run() {
    while (at < tokens.size()) {
      readScope("", false, false);
      ++at;  // a brace too many
    }
    return std::move(found);
  }

 private:
  void add(const Head &head, const Declared &around, bool isDefinition);
  void readScope(const std::string &scope, bool isInternal, bool isClass);
  bool readNested(const Head &head, const Declared &around);
  bool readClass(const Head &head, const Declared &around);
  void addNamesBefore(const Head &head, Declared declared);
  void skipTo(StringRef end);
  /// Moves the tokens before `end` to the head.
  void take(Head &head, size_t end) {
    append_range(head.tokens, tokens.slice(at, end - at));
    at = end;
  }
  bool isBraceOfValue(const Head &head) const;

  std::vector<Token> all;
  Tokens tokens;
  size_t at = 0;
  std::vector<Declared> found;
};

void Reader::add(const Head &given, const Declared &around, bool isDefinition) {
  Head head = given;
  if (head.tokens.empty() ||
      isAny(head.tokens[0], {"using", "typedef", "static_assert", "friend", "enum", "namespace"}))
    return;
  findName(head);
  const bool isTemplate = head.tokens[0].is("template"), isExtern = head.has("extern");
  if (isTemplate && !(head.tokens.size() > 1 && head.tokens[1].is("<"))) return;  // an instantiation
  if (isExtern && head.has("template")) return;
  if (head.name == SIZE_MAX || head.has("friend")) return;
  Declared declared = around;
  declared.line = head.tokens[head.name].line;
  declared.isInternal |= head.has("static") && !around.isMember;
  declared.name = qualified(head.tokens, head.name, head.tokens[head.name].is("operator") ? head.paren : head.name + 1);
  if (head.isFunction()) {
    // A parenthesis after the first word alone is a macro, or a constructor in its class.
    if (head.name == 0 && !StringRef(declared.name).contains("::")) return;
    declared.isDefinition = isDefinition;
    readParameters(head.tokens, head.paren, declared);
  } else {
    if (head.name == 0 || head.has("class") || head.has("struct")) return;  // a declaration of a class, or a stray word
    declared.kind = Declared::Kind::Variable;
    declared.isDefinition = !isExtern || head.hasValue;
    addNamesBefore(head, declared);
  }
  found.push_back(std::move(declared));
}

/// The variables of a list "int a, b" but the last.
void Reader::addNamesBefore(const Head &head, Declared declared) {
  const Tokens tokens = head.tokens;
  for (size_t i = 0; i < tokens.size() && !tokens[i].is("=");) {
    if (tokens[i].is(",") && isName(tokens[i - 1])) {
      declared.name = tokens[i - 1].text.str();
      declared.line = tokens[i - 1].line;
      found.push_back(declared);
    }
    i = tokens[i].is("<") ? afterAngle(tokens, i) : opens(tokens[i]) ? afterBracket(tokens, i) : i + 1;
  }
}

void Reader::skipTo(StringRef end) {
  while (at < tokens.size() && !tokens[at].is(end) && !tokens[at].is("}"))
    at = opens(tokens[at]) ? afterBracket(tokens, at) : at + 1;
  if (at < tokens.size() && tokens[at].is(end)) ++at;
}

/// Whether the brace at `at` begins the value of a variable or of a member rather than a body.
bool Reader::isBraceOfValue(const Head &given) const {
  Head head = given;
  if (head.hasValue) return true;
  findName(head);
  if (!head.isFunction()) return true;
  return head.hasInitializers && (isName(head.tokens.back()) || head.tokens.back().is(">"));
}

/// class, struct and union: their members, then what follows the brace. False when the head is none of these.
bool Reader::readClass(const Head &head, const Declared &around) {
  size_t i = 0;
  const Tokens words = head.tokens;
  while (i + 1 < words.size() && words[i].is("template") && words[i + 1].is("<")) i = afterAngle(words, i + 1);
  while (i < words.size() && isAny(words[i], {"typedef", "static", "const", "constexpr"})) ++i;
  if (i >= words.size() || !isAny(words[i], {"class", "struct", "union"})) return false;
  std::string name;
  size_t last = SIZE_MAX;
  for (++i; i < words.size() && !words[i].is(":") && !words[i].is("final");) {
    if (isName(words[i]) && !isAny(words[i], {"alignas"})) last = i;
    if (words[i].is("<")) break;
    i = opens(words[i]) ? afterBracket(words, i) : i + 1;
  }
  if (last != SIZE_MAX) name = qualified(words, last, last + 1);
  Declared declared = around;
  declared.kind = Declared::Kind::Class;
  declared.isDefinition = true;
  declared.name = name;
  declared.line = tokens[at].line;
  ++at;
  const std::string scope = name.empty() ? around.scope : declared.fullName();
  if (!name.empty()) found.push_back(declared);
  readScope(scope, around.isInternal, true);
  ++at;
  skipTo(";");
  return true;
}

/// Namespaces, classes and enumerations: what the brace at `at` holds. False for other heads.
bool Reader::readNested(const Head &head, const Declared &around) {
  const Tokens words = head.tokens;
  if (words.empty()) {
    at = afterBracket(tokens, at);
    return true;
  }
  const size_t first = words[0].is("inline") ? 1 : 0;
  if (words.size() > first && words[first].is("namespace")) {
    std::string name;
    for (const Token &token : words.drop_front(first + 1)) name += token.text;
    ++at;
    readScope(around.scope.empty() || name.empty() ? around.scope + name : around.scope + "::" + name,
              around.isInternal || name.empty(), false);
    ++at;
    return true;
  }
  if (words[0].is("extern") && words.size() == 2 && words[1].kind == Token::Kind::String) {
    ++at;
    readScope(around.scope, around.isInternal, around.isMember);
    ++at;
    return true;
  }
  if (words[0].is("enum")) {
    at = afterBracket(tokens, at);
    skipTo(";");
    return true;
  }
  return readClass(head, around);
}

/// Reads to the end of the scope and stops at its closing brace.
void Reader::readScope(const std::string &scope, bool isInternal, bool isClass) {
  Declared around;
  around.scope = scope;
  around.isInternal = isInternal;
  around.isMember = isClass;
  Head head;
  while (at < tokens.size() && !tokens[at].is("}")) {
    const Token &token = tokens[at];
    if (token.is(";")) {
      add(head, around, false);
      head = Head(), ++at;
    } else if (token.is(":") && isClass && head.tokens.size() == 1 &&
               isAny(head.tokens[0], {"public", "private", "protected"})) {
      head = Head(), ++at;
    } else if (token.is("{") && (head.hasValue || !readNested(head, around))) {
      if (isBraceOfValue(head)) {
        head.hasValue |= !head.hasInitializers;
        take(head, afterBracket(tokens, at));
        continue;
      }
      at = afterBracket(tokens, at);
      add(head, around, true);
      head = Head();
    } else if (token.is("{")) {
      head = Head();
    } else {
      const bool isOperator = !head.tokens.empty() && head.tokens.back().is("operator");
      if (token.is("=") && !isOperator && !head.has("operator")) head.hasValue = true;
      if (token.is(":") && head.has(")")) head.hasInitializers = true;
      const bool isTemplate = token.is("<") && !head.tokens.empty() && head.tokens.back().is("template");
      take(head, isTemplate ? afterAngle(tokens, at) : opens(token) ? afterBracket(tokens, at) : at + 1);
    }
  }
}

}  // namespace

std::vector<Declared> declarationsOf(StringRef source) { return Reader(source).run(); }

}  // namespace gradc::house
