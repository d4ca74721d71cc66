// Attribute lists as text, immutable and shared.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <memory>
#include <optional>
#include <vector>

namespace gradc {

/// One attribute; does not own its text.
struct AttrText {
  llvm::StringRef key, value;
  friend bool operator==(const AttrText &, const AttrText &) = default;
};

/// A list sorted by key, without duplicates, made by Context::attrs: within one Context equal lists are one object.
class Attrs {
 public:
  Attrs() = default;  // the empty list

  llvm::ArrayRef<AttrText> pairs() const {
    return list ? llvm::ArrayRef<AttrText>(list->pairs) : llvm::ArrayRef<AttrText>();
  }
  bool isEmpty() const { return !list; }
  std::optional<llvm::StringRef> get(llvm::StringRef key) const;
  /// Identifies the list while any handle to it exists.
  const void *id() const { return list.get(); }

  friend bool operator==(const Attrs &a, const Attrs &b) { return a.list == b.list || a.pairs() == b.pairs(); }

 private:
  friend class Context;
  struct List {
    std::vector<AttrText> pairs;
    std::unique_ptr<char[]> text;  // what the pairs point to
  };
  explicit Attrs(std::shared_ptr<const List> list) : list(std::move(list)) {}

  std::shared_ptr<const List> list;  // null: empty
};

}  // namespace gradc
