// The operator registry: a sorted list of names. Tested by tests/ir/op_test.cc
#include "ir/op/op.h"

#include "ir/base/error.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace gradc {

static Error refuse(const OpDef &op, ErrorKind kind, const Twine &what) {
  return Failure(kind, "operator '" + op.name + "' " + what);
}

bool OpDef::declares(StringRef key) const {
  return any_of(attrs, [&](const AttrSpec &spec) { return spec.key == key; });
}

static Error checkPorts(const OpDef &op) {
  const std::pair<const NameList &, StringRef> lists[] = {
      {op.aliases, "aliases"}, {op.inputs.names, "named inputs"}, {op.outputs.names, "named outputs"}};
  for (const auto &[list, what] : lists)
    if (list.isTooLong)
      return refuse(op, ErrorKind::Arity,
                    "has more than " + Twine(NameList::kMaxNames) + " " + what + ", the most an operator can declare");
  const std::pair<const InputSet &, StringRef> sets[] = {
      {op.ignored, "ignored"}, {op.mutated, "mutated"}, {op.stopped, "stopped"}};
  for (const auto &[set, what] : sets)
    if (set.isTooFar)
      return refuse(op, ErrorKind::BadEntry,
                    "lists a position beyond 63 among its " + what + " inputs; such positions need a condition");
  return Error::success();
}

// If attributes determine the number of ports, a position is checked against it only where it is used.
static Error checkPosition(const OpDef &op, const Ports &ports, uint32_t position, const Twine &what) {
  if (position > InplacePair::kMaxPosition)
    return refuse(op, ErrorKind::BadEntry,
                  what + " " + Twine(position) + ", the largest position is " + Twine(InplacePair::kMaxPosition));
  if (!ports.number && position >= ports.names.count)
    return refuse(op, ErrorKind::BadEntry,
                  what + " " + Twine(position) + ", but the number of " +
                      (&ports == &op.outputs ? "outputs" : "inputs") + " is " + Twine(ports.names.count));
  return Error::success();
}

static Error checkPositions(const OpDef &op) {
  for (const InplacePair &pair : op.inplace) {
    if (Error error = checkPosition(op, op.inputs, pair.input, "declares in-place input")) return error;
    if (Error error = checkPosition(op, op.outputs, pair.output, "declares in-place output")) return error;
  }
  for (const InputDefault &row : op.inputDefaults)
    if (Error error = checkPosition(op, op.inputs, row.input, "has a default for input")) return error;
  return Error::success();
}

static Error checkSchema(const OpDef &op) {
  for (const AttrSpec &spec : op.attrs)
    if (!spec.parse || !spec.print)
      return refuse(op, ErrorKind::BadAttribute,
                    "declares attribute '" + spec.key + "' without functions that parse and print it");
  if (!isPowerOf2_64(op.params.align))
    return refuse(op, ErrorKind::BadAttribute,
                  "aligns its parameters to " + Twine(op.params.align) + " bytes, expected a power of two");
  return Error::success();
}

Error OpRegistry::add(const OpDef &op) {
  for (Error (*check)(const OpDef &) : {checkPorts, checkPositions, checkSchema})
    if (Error error = check(op)) return error;
  SmallVector<StringRef, 4> names(ArrayRef<StringRef>(op.aliases));
  names.push_back(op.name);
  for (StringRef name : names)
    if (find(name) || llvm::count(names, name) > 1)
      return Failure(ErrorKind::AmbiguousName, "operator '" + name + "' is registered twice");
  for (StringRef name : names) {
    auto at = llvm::lower_bound(rows, name, [](const Row &row, StringRef key) { return row.name < key; });
    rows.insert(at, {name, &op});
  }
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
  spec.print(spec, os, kind.parsed);
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

static std::string portName(const Ports &ports, size_t index, StringRef unnamed) {
  if (index < ports.names.count && !ports.isVariadic) return ports.names.names[index].str();
  return unnamed.str() + std::to_string(index);
}

Domain domainOf(const NodeKind &kind, size_t input) {
  const InputDomains &domains = kind.op->domains;
  if (domains.at) return domains.at(kind, input);
  return input < domains.fixed.size() ? domains.fixed[input] : Domain::Any;
}

std::string inputName(const NodeKind &kind, size_t index) { return portName(kind.op->inputs, index, "arg"); }
std::string outputName(const NodeKind &kind, size_t index) {
  if (kind.flow && kind.numVisible == 1 && index == 0) return "output";  // as MXNet lists it (IR-16)
  // As MXNet names the only output of an operator that lists no names.
  const Ports &outputs = kind.op->outputs;
  if (outputs.names.count == 0 && !outputs.isVariadic && kind.numOutputs == 1) return "output";
  return portName(outputs, index, "output");
}

std::string describeAttrs(StringRef opName, StringRef nodeName, const Attrs &attrs) {
  std::string out = ("in operator " + opName + "(name=\"" + nodeName + "\"").str();
  for (const AttrText &pair : attrs.pairs()) out += (", " + pair.key + "=\"" + pair.value + "\"").str();
  return out + ")";
}

}  // namespace gradc
