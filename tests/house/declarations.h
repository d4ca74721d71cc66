// What a source declares and defines at namespace scope and in classes, as far as its text shows. Tested by
// tests/house/house_test.cc
//
// Not a compiler: macros are not expanded, both branches of an #if are read, and types are compared by their spelling.
// What a macro declares is not seen, nor a function that a macro names, nor a type made by `using` for another.
#pragma once

#include "tests/house/tree.h"

namespace gradc::house {

struct Declared {
  enum class Kind : uint8_t { Function, Variable, Class };
  Kind kind = Kind::Function;
  bool isDefinition = false;
  bool isInternal = false;  // other sources cannot refer to it: `static`, or in a namespace without name
  bool isMember = false;    // declared in a class
  std::string scope;        // "gradc::fast": the namespaces and classes around it
  std::string name;         // "build", "Graph::build", "operator<"; what the declaration writes
  std::string parameters;   // of a function: their types
  size_t numParameters = 0;
  uint32_t line = 0;

  /// "gradc::Graph::build"
  std::string fullName() const { return scope.empty() ? name : scope + "::" + name; }
};

std::vector<Declared> declarationsOf(llvm::StringRef source);

}  // namespace gradc::house
