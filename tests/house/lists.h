// Lists of what breaks a rule today, tests/house/*.txt: sorted, one a line; "# …" at the beginning of a line is for
// people, and after an entry it is the reason why the entry stays. Tested by tests/house/house_test.cc
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <map>
#include <string>
#include <vector>

namespace gradc::house {

class BreachList {
 public:
  explicit BreachList(llvm::StringRef text);

  /// What the list and reality differ in, and what is wrong with the list itself; empty if nothing.
  std::vector<std::string> compare(llvm::ArrayRef<std::string> found, bool needsReasons = false) const;
  /// The list of what is found, with the reasons of entries that stay.
  std::string rewritten(llvm::ArrayRef<std::string> found) const;

 private:
  std::string heading;
  std::vector<std::string> order;              // the entries as the file has them
  std::map<std::string, std::string> reasons;  // by entry
};

}  // namespace gradc::house
