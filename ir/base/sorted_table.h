// A table whose rows the compiler sorts by a text, so that nothing is built when a process starts or at the first
// search. Tested by tests/ir/sorted_table_test.cc
#pragma once

#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <string_view>

namespace gradc {

/// Of rows in static storage. Rows whose key is empty are left out; of equal keys the last row counts.
template <class Row, size_t N> class SortedTable {
 public:
  /// `key` gives a row's text as a std::string_view.
  template <class Key> consteval SortedTable(const Row (&rows)[N], Key key) {
    for (const Row &row : rows)
      if (const std::string_view text = key(row); !text.empty()) entries[count++] = {text, &row};
    std::sort(entries, entries + count,
              [](const Entry &a, const Entry &b) { return a.key != b.key ? a.key < b.key : a.row < b.row; });
  }

  /// Null: no row has this key.
  const Row *find(llvm::StringRef key) const {
    const Entry *after = std::upper_bound(entries, entries + count, std::string_view(key),
                                          [](std::string_view text, const Entry &entry) { return text < entry.key; });
    return after != entries && after[-1].key == std::string_view(key) ? after[-1].row : nullptr;
  }

 private:
  struct Entry {
    std::string_view key;
    const Row *row = nullptr;
  };
  Entry entries[N] = {};
  size_t count = 0;
};

}  // namespace gradc
