#include "tests/house/lists.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc::house {

BreachList::BreachList(StringRef text) {
  for (StringRef line : split(text, '\n')) {
    if (line.empty()) continue;
    if (line.starts_with("#")) {
      heading += line.str() + "\n";
      continue;
    }
    const auto [entry, reason] = line.split("  # ");
    order.push_back(entry.str());
    reasons[entry.str()] = reason.str();
  }
}

std::vector<std::string> BreachList::compare(ArrayRef<std::string> found, bool needsReasons) const {
  std::vector<std::string> differences;
  for (const std::string &entry : found)
    if (!reasons.count(entry)) differences.push_back("not on the list: " + entry);
  for (const auto &[entry, reason] : reasons) {
    if (!is_contained(found, entry)) differences.push_back("on the list, but no longer so: " + entry);
    if (needsReasons && reason.empty()) differences.push_back("without a reason: " + entry);
  }
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i - 1] >= order[i]) differences.push_back("twice, or out of order: " + order[i]);
  return differences;
}

std::string BreachList::rewritten(ArrayRef<std::string> found) const {
  std::vector<std::string> entries(found.begin(), found.end());
  sort(entries);
  std::string text = heading;
  for (const std::string &entry : entries) {
    const auto at = reasons.find(entry);
    text += entry + (at == reasons.end() || at->second.empty() ? "" : "  # " + at->second) + "\n";
  }
  return text;
}

}  // namespace gradc::house
