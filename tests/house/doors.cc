#include "tests/house/doors.h"

#include "tests/house/declarations.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <set>

using namespace llvm;

namespace gradc::house {
namespace {

/// Declares the operators that families emit of each other, which would include one another in circles; each under the
/// file that defines it, as in "// shape/slice.cc: …".
constexpr StringRef kOperatorList = "ops/kit/primitives.h";

/// The file below ops/ that the last comment before a line of that list names.
StringRef fileAbove(StringRef text, uint32_t line) {
  StringRef file;
  for (; line > 1; --line) {
    StringRef at;
    std::tie(at, text) = text.split('\n');
    if (at.consume_front("// ") && at.contains(".cc") && !at.split(".cc").first.contains(' '))
      file = at.take_front(at.find(".cc") + 3);
  }
  return file;
}

struct Place {
  StringRef path;
  const Declared *declared = nullptr;
};

class Doors {
 public:
  explicit Doors(const Tree &tree);
  std::vector<std::string> run();

 private:
  void checkDefinition(StringRef path, const Declared &definition);
  void checkHeader(StringRef path);
  const std::vector<Place> *owners(const Declared &definition) const;
  bool reaches(StringRef path, StringRef header);
  bool endsInRows(StringRef path) const;

  const Tree &tree;
  std::map<StringRef, std::vector<Declared>> declared;
  std::map<std::string, std::vector<Place>> classes, others;  // by full name: where they are declared
  std::map<StringRef, std::set<std::string>> reached;         // by file: what it includes, directly or not
  std::set<std::string> found;
};

Doors::Doors(const Tree &tree) : tree(tree) {
  for (const auto &[path, text] : tree)
    if (isProduct(path)) declared[path] = declarationsOf(text);
  for (const auto &[path, all] : declared)
    for (const Declared &one : all) {
      if (one.kind == Declared::Kind::Class) classes[one.fullName()].push_back({path, &one});
      else if (!one.isDefinition && !one.isMember && isHeader(path)) others[one.fullName()].push_back({path, &one});
    }
}

/// Where what is defined may be declared: the classes of "Graph::build", in its namespace or one around it; the
/// declarations of "build", in its own. Null if nowhere.
const std::vector<Place> *Doors::owners(const Declared &definition) const {
  const auto [qualifier, last] = StringRef(definition.name).rsplit("::");
  const bool isQualified = StringRef(definition.name).contains("::");
  for (StringRef scope = definition.scope;; scope = scope.contains("::") ? scope.rsplit("::").first : "") {
    const std::string prefix = scope.empty() ? "" : scope.str() + "::";
    if (isQualified)
      if (const auto at = classes.find(prefix + qualifier.str()); at != classes.end()) return &at->second;
    if (const auto at = others.find(prefix + definition.name); at != others.end()) return &at->second;
    if (scope.empty() || !isQualified) return nullptr;
  }
}

/// Whether a file sees a header.
bool Doors::reaches(StringRef path, StringRef header) {
  auto [at, isNew] = reached.try_emplace(path);
  std::vector<std::string> todo;
  if (isNew) todo.push_back(path.str());
  while (!todo.empty()) {
    const std::string file = std::move(todo.back());
    todo.pop_back();
    for (StringRef included : includesOf(tree.at(file)))
      if (std::string other = findIncluded(tree, file, included); !other.empty() && at->second.insert(other).second)
        todo.push_back(std::move(other));
  }
  return at->second.count(header.str());
}

void Doors::checkDefinition(StringRef path, const Declared &definition) {
  const std::vector<Place> *all = definition.isInternal ? nullptr : owners(definition);
  if (!all) return;
  std::vector<Place> places;
  for (const Place &place : *all)
    if (place.path == path || reaches(path, place.path)) places.push_back(place);
  // Functions of one name: the one of these parameters, if they are spelled alike, else those of as many.
  auto keepThose = [&](function_ref<bool(const Declared &)> isAlike) {
    std::vector<Place> alike;
    copy_if(places, std::back_inserter(alike), [&](const Place &place) { return isAlike(*place.declared); });
    if (!alike.empty()) places = std::move(alike);
  };
  if (places.empty()) return;
  if (places[0].declared->kind == Declared::Kind::Function) {
    keepThose([&](const Declared &other) { return other.numParameters == definition.numParameters; });
    keepThose([&](const Declared &other) { return other.parameters == definition.parameters; });
  }
  if (any_of(places, [&](const Place &place) { return stemOf(place.path) == stemOf(path); })) return;
  const Place &first = places[0];
  if (first.path == kOperatorList &&
      "ops/" + fileAbove(tree.at(kOperatorList.str()), first.declared->line).str() == path)
    return;
  if (isHeader(path) && first.declared->parameters != definition.parameters) return;  // inline, of another type
  found.insert((first.path + " " + definition.name + " " + path).str());
}

/// Whether the last thing that a file of rows defines is its rows: a constant, or a function that returns them.
bool Doors::endsInRows(StringRef path) const {
  const StringRef name = path.rsplit('/').second, folder = folderOf(path);
  const bool mayHoldRows = (folder.starts_with("ops/") && !folder.drop_front(4).contains('/')) ||
                           folder == "formats/blocks/ops" || folder.starts_with("passes/targets/") ||
                           folder == "runtime/kernels" || folder.starts_with("runtime/kernels/") ||
                           name.starts_with("verb_");
  const std::vector<Declared> &all = declared.at(path);
  if (!mayHoldRows || isHeader(path) || all.empty() || all.back().isInternal || !all.back().isDefinition) return false;
  return all.back().kind == Declared::Kind::Variable ||
         (all.back().numParameters == 0 && !StringRef(all.back().name).contains("::"));
}

void Doors::checkHeader(StringRef path) {
  if (isHeader(path) || path.ends_with(".def") || path.ends_with("/main.cc") || tree.count(stemOf(path).str() + ".h"))
    return;
  if (!endsInRows(path)) found.insert((path + " has no header").str());
}

std::vector<std::string> Doors::run() {
  for (const auto &[path, all] : declared) {
    checkHeader(path);
    const size_t numChecked = all.size() - (endsInRows(path) ? 1 : 0);
    for (const Declared &one : ArrayRef(all).take_front(numChecked))
      if (one.isDefinition && !one.isMember && one.kind != Declared::Kind::Class) checkDefinition(path, one);
  }
  return {found.begin(), found.end()};
}

}  // namespace

std::vector<std::string> findDetachedDefinitions(const Tree &tree) { return Doors(tree).run(); }

}  // namespace gradc::house
