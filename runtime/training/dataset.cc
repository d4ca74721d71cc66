// Rows of arrays, and their order. Tested by tests/runtime/dataset_test.cc
#include "runtime/training/dataset.h"

#include "ir/base/error.h"
#include "ir/base/out_of_memory.h"
#include "ir/rules/kernel.h"
#include "runtime/executor/bindings.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>

using namespace llvm;

namespace gradc {
namespace {

/// Distinguishes these draws from those of random operators and of initial values.
constexpr uint64_t kOrderOrdinal = ~uint64_t{1};

std::string describeRows(const NamedArray &column) {
  return "'" + column.name + "' has shape " + toString(ShapeRef(Dims(column.array.shape)));
}

}  // namespace

Expected<Dataset> Dataset::create(std::vector<NamedArray> columns) {
  return catchingBadAlloc("to read the examples", [&]() -> Expected<Dataset> {
    if (columns.empty()) return Failure(ErrorKind::BindingMissing, "no array is fed to any variable");
    for (const NamedArray &column : columns) {
      if (column.array.shape.empty() || column.array.shape[0] == 0)
        return Failure(ErrorKind::BindingMismatch, describeRows(column) + ", expected one row per example");
      if (column.array.shape[0] > INT32_MAX)
        return Failure(ErrorKind::BindingMismatch, describeRows(column) + ", expected fewer than 2^31 examples");
      if (column.array.shape[0] != columns[0].array.shape[0])
        return Failure(ErrorKind::BindingMismatch, describeRows(columns[0]) + " and " + describeRows(column) +
                                                       ", expected the same number of rows");
    }
    for (NamedArray &column : columns)
      if (!column.archived)
        if (Error error = readElements(column)) return error;
    Dataset set;
    set.rows = columns[0].array.shape[0];
    set.columns = std::move(columns);
    return set;
  });
}

Expected<Dataset> Dataset::select(std::vector<NamedArray> arrays, ArrayRef<FeedName> feeds, StringRef place) {
  return catchingBadAlloc("to read the examples", [&]() -> Expected<Dataset> {
    std::vector<NamedArray> columns;
    for (const FeedName &feed : feeds) {
      std::vector<NamedArray>::const_iterator found =
          llvm::find_if(arrays, [&](const NamedArray &array) { return array.name == feed.array; });
      if (found == arrays.end()) {
        std::vector<StringRef> names;
        for (const NamedArray &array : arrays) names.push_back(array.name);
        return Failure(ErrorKind::BindingMissing,
                       "'" + place + "' has no array '" + feed.array + "' to feed '" + feed.variable + "' from")
            .note("it has " + (names.empty() ? "none" : quotedList(names)));
      }
      columns.push_back({feed.variable, found->array, found->archived});
    }
    return create(std::move(columns));
  });
}

StringRef Dataset::name(size_t column) const {
  return column < columns.size() ? StringRef(columns[column].name) : StringRef();
}

Dims Dataset::rowShape(size_t column) const {
  return column < columns.size() ? Dims(columns[column].array.shape).drop_front() : Dims();
}

TensorRef Dataset::column(size_t column) const {
  if (column >= columns.size()) return TensorRef();
  const Array &array = columns[column].array;
  return {const_cast<char *>(array.bytes.data()), array.dtype, array.shape};
}

Error Dataset::checkColumn(size_t column) const {
  if (column < columns.size()) return Error::success();
  return Failure(ErrorKind::BindingSurplus, "column " + Twine(column) + " is requested of examples that have " +
                                                countOf(columns.size(), "column"));
}

Error Dataset::convert(size_t column, DType dtype) {
  return catchingBadAlloc("to read the examples", [&]() -> Error {
    if (Error error = checkColumn(column)) return error;
    if (Error error = readElements(columns[column])) return error;
    columns[column].array = converted(std::move(columns[column].array), dtype);
    return Error::success();
  });
}

Error Dataset::gather(size_t column, ArrayRef<uint32_t> order, const TensorRef &to) const {
  if (Error error = checkColumn(column)) return error;
  const NamedArray &named = columns[column];
  const Array &array = named.array;
  const size_t bytes = array.view().bytes() / static_cast<size_t>(rows);
  if (named.archived || array.dtype != to.dtype || to.bytes() != bytes * order.size() ||
      llvm::any_of(order, [&](uint32_t row) { return row >= rows; }))
    return Failure(ErrorKind::BindingMismatch, describeRows(named) + ", from which " + countOf(order.size(), "row") +
                                                   " cannot be copied into " +
                                                   describeTensor(ShapeRef(to.shape), to.dtype));
  for (size_t i = 0; i < order.size(); ++i)
    if (bytes) std::memcpy(to.as<char>() + i * bytes, array.bytes.data() + order[i] * bytes, bytes);
  return Error::success();
}

std::vector<uint32_t> epochOrder(int64_t size, std::optional<uint64_t> seed, uint64_t epoch) {
  std::vector<uint32_t> order(static_cast<size_t>(size));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint32_t>(i);
  if (!seed) return order;
  const RandomKey key{*seed, epoch, kOrderOrdinal};
  for (size_t i = order.size(); i > 1; --i) {
    const size_t other = static_cast<size_t>(key.uniform(i) * static_cast<double>(i));
    std::swap(order[i - 1], order[other]);
  }
  return order;
}

}  // namespace gradc
