// R3, a pass asks an OpDef: passes know no operator by name, and operators not each other's. Tested by
// tests/house/house_test.cc
//
// Names of operators, their aliases, inputs and attributes, and hidden attribute keys (`__shape__`) are no literals of
// passes/, but for passes/targets/<host>/, which is about one host's operators; names of operators are none of ir/
// either, so a table does not move there. Literals side by side or with `+` between them are read as one. A prefix such
// as "mp_" counts if it makes one operator's name of another's. A name that is put together from characters is not
// seen.
#pragma once

#include "tests/house/tree.h"

#include <set>

namespace gradc::house {

struct Vocabulary {
  std::set<std::string> operators, keys;

  /// Of the built-in operators.
  static Vocabulary ofRegistry();
};

/// "passes/a.cc "Cast"" for a literal of passes or ir that names an operator or an attribute.
std::vector<std::string> findNames(const Tree &tree, const Vocabulary &names);
/// "ops/a.cc kScan", "ops/a.cc "_foreach"": a file of operators that compares with an operator that another file
/// defines.
std::vector<std::string> findForeignOperators(const Tree &tree, const Vocabulary &names);

}  // namespace gradc::house
