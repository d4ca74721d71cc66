#include "tools/gradc/reference/operators_page.h"

#include "tools/gradc/reference/input_facts.h"
#include "tools/gradc/reference/mxnet_differences.h"
#include "tools/gradc/reference/operator_facts.h"
#include "tools/gradc/reference/operator_trials.h"
#include "tools/gradc/reference/shape_facts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <set>

using namespace llvm;

namespace gradc {
namespace {

void printAttributes(raw_ostream &os, const OpDef &op) {
  if (op.attrs.empty()) return;
  os << "\n| attribute | type | default | values | meaning |\n|---|---|---|---|---|\n";
  for (const AttrSpec &spec : op.attrs)
    os << "| `" << spec.key << "` | " << markdownCell(spec.typeName) << " | " << markdownCell(defaultText(spec))
       << " | " << markdownCell(rangeText(spec)) << " | " << markdownCell(spec.doc) << " |\n";
}

void printOperator(raw_ostream &os, Context &context, const OpDef &op, const OperatorTrials &trials) {
  os << "\n## " << op.name << "\n\n" << op.summary << "\n\n";
  auto row = [&](StringRef what, StringRef text) {
    if (!text.empty()) os << "- *" << what << "*: " << text << '\n';
  };
  row("also called", join(ArrayRef<StringRef>(op.aliases), ", "));
  row("inputs", inputsText(context, op));
  row("outputs", portsText(op.outputs) + (op.visibleOutputs ? "; some are hidden: no heads by default" : ""));
  row("overwrites", inputSetText(op, op.mutated));
  row("does not read", inputSetText(op, op.ignored));
  row("no gradient to", inputSetText(op, op.stopped));
  row("shapes", shapesText(context, op));
  row("gradient", gradientText(op, trials));
  row("primitives", op.primitive              ? "it is one"
                    : !op.irreducible.empty() ? "not reducible: it " + op.irreducible.str()
                                              : trials.endsIn(op));
  row("types", typesText(op));
  row("targets", targetsText(op));
  row("unlike MXNet", join(mxnetDifferences(op.name), "; "));
  row("note", join(notesOf(op), "; "));
  printAttributes(os, op);
}

/// Inputs of one name mean the same everywhere.
void printMeanings(raw_ostream &os, ArrayRef<const OpDef *> operators) {
  std::set<StringRef> names;
  for (const OpDef *op : operators)
    if (!op->inputs.isVariadic) names.insert(op->inputs.names.names, op->inputs.names.names + op->inputs.names.count);
  os << "\n| input | holds |\n|---|---|\n";
  for (StringRef name : names) os << "| `" << name << "` | " << meaningOfInput(name) << " |\n";
}

}  // namespace

void printOperators(raw_ostream &os, Context &context) {
  const OperatorTrials trials(context);
  std::vector<const OpDef *> operators = context.ops.all();
  llvm::erase_if(operators, [](const OpDef *op) { return op->flags.isBackward; });
  os << "# Operators\n\nWritten by `gradc ops --reference`: the " << operators.size()
     << " operators that a model may contain; gradient operators are left out.\nGradients and primitives are "
        "those of a node with "
        "the default attributes,\nand so are the ranks of inputs, those that shape inference accepts, and the "
        "shapes, an example of "
        "what it\nconcludes. Differences from MXNet 1.9.1 are those of [mxnet_differences.md](mxnet_differences.md).\n";
  printMeanings(os, operators);
  for (const OpDef *op : operators) printOperator(os, context, *op, trials);
}

}  // namespace gradc
