#include "tests/house/literals.h"

#include "tests/house/declarations.h"

#include "ir/graph/context.h"
#include "ops/registry.h"

#include "llvm/ADT/STLExtras.h"

#include <array>

using namespace llvm;

namespace gradc::house {
namespace {

bool isHidden(StringRef text) { return text.size() > 4 && text.starts_with("__") && text.ends_with("__"); }

/// Whether the text makes one operator's name of another's, in front of it or behind it.
bool isAffix(StringRef text, const std::set<std::string> &operators) {
  if (text.size() < 3 || !text.contains('_')) return false;
  return any_of(operators, [&](StringRef name) {
    if (name.size() <= text.size()) return false;
    return (name.starts_with(text) && operators.count(name.drop_front(text.size()).str())) ||
           (name.ends_with(text) && operators.count(name.drop_back(text.size()).str()));
  });
}

/// Whether the call makes the name of a node, or the text of an error: no operator or attribute is meant by a word
/// there.
bool makesText(const Token &callee) {
  return any_of(std::array{"Failure", "name", "nameRegularly", "setName", "take", "takeNumbered"},
                [&](StringRef name) { return callee.is(name); });
}

/// By token: whether it is within such a call, `setName(n, "exp")`, or `Failure failure(kind, "axis")`.
std::vector<bool> tokensInTexts(ArrayRef<Token> tokens) {
  std::vector<bool> result(tokens.size()), open;
  for (size_t i = 0; i < tokens.size(); ++i) {
    result[i] = !open.empty() && open.back();
    if (tokens[i].is("("))
      open.push_back(result[i] || (i > 0 && makesText(tokens[i - 1])) || (i > 1 && tokens[i - 2].is("Failure")));
    if (tokens[i].is(")") && !open.empty()) open.pop_back();
  }
  return result;
}

/// Calls visit(text) for each literal, and for each row of literals that are written side by side or added.
void forLiterals(ArrayRef<Token> tokens, function_ref<void(const std::string &text)> visit) {
  const std::vector<bool> isInText = tokensInTexts(tokens);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].kind != Token::Kind::String || isInText[i]) continue;
    std::string text = tokens[i].text.str();
    visit(text);
    for (size_t j = i + 1; j < tokens.size(); ++j) {
      if (tokens[j].kind == Token::Kind::String) visit(text += tokens[j].text.str());
      else if (tokens[j].kind == Token::Kind::Character) text += tokens[j].text.str();
      else if (!tokens[j].is("+") && !tokens[j].is("(") && !tokens[j].is(")") && !tokens[j].is("Twine") &&
               !tokens[j].is("StringRef") && !tokens[j].is("std") && !tokens[j].is("::") && !tokens[j].is("string"))
        break;
    }
  }
}

std::string quoted(StringRef path, StringRef text) { return (path + " \"" + text + "\"").str(); }

/// What a file of operators compares with: `op == &kScan`, `name != "_foreach"`.
void addCompared(StringRef path, StringRef source, const Vocabulary &names, std::set<std::string> &found) {
  const std::vector<Token> tokens = tokensOf(source);
  std::set<std::string> own;
  for (const Declared &one : declarationsOf(source))
    if (one.isDefinition) own.insert(one.name);
  std::set<std::string> named;  // `.name = "_foreach"`
  for (size_t i = 3; i < tokens.size(); ++i)
    if (tokens[i].kind == Token::Kind::String && tokens[i - 1].is("=") && tokens[i - 2].is("name") &&
        tokens[i - 3].is("."))
      named.insert(tokens[i].text.str());
  for (size_t i = 1; i + 3 < tokens.size(); ++i) {
    if (!tokens[i + 1].is("=") || !(tokens[i].is("=") || tokens[i].is("!"))) continue;
    const Token &left = tokens[i - 1], &right = tokens[i + 2];
    if (left.is("op") && right.is("&") && !own.count(tokens[i + 3].text.str()))
      found.insert((path + " " + tokens[i + 3].text).str());
    const bool isName = left.is("name") || left.is("spelling");
    if (isName && right.kind == Token::Kind::String && names.operators.count(right.text.str()) &&
        !named.count(right.text.str()))
      found.insert(quoted(path, right.text));
  }
}

}  // namespace

Vocabulary Vocabulary::ofRegistry() {
  Context context;
  registerBuiltinOps(context.ops);
  Vocabulary names;
  for (const OpDef *op : context.ops.all()) {
    names.operators.insert(op->name.str());
    for (StringRef alias : ArrayRef<StringRef>(op->aliases)) names.operators.insert(alias.str());
    for (const AttrSpec &attr : op->attrs) names.keys.insert(attr.key.str());
    for (StringRef input : ArrayRef<StringRef>(op->inputs.names)) names.keys.insert(input.str());
  }
  return names;
}

std::vector<std::string> findNames(const Tree &tree, const Vocabulary &names) {
  std::set<std::string> found;
  for (const auto &[path, text] : tree) {
    const StringRef file = path;
    const bool isPass = file.starts_with("passes/");
    const bool isOfHost = file.starts_with("passes/targets/") && file.count('/') > 2;
    if (isOfHost || !(isPass || file.starts_with("ir/"))) continue;
    forLiterals(tokensOf(text), [&, &path = path](const std::string &literal) {
      const bool isKey = isPass && (names.keys.count(literal) || isHidden(literal));
      if (isKey || names.operators.count(literal) || isAffix(literal, names.operators))
        found.insert(quoted(path, literal));
    });
  }
  return {found.begin(), found.end()};
}

std::vector<std::string> findForeignOperators(const Tree &tree, const Vocabulary &names) {
  std::set<std::string> found;
  for (const auto &[path, text] : tree)
    if (StringRef(path).starts_with("ops/") && path != "ops/registry.cc") addCompared(path, text, names, found);
  return {found.begin(), found.end()};
}

}  // namespace gradc::house
