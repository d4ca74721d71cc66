// Examples to train on: arrays with one row per example, cut into batches, in an order drawn anew for every epoch.
//
// The order is a pure function of (seed, epoch), so a run that is resumed needs to know only the step.
// Tested by tests/runtime/dataset_test.cc
#pragma once

#include "runtime/arrays/npy.h"

#include <optional>

namespace gradc {

/// Which array a variable reads its rows from.
struct FeedName {
  std::string variable, array;
};

class Dataset {
 public:
  Dataset() = default;
  /// `columns` have the names of the variables they feed; those that are archived stay so. BindingMismatch when one has
  /// no axis, when their numbers of rows differ, are 0, or reach 2^31; BindingMissing when there are no columns.
  static llvm::Expected<Dataset> create(std::vector<NamedArray> columns);
  /// Selects the arrays that `feeds` names from those of a file. BindingMissing, listing what the file has, for one
  /// that it does not have; `place` names the file.
  static llvm::Expected<Dataset> select(std::vector<NamedArray> arrays, llvm::ArrayRef<FeedName> feeds,
                                        llvm::StringRef place);

  int64_t size() const { return rows; }
  size_t numColumns() const { return columns.size(); }
  // Of a column that there is not: no name, no axes, a null address.
  llvm::StringRef name(size_t column) const;
  /// The shape without the axis of examples.
  Dims rowShape(size_t column) const;
  /// Its address is null while the elements are archived.
  TensorRef column(size_t column) const;
  /// Converts the column to `dtype`, if it has another. Reads it if it is archived; errors are those of readElements,
  /// and BindingSurplus for a column that there is not.
  llvm::Error convert(size_t column, DType dtype);
  /// Copies the rows listed in `order`, one after the other, into `to`. BindingMismatch unless `to` has the column's
  /// dtype and room for as many rows, and there are such rows, which are not archived.
  llvm::Error gather(size_t column, llvm::ArrayRef<uint32_t> order, const TensorRef &to) const;

 private:
  llvm::Error checkColumn(size_t column) const;

  std::vector<NamedArray> columns;
  int64_t rows = 0;
};

/// A permutation of 0…size - 1 (Fisher and Yates); 0, 1, 2, … without a seed.
std::vector<uint32_t> epochOrder(int64_t size, std::optional<uint64_t> seed, uint64_t epoch);

}  // namespace gradc
