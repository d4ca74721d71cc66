// R4, the arrows between folders: who includes whose headers. Tested by tests/house/house_test.cc
#pragma once

#include "tests/house/tree.h"

namespace gradc::house {

/// "passes -> ir" for a file in passes/ that includes a header of ir/.
std::vector<std::string> findArrows(const Tree &tree);
/// "ir passes" for folders each of which leads to the others.
std::vector<std::string> findCircles(llvm::ArrayRef<std::string> arrows);
/// "a.cc includes b/c.h, which is nowhere": an arrow that nothing else here would see.
std::vector<std::string> findLostIncludes(const Tree &tree);

}  // namespace gradc::house
