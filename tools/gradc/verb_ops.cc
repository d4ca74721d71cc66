// `gradc ops`: the operator reference, from the definitions themselves. Tested by tests/cli_test.cc
#include "coverage.h"
#include "missing_order.h"
#include "primitives_report.h"
#include "verbs.h"
#include "tools/drawing/table.h"

#include "ir/error.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

void printList(raw_ostream &os, const Context &context) {
  TextTable table({"operator", "summary"});
  for (const OpDef *op : context.ops.all())
    if (!op->flags.isBackward) table.add({op->name.str(), op->summary.split('\n').first.str()});
  table.print(os);
}

std::string range(const AttrSpec &spec) {
  if (!spec.choices.empty()) return join(spec.choices, "|");
  bool hasLow = std::isfinite(spec.lowest), hasHigh = std::isfinite(spec.highest);
  if (hasLow && hasHigh) return formatNumber(spec.lowest) + " to " + formatNumber(spec.highest);
  if (hasLow) return "at least " + formatNumber(spec.lowest);
  return hasHigh ? "at most " + formatNumber(spec.highest) : "";
}

void printAttrs(raw_ostream &os, const OpDef &op) {
  if (op.attrs.empty()) return;
  TextTable table({"  attribute", "type", "default", "values", "meaning"});
  for (const AttrSpec &spec : op.attrs)
    table.add({"  " + spec.key.str(), spec.typeName.str(),
               spec.isRequired ? std::string("required") : "'" + spec.defaultText.str() + "'", range(spec),
               spec.doc.str()});
  os << "\nattributes\n";
  table.print(os);
}

/// Fixed sets of inputs by name; a set that depends on the attributes is said to.
void printInputSet(raw_ostream &os, StringRef what, const OpDef &op, const InputSet &set) {
  if (!set.fixed && !set.contains) return;
  std::vector<std::string> names;
  for (uint32_t i = 0; i < 64; ++i)
    if (set.fixed >> i & 1)
      names.push_back(i < op.inputs.names.count ? op.inputs.names.names[i].str() : "#" + std::to_string(i));
  os << left_justify(what, 16) << (set.contains ? "depends on the attributes" : join(names, ", ")) << '\n';
}

void printPorts(raw_ostream &os, StringRef what, const Ports &ports) {
  ArrayRef<StringRef> names = ports.names;
  os << left_justify(what, 16);
  if (ports.isVariadic) os << "any number, arg0, arg1, ...";
  else os << (names.empty() ? "none" : join(names, ", "));
  if (ports.number && !ports.isVariadic) os << " (how many depends on the attributes)";
  os << '\n';
}

StringRef gradientText(const OpDef &op) {
  if (op.gradient) return "a rule of its own";
  if (op.isDifferentiable()) return "that of its decomposition";
  if (op.flags.hasNoGradient) return "none: nothing flows through it";
  return "not available";
}

void printFlags(raw_ostream &os, const OpDef &op) {
  struct Row {
    bool isSet;
    StringRef text;
  };
  const Row rows[] = {
      {op.flags.isBackward, "fused gradient operator; its first control dependency is the forward node"},
      {op.flags.isRandom, "draws random numbers"},
      {op.flags.isStateful, "keeps state outside its operands"},
      {op.flags.isZero, "always yields zeros"},
      {op.flags.holdsOutput, "its output counts as a constant when gradients are checked"},
      {op.impliedLoss != nullptr, "stands for a scalar loss: its gradient is that of the loss, not of its output"},
      {op.piece != nullptr, "smooth in pieces"},
      {!op.kernel && !op.fastKernel, "cannot be executed"},
  };
  for (const Row &row : rows)
    if (row.isSet) os << left_justify("note", 16) << row.text << '\n';
}

void printReference(raw_ostream &os, const OpDef &op) {
  os << op.name << "\n  ";
  for (char c : op.summary) os << StringRef(c == '\n' ? "\n  " : StringRef(&c, 1));
  os << "\n\n";
  ArrayRef<StringRef> aliases = op.aliases;
  if (!aliases.empty()) os << left_justify("also called", 16) << join(aliases, ", ") << '\n';
  printPorts(os, "inputs", op.inputs);
  printPorts(os, "outputs", op.outputs);
  if (op.visibleOutputs) os << left_justify("", 16) << "some outputs are hidden: no heads by default\n";
  printInputSet(os, "overwrites", op, op.mutated);
  printInputSet(os, "does not read", op, op.ignored);
  printInputSet(os, "no gradient to", op, op.stopped);
  os << left_justify("gradient", 16) << gradientText(op) << '\n';
  for (const InplacePair &pair : op.inplace)
    os << left_justify("in place", 16) << "output " << pair.output << " may take the memory of input "
       << pair.input << '\n';
  printFlags(os, op);
  printAttrs(os, op);
}

void printMissing(raw_ostream &os, Context &context, uint64_t order) {
  TextTable table({"operator", "fails at order", "why"});
  for (const MissingOrder &row : missingOrder(context, order))
    table.add({row.op->name.str(), std::to_string(row.order), row.reason});
  if (table.empty()) os << "every operator can be differentiated " << order << (order == 1 ? " time\n" : " times\n");
  else table.print(os);
}

/// Every file is tried; one that cannot be read makes the exit code what its error says.
Expected<int> printCoverage(Tool &tool) {
  if (tool.options.files.empty())
    return Failure(ErrorKind::Usage, "--coverage needs the files of one network or more").note("`gradc help ops`");
  Coverage coverage(tool.context);
  int code = 0;
  for (const std::string &path : tool.options.files) {
    Expected<Graph> input = load(tool, path);
    if (input) coverage.add(path, *input);
    else code = std::max(code, tool.diagnostics.report(input.takeError()));
  }
  std::string text;
  raw_string_ostream os(text);
  tool.options.isJson ? coverage.printJson(os) : coverage.printTable(os);
  if (Error error = writeText(tool, text)) return error;
  return std::max(code, coverage.isComplete() ? 0 : 1);
}

Expected<int> runOps(Tool &tool) {
  if (tool.options.wantsCoverage) return printCoverage(tool);
  if (tool.options.isJson) return Failure(ErrorKind::Usage, "--json goes with --coverage");
  if (tool.options.files.size() > 1)
    return Failure(ErrorKind::Usage, "unexpected argument '" + tool.options.files[1] + "'")
        .note("one operator at a time; several files go with --coverage");
  std::string text;
  raw_string_ostream os(text);
  if (tool.options.wantsPrimitives) {
    printPrimitives(os, tool.context);
  } else if (tool.options.missingOrder) {
    printMissing(os, tool.context, *tool.options.missingOrder);
  } else if (tool.options.files.empty()) {
    printList(os, tool.context);
  } else {
    StringRef name = tool.options.files.front();
    const OpDef *op = tool.context.ops.find(name);
    if (!op) {
      Failure failure(ErrorKind::UnknownName, "there is no operator called '" + name + "'");
      std::vector<std::string> close;
      for (StringRef match : tool.context.ops.suggest(name)) close.push_back(match.str());
      if (!close.empty()) return std::move(failure).note("did you mean " + joinMatches(close, "") + "?");
      return std::move(failure).note("`gradc ops` lists all of them");
    }
    printReference(os, *op);
  }
  if (Error error = writeText(tool, text)) return error;
  return 0;
}

constexpr StringRef kFlags[] = {"missing-order", "primitives",  "coverage",    "json", "output",
                                "unknown-dim",   "error-limit", "diag",        "help"};

}  // namespace

constinit const Verb kOps = {
    .name = "ops",
    .arguments = "[OPERATOR | FILE...]",
    .summary = "the operator reference",
    .description =
        "Lists the operators gradc knows, or explains one: inputs, outputs, attributes with types, ranges and defaults, "
        "and where its gradient comes from. With --missing-order K: the operators that cannot be differentiated K times, "
        "found by trying. With --primitives: the operators that all others decompose to, how ONNX and C express each, and "
        "what every other operator ends in, as Markdown.\n"
        "With --coverage and the files of networks: for every operator in them, how many nodes it has, whether it is "
        "known, has a reference kernel (in floating types, in integers), a fast one (forward, gradient, both), a gradient "
        "that can run, and how many orders of differentiation work with the attributes found there. The exit code is 1 "
        "when something is missing.",
    .examples = "gradc ops\n"
                "gradc ops Convolution\n"
                "gradc ops --missing-order 2\n"
                "gradc ops --primitives\n"
                "gradc ops --coverage model.json other.json",
    .flags = kFlags,
    .minFiles = 0,
    .maxFiles = UINT32_MAX,
    .run = runOps,
};

}  // namespace gradc
