// Table tests: every check on every row. A cell whose row has nothing to check is skipped, with the reason; the other,
// real cells are counted for each check.
#pragma once

#include "tests/support/ops/derivative.h"

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

  /// Concludes the running cell: it fails if something was found, and is skipped if nothing was checked.
  void conclude(const Findings &findings, const char *reason);
  void count(llvm::StringRef check, bool isReal);
  /// To be called after a suite: prints how many cells of each check are real. If all rows of a check ran, fewer real
  /// cells than its floor are a failure, and so is a check without a floor.
  void print(size_t numRows, llvm::ArrayRef<Floor> floors) const;

 private:
  struct Counts {
    size_t numReal = 0, numEmpty = 0;
  };
  std::map<std::string, Counts> counts;  // by check
};

/// A name for row `index` of a table, whatever characters the operator's own name has.
std::string cellName(llvm::StringRef op, size_t index);

}  // namespace gradc::testing
