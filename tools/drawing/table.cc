// Text tables. Tested by tests/cli_test.cc
#include "tools/drawing/table.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace llvm;

namespace gradc {
namespace {

bool isNumber(StringRef text) {
  double value = 0;
  return text.empty() || text == "-" || to_float(text, value);
}

void printCell(raw_ostream &os, StringRef text, size_t width, bool isRight) {
  unsigned padding = static_cast<unsigned>(width - text.size());
  if (isRight) os.indent(padding) << text;
  else (os << text).indent(padding);
}

}  // namespace

void TextTable::print(raw_ostream &os) const {
  std::vector<size_t> widths;
  std::vector<bool> isRight;
  for (size_t column = 0; column < header.size(); ++column) {
    size_t width = header[column].size();
    for (const std::vector<std::string> &row : rows) width = std::max(width, row[column].size());
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
  std::string text;
  raw_string_ostream(text) << format("%.6g", value);
  return text;
}

std::string countOf(uint64_t count, StringRef noun) {
  return (Twine(count) + " " + noun + (count == 1 ? "" : "s")).str();
}

}  // namespace gradc
