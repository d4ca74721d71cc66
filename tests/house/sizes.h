// R2, a folder is a room: few enough files to look around in, and a line in docs/architecture.md. R5, lines of 120
// columns, and no header for a few lines. Tested by tests/house/house_test.cc
#pragma once

#include "tests/house/tree.h"

namespace gradc::house {

inline constexpr size_t kMostFiles = 25, kMostColumns = 120, kLeastLines = 20;

/// "passes 44" for a folder of more files than a room has.
std::vector<std::string> findCrowdedFolders(const Tree &tree);
/// Folders of code that no row of a table in the page begins with, and folders with a row, but no code.
std::vector<std::string> findUndescribedFolders(const Tree &tree, llvm::StringRef page);
/// "passes/rewrite/rewriter.h 11" for a file with as many lines of too many columns.
std::vector<std::string> findLongLines(const Tree &tree);
/// Headers of gradc, and of its tests, that have too few lines.
std::vector<std::string> findShortHeaders(const Tree &tree);

}  // namespace gradc::house
