// `gradc ops`: the operator reference, from the definitions themselves. Tested by tests/tools/cli_test.cc
#include "drawing/table.h"
#include "tools/gradc/reference/coverage.h"
#include "tools/gradc/reference/input_facts.h"
#include "tools/gradc/reference/missing_order.h"
#include "tools/gradc/reference/mxnet_differences.h"
#include "tools/gradc/reference/operator_facts.h"
#include "tools/gradc/reference/operator_trials.h"
#include "tools/gradc/reference/operators_json.h"
#include "tools/gradc/reference/operators_page.h"
#include "tools/gradc/reference/primitives_report.h"
#include "tools/gradc/reference/shape_facts.h"
#include "tools/gradc/verbs/verbs.h"

#include "ir/base/error.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace gradc {
namespace {

/// The operators that a model may contain.
std::vector<const OpDef *> operatorsOf(const Context &context) {
  std::vector<const OpDef *> operators = context.ops.all();
  llvm::erase_if(operators, [](const OpDef *op) { return op->flags.isBackward; });
  return operators;
}

void printList(raw_ostream &os, ArrayRef<const OpDef *> operators) {
  TextTable table({"operator", "summary"});
  for (const OpDef *op : operators) table.add({op->name.str(), op->summary.split('\n').first.str()});
  table.print(os);
}

void printAttrs(raw_ostream &os, const OpDef &op) {
  if (op.attrs.empty()) return;
  TextTable table({"  attribute", "type", "default", "values", "meaning"});
  for (const AttrSpec &spec : op.attrs)
    table.add({"  " + spec.key.str(), spec.typeName.str(), defaultText(spec), rangeText(spec), spec.doc.str()});
  os << "\nattributes\n";
  table.print(os);
}

void printReference(raw_ostream &os, Context &context, const OpDef &op) {
  os << op.name << "\n  ";
  for (char c : op.summary) os << StringRef(c == '\n' ? "\n  " : StringRef(&c, 1));
  os << "\n\n";
  auto row = [&](StringRef what, StringRef text) {
    if (!text.empty()) os << left_justify(what, 16) << text << '\n';
  };
  row("also called", join(ArrayRef<StringRef>(op.aliases), ", "));
  row("inputs", inputsText(context, op));
  row("outputs", portsText(op.outputs));
  if (op.visibleOutputs) row("", "some outputs are hidden: no heads by default");
  row("overwrites", inputSetText(op, op.mutated));
  row("does not read", inputSetText(op, op.ignored));
  row("no gradient to", inputSetText(op, op.stopped));
  row("shapes", shapesText(context, op));
  const OperatorTrials trials(context, op);
  row("gradient", gradientText(op, trials, ""));
  for (const InplacePair &pair : op.inplace)
    row("in place",
        "output " + std::to_string(pair.output) + " may take the memory of input " + std::to_string(pair.input));
  if (op.primitive) row("primitives", "it is one");
  else if (!op.irreducible.empty()) row("primitives", "none: it " + op.irreducible.str());
  else row("primitives", trials.endsIn(op, ""));
  row("types", typesText(op));
  if (op.primitive) row("ONNX opset 18", op.primitive.onnx);
  if (op.primitive) row("C", op.primitive.c);
  row("targets", targetsText(op));
  for (StringRef difference : mxnetDifferences(op.name)) row("unlike MXNet", difference);
  for (StringRef note : notesOf(op)) row("note", note);
  printAttrs(os, op);
}

void printMissing(raw_ostream &os, Context &context, uint64_t order) {
  TextTable table({"operator", "fails at order", "why"});
  for (const MissingOrder &row : missingOrder(context, order))
    table.add({row.op->name.str(), std::to_string(row.order), row.reason});
  if (table.empty()) os << "every operator can be differentiated " << countOf(order, "time") << '\n';
  else table.print(os);
}

/// Tries every file; the error of one that cannot be read determines the exit code.
Expected<int> printCoverage(Tool &tool) {
  if (tool.options.files.empty())
    return Failure(ErrorKind::Usage, "--coverage needs the file of at least one network").note("`gradc help ops`");
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
  if (Error error = writeText(tool, tool.options.isJson ? printableJson(text) : text)) return error;
  return std::max(code, coverage.isComplete() ? 0 : 1);
}

Expected<int> runOps(Tool &tool) {
  const OpsFlags &flags = tool.options.ops;
  if (flags.wantsCoverage) return printCoverage(tool);
  if (tool.options.isJson && (flags.wantsPrimitives || flags.wantsReference || flags.missingOrder))
    return Failure(ErrorKind::Usage, "--json needs --coverage, one operator, or the list of all");
  if (tool.options.files.size() > 1)
    return Failure(ErrorKind::Usage, "unexpected argument '" + tool.options.files[1] + "'")
        .note("one operator at a time; several files need --coverage");
  std::string text;
  raw_string_ostream os(text);
  if (flags.wantsPrimitives) {
    printPrimitives(os, tool.context);
  } else if (flags.wantsReference) {
    printOperators(os, tool.context);
  } else if (flags.missingOrder) {
    printMissing(os, tool.context, *flags.missingOrder);
  } else if (tool.options.files.empty()) {
    const std::vector<const OpDef *> operators = operatorsOf(tool.context);
    tool.options.isJson ? printOperatorsJson(os, operators) : printList(os, operators);
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
    tool.options.isJson ? printOperatorsJson(os, op) : printReference(os, tool.context, *op);
  }
  return exitCode(writeText(tool, text));
}

constexpr StringRef kFlags[] = {"missing-order", "primitives",  "reference",   "coverage", "json",
                                "output",        "unknown-dim", "error-limit", "diag",     "help"};

}  // namespace

constinit const Verb kOps = {
    .name = "ops",
    .arguments = "[OPERATOR | FILE...]",
    .summary = "the operator reference",
    .description =
        "Lists the operators gradc knows, or explains one: inputs, outputs, attributes with types, ranges and "
        "defaults, "
        "shapes, where its gradient comes from, the primitives it ends in, the targets that have it and how MXNet "
        "differs; with --reference explains all, as Markdown; with "
        "--json for programs. With --missing-order K: the operators that cannot be differentiated K times, "
        "found by trying. With --primitives: the operators that all others decompose to, how ONNX and C express "
        "each, and "
        "what every other operator ends in, as Markdown.\n"
        "With --coverage and the files of networks: for every operator in them, how many nodes it has, whether it is "
        "known, has a reference kernel (in floating types, in integers), a fast one (forward, gradient, both), a "
        "gradient "
        "that can run, and how many orders of differentiation work with the attributes found there. The exit code is 1 "
        "when something is missing.",
    .examples = "gradc ops\n"
                "gradc ops Convolution\n"
                "gradc ops Convolution --json\n"
                "gradc ops --missing-order 2\n"
                "gradc ops --primitives\n"
                "gradc ops --reference -o operators.md\n"
                "gradc ops --coverage model.json other.json",
    .flags = kFlags,
    .minFiles = 0,
    .maxFiles = UINT32_MAX,
    .takesOperators = true,
    .run = runOps,
};

}  // namespace gradc
