// Text tables. Tested by tests/tools/cli_test.cc
#include "drawing/table.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Unicode.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

bool isNumber(StringRef text) {
  double value = 0;
  return text.empty() || text == "-" || to_float(text, value);
}

/// Columns on the screen; bytes where the text is not UTF-8.
size_t widthOf(StringRef text) {
  const int width = sys::unicode::columnWidthUTF8(text);
  return width < 0 ? text.size() : static_cast<size_t>(width);
}

void printCell(raw_ostream &os, StringRef text, size_t width, bool isRight) {
  unsigned padding = static_cast<unsigned>(width - widthOf(text));
  if (isRight) os.indent(padding) << text;
  else (os << text).indent(padding);
}

}  // namespace

void TextTable::add(std::vector<std::string> row) {
  for (std::string &cell : row) cell = printable(cell);
  rows.push_back(std::move(row));
}

void TextTable::print(raw_ostream &os) const {
  std::vector<size_t> widths;
  std::vector<bool> isRight;
  for (size_t column = 0; column < header.size(); ++column) {
    size_t width = header[column].size();
    for (const std::vector<std::string> &row : rows) width = std::max(width, widthOf(row[column]));
    widths.push_back(width);
    isRight.push_back(all_of(rows, [&](const std::vector<std::string> &row) { return isNumber(row[column]); }));
  }
  auto printRow = [&](const std::vector<std::string> &row) {
    std::string line;
    raw_string_ostream text(line);
    for (size_t column = 0; column < row.size(); ++column) {
      if (column > 0) text << "  ";
      printCell(text, row[column], widths[column], isRight[column]);
    }
    os << StringRef(line).rtrim() << '\n';
  };
  printRow(header);
  for (const std::vector<std::string> &row : rows) printRow(row);
}

std::string formatNumber(double value) {
  if (std::isnan(value)) return "nan";  // its sign means nothing
  std::string text;
  raw_string_ostream(text) << format("%.6g", value);
  return text;
}

}  // namespace gradc
