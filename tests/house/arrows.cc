#include "tests/house/arrows.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <set>

using namespace llvm;

namespace gradc::house {
namespace {

bool isForeign(StringRef included) {
  return any_of(ArrayRef<StringRef>{"llvm/", "gtest/", "benchmark/", "nlohmann/"},
                [&](StringRef other) { return included.starts_with(other); });
}

using Edges = std::map<StringRef, std::set<StringRef>>;

std::set<StringRef> reachedFrom(const Edges &edges, StringRef from) {
  std::set<StringRef> reached;
  std::vector<StringRef> todo = {from};
  while (!todo.empty()) {
    const auto at = edges.find(todo.back());
    todo.pop_back();
    if (at == edges.end()) continue;
    for (StringRef to : at->second)
      if (reached.insert(to).second) todo.push_back(to);
  }
  return reached;
}

}  // namespace

std::vector<std::string> findArrows(const Tree &tree) {
  std::set<std::string> arrows;
  for (const auto &[path, text] : tree)
    for (StringRef included : includesOf(text)) {
      const std::string header = findIncluded(tree, path, included);
      const StringRef from = folderOf(path), to = folderOf(header);
      if (!header.empty() && from != to) arrows.insert((from + " -> " + to).str());
    }
  return {arrows.begin(), arrows.end()};
}

std::vector<std::string> findCircles(ArrayRef<std::string> arrows) {
  Edges edges;
  for (StringRef arrow : arrows) {
    const auto [from, to] = arrow.split(" -> ");
    edges[from].insert(to);
  }
  std::map<StringRef, std::set<StringRef>> reached;
  for (const auto &[from, to] : edges) reached[from] = reachedFrom(edges, from);
  std::set<std::string> circles;
  for (const auto &[folder, others] : reached) {
    std::vector<StringRef> circle;
    for (StringRef other : others)
      if (reached.count(other) && reached[other].count(folder)) circle.push_back(other);
    if (!circle.empty()) circles.insert(join(circle, " "));
  }
  return {circles.begin(), circles.end()};
}

std::vector<std::string> findLostIncludes(const Tree &tree) {
  std::set<std::string> lost;
  for (const auto &[path, text] : tree)
    for (StringRef included : includesOf(text))
      if (!isForeign(included) && findIncluded(tree, path, included).empty())
        lost.insert((path + " includes " + included).str());
  return {lost.begin(), lost.end()};
}

}  // namespace gradc::house
