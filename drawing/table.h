// Aligned text tables for reports. Tested by tests/tools/cli_test.cc
#pragma once

#include "ir/base/error.h"
#include "ir/base/printable.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace gradc {

/// Columns are as wide as their widest cell, two spaces apart; a column of which every cell is a number is flush right.
/// Cells are `printable`.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : header(std::move(header)) {}
  /// As many cells as the header has.
  void add(std::vector<std::string> row);
  bool empty() const { return rows.empty(); }
  void print(llvm::raw_ostream &os) const;

 private:
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

/// "%.6g".
std::string formatNumber(double value);

}  // namespace gradc
