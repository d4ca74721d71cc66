// The operator registry: a sorted list of names. Tested by tests/op_test.cc
#include "ir/op.h"

#include "ir/error.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace gradc {

Error OpRegistry::add(const OpDef &op) {
  auto insert = [&](StringRef name) -> Error {
    auto at = llvm::lower_bound(rows, name, [](const Row &row, StringRef key) { return row.name < key; });
    if (at != rows.end() && at->name == name)
      return Failure(ErrorKind::AmbiguousName, "operator '" + name + "' is registered twice");
    rows.insert(at, Row{name, &op});
    return Error::success();
  };
  if (Error error = insert(op.name)) return error;
  for (StringRef alias : ArrayRef<StringRef>(op.aliases))
    if (Error error = insert(alias)) return error;
  return Error::success();
}

const OpDef *OpRegistry::find(StringRef name) const {
  auto at = llvm::lower_bound(rows, name, [](const Row &row, StringRef key) { return row.name < key; });
  return at != rows.end() && at->name == name ? at->op : nullptr;
}

std::vector<StringRef> OpRegistry::suggest(StringRef name) const {
  std::vector<std::pair<unsigned, StringRef>> near;
  for (const Row &row : rows) {
    unsigned distance = name.edit_distance_insensitive(row.name);
    if (distance <= 1 + name.size() / 4) near.push_back({distance, row.name});
  }
  llvm::sort(near);
  std::vector<StringRef> names;
  for (size_t i = 0; i < near.size() && i < 3; ++i) names.push_back(near[i].second);
  return names;
}

std::vector<const OpDef *> OpRegistry::all() const {
  std::vector<const OpDef *> ops;
  for (const Row &row : rows)
    if (row.op->name == row.name) ops.push_back(row.op);
  return ops;
}

static std::string printed(const AttrSpec &spec, const NodeKind &kind) {
  std::string text;
  raw_string_ostream os(text);
  spec.print(os, kind.parsed);
  return text;
}

bool haveSameParameters(const NodeKind &a, const NodeKind &b) {
  if (a.op != b.op) return false;
  if (a.attrs == b.attrs || !a.op) return a.attrs == b.attrs;
  return all_of(a.op->attrs, [&](const AttrSpec &spec) { return printed(spec, a) == printed(spec, b); });
}

std::string describeParameters(const NodeKind &kind) {
  std::string text;
  for (const AttrSpec &spec : kind.op->attrs)
    text += (text.empty() ? "" : ", ") + (spec.key + "=").str() + printed(spec, kind);
  return text.empty() ? "no attributes" : text;
}

}  // namespace gradc
