// Table tests: every check on every row. A cell whose row has nothing of what is checked is skipped, with the reason, and the
// cells of each check that had something are counted.
#pragma once

#include "tests/support/derivative.h"

#include "llvm/ADT/StringRef.h"

#include <map>
#include <string>

namespace gradc::testing {

class Cells {
 public:
  struct Floor {
    const char *check;
    size_t numReal;
  };

  /// The running cell: fails where something was found, is skipped where nothing was looked at.
  void conclude(const Findings &findings, const char *reason);
  void count(llvm::StringRef check, bool isReal);
  /// Once a suite is through: prints how many cells of each check are real. Where all rows of a check ran, fewer real ones
  /// than its floor are a failure, and so is a check without a floor.
  void print(size_t numRows, llvm::ArrayRef<Floor> floors) const;

 private:
  struct Counts {
    size_t numReal = 0, numEmpty = 0;
  };
  std::map<std::string, Counts> counts;  // by check
};

/// A name for row `index` of a table, whatever characters the operator has in its own.
std::string cellName(llvm::StringRef op, size_t index);

}  // namespace gradc::testing
