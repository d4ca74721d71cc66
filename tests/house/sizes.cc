#include "tests/house/sizes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <set>

using namespace llvm;

namespace gradc::house {
namespace {

/// Folders that hold other things than sources.
constexpr StringRef kOtherFolders[] = {"testdata", "third_party"};

/// Of UTF-8, a column for each code point.
size_t numColumns(StringRef line) {
  return count_if(line, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

std::map<std::string, size_t> countFiles(const Tree &tree) {
  std::map<std::string, size_t> counts;
  for (const auto &[path, text] : tree) ++counts[folderOf(path).str()];
  return counts;
}

}  // namespace

std::vector<std::string> findCrowdedFolders(const Tree &tree) {
  std::vector<std::string> found;
  for (const auto &[folder, count] : countFiles(tree))
    if (count > kMostFiles) found.push_back(folder + " " + std::to_string(count));
  return found;
}

std::vector<std::string> findUndescribedFolders(const Tree &tree, StringRef page) {
  std::set<StringRef> described;
  for (StringRef line : split(page, '\n'))
    if (line.consume_front("| `") && line.contains("/` |")) described.insert(line.split("/` |").first);
  std::vector<std::string> found;
  const std::map<std::string, size_t> counts = countFiles(tree);
  for (const auto &[folder, count] : counts)
    if (!described.count(folder)) found.push_back(folder + " has no line");
  for (StringRef folder : described)
    if (!is_contained(kOtherFolders, folder) &&
        none_of(counts, [&](const auto &at) { return (at.first + "/").starts_with(folder.str() + "/"); }))
      found.push_back((folder + " has a line, but no code").str());
  return found;
}

std::vector<std::string> findLongLines(const Tree &tree) {
  std::vector<std::string> found;
  for (const auto &[path, text] : tree) {
    const size_t count = count_if(split(text, '\n'), [](StringRef line) { return numColumns(line) > kMostColumns; });
    if (count) found.push_back(path + " " + std::to_string(count));
  }
  return found;
}

std::vector<std::string> findShortHeaders(const Tree &tree) {
  std::vector<std::string> found;
  for (const auto &[path, text] : tree)
    if (isHeader(path) && static_cast<size_t>(count(text, '\n')) < kLeastLines) found.push_back(path);
  return found;
}

}  // namespace gradc::house
